//! Changing endpoints that are not connected.

use super::attributes::EndpointAttributes;
use super::lifetime::{GONE, Held};
use super::{Endpoint, EndpointChange, EndpointSetup, forbidden_by};
use crate::error::{DatError, DatResult, StateKind, Subtype};
use crate::values::EndpointState;

/// The argument of `dat_ep_modify` that holds the values.
const VALUES: u8 = 3;

impl Endpoint {
    /// Changes what the state permits to change; refused as a whole or done as a whole.
    ///
    /// Errors: `INVALID_STATE` with the state; `INVALID_PARAMETER|ARG3` for values that cannot be; `INVALID_HANDLE` for
    /// objects that do not fit.
    pub fn modify(&self, change: EndpointChange) -> DatResult<()> {
        self.adapter.check_process()?;
        let old = {
            let mut core = self.core();
            if core.freed {
                return Err(GONE);
            }
            self.judge_change(&change)?;
            let (mut setup, mut attributes) = (core.setup.clone(), core.attributes);
            let rewires = change.rewires();
            change.apply(&mut setup, &mut attributes);
            let attributes = attributes.judged(setup.shared_receives.is_some(), VALUES)?;
            let live = self.wiring();
            if rewires
                && let Some(wiring) = live
                && !wiring.pair.idle().1
            {
                // Receives that are posted cannot move to another queue.
                return Err(DatError::state(Subtype::State(StateKind::EpNotReady)));
            }
            let held = Held::take(&self.adapter, &setup)?;
            let old = std::mem::replace(&mut core.setup, setup);
            core.attributes = attributes;
            held.keep();
            if rewires && let Some(wiring) = live {
                wiring.retire();
            }
            (old, rewires)
        };
        Held::of(&old.0).release();
        if old.1 {
            self.end_retired();
            self.prepare_if_ready()?;
        }
        Ok(())
    }

    fn judge_change(&self, change: &EndpointChange) -> DatResult<()> {
        use EndpointState as S;
        let state = self.state();
        let zone = matches!(state, S::Unconnected | S::TentativeConnectionPending);
        let others = zone || matches!(state, S::Reserved | S::PassiveConnectionPending);
        if (change.zone.is_some() && !zone) || !others {
            return Err(DatError::state(Subtype::State(forbidden_by(state))));
        }
        Ok(())
    }

    /// Ends wirings that have been replaced.
    fn end_retired(&self) {
        let mut next = self.wiring.get();
        while let Some(wiring) = next {
            if !wiring.is_live() {
                wiring.end();
            }
            next = wiring.next.get();
        }
    }
}

impl EndpointChange {
    /// Whether the queue pair has to be made anew.
    fn rewires(&self) -> bool {
        let Self {
            zone,
            receive,
            request,
            connect: _,
            service_type: _,
            qos: _,
            max_message_size,
            max_rdma_size,
            receive_flags,
            request_flags,
            max_receives,
            max_requests,
            max_receive_pieces,
            max_request_pieces,
            max_reads_in: _,
            max_reads_out: _,
            shared_soft_watermark: _,
            max_read_pieces,
            max_write_pieces,
        } = self;
        zone.is_some()
            || receive.is_some()
            || request.is_some()
            || max_message_size.is_some()
            || max_rdma_size.is_some()
            || receive_flags.is_some()
            || request_flags.is_some()
            || [
                max_receives,
                max_requests,
                max_receive_pieces,
                max_request_pieces,
                max_read_pieces,
                max_write_pieces,
            ]
            .into_iter()
            .any(Option::is_some)
    }

    fn apply(self, setup: &mut EndpointSetup, attributes: &mut EndpointAttributes) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut setup.zone, self.zone);
        set(&mut setup.receive, self.receive);
        set(&mut setup.request, self.request);
        set(&mut setup.connect, self.connect);
        set(&mut attributes.service_type, self.service_type);
        set(&mut attributes.max_message_size, self.max_message_size);
        set(&mut attributes.max_rdma_size, self.max_rdma_size);
        set(&mut attributes.qos, self.qos);
        set(&mut attributes.receive_flags, self.receive_flags);
        set(&mut attributes.request_flags, self.request_flags);
        set(&mut attributes.max_receives, self.max_receives);
        set(&mut attributes.max_requests, self.max_requests);
        set(&mut attributes.max_receive_pieces, self.max_receive_pieces);
        set(&mut attributes.max_request_pieces, self.max_request_pieces);
        set(&mut attributes.max_reads_in, self.max_reads_in);
        set(&mut attributes.max_reads_out, self.max_reads_out);
        set(&mut attributes.shared_soft_watermark, self.shared_soft_watermark);
        set(&mut attributes.max_read_pieces, self.max_read_pieces);
        set(&mut attributes.max_write_pieces, self.max_write_pieces);
    }
}

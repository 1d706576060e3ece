//! Making, changing, resetting and freeing endpoints.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock};

use nonic_device::QueuePair;

use super::attributes::EndpointAttributes;
use super::completing::kind_of;
use super::connecting::{self, Connecting};
use super::wiring::Wiring;
use super::{Core, Endpoint, EndpointFacts, EndpointSetup, forbidden_by};
use crate::error::{DatError, DatResult, HandleKind, Subtype};
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::values::{EndpointState, Streams};

pub(super) const GONE: DatError = DatError::handle(Subtype::Handle(HandleKind::Endpoint));

impl Endpoint {
    /// Makes an endpoint, unconnected.
    ///
    /// Errors: `INVALID_HANDLE` with the name of what does not fit; `INVALID_PARAMETER|ARG6` (`ARG7` with shared receives)
    /// for attributes that cannot be, `MODEL_NOT_SUPPORTED` for such as nobody can have, `INSUFFICIENT_RESOURCES`.
    pub fn create(adapter: &Arc<InterfaceAdapter>, setup: EndpointSetup) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        let argument = if setup.shared_receives.is_some() { 7 } else { 6 };
        let given = setup.attributes.is_some();
        let shared = setup.shared_receives.is_some();
        let attributes = setup.attributes.unwrap_or_default().judged(shared, argument)?;
        if given {
            let fits = |dispatcher: &Option<_>, count: i32| dispatcher.is_some() == (count > 0);
            if !fits(&setup.request, attributes.max_requests)
                || !(shared && setup.receive.is_some() || fits(&setup.receive, attributes.max_receives))
            {
                return Err(DatError::argument(argument));
            }
        }
        Self::make(adapter, setup, attributes)
    }

    /// An endpoint for a request at a service point that makes its own: with nothing, for its consumer to fill in.
    pub(crate) fn create_for_service_point(adapter: &Arc<InterfaceAdapter>) -> DatResult<Arc<Self>> {
        Self::make(adapter, EndpointSetup::default(), EndpointAttributes::default())
    }

    fn make(
        adapter: &Arc<InterfaceAdapter>,
        setup: EndpointSetup,
        attributes: EndpointAttributes,
    ) -> DatResult<Arc<Self>> {
        let held = Held::take(adapter, &setup)?;
        let endpoint = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            mark: Mark::default(),
            membership: Membership::new(MemberKind::Endpoint),
            adapter: Arc::clone(adapter),
            state: AtomicU32::new(EndpointState::Unconnected as u32),
            is_plain: AtomicBool::new(false),
            wiring: OnceLock::new(),
            core: Mutex::new(Core {
                setup,
                attributes,
                connecting: Connecting::default(),
                rests_until: None,
                freed: false,
            }),
        });
        held.keep();
        let made = match endpoint.prepare_if_ready() {
            Ok(()) => adapter.join(&endpoint),
            Err(error) => Err(error),
        };
        if let Err(error) = made {
            endpoint.destroy();
            return Err(error);
        }
        Ok(endpoint)
    }

    /// Makes the queue pair if all it needs is there.
    pub(super) fn prepare_if_ready(&self) -> DatResult<()> {
        let mut core = self.core();
        let ready = Wiring::is_ready(&core);
        if ready { self.prepare_queue_pair(&mut core).map(drop) } else { Ok(()) }
    }

    /// Its queue pair, made in INIT if it is not there yet. `INVALID_STATE|EP_NOTREADY` while zone or dispatchers are missing.
    pub(crate) fn prepare_queue_pair(&self, core: &mut Core) -> DatResult<Arc<QueuePair>> {
        if core.freed {
            return Err(GONE);
        }
        if let Some(wiring) = self.wiring() {
            return Ok(Arc::clone(&wiring.pair));
        }
        let this = self.this().ok_or(GONE)?;
        let wiring = Box::new(Wiring::new(self, core)?);
        let pair = Arc::clone(&wiring.pair);
        wiring.connect_dispatchers(&this);
        let mut end = &self.wiring;
        while let Some(wiring) = end.get() {
            end = &wiring.next;
        }
        // Nobody else adds one: that takes the lock of the core.
        let _ = end.set(wiring);
        Ok(pair)
    }

    /// The wiring, made now.
    pub(super) fn wire(&self) -> DatResult<&Wiring> {
        self.prepare_queue_pair(&mut self.core())?;
        self.wiring().ok_or(GONE)
    }

    /// What it is.
    pub fn facts(&self) -> DatResult<EndpointFacts> {
        self.adapter.check_process()?;
        let core = self.core();
        if core.freed {
            return Err(GONE);
        }
        let (local_port, remote) = core.connecting.addresses();
        let EndpointSetup { zone, receive, request, connect, shared_receives, .. } = core.setup.clone();
        Ok(EndpointFacts {
            state: self.state(),
            local_port,
            remote,
            zone,
            receive,
            request,
            connect,
            shared_receives,
            attributes: core.attributes,
        })
    }

    /// State, and whether nothing is outstanding: receives, requests.
    pub fn status(&self) -> DatResult<(EndpointState, bool, bool)> {
        self.adapter.check_process()?;
        let core = self.core();
        if core.freed {
            return Err(GONE);
        }
        let (requests, receives) = self.pair().map_or((true, true), |pair| pair.idle());
        Ok((self.state(), receives, requests))
    }

    /// From DISCONNECTED back to UNCONNECTED: what was outstanding is gone, uncollected completions too. In UNCONNECTED nothing
    /// happens, and posted receives stay.
    pub fn reset(&self) -> DatResult<()> {
        self.adapter.check_process()?;
        let mut core = self.core();
        if core.freed {
            return Err(GONE);
        }
        match self.state() {
            EndpointState::Unconnected => Ok(()),
            EndpointState::Disconnected => {
                connecting::reset(&mut core);
                if let Some(wiring) = self.wiring() {
                    wiring.reset()?;
                }
                self.set_state(&mut core, EndpointState::Unconnected);
                Ok(())
            }
            other => Err(DatError::state(Subtype::State(forbidden_by(other)))),
        }
    }

    /// Gives the endpoint back; a connection ends abruptly. `INVALID_STATE` while a service point or a request has it.
    pub fn free(&self) -> DatResult<()> {
        self.adapter.check_process()?;
        use EndpointState as S;
        {
            let core = self.core();
            if core.freed {
                return Err(GONE);
            }
            let state = self.state();
            if matches!(state, S::Reserved | S::PassiveConnectionPending | S::TentativeConnectionPending) {
                return Err(DatError::state(Subtype::State(forbidden_by(state))));
            }
        }
        self.destroy();
        Ok(())
    }

    /// The same in any state, any number of times.
    pub(crate) fn destroy(&self) {
        let setup = {
            let mut core = self.core();
            if std::mem::replace(&mut core.freed, true) {
                return;
            }
            self.set_state(&mut core, EndpointState::Disconnected);
            std::mem::take(&mut core.setup)
        };
        connecting::end(self);
        let mut next = self.wiring.get();
        while let Some(wiring) = next {
            wiring.retire();
            wiring.end();
            next = wiring.next.get();
        }
        if let Some(connect) = &setup.connect {
            connect.forget_endpoint(self);
        }
        Held::of(&setup).release();
        self.adapter.leave(&self.membership);
    }
}

impl Member for Endpoint {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    fn end(&self) {
        self.destroy();
    }

    fn receives_to_show(&self, queue: &SharedReceiveQueue) -> u32 {
        let dispatcher = {
            let core = self.core();
            let shared = core.setup.shared_receives.as_ref();
            let takes = shared.is_some_and(|shared| std::ptr::eq(Arc::as_ptr(shared), queue));
            core.setup.receive.clone().filter(|_| takes)
        };
        let completions = dispatcher.as_ref().and_then(|dispatcher| dispatcher.completion_queue());
        let (Some(completions), Some(pair)) = (completions, self.pair()) else { return 0 };
        completions.count(|completion, _| {
            completion.qp_number == pair.number() && kind_of(completion.opcode).is_receive()
        })
    }
}

/// What an endpoint keeps others from freeing.
pub(super) struct Held {
    setup: EndpointSetup,
}

impl Held {
    pub(super) fn of(setup: &EndpointSetup) -> Self {
        Self { setup: setup.clone() }
    }

    /// Checks that everything fits and counts it as used; if something does not, nothing is counted.
    pub(super) fn take(adapter: &Arc<InterfaceAdapter>, setup: &EndpointSetup) -> DatResult<Self> {
        let mut held = Self { setup: EndpointSetup::default() };
        let taken = held.take_each(adapter, setup);
        match taken {
            Ok(()) => Ok(held),
            Err(error) => {
                held.release();
                Err(error)
            }
        }
    }

    fn take_each(&mut self, adapter: &Arc<InterfaceAdapter>, setup: &EndpointSetup) -> DatResult<()> {
        let dispatcher = |dispatcher: &Arc<EventDispatcher>, stream, kind| {
            let wrong = DatError::handle(Subtype::Handle(kind));
            let fits = Arc::ptr_eq(dispatcher.adapter(), adapter) && dispatcher.streams().intersects(stream);
            if fits { dispatcher.hold().map_err(|_| wrong) } else { Err(wrong) }
        };
        if let Some(zone) = &setup.zone {
            zone.hold(adapter)?;
            self.setup.zone = Some(Arc::clone(zone));
        }
        if let Some(receive) = &setup.receive {
            dispatcher(receive, Streams::DATA_TRANSFER, HandleKind::ReceiveDispatcher)?;
            self.setup.receive = Some(Arc::clone(receive));
        }
        if let Some(request) = &setup.request {
            dispatcher(request, Streams::DATA_TRANSFER, HandleKind::RequestDispatcher)?;
            self.setup.request = Some(Arc::clone(request));
        }
        if let Some(connect) = &setup.connect {
            dispatcher(connect, Streams::CONNECTION, HandleKind::ConnectionDispatcher)?;
            self.setup.connect = Some(Arc::clone(connect));
        }
        if let Some(shared) = &setup.shared_receives {
            if !Arc::ptr_eq(shared.adapter(), adapter) {
                return Err(DatError::handle(Subtype::Handle(HandleKind::SharedReceiveQueue)));
            }
            shared.hold()?;
            self.setup.shared_receives = Some(Arc::clone(shared));
        }
        Ok(())
    }

    /// They stay counted.
    pub(super) fn keep(self) {}

    pub(super) fn release(self) {
        let EndpointSetup { zone, receive, request, connect, shared_receives, .. } = self.setup;
        if let Some(zone) = zone {
            zone.release();
        }
        for dispatcher in [receive, request, connect].into_iter().flatten() {
            dispatcher.release();
        }
        if let Some(shared) = shared_receives {
            shared.release();
        }
    }
}

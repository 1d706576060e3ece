//! The end of connections: by this side, by the other, and by failure.

use std::sync::Weak;
use std::time::Duration;

use nonic_device::QpState;

use super::connecting::{NO_ENDPOINT, state_error};
use super::link::to_error;
use super::{Core, Endpoint};
use crate::error::DatResult;
use crate::event::AsyncObject;
use crate::line::Ending;
use crate::values::{AsyncError, ConnectionEvent, EndpointState};

/// `DAT_EP_TRANSFER_TO_ERROR`.
const TRANSFER_TO_ERROR: i32 = 0;
/// How soon, and with which pauses at most, it is looked for what a peer that failed said about requests under way.
const FIRST_LOOK: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
/// How often that is: for 20 ms.
const LAST_LOOKS: u32 = 10;

impl Endpoint {
    /// Ends a connection or the attempt at one. Gracefully: after the requests that are under way; no new ones are taken.
    /// Without effect if the endpoint is disconnected; `INVALID_STATE` with the state if it never was connected.
    pub fn disconnect(&self, graceful: bool) -> DatResult<()> {
        use EndpointState as S;
        self.adapter.check_process()?;
        let mut core = self.core();
        if core.freed {
            return Err(NO_ENDPOINT);
        }
        match self.state() {
            S::Disconnected => {}
            S::DisconnectPending if graceful => {}
            S::Connected if graceful => {
                self.set_state(&mut core, S::DisconnectPending);
                self.disconnect_when_idle(&mut core);
            }
            S::Connected | S::DisconnectPending | S::ActiveConnectionPending | S::CompletionPending => {
                self.finish(&mut core, ConnectionEvent::Disconnected, &[]);
            }
            state => return Err(state_error(state)),
        }
        Ok(())
    }

    /// Disconnects if no request is under way, or when the last has ended.
    fn disconnect_when_idle(&self, core: &mut Core) {
        if self.pair().is_none_or(|pair| pair.idle_or_tell()) {
            self.finish(core, ConnectionEvent::Disconnected, &[]);
        }
    }

    /// The last request has ended that a graceful disconnect waits for: of this connection, or of one before.
    pub(super) fn requests_ended(&self) {
        let mut core = self.core();
        // If it failed, that is told by itself, and breaks the connection.
        let failed = self.pair().is_some_and(|pair| pair.state() == QpState::Error);
        if self.state() == EndpointState::DisconnectPending && !failed && !core.freed {
            self.disconnect_when_idle(&mut core);
        }
    }

    /// There is no connection, or no more, and an event says why.
    pub(super) fn finish(&self, core: &mut Core, kind: ConnectionEvent, data: &[u8]) {
        if let Some(pair) = self.pair() {
            to_error(pair);
        }
        let was_connected =
            matches!(self.state(), EndpointState::Connected | EndpointState::DisconnectPending);
        let line = self.let_line_go(core);
        self.set_state(core, EndpointState::Disconnected);
        core.connecting.remote = None;
        if let Some(connection) = line
            && kind == ConnectionEvent::Broken
        {
            // The peer learns by its queue pair first, which knows why. The connection manager's thread may wait for this endpoint, and the
            // agent for that.
            self.adapter.context().catch_up_as_known();
            connection.fail();
        }
        self.show(core, kind, data);
        // It takes no more from the shared queue: programs wait for this before they free the endpoint.
        if was_connected
            && core.setup.shared_receives.is_some()
            && let Some(this) = self.this()
        {
            self.adapter.raise(AsyncError::EndpointBroken, AsyncObject::Endpoint(&this), TRANSFER_TO_ERROR);
        }
    }

    /// The connection, or the attempt at it, has ended elsewhere.
    pub(super) fn take_end(&self, number: u64, end: Ending<'_>) {
        use EndpointState as S;
        // What the peer said about requests before may still be on its way.
        if self.pair().is_some_and(|pair| !pair.idle().0) {
            self.adapter.context().catch_up();
        }
        let Some(mut core) = self.core_of(number) else { return };
        // A peer that has sent something had seen the reply, though it ended before it said so.
        if matches!(end, Ending::Lost | Ending::Disconnected)
            && self.pair().is_some_and(|pair| pair.has_heard_peer())
        {
            self.establish_now(&mut core);
        }
        // There is nothing left to end.
        let connection = self.let_line_go(&mut core);
        if matches!(self.state(), S::Connected | S::DisconnectPending) && end == Ending::Lost {
            self.break_when_told(&mut core, FIRST_LOOK, LAST_LOOKS);
            drop(core);
            drop(connection);
            return;
        }
        let (kind, data): (_, &[u8]) = match (self.state(), end) {
            (S::ActiveConnectionPending, Ending::Rejected(data)) => (ConnectionEvent::PeerRejected, data),
            (S::ActiveConnectionPending, Ending::TimedOut) => (ConnectionEvent::TimedOut, &[]),
            (S::ActiveConnectionPending, Ending::Unreachable) => (ConnectionEvent::Unreachable, &[]),
            (S::ActiveConnectionPending, _) => (ConnectionEvent::NonPeerRejected, &[]),
            (S::CompletionPending, _) => (ConnectionEvent::AcceptCompletionError, &[]),
            (S::Connected | S::DisconnectPending, _) => (ConnectionEvent::Disconnected, &[]),
            _ => return,
        };
        self.finish(&mut core, kind, data);
        drop(core);
        drop(connection);
    }

    /// The connection has failed at the other side. What that side says about requests under way it said before, but by
    /// another way: it is looked for, so that they fail for their own reasons, but not for long.
    fn break_when_told(&self, core: &mut Core, pause: Duration, looks: u32) {
        let told = self.pair().is_none_or(|pair| pair.idle().0 || pair.state() == QpState::Error);
        if told || looks == 0 {
            return self.finish(core, ConnectionEvent::Broken, &[]);
        }
        let (endpoint, number) = (Weak::clone(&self.this), core.connecting.number);
        nonic_connection::run_after(pause, move || {
            if let Some(endpoint) = endpoint.upgrade()
                && let Some(mut core) = endpoint.core_of(number)
                && matches!(endpoint.state(), EndpointState::Connected | EndpointState::DisconnectPending)
            {
                endpoint.break_when_told(&mut core, (pause * 2).min(LONGEST_PAUSE), looks - 1);
            }
        });
    }

    /// The connection ends as one that has failed. Harmless when there is none.
    pub(crate) fn break_connection(&self) {
        self.break_now(&mut self.core());
    }

    /// The queue pair has failed, or a failure is about to be shown: of this connection, or of one that has been reset since.
    pub(crate) fn break_if_failed(&self) {
        let mut core = self.core();
        if self.pair().is_some_and(|pair| pair.state() == QpState::Error) {
            self.break_now(&mut core);
        }
    }

    fn break_now(&self, core: &mut Core) {
        // What has failed was connected.
        self.establish_now(core);
        if matches!(self.state(), EndpointState::Connected | EndpointState::DisconnectPending) && !core.freed
        {
            self.finish(core, ConnectionEvent::Broken, &[]);
        }
    }
}

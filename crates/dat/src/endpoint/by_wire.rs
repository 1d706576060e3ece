//! Connections to other hosts.
//!
//! What the messages there lack is put beside: a queue pair whose connection to another host has ended rests before it is connected
//! again, since the other side remembers it, and packets for it may be on their way.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_connection::{lend, run, run_after};
use nonic_roce::{ConnectReply, Disconnection, Event, Reason};
use nonic_wire_connection::{Follows, NoWay, Question, Way, Wire, WireConnection};

use super::connecting::Follower;
use super::link::{describe, not_ready_retries, ready_to_transfer, retries};
use super::{Core, Endpoint};
use crate::introduction::Introduction;
use crate::line::{Ending, Line, Path, introduced, service_of, side};
use crate::private_data::{field, is_failure, said};
use crate::values::{ConnectionEvent, EndpointState};

/// How long a queue pair rests. The other side remembers it for half a second (2^(17 - 8) ms, the manager's `ack_timeout`), from when it
/// has heard of the end.
const REST: Duration = Duration::from_secs(1);

impl Follows for Follower {
    fn tell(&self, event: Event) {
        lend(&self.endpoint, |endpoint| endpoint.take_news(self.number, event));
    }
}

impl Core {
    /// How long the queue pair still rests.
    fn rest(&self) -> Duration {
        self.rests_until.map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()))
    }
}

impl Endpoint {
    /// Takes the hold on a connection that is over.
    pub(super) fn let_line_go(&self, core: &mut Core) -> Option<Line> {
        let line = core.connecting.connection.take();
        if matches!(line, Some(Line::Wire(_))) && self.state() != EndpointState::ActiveConnectionPending {
            core.rests_until = Some(Instant::now() + REST);
        }
        line
    }

    /// Does something with the endpoint on the manager's thread, after a while, if it still has this connection.
    fn later(&self, core: &Core, delay: Duration, work: impl FnOnce(&Self, &mut Core) + Send + 'static) {
        let (endpoint, number) = (Weak::clone(&self.this), core.connecting.number);
        run_after(delay, move || {
            lend(&endpoint, |endpoint| {
                if let Some(mut core) = endpoint.core_of(number) {
                    work(endpoint, &mut core);
                }
            });
        });
    }

    /// Asks the host that `core` has as the remote one, which the program is told the outcome of.
    pub(super) fn ask_by_wire(&self, core: &mut Core, timeout: Option<Duration>, private_data: &[u8]) {
        let rest = core.rest();
        if let Some(timeout) = timeout {
            self.later(core, timeout, |endpoint, core| {
                if endpoint.state() == EndpointState::ActiveConnectionPending {
                    endpoint.finish(core, ConnectionEvent::TimedOut, &[]);
                }
            });
        }
        if rest.is_zero() {
            return self.ask_now(core, private_data);
        }
        tracing::debug!(?rest, "a queue pair rests before it asks another host again");
        let private_data: Box<[u8]> = private_data.into();
        self.later(core, rest, move |endpoint, core| {
            if endpoint.state() == EndpointState::ActiveConnectionPending {
                endpoint.ask_now(core, &private_data);
            }
        });
    }

    fn ask_now(&self, core: &mut Core, private_data: &[u8]) {
        let Some((address, conn_qual)) = core.connecting.remote else { return };
        match self.ask(core, address, conn_qual, private_data) {
            Ok((way, connection)) => {
                core.connecting.way = Some(way);
                core.connecting.connection = Some(Line::Wire(connection));
            }
            Err(why) => {
                tracing::info!(%address, conn_qual, why, "no wire leads to the address");
                self.finish(core, ConnectionEvent::Unreachable, &[]);
            }
        }
    }

    fn ask(
        &self,
        core: &Core,
        address: SocketAddr,
        conn_qual: u64,
        private_data: &[u8],
    ) -> Result<(Way, WireConnection), String> {
        let service =
            service_of(conn_qual).ok_or("there are no such connection qualifiers on other hosts")?;
        let pair = self.pair().ok_or("there is no queue pair")?;
        let wire = Wire::get().map_err(|error| error.to_string())?;
        let way = wire.find_way(None, address, 0).map_err(|error| {
            // Another user may have the port, which whoever runs this can do something about.
            if let NoWay::NotOpen(error) = &error {
                tracing::warn!(%address, %error, "other hosts cannot be reached");
            }
            error.to_string()
        })?;
        let own = describe(pair, core.connecting.packet, &core.attributes, self.adapter.address(), 0);
        let question = Question {
            service,
            way: &way,
            retry_count: retries(),
            side: &side(&own, not_ready_retries(), core.setup.shared_receives.is_some()),
            data: &field::<92>(private_data),
        };
        let follower = Follower { endpoint: Weak::clone(&self.this), number: core.connecting.number };
        let asked = wire.connect(&question, Arc::new(follower));
        asked.map(|connection| (way, connection)).map_err(|error| error.to_string())
    }

    /// Accepts the request that `core` holds, once the queue pair has rested.
    pub(super) fn reply_by_wire(&self, core: &mut Core, own: &Introduction, private_data: &[u8]) {
        let side = side(own, not_ready_retries(), core.setup.shared_receives.is_some());
        let data = field::<196>(private_data);
        let reply = move |endpoint: &Self, core: &mut Core| {
            let Some(Line::Wire(connection)) = &core.connecting.connection else { return };
            if let Err(error) = connection.accept(&side, &data) {
                // Whoever asked has given up.
                tracing::debug!(%error, "a request of another host is over before it is accepted");
                let (endpoint, number) = (Weak::clone(&endpoint.this), core.connecting.number);
                run(move || {
                    lend(&endpoint, |endpoint| endpoint.take_end(number, Ending::Lost));
                });
            }
        };
        match core.rest() {
            Duration::ZERO => reply(self, core),
            rest => self.later(core, rest, reply),
        }
    }

    /// Something has become of the connection.
    fn take_news(&self, number: u64, event: Event) {
        match event {
            Event::Replied { reply, .. } => self.take_wire_reply(number, &reply),
            Event::Established { .. } => {
                if let Some(mut core) = self.core_of(number) {
                    self.establish_now(&mut core);
                }
            }
            Event::Rejected { reason: Reason::CONSUMER, private_data, .. } => {
                self.take_end(number, Ending::Rejected(said(&private_data[..])));
            }
            Event::Rejected { .. } => self.take_end(number, Ending::Refused),
            Event::Unreachable { .. } => self.take_end(number, Ending::Unreachable),
            Event::Disconnected { how, private_data, .. } => {
                // An end that this side did not ask for, and the other neither: that one has forgotten the connection.
                let is_forgotten = how != Disconnection::ByPeer;
                let has_failed = private_data.is_some_and(|data| is_failure(&data[..]));
                let lost = is_forgotten || has_failed;
                self.take_end(number, if lost { Ending::Lost } else { Ending::Disconnected });
            }
            // These are for who listens, and for datagrams; of what is over nothing is to be told.
            Event::Asked { .. }
            | Event::ServiceAsked { .. }
            | Event::ServiceAnswered { .. }
            | Event::TimeWaitOver { .. } => {}
        }
    }

    /// A peer on another host accepts.
    fn take_wire_reply(&self, number: u64, reply: &ConnectReply) {
        let Some(mut core) = self.core_of(number) else { return };
        if self.state() != EndpointState::ActiveConnectionPending {
            return;
        }
        let ready = core.connecting.way.zip(self.pair()).is_some_and(|(way, pair)| {
            let own = describe(pair, core.connecting.packet, &core.attributes, self.adapter.address(), 0);
            introduced(&reply.into(), &way, 0).is_some_and(|peer| {
                ready_to_transfer(pair, self.adapter.context(), &Path::Wire(way), &own, &peer).is_ok()
            })
        });
        if !ready {
            return self.finish(&mut core, ConnectionEvent::NonPeerRejected, &[]);
        }
        self.show(&mut core, ConnectionEvent::Established, said(&reply.private_data));
        self.set_state(&mut core, EndpointState::Connected);
        if let Some(Line::Wire(connection)) = &core.connecting.connection
            && let Err(error) = connection.establish()
        {
            // The peer has given up meanwhile, and the end of it is told next.
            tracing::debug!(%error, "a connection to another host is over before it is established");
        }
    }
}

//! Asking for a connection.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_connection::{ConnectionSink, End, Refusal, Response, lend, run_after};

use super::line::{Asker, Line};
use super::{Core, State};
use crate::facts::{Facts, RETRIES_MAX};
use crate::names::asked;
use crate::private_data::padded;
use crate::{
    ConnectionParameters, DatagramParameters, Error, EventKind, Id, Parameters, PortSpace, REJECT_CONSUMER,
    REJECT_INVALID_SERVICE,
};

/// How long a request waits for its answer: what InfiniBand's manager comes to with its sixteen tries, and once more for a program
/// that has the request and thinks about it.
const PATIENCE: Duration = Duration::from_secs(132);
/// How long a request goes on where nobody listens. Programs that have agreed over another connection that one of them asks and the
/// other listens (perftest with `-R`) do both at the same time, and rely on the card and the kernel being slower with the one than
/// with the other.
const HEAD_START: Duration = Duration::from_millis(100);
/// How long to wait at first, and at most, before a listener is asked again whose backlog was full, or who was not there.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(512);
/// Status of a request that nobody answered.
pub(super) const TIMED_OUT: i32 = -110;
/// Status of one whose answer made no sense.
const NONSENSE: i32 = -71;
/// Status of UNREACHABLE for datagrams: the service has no such number, or refuses (SIDR).
pub(super) const NO_SUCH_SERVICE: i32 = 1;
pub(super) const SERVICE_REJECTS: i32 = 2;

/// How far an identifier's connection has come.
#[derive(Debug)]
pub(super) enum Link {
    /// There never was one.
    None,
    /// Asked for.
    Asking { connection: Line, deadline: Instant, pause: Duration },
    /// The listener's backlog was full, or it was not there yet: asked for again when the pause is over.
    Pausing { deadline: Instant, pause: Duration },
    /// Accepted by the other side; this side has not said that it is ready.
    Answered(Line),
    /// The other side asks.
    Pending(Asker),
    /// Accepted by this side; the other side has not said that it is ready.
    Accepted(Line),
    /// Established.
    Open(Line),
    /// Ended by this side; the other has not answered.
    Closing(Line),
    /// Ended by the other side, which waits for the answer.
    Closed(Line),
    /// Ended by both; of one by the wire late packets may come.
    Resting(Line),
    /// There was one, or an attempt at one.
    Over,
}

impl Link {
    /// What there is ends, because the identifier goes.
    pub(super) fn leave(self) -> Option<Line> {
        match self {
            Self::None | Self::Pausing { .. } | Self::Over => None,
            Self::Pending(request) => {
                request.leave();
                None
            }
            Self::Answered(connection) => {
                connection.reject(REJECT_CONSUMER as u8, &[]);
                None
            }
            Self::Asking { connection, .. }
            | Self::Accepted(connection)
            | Self::Open(connection)
            | Self::Closing(connection)
            | Self::Closed(connection)
            | Self::Resting(connection) => Some(connection),
        }
    }
}

/// Tells an identifier what becomes of its connection.
pub(super) struct Follower(pub(super) Weak<Id>);

impl ConnectionSink for Follower {
    fn accepted(&self, facts: &[u8], data: &[u8]) -> Response {
        lend(&self.0, |id| id.take_reply(facts, data)).unwrap_or(Response::Declined)
    }

    fn established(&self) {
        lend(&self.0, |id| id.is_established());
    }

    fn told(&self, word: &[u8]) {
        lend(&self.0, |id| id.take_word(word));
    }

    fn ended(&self, end: End<'_>) {
        lend(&self.0, |id| id.take_end(end));
    }
}

impl Id {
    /// Asks for a connection, or where to send datagrams (`rdma_connect(3)`). It ends in CONNECT_RESPONSE (of datagrams
    /// ESTABLISHED), REJECTED, UNREACHABLE. After CONNECT_RESPONSE the queue pair is to be moved on, and [`Id::establish`] called.
    ///
    /// Errors: `State` unless ROUTE_RESOLVED, `Argument` for too much private data.
    pub fn connect(self: &Arc<Self>, parameters: &ConnectionParameters) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::RouteResolved])?;
        let kind = self.kind();
        if parameters.private_data.len() > kind.request_max() {
            return Err(Error::Argument("there is more private data than a request carries"));
        }
        let private_data = kind.said(&parameters.private_data);
        core.own = ConnectionParameters { private_data, ..parameters.clone() };
        core.retry_count = parameters.retry_count.min(RETRIES_MAX);
        let deadline = Instant::now() + PATIENCE;
        self.ask(&mut core, deadline, FIRST_PAUSE)?;
        core.state = State::Connect;
        Ok(())
    }

    fn ask(&self, core: &mut Core, deadline: Instant, pause: Duration) -> Result<(), Error> {
        let (Some(source), Some(destination)) = (core.source, core.destination) else {
            return Err(Error::State(core.state));
        };
        if core.way.is_some() {
            return self.ask_by_wire(core, [source.port(), destination.port()], deadline, pause);
        }
        let Some(space) = core.service.map_or(Some(self.space()), PortSpace::of_service) else {
            // Who listens here, listens for a port.
            let (kind, status) = self.nobody_listens();
            self.fail(core, kind, status, &[]);
            return Ok(());
        };
        let (parameters, packet) = (core.own.clone(), core.packet);
        let facts = Facts { parameters, packet, source, destination, kind: self.kind() };
        let (told, data) = (facts.emit(), &core.own.private_data);
        let names = asked(space, self.kind().naming(data), destination.ip());
        let services = names.each_ref().map(|name| (&**name, u64::from(destination.port())));
        let left = Some(deadline.saturating_duration_since(Instant::now()));
        let follower = Arc::new(Follower(Weak::clone(&self.this)));
        let connection = match core.met {
            None => nonic_connection::connect(&services, &told, data, left, follower)?,
            Some(met) => {
                nonic_connection::connect_to_other(met.namespace, &services, &told, data, left, follower)?
            }
        };
        core.link = Link::Asking { connection: Line::Host(connection), deadline, pause };
        Ok(())
    }

    /// The listener's backlog was full a while ago, or nobody listened.
    fn ask_again(&self) {
        let mut core = self.lock();
        let Link::Pausing { deadline, pause } = core.link else { return };
        if let Err(error) = self.ask(&mut core, deadline, (pause * 2).min(LONGEST_PAUSE)) {
            tracing::debug!(%error, "a request cannot be made again");
            self.fail(&mut core, EventKind::Unreachable, TIMED_OUT, &[]);
        }
    }

    /// The attempt is over, without a connection.
    pub(super) fn fail(&self, core: &mut Core, kind: EventKind, status: i32, data: &[u8]) {
        core.link = Link::Over;
        let private_data = match kind {
            EventKind::Rejected => padded(data, self.kind().reject_max()),
            _ => data.into(),
        };
        let parameters = ConnectionParameters { private_data, ..ConnectionParameters::default() };
        self.push(core, kind, status, Parameters::Connection(parameters));
    }

    /// The other side accepts.
    fn take_reply(&self, facts: &[u8], data: &[u8]) -> Response {
        let mut core = self.lock();
        if !matches!(core.link, Link::Asking { .. }) {
            return Response::Declined;
        }
        let Some(facts) = Facts::parse(facts, data.into()) else {
            tracing::debug!("the answer to a request for a connection makes no sense");
            self.fail(&mut core, EventKind::ConnectError, NONSENSE, &[]);
            return Response::Declined;
        };
        if self.is_datagram() {
            core.link = Link::Over;
            self.show_service(&core, &facts);
            core.peer = Some(facts);
            return Response::Declined;
        }
        self.show_reply(&mut core, facts);
        Response::Later
    }

    /// Who was asked accepts.
    pub(super) fn show_reply(&self, core: &mut Core, facts: Facts) {
        let connection = match std::mem::replace(&mut core.link, Link::Over) {
            Link::Asking { connection, .. } => connection,
            other => return core.link = other,
        };
        let mut parameters = facts.seen_from_here();
        parameters.private_data = padded(&parameters.private_data, self.kind().reply_max());
        core.link = Link::Answered(connection);
        core.peer = Some(facts);
        self.push(core, EventKind::ConnectResponse, 0, Parameters::Connection(parameters));
    }

    /// A service of datagrams says where they go.
    pub(super) fn show_service(&self, core: &Core, facts: &Facts) {
        let Some(context) = &core.context else { return };
        let told = &facts.parameters;
        let queue_key = if told.queue_key == 0 { Self::DEFAULT_QUEUE_KEY } else { told.queue_key };
        let parameters = DatagramParameters {
            private_data: padded(&told.private_data, self.kind().reply_max()),
            cookie: 0,
            address: core.vector(context),
            queue_pair: told.queue_pair,
            queue_key,
        };
        self.push(core, EventKind::Established, 0, Parameters::Datagram(parameters));
    }

    /// There is no connection, or no more.
    fn take_end(&self, end: End<'_>) {
        let mut core = self.lock();
        match core.link {
            Link::Asking { deadline, pause, .. } => self.take_refusal(&mut core, end, deadline, pause),
            // The other side gave up, or died, before it was ready; or cannot.
            Link::Accepted(_) => match end {
                End::Rejected(said) => {
                    let (status, data) = reason(said);
                    self.fail(&mut core, EventKind::Rejected, status, data);
                }
                End::Disconnected => self.fail(&mut core, EventKind::Rejected, REJECT_CONSUMER, &[]),
                _ => self.fail(&mut core, EventKind::Unreachable, TIMED_OUT, &[]),
            },
            Link::Answered(_) | Link::Open(_) | Link::Closing(_) => self.is_disconnected(&mut core),
            Link::Closed(_) => core.link = Link::Over,
            Link::None | Link::Pausing { .. } | Link::Pending(_) | Link::Resting(_) | Link::Over => {}
        }
    }

    /// How a request ends that nobody takes.
    fn nobody_listens(&self) -> (EventKind, i32) {
        if self.is_datagram() {
            (EventKind::Unreachable, NO_SUCH_SERVICE)
        } else {
            (EventKind::Rejected, REJECT_INVALID_SERVICE)
        }
    }

    /// Asks again after a pause.
    pub(super) fn pause(&self, core: &mut Core, deadline: Instant, pause: Duration) {
        core.link = Link::Pausing { deadline, pause };
        let id = Weak::clone(&self.this);
        run_after(pause, move || {
            lend(&id, |id| id.ask_again());
        });
    }

    /// A request comes to nothing.
    fn take_refusal(&self, core: &mut Core, end: End<'_>, deadline: Instant, pause: Duration) {
        let datagram = self.is_datagram();
        match end {
            End::Refused(reason)
                if reason == Refusal::NoRoom || (begins(deadline) && reason == Refusal::NobodyListens) =>
            {
                self.pause(core, deadline, pause);
            }
            End::Rejected(said) if datagram => {
                let (_, data) = reason(said);
                self.fail(core, EventKind::Unreachable, SERVICE_REJECTS, data);
            }
            End::Rejected(said) => {
                let (status, data) = reason(said);
                self.fail(core, EventKind::Rejected, status, data);
            }
            End::Refused(_) => {
                let (kind, status) = self.nobody_listens();
                self.fail(core, kind, status, &[]);
            }
            End::TimedOut | End::Disconnected | End::Lost => {
                self.fail(core, EventKind::Unreachable, TIMED_OUT, &[]);
            }
        }
    }
}

/// Whether a request that is given up at `deadline` has just begun.
pub(super) fn begins(deadline: Instant) -> bool {
    deadline.saturating_duration_since(Instant::now()) > PATIENCE - HEAD_START
}

/// The reason that a rejection begins with, and the private data behind it.
fn reason(said: &[u8]) -> (i32, &[u8]) {
    said.split_first().map_or((REJECT_CONSUMER, said), |(reason, data)| (i32::from(*reason), data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_without_a_reason_is_the_programs() {
        assert_eq!(reason(&[]), (28, &[][..]));
        assert_eq!(reason(&[35, 1, 2]), (35, &[1, 2][..]));
    }
}

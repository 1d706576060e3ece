//! Identifiers whose peer is on another host.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_connection::lend;
use nonic_roce::{Accepts, Disconnection, Event, Reason, Service, ServiceAnswer, Transport};
use nonic_wire_connection::{
    Follows, ListenAt, Question, Takes, Way, Wire, WireConnection, WireListener, index_of, number_of_host,
};

use super::connecting::{Link, NO_SUCH_SERVICE, SERVICE_REJECTS, TIMED_OUT, begins};
use super::line::{Asker, Line};
use super::listening::Asking;
use super::{Core, device_context};
use crate::facts::Facts;
use crate::private_data::Kind;
use crate::wire::{WireRoute, is_of_host_only, of_question, of_reply, of_request, refused, roce_space, side};
use crate::{ConnectionParameters, Error, EventKind, Id, Parameters, REJECT_CONSUMER};

/// The longest time to wait that a queue pair knows.
const ACK_TIMEOUT_MAX: u8 = 31;

/// Tells an identifier what becomes of its connection.
struct Follower(Weak<Id>);

impl Follows for Follower {
    fn tell(&self, event: Event) {
        lend(&self.0, |id| id.take_news(event));
    }
}

/// Hands requests to the identifier that listens.
struct Taker(Weak<Id>);

impl Takes for Taker {
    fn ask(&self, connection: WireConnection, event: Event) {
        lend(&self.0, |id| id.take_asking(connection, event));
    }
}

impl Id {
    /// The way to its peer, if that is on another host or in another network namespace.
    pub fn wire_route(&self) -> Option<WireRoute> {
        let core = self.lock();
        core.way.as_ref().map(WireRoute::of).or_else(|| core.met.as_ref().map(WireRoute::of_met))
    }

    /// Takes requests of other hosts, where they can come.
    pub(super) fn listen_by_wire(&self, core: &Core, port: u16) -> Result<Option<WireListener>, Error> {
        let (Some(source), Some(space)) = (core.source, roce_space(core.ports)) else { return Ok(None) };
        if is_of_host_only(source.ip()) || core.options.within_host {
            return Ok(None);
        }
        let wire = match Wire::get() {
            Ok(wire) => wire,
            Err(error) => {
                tracing::info!(%error, "other hosts find no listener here");
                return Ok(None);
            }
        };
        let ip = source.ip();
        let naming = self.naming();
        let at = if ip.is_unspecified() {
            let both = self.is_by_gid() || !core.options.one_family(naming, ip);
            ListenAt::Families { four: both || ip.is_ipv4(), six: both || ip.is_ipv6() }
        } else {
            ListenAt::Address(ip)
        };
        let accepts =
            if self.is_datagram() { Accepts::Datagrams } else { Accepts::Connections(Transport::Reliable) };
        let taker: Arc<dyn Takes> = Arc::new(Taker(Weak::clone(&self.this)));
        let listener = wire.listen(space.service_id(port), naming, at, accepts, &taker);
        listener.map(Some).map_err(|_| Error::AddressInUse(port))
    }

    pub(super) fn ask_by_wire(
        &self,
        core: &mut Core,
        [source_port, port]: [u16; 2],
        deadline: Instant,
        pause: Duration,
    ) -> Result<(), Error> {
        let Some(way) = &mut core.way else { return Err(Error::State(core.state)) };
        // It may have been set since the address was resolved.
        way.traffic_class = core.options.type_of_service;
        let wire = Wire::get().map_err(|error| Error::System(std::io::Error::other(error)))?;
        let space = roce_space(self.space()).ok_or(Error::NoDevice)?;
        let service = match core.service {
            Some(number) => Service::Number(number),
            // Of a GID no address stands in front of the private data.
            None if self.is_by_gid() => Service::Number(space.service_id(port)),
            None => Service::Port { space, port, source_port },
        };
        let follower = Arc::new(Follower(Weak::clone(&self.this)));
        let data = &core.own.private_data;
        let connection = if self.is_datagram() {
            wire.resolve_service(way, service, data, follower)
        } else {
            let side = side(&core.own, core.packet);
            let question = Question { service, way, retry_count: core.retry_count, side: &side, data };
            wire.connect(&question, follower)
        };
        let connection = connection.map_err(refused)?;
        core.link = Link::Asking { connection: Line::Wire(connection), deadline, pause };
        Ok(())
    }

    pub(super) fn follow_by_wire(&self, connection: &WireConnection) {
        connection.follow(Arc::new(Follower(Weak::clone(&self.this))));
    }

    /// Somebody on another host asks.
    fn take_asking(&self, connection: WireConnection, event: Event) {
        let kind = self.kind();
        let (ends, facts, path) = match event {
            Event::Asked { ends, request, .. } => {
                let facts = kind.take_field(&request.private_data, of_request(ends, &request));
                let path = &request.primary;
                (ends, facts, Some((request.path_mtu, path.traffic_class, path.ack_timeout)))
            }
            Event::ServiceAsked { ends, request, .. } => {
                (ends, kind.take_field(&request.private_data, of_question(ends, &request)), None)
            }
            // These are for who asked.
            _ => return,
        };
        let Some(facts) = facts else {
            tracing::debug!(?ends, "a request by a GID is not for who listens by an address");
            return self.reject_by_wire(connection, REJECT_CONSUMER as u8, &[]);
        };
        let core = self.lock();
        let Ok(context) = device_context() else { return };
        let Some(index) = index_of(&context, ends.local) else { return };
        let Some(place) = self.place_for_host(&core, number_of_host(ends)) else {
            return connection.ignore();
        };
        let (path_mtu, traffic_class, ack_timeout) = path.unwrap_or_default();
        let way = Way { index, ends, path_mtu, traffic_class, ack_timeout: ack_timeout.min(ACK_TIMEOUT_MAX) };
        let asking = Asking { asker: Asker::Wire(connection), facts, way: Some(way), met: None, place };
        self.show_request(&core, context, asking);
    }

    pub(super) fn accept_by_wire(
        &self,
        core: &mut Core,
        connection: WireConnection,
        parameters: &ConnectionParameters,
    ) -> Result<(), Error> {
        let done = if self.is_datagram() {
            let own = parameters.queue_key;
            let q_key = if own == 0 { Self::DEFAULT_QUEUE_KEY } else { own };
            let answer = ServiceAnswer::QueuePair { number: parameters.queue_pair, q_key };
            connection.answer(answer, &parameters.private_data)
        } else {
            connection.accept(&side(parameters, core.packet), &parameters.private_data)
        };
        match done {
            // Who asks for datagrams has no connection: the answer is all.
            Ok(()) if self.is_datagram() => {}
            Ok(()) => core.link = Link::Accepted(Line::Wire(connection)),
            Err(error) => {
                core.link = Link::Pending(Asker::Wire(connection));
                return Err(refused(error));
            }
        }
        Ok(())
    }

    pub(super) fn reject_by_wire(&self, connection: WireConnection, reason: u8, data: &[u8]) {
        if self.is_datagram() {
            let _ = connection.answer(ServiceAnswer::Refused(SERVICE_REJECTS as u8), data);
        } else {
            connection.reject(Reason(reason.into()), data);
        }
    }

    /// Something has become of the connection.
    fn take_news(&self, event: Event) {
        match event {
            Event::Established { .. } => self.is_established(),
            Event::Disconnected { how: Disconnection::ByPeer, .. } => self.take_their_end(),
            Event::Disconnected { how, .. } => {
                self.has_ended(if how == Disconnection::Unanswered { TIMED_OUT } else { 0 });
            }
            Event::Replied { reply, .. } => {
                let mut core = self.lock();
                let (Some(own), Some(peer)) = (core.source, core.destination) else { return };
                self.show_reply(&mut core, of_reply(peer, own, &reply));
            }
            Event::Rejected { reason, private_data, .. } => self.take_rejection(reason, &private_data[..]),
            Event::Unreachable { .. } => {
                let mut core = self.lock();
                if matches!(core.link, Link::Asking { .. } | Link::Accepted(_)) {
                    self.fail(&mut core, EventKind::Unreachable, TIMED_OUT, &[]);
                }
            }
            Event::TimeWaitOver { .. } => {
                let mut core = self.lock();
                if matches!(core.link, Link::Resting(_)) {
                    core.link = Link::Over;
                    self.push(&core, EventKind::TimewaitExit, 0, Parameters::None);
                }
            }
            Event::ServiceAnswered { answer, reply, .. } => self.take_answer(answer, &reply.private_data),
            // These are for who listens.
            Event::Asked { .. } | Event::ServiceAsked { .. } => {}
        }
    }

    /// A peer on another host has rejected, or has forgotten the connection.
    fn take_rejection(&self, reason: Reason, data: &[u8]) {
        let mut core = self.lock();
        match core.link {
            Link::Asking { deadline, pause, .. }
                if reason == Reason::INVALID_SERVICE_ID && begins(deadline) =>
            {
                self.pause(&mut core, deadline, pause);
            }
            Link::Asking { .. } | Link::Answered(_) | Link::Accepted(_) => {
                self.fail(&mut core, EventKind::Rejected, reason.0.into(), data);
            }
            Link::Open(_) | Link::Closing(_) => {
                drop(core);
                self.has_ended(0);
            }
            _ => {}
        }
    }

    /// Both sides have ended the connection, or one of them is not heard any more; late packets may come.
    fn has_ended(&self, status: i32) {
        let mut core = self.lock();
        match std::mem::replace(&mut core.link, Link::Over) {
            Link::Open(connection) | Link::Closing(connection) => {
                self.show_end(&mut core, status);
                core.link = Link::Resting(connection);
            }
            other => core.link = other,
        }
    }

    /// A service of another host says where its datagrams go.
    fn take_answer(&self, answer: ServiceAnswer, data: &[u8]) {
        let mut core = self.lock();
        let (Some(own), Some(peer)) = (core.source, core.destination) else { return };
        if !matches!(core.link, Link::Asking { .. }) {
            return;
        }
        match answer {
            ServiceAnswer::QueuePair { number, q_key } => {
                core.link = Link::Over;
                let parameters = ConnectionParameters {
                    private_data: data.into(),
                    queue_pair: number,
                    queue_key: q_key,
                    ..ConnectionParameters::default()
                };
                let kind = Kind::default();
                let facts = Facts { parameters, packet: 0, source: peer, destination: own, kind };
                self.show_service(&core, &facts);
                core.peer = Some(facts);
            }
            ServiceAnswer::Refused(status) => {
                if i32::from(status) == NO_SUCH_SERVICE
                    && let Link::Asking { deadline, pause, .. } = core.link
                    && begins(deadline)
                {
                    return self.pause(&mut core, deadline, pause);
                }
                self.fail(&mut core, EventKind::Unreachable, status.into(), data);
            }
        }
    }
}

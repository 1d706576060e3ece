//! Taking requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};

use nonic_connection::{Listener, Refusal, Request, ServiceSink, lend};
use nonic_device::Context;
use nonic_sys::{Budget, Share, Shares, is_own_address, own_user};
use nonic_wire_connection::{MetWay, Way, WireListener};

use super::connecting::Link;
use super::line::Asker;
use super::{Core, State, device_context};
use crate::channel::{Target, Waiting};
use crate::facts::Facts;
use crate::{
    ConnectionParameters, DatagramParameters, Error, EventKind, Id, Named, Parameters, REJECT_CONSUMER,
};

/// Requests that wait to be got at most, and if the program says nothing sensible.
const BACKLOG_MAX: usize = 1024;

/// An identifier that listens.
#[derive(Debug)]
pub(super) struct Listening {
    /// Places of requests that wait to be got.
    places: Arc<Budget>,
    /// Places of those of other hosts.
    wire_places: Arc<Budget>,
    /// One for each name.
    _listeners: Vec<Listener>,
    _by_wire: Option<WireListener>,
}

/// Of a backlog the own user has all; other users have another one, of which each of them has half, so that none of them shuts
/// anybody else out.
fn shares(backlog: usize) -> Shares {
    Shares { own: backlog, stranger: backlog.div_ceil(2), strangers: backlog }
}

/// Another host has as many places as the backlog says, all together four times as many.
fn shares_of_hosts(backlog: usize) -> Shares {
    Shares { own: 0, stranger: backlog, strangers: 4 * backlog }
}

/// What a request came with.
pub(super) struct Asking {
    pub(super) asker: Asker,
    pub(super) facts: Facts,
    pub(super) way: Option<Way>,
    pub(super) met: Option<MetWay>,
    pub(super) place: Share,
}

/// Hands requests to the identifier that listens.
struct Taker(Weak<Id>);

impl ServiceSink for Taker {
    fn request(&self, request: Request) {
        lend(&self.0, |id| id.take_request(request));
    }
}

impl Id {
    /// Takes requests (`rdma_listen(3)`): CONNECT_REQUEST for each, of which at most `backlog` wait to be got (0 or less, or more
    /// than 1024: 1024), and as many of other users, half of them of the same one. An identifier in IDLE is bound to a wildcard and a free port first.
    ///
    /// Errors: `State` unless IDLE or ADDR_BOUND, `AddressInUse` if somebody listens there.
    pub fn listen(self: &Arc<Self>, backlog: i32) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Idle, State::AddressBound])?;
        // Before requests come, which have no time for it.
        device_context()?;
        if core.binding.is_none() {
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            self.bind_in(&mut core, Named::Ip(any))?;
        }
        let Some(binding) = &core.binding else { return Err(Error::State(core.state)) };
        // Whoever finds the name finds it by the wire, too.
        let by_wire = self.listen_by_wire(&core, binding.port())?;
        let sink: Arc<dyn ServiceSink> = Arc::new(Taker(Weak::clone(&self.this)));
        let listeners = binding.listen(&sink)?;
        let backlog = usize::try_from(backlog).ok().filter(|count| (1..=BACKLOG_MAX).contains(count));
        let backlog = backlog.unwrap_or(BACKLOG_MAX);
        core.listening = Some(Listening {
            places: Budget::new(own_user(), shares(backlog)),
            wire_places: Budget::new(None, shares_of_hosts(backlog)),
            _listeners: listeners,
            _by_wire: by_wire,
        });
        core.state = State::Listen;
        Ok(())
    }

    /// Somebody asks.
    fn take_request(&self, request: Request) {
        let core = self.lock();
        let Some(listening) = core.listening.as_ref().filter(|_| core.state == State::Listen) else {
            return request.refuse(Refusal::NobodyListens);
        };
        let Some(facts) = Facts::parse(request.facts(), request.data()[..].into()) else {
            tracing::debug!(user = request.user(), "a request for a connection makes no sense");
            return request.refuse(Refusal::Unable);
        };
        let Some(facts) = self.kind().take_request(facts) else {
            tracing::debug!(user = request.user(), "a request is of another kind than its listener");
            return request.reject(&[REJECT_CONSUMER as u8]);
        };
        let Ok(context) = device_context() else { return request.refuse(Refusal::Unable) };
        let Some(place) = listening.places.take(request.user(), 1) else {
            return request.refuse(Refusal::NoRoom);
        };
        let (own, theirs) = (facts.destination.ip(), facts.source.ip());
        let met = if is_own_address(theirs) { None } else { MetWay::between(&context, own, theirs) };
        let asking = Asking { asker: Asker::Host(request), facts, way: None, met, place };
        self.show_request(&core, context, asking);
    }

    /// A place for a request of another host; `None` if there is none, or nobody listens.
    pub(super) fn place_for_host(&self, core: &Core, host: u32) -> Option<Share> {
        let listening = core.listening.as_ref().filter(|_| core.state == State::Listen)?;
        listening.wire_places.take(host, 1)
    }

    /// Tells the program of a request, with the identifier that is new.
    pub(super) fn show_request(&self, core: &Core, context: Arc<Context>, asking: Asking) {
        let Asking { asker, facts, way, met, place } = asking;
        let id = Id::new(&core.channel, self.space(), self.is_datagram(), 0);
        id.name_by_gid(self.is_by_gid());
        let parameters = facts.seen_from_here();
        let mut new = id.lock();
        (new.way, new.met) = (way, met);
        let shown = if self.is_datagram() {
            Parameters::Datagram(DatagramParameters {
                private_data: parameters.private_data,
                cookie: 0,
                address: new.vector(&context),
                queue_pair: facts.parameters.queue_pair,
                queue_key: 0,
            })
        } else {
            Parameters::Connection(ConnectionParameters { queue_key: 0, ..parameters })
        };
        new.state = State::Connect;
        (new.source, new.destination) = (Some(facts.destination), Some(facts.source));
        new.ports = core.ports;
        // Who is named by a GID does not say of which service it is.
        new.service = self.is_by_gid().then_some(0);
        new.context = Some(context);
        new.options = core.options;
        new.retry_count = facts.parameters.retry_count;
        new.peer = Some(facts);
        if let Asker::Wire(connection) = &asker {
            id.follow_by_wire(connection);
        }
        new.link = Link::Pending(asker);
        drop(new);
        core.channel.queue.push(Waiting {
            kind: EventKind::ConnectRequest,
            status: 0,
            target: Target::New { id, listener: Weak::clone(&self.this), _place: place },
            parameters: shown,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use nonic_second_process::{SecondProcess, become_user, role, serve};
    use nonic_sys::effective_user;

    use super::*;
    use crate::{EventChannel, PortSpace};

    const STRANGER: u32 = 23_457;
    const PATIENCE: Duration = Duration::from_secs(30);

    fn id(channel: &Arc<EventChannel>) -> Arc<Id> {
        Id::create(channel, PortSpace::Tcp, 0).unwrap()
    }

    /// Asks for a connection; the events on the way there are dropped.
    fn ask(channel: &Arc<EventChannel>, to: SocketAddr) -> Arc<Id> {
        let id = id(channel);
        id.resolve_address(None, to, PATIENCE).unwrap();
        drop(channel.next_event().unwrap());
        id.resolve_route(PATIENCE).unwrap();
        drop(channel.next_event().unwrap());
        id.connect(&ConnectionParameters::default()).unwrap();
        id
    }

    /// Another user, who asks as often as it is told.
    #[test]
    fn stranger() {
        if role().is_none() {
            return;
        }
        become_user(STRANGER);
        let channel = EventChannel::create().unwrap();
        let mut ids = Vec::new();
        serve(|_, address| {
            ids.push(ask(&channel, address.parse().unwrap()));
            "ok".into()
        });
    }

    #[test]
    fn a_user_that_asks_and_asks_shuts_nobody_else_out() {
        if effective_user() != 0 {
            println!("SKIPPED: another user: a process of another user needs root");
            return;
        }
        let channel = EventChannel::create().unwrap();
        let listener = id(&channel);
        listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.listen(2).unwrap();
        let to = listener.source().unwrap();
        let wait_for = |user: u32, count: usize| {
            let since = Instant::now();
            while listener.lock().listening.as_ref().unwrap().places.spent(user) != count {
                assert!(since.elapsed() < PATIENCE, "user {user} never has {count} requests");
                std::thread::yield_now();
            }
        };
        let mut other = SecondProcess::start("id::listening::tests::stranger", "stranger", &[]);
        for _ in 0..3 {
            assert_eq!(other.tell(&format!("ask {to}")), "ok");
        }
        wait_for(STRANGER, 1);
        let near = EventChannel::create().unwrap();
        let _asking = [ask(&near, to), ask(&near, to)];
        wait_for(0, 2);
        assert_eq!(listener.lock().listening.as_ref().unwrap().places.spent(STRANGER), 1);
        // Who is got makes room; all come in the end.
        for _ in 0..5 {
            assert_eq!(channel.next_event().unwrap().kind, EventKind::ConnectRequest);
        }
    }
}

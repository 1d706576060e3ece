//! Another host, made by hand, and queue pairs that have it as their peer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_device::{Config, Context, Counter, EngineHandle, QpNumber};
use nonic_protocol::Psn;
use nonic_roce::{
    Aeth, Answer, Base, Body, Credits, HostAddress, Msn, Packet, Part, Request, Syndrome, Tail,
};
use nonic_wire::{Location, Outgoing, Pushed, Route, Run, Station, Taken, Wire};

use crate::common::{End, NoObserver};

/// Where the queue pair is, and other hosts.
pub(crate) const HERE: HostAddress = HostAddress::V4([127, 0, 0, 1]);
pub(crate) const PEER: HostAddress = HostAddress::V4([127, 9, 9, 9]);
pub(crate) const STRANGER: HostAddress = HostAddress::V4([127, 8, 8, 8]);
/// The peer's queue pair.
pub(crate) const NUMBER: QpNumber = QpNumber(9);
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Another host.
pub(crate) struct Far {
    pub(crate) wire: Wire,
    pub(crate) station: Arc<Station>,
    /// What has come together with what was asked for.
    heard: RefCell<VecDeque<(Packet, Vec<u8>)>>,
}

impl Far {
    pub(crate) fn at(address: HostAddress) -> Self {
        let wire = Wire::new().unwrap();
        let (station, _) = wire.station(Location { address, interface: 1 }).unwrap();
        Self { wire, station, heard: RefCell::default() }
    }

    pub(crate) fn say(&self, packet: &Packet, bytes: &[u8]) {
        let route = Route { to: HERE, traffic_class: 0, hop_limit: 64 };
        let mut outgoing = Outgoing::default();
        let pushed = outgoing.push(&self.station, &route, packet, bytes.len() as u32, |place| {
            place.copy_from_slice(bytes);
            true
        });
        assert!(pushed == Pushed::Pushed && outgoing.flush());
    }

    /// What has come to it and was not heard.
    pub(crate) fn hear(&self) -> Vec<(Packet, Vec<u8>)> {
        let mut heard = self.heard.borrow_mut();
        let mut take = |run: &mut Run<'_>| {
            let (arrival, datagram) = run.current();
            let (packet, payload, _) = arrival.read(datagram).expect("its check is right");
            heard.push_back((packet, payload.to_vec()));
            Taken::Taken
        };
        self.wire.receive(&mut take, &mut |_, _| ());
        heard.drain(..).collect()
    }

    /// The next that comes.
    pub(crate) fn hears(&self) -> (Packet, Vec<u8>) {
        let end = Instant::now() + LONG;
        loop {
            let mut heard = VecDeque::from(self.hear());
            let first = heard.pop_front();
            *self.heard.borrow_mut() = heard;
            if let Some(first) = first {
                return first;
            }
            assert!(Instant::now() < end, "nothing came");
            std::thread::yield_now();
        }
    }
}

pub(crate) fn context(wire_silence: Option<Duration>) -> Arc<Context> {
    let handle = EngineHandle::create(Config { wire_silence, ..Config::default() }).unwrap();
    handle.devices()[0].open().unwrap()
}

/// A queue pair that is connected to nobody.
pub(crate) fn lone(context: Arc<Context>) -> End {
    let completions = context.create_completion_queue(64, 0, None, 0).unwrap();
    End::with_queue(context, completions, None::<Weak<NoObserver>>)
}

/// A queue pair in RTS whose peer is at [`PEER`]; both begin with packet 0.
pub(crate) fn end(context: &Arc<Context>) -> End {
    let end = lone(Arc::clone(context));
    end.connect_between(HERE.gid(), PEER.gid(), NUMBER);
    end
}

pub(crate) fn message(end: &End, psn: u32) -> Packet {
    let base = Base { ack_request: true, ..Base::new(end.pair.number(), Psn(psn)) };
    Packet { base, body: Body::Request(Request::Send(Part::Only((), Tail::Plain))) }
}

pub(crate) fn acknowledgement(end: &End, psn: Psn) -> Packet {
    let aeth = Aeth { syndrome: Syndrome::Acknowledge(Credits::UNKNOWN), msn: Msn::masked(0) };
    Packet { base: Base::new(end.pair.number(), psn), body: Body::Answer(Answer::Acknowledge(aeth)) }
}

/// Has `far` say something, and waits until it was seen and dropped.
pub(crate) fn says_in_vain(far: &Far, packet: &Packet, context: &Context) {
    let dropped = || context.counters().unwrap().get(Counter::Refused);
    let before = dropped();
    far.say(packet, &[1; 8]);
    until("it was not seen", || dropped() != before);
}

/// Waits until something is so; what it says if it never is.
pub(crate) fn until(otherwise: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < limit, "{otherwise}");
        std::thread::yield_now();
    }
}

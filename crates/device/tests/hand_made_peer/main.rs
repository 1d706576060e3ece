//! A queue pair whose peer on another host is made by hand, over real sockets: addresses of the network 127.0.0.0/8 that are not in the GID
//! table count as other hosts. In a network namespace of its own, where the port is free.

#[path = "../common/mod.rs"]
mod common;
mod datagrams;
mod far;
#[path = "../common/inside.rs"]
mod inside;
mod replies;

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_device::{
    AttributeMask, Counter, ManagementArrival, ManagementObserver, Operation, OwnThread, QpAttributes,
    QpNumber, QpState, QueuePair, Status,
};
use nonic_protocol::Psn;
use nonic_roce::{
    Answer, Base, Body, ConnectionManager, ConnectionOffer, Ends, Event, ManagementDatagram, ManagerSettings,
    Nak, Packet, Part, PortSpace, Reason, Request, Service, ServiceAnswer, Side, Syndrome, Tail, Transport,
};

use crate::common::End;
use crate::far::{
    Far, HERE, NUMBER, PEER, STRANGER, acknowledgement, context, end, lone, message, says_in_vain, until,
};
use crate::inside::is_inside;

#[test]
fn a_packet_counts_only_from_the_address_of_the_peer() {
    if !is_inside("a_packet_counts_only_from_the_address_of_the_peer") {
        return;
    }
    let (peer, stranger, context) = (Far::at(PEER), Far::at(STRANGER), context(None));
    let end = end(&context);
    end.post_receive(1);
    let dropped = || context.counters().unwrap().get(Counter::Refused);
    let before = dropped();
    says_in_vain(&stranger, &message(&end, 0), &context);
    peer.say(&message(&end, 0), &[2; 8]);
    assert_eq!((end.completion().id, end.completions.poll(|_| (), 1)), (1, Ok(0)));
    assert_eq!(end.buffer[..9], [2, 2, 2, 2, 2, 2, 2, 2, 0]);
    let (said, _) = peer.hears();
    assert!(matches!(said.body, Body::Answer(Answer::Acknowledge(_))) && said.base.psn == Psn(0));
    assert!(stranger.hear().is_empty() && dropped() == before + 1);
}

#[test]
fn a_peer_that_sent_too_early_is_asked_for_it_again() {
    if !is_inside("a_peer_that_sent_too_early_is_asked_for_it_again") {
        return;
    }
    let (peer, stranger, context) = (Far::at(PEER), Far::at(STRANGER), context(None));
    // Has this host listen.
    let _other = end(&context);
    for (early, is_asked) in [(&peer, true), (&stranger, false)] {
        let late = lone(Arc::clone(&context));
        says_in_vain(early, &message(&late, 0), &context);
        late.connect_between(HERE.gid(), PEER.gid(), NUMBER);
        late.post_receive(1);
        if is_asked {
            let (said, _) = peer.hears();
            let Body::Answer(Answer::Acknowledge(aeth)) = said.body else { panic!("{said:?}") };
            assert_eq!((aeth.syndrome, said.base.psn), (Syndrome::Refuse(Nak::Sequence), Psn(0)));
        }
        peer.say(&message(&late, 0), &[2; 8]);
        assert_eq!(late.completion().id, 1);
        let (said, _) = peer.hears();
        let Body::Answer(Answer::Acknowledge(aeth)) = said.body else { panic!("{said:?}") };
        assert!(matches!(aeth.syndrome, Syndrome::Acknowledge(_)), "{aeth:?}");
        assert!(stranger.hear().is_empty());
    }
}

/// Two numbers that are so far apart have one place among the queue pairs that the driver remembers.
const APART: u32 = 64;

/// Messages from another process of this host are acknowledged, while `beside` has packets come for the queue pair of another number that
/// has the same place.
fn are_acknowledged(near: &End, beside: impl Fn()) {
    let other = lone(context(None));
    near.connect(other.pair.number());
    other.connect(near.pair.number());
    for round in 0..1000 {
        near.post_receive(round);
        beside();
        other.post(round, Operation::Send { immediate: None }, &[other.piece(0, 8)]);
        assert_eq!((near.completion().id, other.completion().status), (round, Status::Success));
    }
}

#[test]
fn packets_for_a_number_that_is_nobodys_cost_no_acknowledgement() {
    if !is_inside("packets_for_a_number_that_is_nobodys_cost_no_acknowledgement") {
        return;
    }
    let (stranger, here) = (Far::at(STRANGER), context(None));
    // It has the address listened at.
    let _wired = end(&here);
    let near = lone(here);
    let nobody = QpNumber(near.pair.number().0 + APART);
    let base = Base::new(nobody, Psn(0));
    let packet = Packet { base, body: Body::Request(Request::Send(Part::Only((), Tail::Plain))) };
    are_acknowledged(&near, || stranger.say(&packet, &[0; 8]));
}

#[test]
fn packets_for_one_queue_pair_cost_no_other_an_acknowledgement() {
    if !is_inside("packets_for_one_queue_pair_cost_no_other_an_acknowledgement") {
        return;
    }
    let (peer, here) = (Far::at(PEER), context(None));
    let near = lone(Arc::clone(&here));
    let _others: Vec<_> = (1..APART).map(|_| lone(Arc::clone(&here))).collect();
    let wired = end(&here);
    assert_eq!(wired.pair.number().0 - near.pair.number().0, APART);
    // Out of turn: it asks for the first, once.
    let packet = message(&wired, 5);
    are_acknowledged(&near, || peer.say(&packet, &[0; 8]));
}

#[derive(Default)]
struct Told(Mutex<Vec<(&'static str, QpNumber)>>);

impl ManagementObserver for Told {
    fn received(&self, _: &ManagementArrival<'_>) {}

    fn is_connected(&self, pair: QpNumber) {
        self.0.lock().unwrap().push(("connected", pair));
    }

    fn is_silent(&self, pair: QpNumber) {
        self.0.lock().unwrap().push(("silent", pair));
    }
}

#[test]
fn who_only_receives_asks_its_peer_and_misses_it_when_it_is_gone() {
    if !is_inside("who_only_receives_asks_its_peer_and_misses_it_when_it_is_gone") {
        return;
    }
    let silence = Duration::from_secs(1);
    let (peer, context, told) = (Far::at(PEER), context(Some(silence)), Arc::new(Told::default()));
    let observer: Weak<dyn ManagementObserver> = Arc::downgrade(&told) as _;
    let _management = context.open_management(observer).unwrap();
    let end = end(&context);
    (1..=2).for_each(|id| end.post_receive(id));
    // It is there, and says nothing but what it is asked for: for longer than it might be silent.
    for _ in 0..6 {
        let (asked, bytes) = peer.hears();
        let is_old = asked.base.psn == Psn(0).before() && asked.base.destination == NUMBER;
        assert!(is_old && asked.base.ack_request && bytes.is_empty(), "{asked:?}");
        assert!(
            matches!(asked.body, Body::Request(Request::Write(Part::Only(reth, None))) if reth.length == 0)
        );
        peer.say(&acknowledgement(&end, asked.base.psn), &[]);
    }
    assert_eq!((end.completions.poll(|_| (), 1), told.0.lock().unwrap().len()), (Ok(0), 0));
    let begin = Instant::now();
    peer.say(&message(&end, 0), &[2; 8]);
    assert_eq!((end.completion().id, end.buffer[0]), (1, 2));
    // It is gone.
    let flushed = end.completion();
    assert_eq!((flushed.id, flushed.status), (2, Status::Flushed));
    assert!(begin.elapsed() >= silence, "after {:?}", begin.elapsed());
    assert_eq!(end.pair.state(), QpState::Error);
    let number = end.pair.number();
    assert_eq!(*told.0.lock().unwrap(), [("connected", number), ("silent", number)]);
}

/// Waits, in the middle of what has come, until a queue pair is given back or reset.
struct Between(Arc<QueuePair>);

impl ManagementObserver for Between {
    fn received(&self, _: &ManagementArrival<'_>) {
        until("it is still there", || self.0.state() == QpState::Reset);
    }
}

/// Has a queue pair `go` when it has received something for which it has said nothing. One in a process: an engine that is about to end
/// hands management datagrams on to the next.
fn is_acknowledged_though_it_goes(go: impl FnOnce(&QueuePair)) {
    let (peer, context) = (Far::at(PEER), context(None));
    let end = end(&context);
    let between = Arc::new(Between(Arc::clone(&end.pair)));
    let observer: Weak<dyn ManagementObserver> = Arc::downgrade(&between) as _;
    let _management = context.open_management(observer).unwrap();
    end.post_receive(1);
    // Both are there when the agent looks, which waits between them.
    OwnThread::count().work(|| {
        peer.say(&message(&end, 0), &[2; 8]);
        peer.say(&ManagementDatagram::packet(Psn(0)), &[0; ManagementDatagram::LENGTH]);
    });
    until("nothing was received", || end.completions.waiting() > 0);
    go(&end.pair);
    let (said, _) = peer.hears();
    assert!(matches!(said.body, Body::Answer(Answer::Acknowledge(_))) && said.base.psn == Psn(0));
    assert!(peer.hear().is_empty(), "it is said once");
}

#[test]
fn what_was_received_is_acknowledged_though_the_queue_pair_is_reset_before_it_is_said() {
    if is_inside("what_was_received_is_acknowledged_though_the_queue_pair_is_reset_before_it_is_said") {
        let attributes = QpAttributes { state: QpState::Reset, ..QpAttributes::default() };
        is_acknowledged_though_it_goes(|pair| pair.modify(&attributes, AttributeMask::STATE).unwrap());
    }
}

#[test]
fn what_was_received_is_acknowledged_though_the_queue_pair_is_destroyed_before_it_is_said() {
    if is_inside("what_was_received_is_acknowledged_though_the_queue_pair_is_destroyed_before_it_is_said") {
        is_acknowledged_though_it_goes(|pair| pair.destroy().unwrap());
    }
}

#[test]
fn where_no_process_has_a_connection_manager_requests_are_refused_and_ends_agreed_to() {
    if !is_inside("where_no_process_has_a_connection_manager_requests_are_refused_and_ends_agreed_to") {
        return;
    }
    let (peer, context) = (Far::at(PEER), context(None));
    // It has a queue pair, and no more.
    let _end = end(&context);
    let mut manager = ConnectionManager::new(ManagerSettings::new(7), Box::new(nonic_sys::random_u64));
    let ends = Ends { local: PEER, remote: HERE };
    let now = Instant::now();
    let say = |manager: &mut ConnectionManager<Instant>, q_key| {
        let said = manager.poll_transmit().expect("something is said").datagram.emit();
        let mut packet = ManagementDatagram::packet(Psn(0));
        if let (Some(q_key), Body::Datagram(datagram)) = (q_key, &mut packet.body) {
            datagram.q_key = q_key;
        }
        peer.say(&packet, &said);
    };
    let hears = |manager: &mut ConnectionManager<Instant>| {
        let (_, bytes) = peer.hears();
        let datagram = bytes[..].try_into().ok().and_then(ManagementDatagram::parse).expect("a message");
        manager.handle(now, ends, &datagram);
        manager.poll_event()
    };
    let service = |space| Service::Port { space, port: 7174, source_port: 40_000 };
    let offer = ConnectionOffer {
        transport: Transport::Reliable,
        path_mtu: 3,
        retry_count: 7,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: None,
    };
    let side = Side {
        qp_number: NUMBER,
        starting_psn: Psn(0),
        responder_resources: 1,
        initiator_depth: 1,
        rnr_retry: 7,
        flow_control: false,
        has_srq: false,
        q_key: 0,
    };
    // With a wrong Q_Key it is met with silence: the answer that comes is that to the next.
    manager.resolve_service(now, ends, service(PortSpace::Udp), &[]).unwrap();
    say(&mut manager, Some(0x1234));
    let id = manager.connect(now, ends, service(PortSpace::Tcp), &offer, &side, &[]).unwrap();
    say(&mut manager, None);
    let told = hears(&mut manager);
    assert!(
        matches!(&told, Some(Event::Rejected { id: of, reason: Reason::INVALID_SERVICE_ID, .. }) if *of == id),
        "{told:?}"
    );
    let id = manager.resolve_service(now, ends, service(PortSpace::Udp), &[]).unwrap();
    say(&mut manager, None);
    let told = hears(&mut manager);
    let refused = ServiceAnswer::Refused(1);
    assert!(
        matches!(&told, Some(Event::ServiceAnswered { id: of, answer, .. }) if (*of, *answer) == (id, refused)),
        "{told:?}"
    );
}

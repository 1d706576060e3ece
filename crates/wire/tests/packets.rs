//! Packets between stations of one host, over real sockets.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nonic_protocol::{Psn, QpNumber};
use nonic_roce::{Base, Body, HostAddress, Packet, Part, Request, Tail};
use nonic_sys::{AsFd, random_u64, wait_readable};
use nonic_wire::{Arrival, Location, OpenError, Outgoing, Pushed, Route, Run, Share, Station, Taken, Wire};

/// An address of this host that nobody else is at.
fn location() -> Location {
    let [first, second, third, ..] = random_u64().to_ne_bytes();
    Location { address: HostAddress::V4([127, first, second, third.clamp(1, 254)]), interface: 1 }
}

fn open(location: Location) -> (Wire, Arc<Station>) {
    let wire = Wire::new().unwrap();
    let (station, is_new) = wire.station(location).unwrap();
    assert!(is_new && !wire.station(location).unwrap().1);
    (wire, station)
}

fn route(to: &Station) -> Route {
    Route { to: to.address(), traffic_class: 0, hop_limit: 64 }
}

fn message(number: u32, part: Part<(), Tail>, psn: u32) -> Packet {
    Packet { base: Base::new(QpNumber(number), Psn(psn)), body: Body::Request(Request::Send(part)) }
}

fn byte(psn: u32, at: usize) -> u8 {
    (psn as usize * 31 + at * 7) as u8
}

fn push(outgoing: &mut Outgoing, from: &Arc<Station>, to: &Station, packet: &Packet, length: u32) {
    let psn = packet.base.psn.0;
    let pushed = outgoing.push(from, &route(to), packet, length, |place| {
        place.iter_mut().enumerate().for_each(|(at, place)| *place = byte(psn, at));
        true
    });
    assert_eq!(pushed, Pushed::Pushed);
}

/// Is given what no process takes, and there is none of.
fn nobodys(_: &Arrival, datagram: &[u8]) {
    panic!("no process takes {datagram:?}");
}

/// Takes what comes until `enough`; each packet with the length of its payload, whose bytes are looked at.
fn receive(wire: &Wire, enough: usize) -> Vec<(Packet, usize)> {
    let mut came = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while came.len() < enough && Instant::now() < deadline {
        wait_readable(wire.as_fd(), Some(Duration::from_secs(1)));
        let mut take = |run: &mut Run<'_>| {
            let (arrival, datagram) = run.current();
            let (packet, payload, _) = arrival.read(datagram).expect("its check is right");
            let right = payload.iter().enumerate().all(|(at, found)| *found == byte(packet.base.psn.0, at));
            assert!(right, "other bytes than were sent: {packet:?}");
            came.push((packet, payload.len()));
            Taken::Taken
        };
        wire.receive(&mut take, &mut nobodys);
    }
    came
}

#[test]
fn packets_of_all_lengths_arrive_in_order_with_their_checks_right() {
    let ((_near_wire, near), (far_wire, far)) = (open(location()), open(location()));
    let mut outgoing = Outgoing::default();
    let mut sent = Vec::new();
    // Messages of several packets: their middles make runs, which the kernel numbers.
    for psn in 0..120 {
        let (part, length) = match psn % 12 {
            0 => (Part::First(()), 1024),
            11 => (Part::Last(Tail::Plain), 1 + psn),
            _ => (Part::Middle, 1024),
        };
        let packet = message(5 << 12, part, psn);
        push(&mut outgoing, &near, &far, &packet, length);
        sent.push((packet, length as usize));
    }
    assert!(!outgoing.is_empty() && outgoing.flush() && outgoing.is_empty());
    assert_eq!(receive(&far_wire, sent.len()), sent);
}

#[test]
fn a_packet_whose_bytes_cannot_be_had_is_not_sent_and_spoils_no_other() {
    let ((_near_wire, near), (far_wire, far)) = (open(location()), open(location()));
    let mut outgoing = Outgoing::default();
    let [first, gone, second] =
        [1, 2, 3].map(|psn| message(5 << 12, Part::Only((), Tail::Immediate(psn)), psn));
    push(&mut outgoing, &near, &far, &first, 40);
    assert_eq!(outgoing.push(&near, &route(&far), &gone, 40, |_| false), Pushed::Gone);
    push(&mut outgoing, &near, &far, &second, 40);
    assert!(outgoing.flush());
    assert_eq!(receive(&far_wire, 2), [(first, 40), (second, 40)]);
}

#[test]
fn a_packet_reaches_the_process_whose_it_is_whichever_of_them_gets_it() {
    let shared = location();
    // Each stands for a process: they have the address and the port in common.
    let ((_near_wire, near), (one, far), (other, _)) = (open(location()), open(shared), open(shared));
    let block = |wire: &Wire| {
        (0..100).map(|_| random_u64() as u32 & 0xfff).find(|block| wire.claim(Share::Block(*block))).unwrap()
    };
    let blocks = [block(&one), block(&other)];
    let mut outgoing = Outgoing::default();
    for psn in 0..20 {
        let number = blocks[psn as usize % 2] << 12 | 7;
        push(&mut outgoing, &near, &far, &message(number, Part::Only((), Tail::Plain), psn), 100);
    }
    // Nobody's.
    push(&mut outgoing, &near, &far, &message(2, Part::Only((), Tail::Plain), 99), 100);
    assert!(outgoing.flush());
    let mut came = [Vec::new(), Vec::new()];
    let deadline = Instant::now() + Duration::from_secs(20);
    while came.iter().any(|came| came.len() < 10) && Instant::now() < deadline {
        for (index, wire) in [&one, &other].into_iter().enumerate() {
            let mut take = |run: &mut Run<'_>| {
                let (arrival, datagram) = run.current();
                let number = Arrival::destination(datagram).unwrap();
                if Share::block_of(number) != Share::Block(blocks[index]) {
                    return Taken::Elsewhere;
                }
                assert_eq!(arrival.source, near.address());
                came[index].push(arrival.read(datagram).expect("its check is right").0.base.psn.0);
                Taken::Taken
            };
            wire.receive(&mut take, &mut nobodys);
        }
    }
    assert_eq!(came, [0, 1].map(|first| (0..10).map(|at| first + 2 * at).collect::<Vec<u32>>()));
}

#[test]
fn a_management_datagram_reaches_every_process_that_takes_them_once() {
    let _alone = MANAGERS.lock().unwrap_or_else(PoisonError::into_inner);
    let shared = location();
    let ((_near_wire, near), (one, far), (other, _)) = (open(location()), open(shared), open(shared));
    for wire in [&one, &other] {
        assert!(Share::managers().any(|share| wire.claim(share)), "there is no share left");
    }
    let mut outgoing = Outgoing::default();
    for psn in 0..5 {
        push(&mut outgoing, &near, &far, &message(1, Part::Only((), Tail::Plain), psn), 256);
    }
    assert!(outgoing.flush());
    let mut came = [Vec::new(), Vec::new()];
    let deadline = Instant::now() + Duration::from_secs(20);
    while came.iter().any(|came| came.len() < 5) && Instant::now() < deadline {
        for (index, wire) in [&one, &other].into_iter().enumerate() {
            let mut take = |run: &mut Run<'_>| {
                let (arrival, datagram) = run.current();
                let psn = arrival.read(datagram).expect("its check is right").0.base.psn.0;
                came[index].push((psn, arrival.was_handed_on));
                Taken::Shared
            };
            wire.receive(&mut take, &mut nobodys);
        }
    }
    let first = came.iter().position(|came| !came[0].1).expect("one of them got it from the kernel");
    assert_eq!(came[first], [0, 1, 2, 3, 4].map(|psn| (psn, false)));
    assert_eq!(came[1 - first], [0, 1, 2, 3, 4].map(|psn| (psn, true)));
}

/// Stands for the kernel: gives what `receive` is asked for to one of the processes that takes no management datagrams.
fn send_one(from: &Arc<Station>, to: &Station, psn: u32) {
    let mut outgoing = Outgoing::default();
    push(&mut outgoing, from, to, &message(1, Part::Only((), Tail::Plain), psn), 256);
    assert!(outgoing.flush());
}

/// Tests of who takes management datagrams see those of others: the names are the user's.
static MANAGERS: Mutex<()> = Mutex::new(());

#[test]
fn a_management_datagram_that_comes_to_a_process_which_takes_none_is_another_ones_to_refuse() {
    let _alone = MANAGERS.lock().unwrap_or_else(PoisonError::into_inner);
    if !Share::managers().all(|share| Wire::new().unwrap().claim(share)) {
        return println!(
            "SKIPPED: a management datagram that nobody takes: another process of this user takes them"
        );
    }
    let shared = location();
    let ((_near_wire, near), (without, far)) = (open(location()), open(shared));
    // It came before anybody was there, and nobody was found.
    send_one(&near, &far, 0);
    let mut refused = 0;
    let deadline = Instant::now() + Duration::from_secs(20);
    while refused == 0 && Instant::now() < deadline {
        wait_readable(without.as_fd(), Some(Duration::from_secs(1)));
        without.receive(&mut |_| Taken::Shared, &mut |arrival, datagram| {
            assert_eq!(arrival.read(datagram).expect("its check is right").0.base.psn, Psn(0));
            refused += 1;
        });
    }
    assert_eq!(refused, 1, "what nobody takes is refused by whom it came to");
    // From the moment on in which there are two, they have it, and one of them refuses. Their sockets come later, when what is
    // sent is in the first one's.
    send_one(&near, &far, 1);
    let ((one, _), (other, _)) = (open(shared), open(shared));
    for wire in [&one, &other] {
        assert!(Share::managers().any(|share| wire.claim(share)), "there is no share left");
    }
    let mut came = [Vec::new(), Vec::new()];
    while came.iter().any(Vec::is_empty) && Instant::now() < deadline {
        without.receive(&mut |_| Taken::Shared, &mut nobodys);
        for (index, wire) in [&one, &other].into_iter().enumerate() {
            let mut take = |run: &mut Run<'_>| {
                let (arrival, datagram) = run.current();
                let psn = arrival.read(datagram).expect("its check is right").0.base.psn.0;
                came[index].push((psn, arrival.was_handed_on));
                Taken::Shared
            };
            wire.receive(&mut take, &mut nobodys);
        }
    }
    came.sort_unstable();
    assert_eq!(came, [[(1, false)], [(1, true)]]);
}

#[test]
fn what_is_sent_to_a_group_comes_to_each_that_has_joined_until_it_leaves_as_often_as_it_joined() {
    let (_near_wire, near) = open(location());
    let [first, second, third, ..] = random_u64().to_ne_bytes();
    let group = Location { address: HostAddress::V4([239, first, second, third]), interface: 1 };
    let other = Location { address: HostAddress::V4([239, first ^ 1, second, third]), interface: 1 };
    let wires: Vec<_> = (0..3).map(|_| Wire::new().unwrap()).collect();
    assert!(wires[0].join(group).unwrap() && !wires[0].join(group).unwrap());
    assert!(wires[1].join(group).unwrap() && wires[2].join(other).unwrap());
    let route = Route { to: group.address, traffic_class: 0, hop_limit: 1 };
    let say = |psn: u32| {
        let (mut outgoing, packet) =
            (Outgoing::default(), message(0xff_ffff, Part::Only((), Tail::Plain), psn));
        let pushed = outgoing.push(&near, &route, &packet, 1, |place| {
            place[0] = byte(psn, 0);
            true
        });
        assert!(pushed == Pushed::Pushed && outgoing.flush());
    };
    say(1);
    for wire in &wires[..2] {
        assert_eq!(receive(wire, 1), [(message(0xff_ffff, Part::Only((), Tail::Plain), 1), 1)]);
    }
    wires[0].leave(group);
    wires[1].leave(group);
    say(2);
    // Once joined is once left.
    assert_eq!(receive(&wires[0], 1)[0].0.base.psn, Psn(2));
    assert!(wires[0].stations()[0].is_group() && wires[1].stations().is_empty());
    wires[0].leave(group);
    wires[0].leave(group);
    assert!(wires[0].stations().is_empty());
    // All of it was sent before this, and on one interface nothing is overtaken.
    let came = wires[2].receive(&mut |_| Taken::Taken, &mut |_, _| {});
    assert!(!came, "what is for another group came");
}

#[test]
fn an_address_that_is_not_this_hosts_is_refused_with_its_name() {
    let far = Location { address: HostAddress::V4([192, 0, 2, 1]), interface: 1 };
    let wire = Wire::new().unwrap();
    let refused = wire.station(far).unwrap_err();
    assert!(matches!(refused, OpenError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("192.0.2.1"));
    assert!(wire.stations().is_empty());
}

#[test]
fn a_program_that_has_the_port_alone_is_named_as_the_reason() {
    let at = location();
    let HostAddress::V4(address) = at.address else { unreachable!("it is of IPv4") };
    let _alone = std::net::UdpSocket::bind((std::net::Ipv4Addr::from(address), 4791)).unwrap();
    let refused = Wire::new().unwrap().station(at).unwrap_err();
    assert!(matches!(refused, OpenError::Taken { .. }) && refused.to_string().contains("another user"));
}

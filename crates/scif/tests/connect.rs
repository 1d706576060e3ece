//! Ports, states, and both sides of connecting, in one process. Nothing here may start others: between their fork and
//! their exec they have copies of every descriptor.

mod common;

use std::collections::HashSet;

use common::*;
use nonic_scif::{Endpoint, PollEntry, PortId, ScifError, node_ids, poll};

fn own(port: u16) -> PortId {
    PortId { node: node_ids().1, port }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

fn set_errno(value: i32) {
    // SAFETY: the C library's variable of this thread.
    unsafe { *libc::__errno_location() = value };
}

#[test]
fn a_port_is_bound_once_and_an_endpoint_has_one_port() {
    let one = Endpoint::open().unwrap();
    let port = one.bind(reserved_port(0)).unwrap();
    assert_eq!(port, reserved_port(0));
    assert!(matches!(one.bind(0), Err(ScifError::Invalid(_))));
    let other = Endpoint::open().unwrap();
    assert!(matches!(other.bind(port), Err(ScifError::Invalid(_))));
    let another = other.bind(0).unwrap();
    assert!(another >= 1089 && another != port);
    drop(one);
    let third = Endpoint::open().unwrap();
    assert_eq!(third.bind(port), Ok(port));
}

#[test]
fn states_refuse_what_does_not_belong_there() {
    let fresh = Endpoint::open().unwrap();
    assert!(matches!(fresh.listen(0), Err(ScifError::Invalid(_))));
    assert!(matches!(fresh.listen(1), Err(ScifError::Invalid(_))));
    assert!(matches!(fresh.accept(false), Err(ScifError::Invalid(_))));
    assert!(matches!(fresh.connect(own(0)), Err(ScifError::Invalid(_))));
    let (listening, id) = listener(1);
    assert_eq!(listening.listen(1), Err(ScifError::Connected));
    assert_eq!(listening.bind(0), Err(ScifError::Connected));
    assert_eq!(listening.connect(id), Err(ScifError::Listening));
    assert!(matches!(listening.accept(false), Err(ScifError::TryAgain(_))));
    // The node is looked at before the state.
    assert_eq!(listening.connect(PortId { node: 77, port: id.port }), Err(ScifError::NoNode));
    let (one, other) = pair();
    for endpoint in [&one, &other] {
        assert_eq!(endpoint.bind(0), Err(ScifError::Connected));
        assert_eq!(endpoint.listen(1), Err(ScifError::Connected));
        assert_eq!(endpoint.connect(id), Err(ScifError::Connected));
        assert!(matches!(endpoint.accept(false), Err(ScifError::Invalid(_))));
    }
    drop(other);
    assert!(matches!(one.listen(1), Err(ScifError::Invalid(_))));
    assert!(matches!(one.connect(id), Err(ScifError::Invalid(_))));
    assert!(matches!(one.accept(false), Err(ScifError::Invalid(_))));
    // None of it has reached the listener.
    assert_eq!(shown(listening.number()) & IN, 0);
}

#[test]
fn a_refused_endpoint_keeps_its_port_and_connects_later() {
    let endpoint = Endpoint::open().unwrap();
    let port = endpoint.bind(0).unwrap();
    let target = Endpoint::open().unwrap();
    let id = own(target.bind(0).unwrap());
    for _ in 0..3 {
        assert_eq!(endpoint.connect(id), Err(ScifError::Refused));
        assert_eq!(seen(&endpoint), ERR);
    }
    target.listen(1).unwrap();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| target.accept(true).unwrap());
        assert_eq!(endpoint.connect(id), Ok(port));
        let (accepted, peer) = accepting.join().unwrap();
        assert_eq!(peer, own(port));
        assert_eq!(endpoint.connect(id), Err(ScifError::Connected));
        assert_eq!(send(&accepted, b"x", true), Ok(1));
        assert_eq!(receive(&endpoint, &mut [0], true), Ok(1));
    });
}

#[test]
fn an_endpoint_that_was_refused_can_listen() {
    let endpoint = Endpoint::open().unwrap();
    let port = endpoint.bind(0).unwrap();
    set_nonblocking(&endpoint, true);
    assert_eq!(endpoint.connect(own(port)), Err(ScifError::InProgress));
    assert_eq!(wait_for(endpoint.number(), OUT), OUT);
    assert_eq!(endpoint.connect(own(port)), Err(ScifError::Refused));
    endpoint.listen(3).unwrap();
    let other = Endpoint::open().unwrap();
    set_nonblocking(&other, true);
    assert_eq!(other.connect(own(port)), Err(ScifError::InProgress));
    endpoint.accept(true).unwrap();
    // What `fcntl` shows is what the program set.
    // SAFETY: reads flags.
    let (status, inherited) = unsafe {
        (libc::fcntl(endpoint.number(), libc::F_GETFL), libc::fcntl(endpoint.number(), libc::F_GETFD))
    };
    assert!(status & libc::O_NONBLOCK != 0 && inherited & libc::FD_CLOEXEC != 0);
}

#[test]
fn without_waiting_connect_tells_by_the_descriptor_when_it_is_decided() {
    let listener = Endpoint::open().unwrap();
    let id = own(listener.bind(reserved_port(1)).unwrap());
    listener.listen(4).unwrap();
    let endpoint = Endpoint::open().unwrap();
    set_nonblocking(&endpoint, true);
    assert_eq!(endpoint.connect(id), Err(ScifError::InProgress));
    assert_eq!((shown(endpoint.number()), seen(&endpoint)), (0, 0));
    assert_eq!(endpoint.connect(id), Err(ScifError::InProgress));
    assert_eq!(send(&endpoint, b"x", false), Err(ScifError::NotConnected));
    assert_eq!(shown(listener.number()) & IN, IN);
    let (accepted, peer) = listener.accept(false).unwrap();
    assert_eq!((shown(endpoint.number()), seen(&endpoint)), (OUT, OUT));
    assert_eq!(endpoint.connect(id), Ok(peer.port));
    assert_eq!(endpoint.connect(id), Err(ScifError::Connected));
    drop(accepted);
    assert_eq!(wait_for(endpoint.number(), 0) & HUP, HUP);

    // Refused by the listener's end.
    let late = Endpoint::open().unwrap();
    set_nonblocking(&late, true);
    assert_eq!(late.connect(id), Err(ScifError::InProgress));
    assert_eq!(shown(late.number()), 0);
    drop(listener);
    assert_eq!(wait_for(late.number(), OUT), OUT);
    assert_eq!(late.connect(id), Err(ScifError::Refused));
    assert_eq!(seen(&late), ERR);

    // Refused at once, and told in the same way.
    assert_eq!(late.connect(id), Err(ScifError::InProgress));
    assert_eq!(wait_for(late.number(), OUT), OUT);
    assert_eq!(late.connect(id), Err(ScifError::Refused));
}

#[test]
fn a_peer_that_accepts_and_goes_is_seen_before_the_connection_is_collected() {
    let (listener, id) = listener(4);
    let endpoint = Endpoint::open().unwrap();
    set_nonblocking(&endpoint, true);
    assert_eq!(endpoint.connect(id), Err(ScifError::InProgress));
    let (accepted, _) = listener.accept(true).unwrap();
    send(&accepted, b"bye", true).unwrap();
    drop(accepted);
    // The library's own copy of the other end is closed by its thread.
    assert_eq!(wait_for(endpoint.number(), 0) & HUP, HUP);
    let mut bytes = [0; 3];
    assert_eq!((receive(&endpoint, &mut bytes, true), &bytes), (Ok(3), b"bye"));
    assert_eq!(receive(&endpoint, &mut bytes, true), Err(ScifError::Reset));
}

#[test]
fn the_backlog_is_exact_and_first_come_is_first_served() {
    let (listener, id) = listener(3);
    let connectors: Vec<Endpoint> = (0..3).map(|_| Endpoint::open().unwrap()).collect();
    for connector in &connectors {
        set_nonblocking(connector, true);
        assert_eq!(connector.connect(id), Err(ScifError::InProgress));
    }
    let fourth = Endpoint::open().unwrap();
    assert_eq!(fourth.connect(id), Err(ScifError::Refused));
    for connector in &connectors {
        let (accepted, peer) = listener.accept(false).unwrap();
        assert_eq!(connector.connect(id), Ok(peer.port));
        send(connector, &peer.port.to_ne_bytes(), true).unwrap();
        let mut bytes = [0; 2];
        receive(&accepted, &mut bytes, true).unwrap();
        assert_eq!(u16::from_ne_bytes(bytes), peer.port);
    }
    assert!(matches!(listener.accept(false), Err(ScifError::TryAgain(_))));
}

#[test]
fn a_connector_that_has_gone_is_not_accepted() {
    let (listener, id) = listener(4);
    let gone = Endpoint::open().unwrap();
    set_nonblocking(&gone, true);
    assert_eq!(gone.connect(id), Err(ScifError::InProgress));
    drop(gone);
    assert!(matches!(listener.accept(false), Err(ScifError::TryAgain(_))));
    // With waiting, the next one is taken.
    let gone = Endpoint::open().unwrap();
    let next = Endpoint::open().unwrap();
    for endpoint in [&gone, &next] {
        set_nonblocking(endpoint, true);
        assert_eq!(endpoint.connect(id), Err(ScifError::InProgress));
    }
    drop(gone);
    let (_accepted, peer) = listener.accept(true).unwrap();
    assert_eq!(next.connect(id), Ok(peer.port));
}

#[test]
fn new_descriptors_are_the_lowest_and_only_accepted_ones_are_inherited() {
    let (listener, id) = listener(1);
    let connector = Endpoint::open().unwrap();
    set_nonblocking(&connector, true);
    assert_eq!(connector.connect(id), Err(ScifError::InProgress));
    let (accepted, _) = listener.accept(true).unwrap();
    let inherited = |endpoint: &Endpoint| {
        // SAFETY: reads flags.
        unsafe { libc::fcntl(endpoint.number(), libc::F_GETFD) & libc::FD_CLOEXEC == 0 }
    };
    assert!(!inherited(&connector) && !inherited(&listener) && inherited(&accepted));
}

#[test]
fn calls_that_succeed_leave_errno_alone() {
    set_errno(77);
    let (listener, id) = listener(2);
    assert_eq!(errno(), 77);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            set_errno(78);
            let connected = connect_to(id.port);
            let mut bytes = [0; 100];
            receive(&connected, &mut bytes, true).unwrap();
            send(&connected, &bytes, true).unwrap();
            assert_eq!(receive(&connected, &mut bytes, false), Ok(0));
            seen(&connected);
            connected.close().unwrap();
            std::mem::forget(connected);
            assert_eq!(errno(), 78);
        });
        let (accepted, _) = listener.accept(true).unwrap();
        send(&accepted, &[1; 100], true).unwrap();
        let mut bytes = [0; 100];
        receive(&accepted, &mut bytes, true).unwrap();
        thread.join().unwrap();
        assert_eq!(node_ids().1, id.node);
    });
    drop(listener);
    assert_eq!(errno(), 77);
}

#[test]
fn poll_shows_every_state_and_other_descriptors_too() {
    let fresh = Endpoint::open().unwrap();
    assert_eq!(seen(&fresh), ERR);
    fresh.bind(0).unwrap();
    assert_eq!(seen(&fresh), ERR);
    let (listener, id) = listener(1);
    assert_eq!(seen(&listener), 0);
    let connector = Endpoint::open().unwrap();
    set_nonblocking(&connector, true);
    assert_eq!(connector.connect(id), Err(ScifError::InProgress));
    assert_eq!((seen(&listener), seen(&connector)), (IN, 0));
    let (accepted, _) = listener.accept(true).unwrap();
    assert_eq!((seen(&listener), seen(&connector), seen(&accepted)), (0, OUT, OUT));
    let (read_end, write_end) = std::io::pipe().unwrap();
    use std::os::fd::AsRawFd;
    let entry = |number: i32, events: i16| PollEntry { number, events, revents: 0 };
    let mut entries = [
        entry(accepted.number(), IN),
        entry(-1, IN),
        entry(read_end.as_raw_fd(), IN),
        entry(write_end.as_raw_fd(), OUT),
        entry(1_000_000, IN),
        entry(fresh.number(), 0),
    ];
    assert_eq!(poll(&mut entries, -1), Ok(3));
    assert_eq!(entries.map(|entry| entry.revents), [0, 0, 0, OUT, libc::POLLNVAL, ERR]);
    assert_eq!(poll(&mut entries[..3], 5), Ok(0));
    assert_eq!(nonic_scif::poll_at(8, 1, 0), Err(ScifError::BadMemory { address: 8 }));
    assert_eq!(poll(&mut [], 1), Ok(0));
    drop(connector);
    assert_eq!(seen(&accepted) & (HUP | IN), HUP);
}

#[test]
fn a_thousand_endpoints_live_in_one_process() {
    // SAFETY: reads and raises a limit of this process.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    let (listener, id) = listener(1);
    let mut pairs = Vec::new();
    for _ in 0..500 {
        let connector = Endpoint::open().unwrap();
        set_nonblocking(&connector, true);
        assert_eq!(connector.connect(id), Err(ScifError::InProgress));
        let (accepted, peer) = listener.accept(true).unwrap();
        assert_eq!(connector.connect(id), Ok(peer.port));
        pairs.push((connector, accepted));
    }
    for (at, (connector, accepted)) in pairs.iter().enumerate() {
        send(connector, &at.to_ne_bytes(), true).unwrap();
        let mut bytes = [0; 8];
        receive(accepted, &mut bytes, true).unwrap();
        assert_eq!(usize::from_ne_bytes(bytes), at);
    }
    let numbers: HashSet<i32> =
        pairs.iter().flat_map(|(one, other)| [one.number(), other.number()]).collect();
    assert_eq!(numbers.len(), 1000);
}

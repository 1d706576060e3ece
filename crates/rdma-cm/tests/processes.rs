//! Connections between processes: ports are one process's, and whoever is killed leaves nobody waiting.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Side, parameters, reached};
use nonic_rdma_cm::{Error, Event, EventKind, Id, PortSpace};
use nonic_second_process::{SecondProcess, role, serve};

const TCP: PortSpace = PortSpace::Tcp;
/// Within which a survivor learns that its peer was killed.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The second process: does what it is told with one identifier, or the last that was made.
#[test]
fn servant() {
    if role().is_none() {
        return;
    }
    let side = Side::new();
    let mut ids: Vec<Arc<Id>> = Vec::new();
    let mut got: Vec<Event> = Vec::new();
    serve(|command, rest| {
        let address = || rest.parse::<SocketAddr>().unwrap();
        let said =
            |result: Result<(), Error>| result.map_or_else(|error| format!("{error:?}"), |()| "ok".into());
        match command {
            "bind" => {
                ids.push(side.id(TCP));
                said(ids.last().unwrap().bind(address()))
            }
            "port" => ids.last().unwrap().source().unwrap().port().to_string(),
            "listen" => said(ids.last().unwrap().listen(0)),
            // While the process may open nothing more.
            "listen-starved" => {
                let may_open = set_descriptors(0);
                let listened = said(ids.last().unwrap().listen(0));
                set_descriptors(may_open);
                listened
            }
            "ask" => {
                ids.push(side.asking(TCP, address(), b""));
                "ok".into()
            }
            "next" => {
                let event = side.next();
                let text = format!("{:?} {}", event.kind, event.status);
                if event.kind == EventKind::ConnectRequest {
                    ids.push(Arc::clone(&event.id));
                }
                got.push(event);
                text
            }
            "accept" => said(ids.last().unwrap().accept(&parameters(b"", 88))),
            "establish" => said(ids.last().unwrap().establish()),
            "disconnect" => said(ids.last().unwrap().disconnect()),
            "go" => {
                ids.last().unwrap().reject(b"no", 28).unwrap();
                // No thread but this one does anything after that.
                // SAFETY: ends the process.
                unsafe { libc::_exit(0) }
            }
            other => panic!("no such command: {other}"),
        }
    })
}

/// Sets how many descriptors this process may have; how many it might before.
fn set_descriptors(most: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a limit that is alive.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, most);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        before
    }
}

fn servant_process() -> SecondProcess {
    SecondProcess::start("servant", "servant", &[])
}

/// One that listens, and where.
fn listening() -> (SecondProcess, SocketAddr) {
    let mut far = servant_process();
    assert_eq!(far.tell("bind 127.0.0.1:0"), "ok");
    assert_eq!(far.tell("listen"), "ok");
    let port = far.tell("port").parse().unwrap();
    (far, SocketAddr::new("127.0.0.1".parse().unwrap(), port))
}

#[test]
fn a_port_that_another_process_has_cannot_be_bound_until_that_is_killed() {
    let mut far = servant_process();
    assert_eq!(far.tell("bind 127.0.0.1:0"), "ok");
    let port: u16 = far.tell("port").parse().unwrap();
    let near = Side::new();
    let id = near.id(TCP);
    let here: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    for address in [here, format!("0.0.0.0:{port}").parse().unwrap(), format!("[::]:{port}").parse().unwrap()]
    {
        assert!(matches!(id.bind(address), Err(Error::AddressOverlaps(_))), "{address}");
    }
    // Another address, and another space, are another port.
    near.id(TCP).bind(format!("127.0.0.2:{port}").parse().unwrap()).unwrap();
    near.id(PortSpace::Udp).bind(here).unwrap();
    far.kill();
    id.bind(here).unwrap();
}

#[test]
fn a_wildcard_of_another_process_takes_the_port_at_every_address() {
    let mut far = servant_process();
    assert_eq!(far.tell("bind 0.0.0.0:0"), "ok");
    let port: u16 = far.tell("port").parse().unwrap();
    let near = Side::new();
    let id = near.id(TCP);
    assert!(matches!(id.bind(format!("127.0.0.9:{port}").parse().unwrap()), Err(Error::AddressOverlaps(_))));
    far.finish();
    id.bind(format!("127.0.0.9:{port}").parse().unwrap()).unwrap();
}

#[test]
fn who_cannot_listen_for_want_of_descriptors_has_its_port_as_before_and_listens_later_at_all_its_names() {
    let mut far = servant_process();
    assert_eq!(far.tell("bind [::]:0"), "ok");
    let port: u16 = far.tell("port").parse().unwrap();
    let refused = far.tell("listen-starved");
    assert!(refused.contains("code: 24"), "{refused}");
    let near = Side::new();
    let here: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    assert!(matches!(near.id(TCP).bind(here), Err(Error::AddressOverlaps(_))));
    assert_eq!(far.tell("listen"), "ok");
    for to in [here, format!("[::1]:{port}").parse().unwrap()] {
        let _asking = near.asking(TCP, to, b"");
        assert_eq!(far.tell("next"), "ConnectRequest 0");
    }
}

/// What the survivor sees within a second, of who asked and of who was asked.
#[test]
fn whoever_is_killed_at_any_step_leaves_its_peer_with_an_event() {
    // Who asks is killed: before it is accepted, before it confirms, when it is connected, when it has ended the connection.
    for steps in 0..4 {
        let side = Side::new();
        let listener = side.listener(TCP, "127.0.0.1", 0);
        let mut far = servant_process();
        assert_eq!(far.tell(&format!("ask {}", reached(&listener, "127.0.0.1"))), "ok");
        let asked = Arc::clone(&side.expect(EventKind::ConnectRequest).id);
        let mut expected = EventKind::Unreachable;
        if steps >= 1 {
            asked.accept(&parameters(b"", 88)).unwrap();
            assert_eq!(far.tell("next"), "ConnectResponse 0");
        }
        if steps >= 2 {
            assert_eq!(far.tell("establish"), "ok");
            side.expect(EventKind::Established);
            expected = EventKind::Disconnected;
        }
        if steps >= 3 {
            asked.disconnect().unwrap();
        }
        far.kill();
        let killed = Instant::now();
        if steps == 0 {
            // An identifier hears of its peer once it has answered.
            asked.accept(&parameters(b"", 88)).unwrap();
            let seen = side.next().kind;
            assert!(matches!(seen, EventKind::Unreachable | EventKind::Rejected), "{seen:?}");
        } else {
            side.expect(expected);
        }
        assert!(killed.elapsed() < AT_ONCE, "{:?} after {steps} steps", killed.elapsed());
    }
}

#[test]
fn whoever_is_asked_and_killed_at_any_step_leaves_who_asked_with_an_event() {
    for steps in 0..4 {
        let side = Side::new();
        let (mut far, to) = listening();
        let asking = side.asking(TCP, to, b"");
        assert_eq!(far.tell("next"), "ConnectRequest 0");
        let mut expected = EventKind::Unreachable;
        if steps >= 1 {
            assert_eq!(far.tell("accept"), "ok");
            side.expect(EventKind::ConnectResponse);
            expected = EventKind::Disconnected;
        }
        if steps >= 2 {
            asking.establish().unwrap();
            assert_eq!(far.tell("next"), "Established 0");
        }
        if steps >= 3 {
            asking.disconnect().unwrap();
        }
        far.kill();
        let killed = Instant::now();
        side.expect(expected);
        assert!(killed.elapsed() < AT_ONCE, "{:?} after {steps} steps", killed.elapsed());
        // The port is free at once.
        side.id(TCP).bind(to).unwrap();
    }
}

#[test]
fn a_rejection_is_heard_though_its_process_ends_at_once() {
    for _ in 0..50 {
        let side = Side::new();
        let (mut far, to) = listening();
        let _asking = side.asking(TCP, to, b"");
        assert_eq!(far.tell("next"), "ConnectRequest 0");
        far.order("go");
        let rejected = side.expect(EventKind::Rejected);
        assert_eq!((rejected.status, &common::connection(&rejected).private_data[..2]), (28, &b"no"[..]));
    }
}

#[test]
fn a_process_that_ends_in_order_ends_its_connections() {
    let side = Side::new();
    let (mut far, to) = listening();
    let asking = side.asking(TCP, to, b"");
    assert_eq!(far.tell("next"), "ConnectRequest 0");
    assert_eq!(far.tell("accept"), "ok");
    side.expect(EventKind::ConnectResponse);
    asking.establish().unwrap();
    assert_eq!(far.tell("next"), "Established 0");
    far.finish();
    side.expect(EventKind::Disconnected);
    asking.disconnect().unwrap();
}

//! Ports that are bound by GIDs and by addresses of IP at once: who may have which, and who gets which request.

mod common;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use common::{PATIENCE, Side, parameters};
use nonic_rdma_cm::{
    Error, Event, EventKind, GidAddress, Id, IdOption, Named, Parameters, PortSpace, State, gid_of_address,
    listening_user,
};
use nonic_second_process::{SecondProcess, role, serve};
use nonic_sys::{effective_user, interface_addresses};

const SPACES: [PortSpace; 3] = [PortSpace::Tcp, PortSpace::Udp, PortSpace::InfiniBand];
const TCP: PortSpace = PortSpace::Tcp;
const LOOPBACK: &str = "127.0.0.1";

/// An address of a port, by a GID or not.
fn named(by_gid: bool, space: PortSpace, ip: IpAddr, port: u16) -> Named {
    let service = space.first_service() | u64::from(port);
    match (by_gid, ip.is_unspecified()) {
        (false, _) => Named::Ip(SocketAddr::new(ip, port)),
        (true, true) => Named::Gid(GidAddress { gid: [0; 16], service, mask: u64::MAX }),
        (true, false) => Named::Gid(GidAddress { gid: gid_of_address(ip), service, mask: u64::MAX }),
    }
}

/// One that may be bound.
struct Place {
    by_gid: bool,
    ip: IpAddr,
    one_family: bool,
}

/// `text` is an address, or one behind `gid `; behind either `only`, which says that it is of one family.
fn place(text: &str) -> Place {
    let by_gid = text.starts_with("gid ");
    let ip = text.trim_start_matches("gid ").trim_end_matches(" only").parse().unwrap();
    Place { by_gid, ip, one_family: text.ends_with(" only") }
}

fn bound(side: &Side, space: PortSpace, text: &str, port: u16) -> Result<Arc<Id>, (Arc<Id>, Error)> {
    let Place { by_gid, ip, one_family } = place(text);
    let id = side.id(space);
    if one_family {
        id.set_option(IdOption::AddressFamilyOnly(true)).unwrap();
    }
    match id.bind_named(named(by_gid, space, ip, port)) {
        Ok(()) => Ok(id),
        Err(error) => Err((id, error)),
    }
}

fn listening(side: &Side, space: PortSpace, text: &str, port: u16) -> Arc<Id> {
    let id = bound(side, space, text, port).unwrap_or_else(|(_, error)| panic!("{text}: {error}"));
    id.listen(0).unwrap();
    id
}

fn port_of(id: &Id) -> u16 {
    id.source().unwrap().port()
}

/// One that asks at an address, and says this; and where it is told what comes of it.
fn asking(space: PortSpace, (by_gid, ip): (bool, &str), port: u16, data: &[u8]) -> (Side, Arc<Id>) {
    let side = Side::new();
    let id = side.id(space);
    id.resolve_named(None, named(by_gid, space, ip.parse().unwrap(), port), PATIENCE).unwrap();
    side.expect(EventKind::AddressResolved);
    id.resolve_route(PATIENCE).unwrap();
    side.expect(EventKind::RouteResolved);
    id.connect(&parameters(data, 77)).unwrap();
    (side, id)
}

fn said(event: &Event) -> &[u8] {
    match &event.parameters {
        Parameters::Connection(told) => &told.private_data,
        Parameters::Datagram(told) => &told.private_data,
        other => panic!("{other:?}"),
    }
}

/// An address that is not loopback's, of this family; `None` if there is none.
fn of_interface(four: bool) -> Option<String> {
    let all = interface_addresses().into_iter().filter(|found| !found.loopback);
    let mut all = all.map(|found| found.address).filter(|ip| ip.is_ipv4() == four);
    all.find(|ip| matches!(ip, IpAddr::V4(_)) || !ip.to_string().starts_with("fe80")).map(|ip| ip.to_string())
}

/// Pairs of an IP's place and a GID's that may have one port, with an address at which both are asked.
fn neighbours() -> Vec<(String, String, String)> {
    let own = |a: &str, b: &str, to: &str| (a.to_owned(), b.to_owned(), to.to_owned());
    let mut all = vec![
        own(LOOPBACK, "gid 127.0.0.1 only", LOOPBACK),
        own("::1 only", "gid ::1 only", "::1"),
        own("0.0.0.0", "gid :: only", LOOPBACK),
        own(":: only", "gid :: only", "::1"),
        own("0.0.0.0", "gid 127.0.0.1 only", LOOPBACK),
        own(LOOPBACK, "gid :: only", LOOPBACK),
    ];
    for ip in [true, false].into_iter().filter_map(of_interface) {
        all.push((ip.clone(), format!("gid {ip}"), ip));
    }
    if of_interface(true).is_none() {
        println!("SKIPPED: an address of an interface: this host has loopback only");
    }
    all
}

#[test]
fn each_family_has_a_port_at_an_address_and_gets_its_own_requests_whoever_came_first() {
    for (ip, gid, to) in neighbours() {
        for (space, gid_first) in SPACES.into_iter().flat_map(|space| [(space, false), (space, true)]) {
            let (by_ip, by_gid) = (Side::new(), Side::new());
            let (one, other) = if gid_first {
                let one = listening(&by_gid, space, &gid, 0);
                let port = port_of(&one);
                (one, listening(&by_ip, space, &ip, port))
            } else {
                let one = listening(&by_ip, space, &ip, 0);
                let port = port_of(&one);
                (one, listening(&by_gid, space, &gid, port))
            };
            let port = port_of(&one);
            assert_eq!(port, port_of(&other));
            for _ in 0..2 {
                let _asking = asking(space, (false, &to), port, b"by IP");
                let request = by_ip.expect(EventKind::ConnectRequest);
                assert_eq!(
                    (&said(&request)[..5], request.id.is_by_gid()),
                    (&b"by IP"[..], false),
                    "{ip} {gid}"
                );
                let _asking = asking(space, (true, &to), port, b"\0y GID");
                let request = by_gid.expect(EventKind::ConnectRequest);
                assert_eq!(
                    (&said(&request)[..6], request.id.is_by_gid()),
                    (&b"\0y GID"[..], true),
                    "{ip} {gid}"
                );
            }
            assert!(by_ip.is_silent() && by_gid.is_silent(), "{ip} {gid}");
        }
    }
}

#[test]
fn who_names_a_gid_and_says_the_addresses_asks_who_listens_at_the_address() {
    let (near, by_ip, by_gid) = (Side::new(), Side::new(), Side::new());
    let gid = listening(&by_gid, TCP, "gid 127.0.0.1 only", 0);
    let port = port_of(&gid);
    let ip = listening(&by_ip, TCP, LOOPBACK, port);
    let id = near.id(TCP);
    id.resolve_named(None, named(true, TCP, LOOPBACK.parse().unwrap(), port), PATIENCE).unwrap();
    near.expect(EventKind::AddressResolved);
    id.resolve_route(PATIENCE).unwrap();
    near.expect(EventKind::RouteResolved);
    let data = [&id.address_header().unwrap()[..], b"data"].concat();
    id.connect(&parameters(&data, 77)).unwrap();
    assert_eq!(&said(&by_ip.expect(EventKind::ConnectRequest))[..4], b"data");
    assert!(by_gid.is_silent());
    // With one gone, each request is the other's, or refused by it.
    drop(ip);
    let _asking = asking(TCP, (false, LOOPBACK), port, b"data");
    assert_eq!(said(&by_gid.expect(EventKind::ConnectRequest))[36..40], *b"data");
    drop(gid);
    let _ip = soon(&by_ip, LOOPBACK, port);
    let (near, _asking) = asking(TCP, (true, LOOPBACK), port, b"\0xyz");
    assert_eq!(near.expect(EventKind::Rejected).status, 28);
    assert!(by_ip.is_silent());
}

/// One that listens at a port that another of this process has just let go: a child that another test has forked has it until it executes.
fn soon(side: &Side, text: &str, port: u16) -> Arc<Id> {
    let since = std::time::Instant::now();
    loop {
        match bound(side, TCP, text, port) {
            Ok(id) => {
                id.listen(0).unwrap();
                return id;
            }
            Err((_, error)) => assert!(since.elapsed() < PATIENCE, "{text}: {error}"),
        }
        std::thread::yield_now();
    }
}

/// Pairs of which the second may not have the first one's port, and an address at which the first is asked.
const APART: [(&str, &str, &str); 14] = [
    // Who stands for all addresses has a port alone, unless both are of one family only.
    ("0.0.0.0", "gid ::", LOOPBACK),
    ("gid ::", "0.0.0.0", LOOPBACK),
    ("::", "gid ::", LOOPBACK),
    ("::", "gid :: only", LOOPBACK),
    ("gid :: only", "::", LOOPBACK),
    (":: only", "gid ::", "::1"),
    ("0.0.0.0", "gid 127.0.0.1", LOOPBACK),
    ("gid 127.0.0.1", "0.0.0.0", LOOPBACK),
    ("gid ::", LOOPBACK, LOOPBACK),
    // Loopback is every device's.
    (LOOPBACK, "gid 127.0.0.1", LOOPBACK),
    ("gid 127.0.0.1", LOOPBACK, LOOPBACK),
    ("::1", "gid ::1 only", "::1"),
    // Two of one family.
    ("gid 127.0.0.1 only", "gid 127.0.0.1 only", LOOPBACK),
    ("gid 127.0.0.1 only", "gid :: only", LOOPBACK),
];

#[test]
fn who_stands_for_all_addresses_shares_no_port_with_another_family_unless_both_are_of_one_and_nothing_changes()
 {
    for (first, second, to) in APART {
        let far = Side::new();
        let there = listening(&far, TCP, first, 0);
        let port = port_of(&there);
        let Err((id, error)) = bound(&far, TCP, second, port) else { panic!("{first} beside {second}") };
        assert!(
            matches!(error, Error::AddressOverlaps(found) if found == port),
            "{first}, {second}: {error}"
        );
        assert_eq!((id.state(), id.source(), id.is_by_gid()), (State::Idle, None, false));
        // The first one is asked as before, and the second is bound elsewhere.
        let _asking = asking(TCP, (place(first).by_gid, to), port, b"\0");
        assert!(std::ptr::eq(&*far.expect(EventKind::ConnectRequest).listener.unwrap(), &*there), "{first}");
        id.bind_named(named(place(second).by_gid, TCP, place(second).ip, 0)).unwrap();
        assert_ne!(port_of(&id), port);
    }
}

#[test]
fn a_port_that_both_families_may_reuse_is_one_of_them_alone_once_that_listens() {
    let side = Side::new();
    let reusing = |text: &str, port| {
        let id = side.id(TCP);
        id.set_option(IdOption::ReuseAddress(true)).unwrap();
        let Place { by_gid, ip, .. } = place(text);
        id.bind_named(named(by_gid, TCP, ip, port)).map(|()| id)
    };
    for (first, second) in [("0.0.0.0", "gid ::"), ("gid ::", "::"), (LOOPBACK, "gid 127.0.0.1")] {
        let one = reusing(first, 0).unwrap();
        let port = port_of(&one);
        let other = reusing(second, port).unwrap();
        assert!(matches!(one.listen(0), Err(Error::AddressInUse(_))), "{first}");
        assert!(matches!(other.listen(0), Err(Error::AddressInUse(_))), "{second}");
        assert_eq!((one.state(), other.state()), (State::AddressBound, State::AddressBound));
        drop(other);
        one.listen(0).unwrap();
        assert!(matches!(reusing(second, port), Err(Error::AddressOverlaps(_))), "{second}");
    }
}

/// The second process: binds as it is told, and says who asked.
#[test]
fn servant() {
    if role().is_none() {
        return;
    }
    let side = Side::new();
    let mut ids: Vec<Arc<Id>> = Vec::new();
    serve(|command, rest| {
        let (port, text) = rest.split_once(' ').unwrap_or((rest, ""));
        match command {
            "bind" => match bound(&side, TCP, text, port.parse().unwrap()) {
                Ok(id) => {
                    ids.push(id);
                    port_of(ids.last().unwrap()).to_string()
                }
                Err((_, error)) => format!("{error:?}"),
            },
            "listen" => {
                ids.last().unwrap().listen(0).unwrap();
                "ok".into()
            }
            "drop" => {
                ids.clear();
                "ok".into()
            }
            "asked" => {
                let request = side.expect(EventKind::ConnectRequest);
                format!("{} {:?}", request.id.is_by_gid(), &said(&request)[..4])
            }
            "silent" => side.is_silent().to_string(),
            other => panic!("no such command: {other}"),
        }
    })
}

#[test]
fn two_processes_have_a_port_by_one_family_each_and_each_gets_its_own_requests() {
    let mut far = SecondProcess::start("servant", "servant", &[]);
    for (ip, gid, to) in neighbours() {
        for far_by_gid in [false, true] {
            let (theirs, ours) = if far_by_gid { (&gid, &ip) } else { (&ip, &gid) };
            let port: u16 = far.tell(&format!("bind 0 {theirs}")).parse().unwrap();
            let own = Side::new();
            let here = bound(&own, TCP, ours, port);
            let here = here.unwrap_or_else(|(_, error)| panic!("{ours} beside {theirs}: {error}"));
            assert_eq!(far.tell("listen"), "ok");
            here.listen(0).unwrap();
            for _ in 0..2 {
                let _asking = asking(TCP, (far_by_gid, &to), port, b"\0zzz");
                assert_eq!(far.tell("asked"), format!("{far_by_gid} {:?}", b"\0zzz"), "{ours} {theirs}");
                let _asking = asking(TCP, (!far_by_gid, &to), port, b"\0www");
                assert_eq!(said(&own.expect(EventKind::ConnectRequest))[..4], *b"\0www", "{ours} {theirs}");
            }
            assert!(own.is_silent() && far.tell("silent") == "true", "{ours} {theirs}");
            assert_eq!(
                listening_user(TCP, format!("{}:{port}", bracketed(&to)).parse().unwrap()),
                Some(effective_user())
            );
            assert_eq!(far.tell("drop"), "ok");
        }
    }
    far.finish();
}

fn bracketed(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() }
}

#[test]
fn what_may_not_have_a_port_of_this_process_may_not_have_that_of_another() {
    let mut far = SecondProcess::start("servant", "servant", &[]);
    for (first, second, _) in APART {
        let side = Side::new();
        let port: u16 = far.tell(&format!("bind 0 {first}")).parse().unwrap();
        let Err((id, error)) = bound(&side, TCP, second, port) else { panic!("{first} beside {second}") };
        assert!(matches!(error, Error::AddressOverlaps(_)), "{first}, {second}: {error}");
        assert_eq!((id.state(), id.source()), (State::Idle, None));
        assert_eq!(far.tell("listen"), "ok");
        assert_eq!(far.tell("drop"), "ok");
        // Nothing is left of what was looked at.
        drop(soon(&side, second, port));
    }
    far.finish();
}

#[test]
fn a_wildcard_of_one_family_shares_no_port_with_another_at_one_address_that_is_not() {
    let Some(ip) = of_interface(true) else {
        println!("SKIPPED: an address of an interface: this host has loopback only");
        return;
    };
    let mut far = SecondProcess::start("servant", "servant", &[]);
    let gid = format!("gid {ip}");
    let only = format!("gid {ip} only");
    for (first, second, is_refused) in [
        (&*gid, "0.0.0.0", true),
        ("0.0.0.0", &*gid, true),
        (&*only, "0.0.0.0", false),
        ("0.0.0.0", &*only, false),
    ] {
        for far_first in [false, true] {
            let side = Side::new();
            let one = if far_first { None } else { Some(listening(&side, TCP, first, 0)) };
            let port = match &one {
                Some(one) => port_of(one),
                None => far.tell(&format!("bind 0 {first}")).parse().unwrap(),
            };
            let refused = bound(&side, TCP, second, port).map_err(|(_, error)| error);
            match refused {
                Ok(_) => assert!(!is_refused, "{first}, {second}"),
                Err(error) => {
                    assert!(is_refused && matches!(error, Error::AddressOverlaps(_)), "{first}: {error}")
                }
            }
            assert_eq!(far.tell("drop"), "ok");
        }
    }
    far.finish();
}

//! What needs a process of its own: other privileges, another user, all its descriptors.

mod common;

use common::*;
use nonic_scif::{Endpoint, PortId, ScifError, node_ids};

fn own(port: u16) -> PortId {
    PortId { node: node_ids().1, port }
}

#[test]
fn low_ports_need_privilege_whatever_the_state() {
    if role().is_none() {
        // As nobody: the privilege is the caller's.
        let mut other = start("low_ports_need_privilege_whatever_the_state", "nobody");
        assert_eq!(other.hear(), "refused");
        return other.finish();
    }
    // SAFETY: gives privileges up for this process.
    unsafe {
        libc::setgid(65534);
        libc::setuid(65534);
    }
    let endpoint = Endpoint::open().unwrap();
    let refused = Err(ScifError::Privileged { port: 1023, limit: 1024 });
    assert_eq!(endpoint.bind(1023), refused);
    let port = endpoint.bind(0).unwrap();
    assert_eq!(endpoint.bind(1023), refused);
    assert!(endpoint.connect(own(7)) == Err(ScifError::Refused) && port > 1023);
    say("refused");
}

#[test]
fn a_listener_that_closes_refuses_who_waits_and_wakes_who_accepts() {
    if role().is_none() {
        // Alone in a process: the number must not become another test's.
        return run_alone("a_listener_that_closes_refuses_who_waits_and_wakes_who_accepts");
    }
    let (listener, id) = listener(4);
    let queued = Endpoint::open().unwrap();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            listener.accept(true).unwrap();
            listener.accept(true).map(|_| ())
        });
        drop(connect_to(id.port));
        // Accepted: the thread is about to wait again, or waits. Either way the close must reach it.
        listener.close().unwrap();
        let ended = accepting.join().unwrap();
        assert!(matches!(ended, Err(ScifError::Interrupted | ScifError::NotOpen)), "{ended:?}");
    });
    std::mem::forget(listener);
    assert_eq!(queued.connect(id), Err(ScifError::Refused));
}

#[test]
fn a_listener_of_another_user_is_nobody() {
    const NAME: &str = "a_listener_of_another_user_is_nobody";
    if let Some(text) = role() {
        // Takes the name another user's endpoints would have, and listens.
        let (user, port) = text.split_once(' ').unwrap();
        // SAFETY: gives privileges up for this process.
        unsafe { libc::setuid(65534) };
        use std::os::linux::net::SocketAddrExt;
        let name = format!("nonic-scif/{user}/0/0/{port}");
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
        let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        say("listens");
        // Whoever connects sends nothing.
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(std::io::Read::read(&mut stream, &mut [0]).unwrap(), 0);
        return;
    }
    // SAFETY: asks who this is.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: a listener of another user needs root to be one");
        return;
    }
    let mut other = start(NAME, "0 1023");
    assert_eq!(other.hear(), "listens");
    assert_eq!(Endpoint::open().unwrap().connect(own(1023)), Err(ScifError::Refused));
    other.finish();
}

#[test]
fn endpoints_that_come_and_go_leave_nothing_behind() {
    const NAME: &str = "endpoints_that_come_and_go_leave_nothing_behind";
    if role().is_none() {
        // Alone in a process: others' memory does not count.
        return run_alone(NAME);
    }
    let count = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        (maps.matches("memfd:nonic-scif").count(), std::fs::read_dir("/proc/self/fd").unwrap().count())
    };
    // What a process that has endpoints has once.
    drop(Endpoint::open().unwrap());
    let (_, descriptors) = count();
    for turn in 0..600 {
        let (one, other) = pair();
        send(&one, b"x", true).unwrap();
        if turn % 2 == 0 {
            // As programs do that know what a descriptor is.
            // SAFETY: both are open and not used any more.
            unsafe { (libc::close(one.number()), libc::close(other.number())) };
            std::mem::forget((one, other));
        }
    }
    // What is forgotten is found when others come, not at once.
    let (mappings, _) = count();
    assert!(mappings < 400, "{mappings} mappings after 600 connections");
    // The library's thread may still be at it. Its bell stays.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while count().1 > descriptors + 2 {
        assert!(std::time::Instant::now() < until, "{} descriptors, {descriptors} before", count().1);
        std::thread::yield_now();
    }
}

//! Several processes: killed peers, rubbish, nodes, copies of descriptors.

mod common;

use common::*;
use nonic_scif::{Descriptor, Endpoint, PollEntry, PortId, ScifError, node_ids, poll};

#[test]
fn a_killed_peer_shows_in_every_call() {
    const NAME: &str = "a_killed_peer_shows_in_every_call";
    match role().as_deref() {
        Some("waits") => {
            let endpoint = connected();
            say("ready");
            let _ = receive(&endpoint, &mut [0; 100], true);
        }
        Some("wrote") => {
            let endpoint = connected();
            send(&endpoint, b"left behind", true).unwrap();
            say("ready");
            told();
        }
        Some("wrote and waits") => {
            let endpoint = connected();
            send(&endpoint, b"left", true).unwrap();
            say("ready");
            let _ = receive(&endpoint, &mut [0; 100], true);
        }
        Some("full") => {
            let endpoint = connected();
            say("ready");
            send(&endpoint, &[1; 100_000], true).unwrap();
        }
        _ => {
            // While it waits inside receive, and has promised to take what comes.
            let (endpoint, mut other) = accepted_from(NAME, "waits");
            other.hear();
            other.kill();
            assert_eq!(wait_for(endpoint.number(), 0) & HUP, HUP);
            assert_eq!(send(&endpoint, b"x", true), Err(ScifError::Reset));
            assert_eq!(receive(&endpoint, &mut [0], false), Err(ScifError::Reset));

            // While this side waits for bytes: what was sent comes first.
            let (endpoint, mut other) = accepted_from(NAME, "wrote");
            other.hear();
            std::thread::scope(|scope| {
                let receiving = scope.spawn(|| {
                    let mut bytes = [0; 100];
                    (receive(&endpoint, &mut bytes, true), bytes)
                });
                other.kill();
                let (count, bytes) = receiving.join().unwrap();
                assert_eq!((count, &bytes[..11]), (Ok(11), &b"left behind"[..]));
            });
            assert_eq!(receive(&endpoint, &mut [0], true), Err(ScifError::Reset));

            // What it left can be taken, and sending right afterwards fails though it had promised to take more.
            let (endpoint, mut other) = accepted_from(NAME, "wrote and waits");
            other.hear();
            other.kill();
            assert_eq!(wait_for(endpoint.number(), 0) & HUP, HUP);
            let mut bytes = [0; 4];
            let received = receive(&endpoint, &mut bytes, true);
            let sent = send(&endpoint, &bytes, true);
            assert_eq!((received, sent), (Ok(4), Err(ScifError::Reset)));

            // While this side waits for room.
            let (endpoint, mut other) = accepted_from(NAME, "waits");
            other.hear();
            std::thread::scope(|scope| {
                let sending = scope.spawn(|| send(&endpoint, &[0; 100_000], true));
                other.kill();
                let sent = sending.join().unwrap();
                assert!(matches!(sent, Ok(1..100_000) | Err(ScifError::Reset)), "{sent:?}");
            });
            assert_eq!(send(&endpoint, &[0], true), Err(ScifError::Reset));

            // While it waits for room itself.
            let (endpoint, mut other) = accepted_from(NAME, "full");
            other.hear();
            wait_for(endpoint.number(), IN);
            other.kill();
            let mut count = 0;
            let mut bytes = [0; 1000];
            let ended = loop {
                match receive(&endpoint, &mut bytes, true) {
                    Ok(got) => count += got,
                    Err(error) => break error,
                }
            };
            assert_eq!(ended, ScifError::Reset);
            assert!(count <= 100_000);
        }
    }
}

#[test]
fn a_killed_acceptor_or_connector_ends_the_attempt() {
    const NAME: &str = "a_killed_acceptor_or_connector_ends_the_attempt";
    match role().as_deref() {
        Some("listens") => {
            let (listener, id) = listener(1);
            say(&id.port.to_string());
            wait_for(listener.number(), IN);
            say("asked");
            told();
        }
        Some("connects") => {
            let endpoint = Endpoint::open().unwrap();
            let id = PortId { node: 0, port: told().parse().unwrap() };
            let _ = endpoint.connect(id);
        }
        _ => {
            let mut other = start(NAME, "listens");
            let id = PortId { node: 0, port: other.hear().parse().unwrap() };
            let endpoint = Endpoint::open().unwrap();
            std::thread::scope(|scope| {
                let connecting = scope.spawn(|| endpoint.connect(id));
                assert_eq!(other.hear(), "asked");
                other.kill();
                assert_eq!(connecting.join().unwrap(), Err(ScifError::Refused));
            });
            let (listener, id) = listener(2);
            let mut other = start(NAME, "connects");
            other.order(&id.port.to_string());
            wait_for(listener.number(), IN);
            other.kill();
            assert!(matches!(listener.accept(false), Err(ScifError::TryAgain(_))));
        }
    }
}

/// The memory shared with the peer: where this process has mapped it.
fn shared_memory() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("memfd:nonic-scif")).unwrap();
    usize::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap()
}

#[test]
fn a_peer_that_writes_rubbish_harms_nobody() {
    const NAME: &str = "a_peer_that_writes_rubbish_harms_nobody";
    if role().is_some() {
        let endpoint = connected();
        let (memory, number) = (shared_memory() as *mut u64, endpoint.number());
        say("ready");
        let mut state = u64::from(std::process::id()) | 1;
        loop {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (word, value) = ((state >> 33) as usize % 192, state >> (state >> 58));
            // SAFETY: the first pages of the shared memory, mapped writable; whoever else reads them expects anything.
            unsafe { memory.add(word).write_volatile(value) };
            if word == 0 {
                // SAFETY: bytes of a local, and what the peer sent.
                unsafe {
                    libc::send(number, (&raw const state).cast(), 8, libc::MSG_DONTWAIT);
                    libc::recv(number, (&raw mut state).cast(), 8, libc::MSG_DONTWAIT);
                }
            }
        }
    }
    let (endpoint, mut other) = accepted_from(NAME, "rubbish");
    other.hear();
    let since = std::time::Instant::now();
    let mut bytes = [0; 5000];
    while since.elapsed() < std::time::Duration::from_millis(500) {
        let _ = send(&endpoint, &bytes[..1000], false);
        let _ = receive(&endpoint, &mut bytes, false);
        let mut entries = [PollEntry { number: endpoint.number(), events: IN | OUT, revents: 0 }];
        poll(&mut entries, 1).unwrap();
    }
    // A call that waits ends with the peer at the latest.
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&endpoint, &mut [0; 100_000], true));
        let sending = scope.spawn(|| send(&endpoint, &[0; 100_000], true));
        other.kill();
        let (received, sent) = (receiving.join().unwrap(), sending.join().unwrap());
        assert!(matches!(received, Ok(_) | Err(ScifError::Reset)), "{received:?}");
        assert!(matches!(sent, Ok(_) | Err(ScifError::Reset)), "{sent:?}");
    });
    assert_eq!(send(&endpoint, &[0], true), Err(ScifError::Reset));
    // Others are as they were.
    let (one, two) = pair();
    send(&one, b"fine", true).unwrap();
    assert_eq!(receive(&two, &mut bytes[..4], true), Ok(4));
}

#[test]
fn processes_on_two_nodes_find_each_other() {
    const NAME: &str = "processes_on_two_nodes_find_each_other";
    if role().is_none() {
        // In a fabric of its own: others use nodes of the ordinary one.
        let fabric = std::process::id().to_string();
        return SecondProcess::start(NAME, "alone", &[("NONIC_SCIF_FABRIC", &fabric)]).finish();
    }
    if role().as_deref() != Some("alone") {
        let (listener, id) = listener(1);
        assert_eq!((id.node, node_ids()), (41, (vec![0, 41, 42], 41)));
        say(&id.port.to_string());
        let (accepted, peer) = listener.accept(true).unwrap();
        assert_eq!(peer.node, 0);
        receive(&accepted, &mut [0; 1], true).unwrap();
        return;
    }
    // It needs an endpoint of its own to be seen.
    let (_here, _) = listener(1);
    let mut other =
        SecondProcess::start(NAME, "node 41", &[("NONIC_SCIF_NODE", "41"), ("NONIC_SCIF_NODES", "42")]);
    let there = PortId { node: 41, port: other.hear().parse().unwrap() };
    assert_eq!(node_ids(), (vec![0, 41], 0));
    let endpoint = Endpoint::open().unwrap();
    endpoint.connect(there).unwrap();
    send(&endpoint, &[1], true).unwrap();
    other.finish();
    assert_eq!(node_ids(), (vec![0], 0));
    assert_eq!(Endpoint::open().unwrap().connect(there), Err(ScifError::NoNode));
}

#[test]
fn a_listener_is_inherited_by_a_program_that_is_started() {
    const NAME: &str = "a_listener_is_inherited_by_a_program_that_is_started";
    if let Some(number) = role() {
        let listener = Descriptor::from_number(number.parse().unwrap());
        let (accepted, _) = listener.accept(true).unwrap();
        send(&accepted, b"inherited", true).unwrap();
        return;
    }
    let (listener, id) = listener(1);
    // SAFETY: lets programs that are started have it.
    unsafe { libc::fcntl(listener.number(), libc::F_SETFD, 0) };
    let other = start(NAME, &listener.number().to_string());
    drop(listener);
    let endpoint = connect_to(id.port);
    let mut bytes = [0; 9];
    assert_eq!((receive(&endpoint, &mut bytes, true), &bytes), (Ok(9), b"inherited"));
    other.finish();
}

#[test]
fn a_copy_of_a_descriptor_is_the_same_endpoint_and_the_last_one_disconnects() {
    let (one, other) = pair();
    // SAFETY: copies an open descriptor.
    let copy = Descriptor::from_number(unsafe { libc::dup(one.number()) });
    send(&copy, b"from the copy", true).unwrap();
    one.close().unwrap();
    std::mem::forget(one);
    let mut bytes = [0; 13];
    assert_eq!((receive(&other, &mut bytes, true), &bytes), (Ok(13), b"from the copy"));
    send(&other, b"still", true).unwrap();
    assert_eq!(receive(&copy, &mut bytes[..5], true), Ok(5));
    assert_eq!(shown(other.number()), OUT);
    // SAFETY: closes the copy as a program would.
    unsafe { libc::close(copy.number()) };
    assert_eq!(wait_for(other.number(), 0) & HUP, HUP);
    assert_eq!(send(&other, b"x", true), Err(ScifError::Reset));
}

//! Processes that have a port's name, or ask at one, and have not proved that they may: as if nobody were there. Those that
//! look like this user's and are not need root to be made.

mod common;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use common::*;
use nonic_scif::{Endpoint, PortId, ScifError, node_ids};
use nonic_sys::{
    Received, SharedMemory, accept_stream, bind_name, connect_stream, effective_user, listen_for,
    open_stream, receive_message, send_message, wait_readable,
};

const VICTIM: u32 = 23_457;
const STRANGER: u32 = 23_458;

fn is_root() -> bool {
    if effective_user() == 0 {
        return true;
    }
    println!("SKIPPED: strangers that look like this user: they need root");
    false
}

/// Becomes what a role begins with.
fn become_somebody(who: &str) {
    let user = |user: u32| {
        // SAFETY: these calls change who this process is and touch no memory.
        unsafe {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(user, user, user), 0);
            assert_eq!(libc::setresuid(user, user, user), 0);
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        }
    };
    match who {
        "bare-root" => {
            let header = [0x2008_0522u32, 0];
            let none = [0u32; 6];
            // SAFETY: as above; the two arrays have the lengths that the call wants.
            assert_eq!(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) }, 0);
        }
        "unmapped" => {
            user(VICTIM);
            // Only a process of one thread may, so it goes on in a child.
            // SAFETY: the child uses nothing that another thread could have locked; its parent only waits for it.
            unsafe {
                let child = libc::fork();
                if child != 0 {
                    libc::waitpid(child, std::ptr::null_mut(), 0);
                    libc::_exit(0);
                }
                assert_eq!(libc::unshare(libc::CLONE_NEWUSER), 0);
            }
            assert_eq!(effective_user(), 65_534);
        }
        "stranger" => user(STRANGER),
        _ => {}
    }
}

/// What a second process does: the first word says who it is.
fn obey_as_somebody() -> bool {
    let Some(who) = role() else { return false };
    become_somebody(&who);
    let (mut listener, mut raw) = (None, None);
    nonic_second_process::serve(|command, rest| match command {
        "bind" => {
            let endpoint = Endpoint::open().unwrap();
            let port = endpoint.bind(rest.parse().unwrap()).unwrap();
            endpoint.listen(8).unwrap();
            listener = Some(endpoint);
            port.to_string()
        }
        "accept" => format!("{:?}", listener.as_ref().unwrap().accept(false).map(|_| "somebody")),
        "connect" => {
            let target = PortId { node: node_ids().1, port: rest.parse().unwrap() };
            format!("{:?}", Endpoint::open().unwrap().connect(target))
        }
        "forget" => {
            listener = None;
            "ok".into()
        }
        "pretend-to-ask" => pretend_to_ask(rest),
        "take-name" => {
            let socket = open_stream().unwrap();
            bind_name(socket.as_raw_fd(), rest).unwrap();
            listen_for(socket.as_raw_fd(), 8).unwrap();
            raw = Some(socket);
            "ok".into()
        }
        "pretend-to-accept" => pretend_to_accept(raw.as_ref().unwrap()),
        other => panic!("no such command: {other}"),
    })
}

// What somebody says who has no proof. The words are those of `proof.rs`.

fn word(kind: u32) -> Vec<u8> {
    let mut bytes = 0x6e6f_6e69_6353_5252u64.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.resize(44, 0);
    bytes
}

/// What comes next: how many descriptors, or `None` at the end.
fn descriptors_with_next(way: &OwnedFd) -> Option<usize> {
    assert!(wait_readable(way.as_fd(), Some(Duration::from_secs(30))), "nothing came in 30 s");
    match receive_message(way.as_fd(), &mut [0; 64]) {
        Received::Message(_, descriptors) => Some(descriptors.len()),
        _ => None,
    }
}

/// Asks, and sends everything that there is to send, with no answer.
fn pretend_to_ask(name: &str) -> String {
    let way = connect_stream(name).unwrap();
    send_message(way.as_fd(), &word(1), &[]).unwrap();
    // One who sees a stranger at once says nothing.
    if let Some(count) = descriptors_with_next(&way) {
        assert_eq!(count, 0);
        let (end, file) = (open_stream().unwrap(), SharedMemory::create("nonic-scif", 1 << 20).unwrap());
        let _ = send_message(way.as_fd(), &word(3), &[]);
        let _ = send_message(way.as_fd(), &word(5), &[end.as_fd(), file.as_fd()]);
        assert_eq!(descriptors_with_next(&way), None);
    }
    "turned away".into()
}

/// Accepts whoever asks; how many descriptors it is shown.
fn pretend_to_accept(listener: &OwnedFd) -> String {
    assert!(wait_readable(listener.as_fd(), Some(Duration::from_secs(30))), "nobody asks");
    let way = accept_stream(listener.as_raw_fd()).unwrap();
    let mut shown = 0;
    for answer in [2, 4, 4] {
        match descriptors_with_next(&way) {
            Some(count) => shown += count,
            None => break,
        }
        let _ = send_message(way.as_fd(), &word(answer), &[]);
    }
    format!("shown {shown} descriptors")
}

fn name(user: u32, port: u16) -> String {
    let fabric = std::env::var("NONIC_SCIF_FABRIC").unwrap_or_else(|_| "0".into());
    format!("nonic-scif/{user}/{fabric}/{}/{port}", node_ids().1)
}

#[test]
fn user_0_without_capabilities_is_nobody_to_user_0() {
    const NAME: &str = "user_0_without_capabilities_is_nobody_to_user_0";
    if obey_as_somebody() || !is_root() {
        return;
    }
    let mut stranger = start(NAME, "bare-root");
    // It has the name of a port.
    let port = reserved_port(0);
    stranger.tell(&format!("take-name {}", name(0, port)));
    stranger.order("pretend-to-accept");
    let (endpoint, target) = (Endpoint::open().unwrap(), PortId { node: node_ids().1, port });
    assert_eq!(connect_within(&endpoint, target), Err(ScifError::Refused));
    assert_eq!(stranger.hear(), "shown 0 descriptors");
    assert!(matches!(Endpoint::open().unwrap().bind(port), Err(ScifError::Invalid(_))));
    // It asks; with the library as well.
    let (listening, id) = listener(8);
    stranger.order(&format!("pretend-to-ask {}", name(0, id.port)));
    wait_for(listening.number(), IN);
    assert!(matches!(listening.accept(false), Err(ScifError::TryAgain(_))));
    assert_eq!(stranger.hear(), "turned away");
    stranger.order(&format!("connect {}", id.port));
    wait_for(listening.number(), IN);
    assert!(matches!(listening.accept(false), Err(ScifError::TryAgain(_))));
    assert_eq!(stranger.hear(), "Err(Refused)");
    // And the other way round it is no better served.
    let theirs = stranger.tell("bind 0").parse().unwrap();
    set_nonblocking(&endpoint, true);
    let _ = endpoint.connect(PortId { node: node_ids().1, port: theirs });
    assert_eq!(stranger.tell("accept"), "Err(TryAgain(\"whoever asked has given up\"))");
    // Honest ones are connected as before.
    let connecting = Endpoint::open().unwrap();
    set_nonblocking(&connecting, true);
    assert_eq!(connecting.connect(id), Err(ScifError::InProgress));
    assert!(listening.accept(true).is_ok());
}

#[test]
fn where_everybody_is_one_number_another_user_is_nobody() {
    const NAME: &str = "where_everybody_is_one_number_another_user_is_nobody";
    if obey_as_somebody() || !is_root() {
        return;
    }
    let (mut victim, mut stranger) = (start(NAME, "unmapped"), start(NAME, "stranger"));
    let port = reserved_port(1);
    stranger.tell(&format!("take-name {}", name(65_534, port)));
    victim.order(&format!("connect {port}"));
    stranger.order("pretend-to-accept");
    assert_eq!(victim.hear(), "Err(Refused)");
    assert_eq!(stranger.hear(), "shown 0 descriptors");
    let theirs: u16 = victim.tell("bind 0").parse().unwrap();
    stranger.order(&format!("pretend-to-ask {}", name(65_534, theirs)));
    let since = Instant::now();
    loop {
        let accepted = victim.tell("accept");
        assert!(accepted.starts_with("Err(TryAgain"), "{accepted}");
        if accepted.contains("given up") {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "it has not asked");
    }
    assert_eq!(stranger.hear(), "turned away");
}

#[test]
fn those_who_ask_and_say_nothing_are_in_nobodys_way() {
    const NAME: &str = "those_who_ask_and_say_nothing_are_in_nobodys_way";
    if role().is_none() {
        return run_alone(NAME);
    }
    let (listening, id) = listener(1024);
    let mut silent = Vec::new();
    for index in 0..900 {
        let way = connect_stream(&name(effective_user(), id.port)).unwrap();
        if index % 3 == 0 {
            send_message(way.as_fd(), &word(1), &[]).unwrap();
        }
        silent.push(way);
    }
    let honest = Endpoint::open().unwrap();
    set_nonblocking(&honest, true);
    assert_eq!(honest.connect(id), Err(ScifError::InProgress));
    let since = Instant::now();
    let accepted = listening.accept(true);
    println!("accepted behind 900 silent ones after {:?}", since.elapsed());
    assert!(accepted.is_ok() && since.elapsed() < Duration::from_secs(10), "after {:?}", since.elapsed());
    // Those that are left show, and are gone after their time.
    let until = Instant::now() + Duration::from_secs(30);
    while let Err(error) = listening.accept(false)
        && shown(listening.number()) & IN != 0
    {
        assert!(matches!(error, ScifError::TryAgain(_)) && Instant::now() < until);
    }
    let gone = silent.iter().filter(|way| matches!(receive_end(way), Some(true))).count();
    assert_eq!(gone, silent.len());
}

#[test]
fn a_listener_shows_nothing_any_more_when_all_were_accepted() {
    const NAME: &str = "a_listener_shows_nothing_any_more_when_all_were_accepted";
    if role().is_none() {
        return run_alone(NAME);
    }
    let (listening, id) = listener(16);
    // It is taken from the kernel with the next one, and is to be shown although it is not there any more.
    let silent = connect_stream(&name(effective_user(), id.port)).unwrap();
    let honest: Vec<_> = (0..3).map(|_| Endpoint::open().unwrap()).collect();
    for endpoint in &honest {
        set_nonblocking(endpoint, true);
        assert_eq!(endpoint.connect(id), Err(ScifError::InProgress));
    }
    assert!(listening.accept(false).is_ok());
    drop(silent);
    for _ in 0..2 {
        assert_eq!(shown(listening.number()) & IN, IN);
        assert!(listening.accept(false).is_ok());
    }
    assert_eq!(shown(listening.number()) & IN, 0);
    assert!(matches!(listening.accept(false), Err(ScifError::TryAgain(_))));
}

/// Whether a way has ended; `None` if something came.
fn receive_end(way: &OwnedFd) -> Option<bool> {
    loop {
        match receive_message(way.as_fd(), &mut [0; 64]) {
            Received::Message(_, descriptors) if descriptors.is_empty() => {}
            Received::Message(..) => return None,
            Received::Nothing => return Some(false),
            Received::HungUp => return Some(true),
        }
    }
}

/// Connects without waiting for ever.
fn connect_within(endpoint: &Endpoint, target: PortId) -> Result<u16, ScifError> {
    set_nonblocking(endpoint, true);
    match endpoint.connect(target) {
        Err(ScifError::InProgress) => {}
        decided => return decided,
    }
    wait_for(endpoint.number(), OUT);
    endpoint.connect(target)
}

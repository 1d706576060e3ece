//! Several processes: killed peers, signals, forks, copies of descriptors.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use nonic_scif::{Descriptor, Endpoint, PollEntry, PortId, ScifError, node_ids, poll};

/// An endpoint accepted from a second process, which runs the same test as `role`.
fn accepted_from(name: &str, role: &str) -> (Endpoint, Other) {
    let (listener, id) = listener(1);
    let mut other = start(name, role);
    other.tell(&id.port.to_string());
    let (endpoint, _) = listener.accept(true).unwrap();
    (endpoint, other)
}

fn connected() -> Endpoint {
    connect_to(told().parse().unwrap())
}

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
            other.tell(&id.port.to_string());
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
fn a_call_that_waits_uses_no_cpu() {
    let (one, other) = pair();
    let used = || {
        // SAFETY: fills a local.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1_000_000
                + usage.ru_utime.tv_usec
                + usage.ru_stime.tv_usec
        }
    };
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let before = used();
            receive(&one, &mut [0; 8], true).unwrap();
            used() - before
        });
        let sending = scope.spawn(|| {
            let before = used();
            send(&one, &[0; 5000], true).unwrap();
            used() - before
        });
        // What is tested is what happens while nothing happens.
        std::thread::sleep(std::time::Duration::from_millis(300));
        send(&other, &[0; 8], true).unwrap();
        receive(&other, &mut [0; 5000], true).unwrap();
        let (receiving, sending) = (receiving.join().unwrap(), sending.join().unwrap());
        assert!(receiving < 30_000 && sending < 30_000, "{receiving} us, {sending} us of 300,000");
    });
}

#[test]
fn processes_on_two_nodes_find_each_other() {
    const NAME: &str = "processes_on_two_nodes_find_each_other";
    if role().is_none() {
        // In a fabric of its own: others use nodes of the ordinary one.
        let fabric = std::process::id().to_string();
        return start_with(NAME, "alone", &[("NONIC_SCIF_FABRIC", &fabric)]).finish();
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
    let mut other = start_with(NAME, "node 41", &[("NONIC_SCIF_NODE", "41"), ("NONIC_SCIF_NODES", "42")]);
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
        return start("a_listener_that_closes_refuses_who_waits_and_wakes_who_accepts", "alone").finish();
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
        return start(NAME, "alone").finish();
    }
    let count = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        (maps.matches("memfd:nonic-scif").count(), std::fs::read_dir("/proc/self/fd").unwrap().count())
    };
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

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// Sends signals to the thread that runs `call` until it returns.
fn interrupted<R: Send>(call: impl FnOnce() -> R + Send) -> R {
    // With SA_RESTART: calls end all the same.
    // SAFETY: the handler only counts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_signal as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = scope.spawn(move || {
            // SAFETY: the calling thread's own number.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            call()
        });
        let number = receiver.recv().unwrap();
        while !thread.is_finished() {
            // SAFETY: the thread is not joined before the scope ends, so its number is its own.
            unsafe { libc::pthread_kill(number, libc::SIGUSR1) };
            std::thread::yield_now();
        }
        thread.join().unwrap()
    })
}

#[test]
fn a_signal_ends_every_call_that_waits() {
    let (one, other) = pair();
    assert_eq!(interrupted(|| receive(&one, &mut [0; 8], true)), Err(ScifError::Interrupted));
    assert_eq!(shown(one.number()), OUT);
    send(&other, b"abc", true).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(interrupted(|| receive(&one, &mut bytes, true)), Ok(3));
    assert_eq!((&bytes[..3], shown(one.number())), (&b"abc"[..], OUT));
    assert_eq!(interrupted(|| send(&one, &[1; 5000], true)), Ok(WINDOW));
    assert_eq!(interrupted(|| send(&one, &[1; 5000], true)), Err(ScifError::Interrupted));
    assert_eq!((shown(one.number()), shown(other.number())), (0, IN | OUT));
    assert_eq!(receive(&other, &mut [0; WINDOW], true), Ok(WINDOW));
    assert_eq!((shown(one.number()), shown(other.number())), (OUT, OUT));

    // A thread that waits for another's call.
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| receive(&other, &mut [0; 8], true));
        // Interrupted whether the holder is inside already, and this waits for it, or not.
        let waiting = interrupted(|| receive(&other, &mut [0; 8], true));
        assert_eq!(waiting, Err(ScifError::Interrupted));
        send(&one, &[2; 8], true).unwrap();
        assert_eq!(holder.join().unwrap(), Ok(8));
    });

    let (listener, id) = listener(1);
    assert!(matches!(interrupted(|| listener.accept(true).map(|_| ())), Err(ScifError::Interrupted)));
    let connector = Endpoint::open().unwrap();
    assert_eq!(interrupted(|| connector.connect(id)), Err(ScifError::Interrupted));
    assert!(matches!(listener.accept(false), Err(ScifError::TryAgain(_))));
    let mut entries = [PollEntry { number: listener.number(), events: IN, revents: 0 }];
    assert_eq!(interrupted(|| poll(&mut entries, -1)), Err(ScifError::Interrupted));
    // The endpoint whose connect was interrupted connects again.
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(true).unwrap());
        connector.connect(id).unwrap();
        accepting.join().unwrap();
    });
    assert!(SIGNALS.load(Ordering::SeqCst) > 5);
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

fn own(port: u16) -> PortId {
    PortId { node: node_ids().1, port }
}

/// Runs `body` in a child made by fork; its result is the exit status.
fn in_child(body: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child of this process, which has other threads only while their tests run alone, calls the library and
    // leaves without running the parent's exit handlers.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    pid
}

fn wait_child(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

#[test]
fn parent_and_child_share_an_endpoint_and_do_not_mix_messages() {
    const NAME: &str = "parent_and_child_share_an_endpoint_and_do_not_mix_messages";
    if role().is_none() {
        // Alone in a process, as a program that forks is.
        return start(NAME, "alone").finish();
    }
    let (one, other) = pair();
    const LENGTH: usize = 6000;
    const TURNS: usize = 50;
    let pid = in_child(|| (0..TURNS).all(|_| send(&one, &[1; LENGTH], true) == Ok(LENGTH)));
    let mut counts = [0; 3];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TURNS {
                assert_eq!(send(&one, &[2; LENGTH], true), Ok(LENGTH));
            }
        });
        for _ in 0..2 * TURNS {
            let mut bytes = vec![0; LENGTH];
            assert_eq!(receive(&other, &mut bytes, true), Ok(LENGTH));
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            counts[bytes[0] as usize] += 1;
        }
    });
    assert_eq!((counts, wait_child(pid)), ([0, TURNS, TURNS], 0));
    assert_eq!((shown(one.number()), shown(other.number())), (OUT, OUT));

    // The peer sees the end when the last of them is gone.
    let (read_end, mut write_end) = std::io::pipe().unwrap();
    let pid = in_child(|| std::io::Read::read(&mut &read_end, &mut [0]).is_ok());
    drop(one);
    assert_eq!(shown(other.number()), OUT);
    std::io::Write::write_all(&mut write_end, &[1]).unwrap();
    assert_eq!(wait_child(pid), 0);
    assert_eq!(wait_for(other.number(), 0) & HUP, HUP);
}

#[test]
fn a_child_serves_what_its_parent_accepted_and_forks_in_every_state_harm_nobody() {
    const NAME: &str = "a_child_serves_what_its_parent_accepted_and_forks_in_every_state_harm_nobody";
    if role().is_none() {
        return start(NAME, "alone").finish();
    }
    let (listener, id) = listener(4);
    // The child accepts on the parent's listener, and has its own endpoints.
    let pid = in_child(|| {
        let (accepted, _) = listener.accept(true).unwrap();
        let mut bytes = [0; 4];
        receive(&accepted, &mut bytes, true).unwrap();
        let (one, other) = pair();
        send(&one, &bytes, true).unwrap();
        receive(&other, &mut bytes, true).unwrap();
        send(&accepted, &bytes, true) == Ok(4)
    });
    let endpoint = connect_to(id.port);
    send(&endpoint, b"ping", true).unwrap();
    let mut bytes = [0; 4];
    assert_eq!((receive(&endpoint, &mut bytes, true), &bytes), (Ok(4), b"ping"));
    assert_eq!(wait_child(pid), 0);
    assert_eq!(wait_for(endpoint.number(), 0) & HUP, HUP);

    // While an attempt is undecided: a child that lives on keeps no end of the connection open.
    let connector = Endpoint::open().unwrap();
    set_nonblocking(&connector, true);
    assert_eq!(connector.connect(id), Err(ScifError::InProgress));
    let (read_end, write_end) = std::io::pipe().unwrap();
    let pid = in_child(|| {
        drop(write_end.try_clone());
        let mut byte = [0];
        // SAFETY: closes the child's copy, so that the parent's end shows.
        unsafe { libc::close(std::os::fd::AsRawFd::as_raw_fd(&write_end)) };
        std::io::Read::read(&mut &read_end, &mut byte).is_ok()
    });
    let (accepted, peer) = listener.accept(true).unwrap();
    assert_eq!(connector.connect(id), Ok(peer.port));
    send(&connector, b"last", true).unwrap();
    assert_eq!(receive(&accepted, &mut bytes, true), Ok(4));
    drop(accepted);
    assert_eq!(wait_for(connector.number(), 0) & HUP, HUP);
    drop(write_end);
    assert_eq!(wait_child(pid), 0);

    // While a thread of the parent is inside receive: the child may not take bytes before it.
    let (one, other) = pair();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut bytes = [0; 8];
            sender.send(()).unwrap();
            (receive(&one, &mut bytes, true), bytes)
        });
        receiver.recv().unwrap();
        let pid = in_child(|| {
            let mut bytes = [0; 1];
            // Waits for the parent's thread if that is inside, and takes what it leaves.
            matches!(receive(&one, &mut bytes, true), Ok(1))
        });
        send(&other, b"12345678", true).unwrap();
        send(&other, b"9", true).unwrap();
        let (count, bytes) = receiving.join().unwrap();
        assert_eq!(count, Ok(8));
        // Whoever was first, nobody took from the middle of the other's message.
        assert!(bytes == *b"12345678" || bytes == *b"23456789", "{bytes:?}");
        assert_eq!(wait_child(pid), 0);
    });
}

//! What a fork does to endpoints.

mod common;

use common::*;
use nonic_scif::{Endpoint, ScifError};

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
        return run_alone(NAME);
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
        return run_alone(NAME);
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

//! Programs that block until a completion comes: who wakes them, what it costs, and that nobody is forgotten.

use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::TURN;
use crate::common::{End, connected_with_channels, cpu_time_of_this_thread};
use nonic_device::{Operation, Status};

fn send(end: &End) {
    end.post(1, Operation::Send { immediate: None }, &[end.piece(0, 8)]);
}

/// Blocks until `end` has an event, then takes every completion that waits.
fn wait(end: &End) -> io::Result<usize> {
    let queue = end.completions.channel().expect("made with a channel").next_event()?;
    queue.acknowledge_events(1);
    queue.request_notification(false);
    let mut count = 0;
    let taken = |count: &mut usize| {
        queue
            .poll(
                |completion| {
                    assert_eq!(completion.status, Status::Success);
                    *count += 1;
                },
                64,
            )
            .unwrap()
    };
    while taken(&mut count) > 0 {}
    Ok(count)
}

fn own_thread() -> i32 {
    // SAFETY: takes nothing and touches nothing.
    unsafe { libc::gettid() }
}

/// Waits until a thread of this process sleeps in a system call.
fn until_asleep(thread: i32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap();
        // 0 is read(2).
        if call.starts_with("0 ") {
            return;
        }
        assert!(Instant::now() < deadline, "the thread never sleeps: {call}");
        std::thread::yield_now();
    }
}

#[test]
fn a_sleeping_thread_is_woken_by_a_message_and_costs_nothing_until_then() {
    let _turn = TURN.lock();
    let (sender, receiver) = connected_with_channels();
    receiver.post_receive(1);
    receiver.completions.request_notification(false);
    let (name, named) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            name.send(own_thread()).unwrap();
            let before = cpu_time_of_this_thread();
            (wait(&receiver).unwrap(), cpu_time_of_this_thread() - before)
        });
        until_asleep(named.recv().unwrap());
        // The time asleep is what is measured: long enough for looking in vain to show.
        std::thread::sleep(Duration::from_millis(300));
        send(&sender);
        let (count, cost) = waiter.join().unwrap();
        assert_eq!(count, 1);
        assert!(cost < Duration::from_millis(100), "waiting took {cost:?} of a CPU");
    });
}

#[test]
fn every_kind_of_completion_wakes_a_sleeping_thread() {
    let _turn = TURN.lock();
    let (sender, receiver) = connected_with_channels();
    // Its own send, which only the peer's receive completes; that is posted when it sleeps already.
    sender.completions.request_notification(false);
    let (name, named) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            send(&sender);
            name.send(own_thread()).unwrap();
            wait(&sender).unwrap()
        });
        until_asleep(named.recv().unwrap());
        receiver.post_receive(1);
        assert_eq!(waiter.join().unwrap(), 1);
    });
    // A failure that another thread brings about.
    let (name, named) = mpsc::channel();
    std::thread::scope(|scope| {
        sender.completions.request_notification(false);
        sender.post_receive(2);
        let waiter = scope.spawn(|| {
            name.send(own_thread()).unwrap();
            let queue = sender.completions.channel().unwrap().next_event().unwrap();
            queue.acknowledge_events(1);
            sender.completion().status
        });
        until_asleep(named.recv().unwrap());
        let error = nonic_device::QpAttributes {
            state: nonic_device::QpState::Error,
            ..nonic_device::QpAttributes::default()
        };
        sender.pair.modify(&error, nonic_device::AttributeMask::STATE).unwrap();
        assert_eq!(waiter.join().unwrap(), Status::Flushed);
    });
}

#[test]
fn a_signal_ends_a_wait_and_another_waiting_thread_still_gets_its_event() {
    extern "C" fn nothing(_: libc::c_int) {}
    let _turn = TURN.lock();
    // SAFETY: a handler that does nothing, without SA_RESTART; nobody else in this program uses the signal.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let (_idle_peer, idle) = connected_with_channels();
    let (sender, receiver) = connected_with_channels();
    receiver.post_receive(1);
    idle.completions.request_notification(false);
    receiver.completions.request_notification(false);
    std::thread::scope(|scope| {
        let (name, named) = mpsc::channel();
        // This one drives: it came first. The other sleeps on its channel.
        let first = scope.spawn(move || {
            name.send(own_thread()).unwrap();
            wait(&idle).map_err(|error| error.kind())
        });
        let driver = named.recv().unwrap();
        until_asleep(driver);
        let (name, named) = mpsc::channel();
        let second = scope.spawn(move || {
            name.send(own_thread()).unwrap();
            wait(&receiver).unwrap()
        });
        until_asleep(named.recv().unwrap());
        // SAFETY: the thread lives: it sleeps until the signal.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), driver, libc::SIGUSR1) };
        assert_eq!(first.join().unwrap(), Err(io::ErrorKind::Interrupted));
        send(&sender);
        assert_eq!(second.join().unwrap(), 1);
    });
}

#[test]
fn two_waiting_threads_pass_a_ball_five_thousand_times_without_losing_it() {
    const ROUNDS: usize = 5_000;
    let _turn = TURN.lock();
    let (one, other) = connected_with_channels();
    for end in [&one, &other] {
        end.completions.request_notification(false);
    }
    // Each side has its send and its receive completed in every round, in one event or two.
    let play = |end: &End, begins: bool| {
        let mut seen = 0;
        for round in 0..ROUNDS {
            end.post_receive(2);
            if begins {
                send(end);
            }
            // The receive of this round and, at last, every send.
            while seen < 2 * round + 1 {
                seen += wait(end).unwrap();
            }
            if !begins {
                send(end);
            }
            while seen < 2 * round + 2 {
                seen += wait(end).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(&other, false));
        play(&one, true);
    });
}

#[test]
fn a_descriptor_that_does_not_block_says_so_and_tells_of_events_by_itself() {
    let _turn = TURN.lock();
    let (sender, receiver) = connected_with_channels();
    let channel = receiver.completions.channel().unwrap();
    // SAFETY: the descriptor is the channel's, which lives.
    unsafe {
        use std::os::fd::AsRawFd;
        let fd = channel.fd().as_raw_fd();
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
    }
    receiver.post_receive(1);
    receiver.completions.request_notification(false);
    assert_eq!(channel.next_event().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    send(&sender);
    assert!(nonic_sys::wait_readable(channel.fd(), Some(Duration::from_secs(20))), "no event shows");
    assert_eq!(wait(&receiver).unwrap(), 1);
}

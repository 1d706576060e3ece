//! Objects of the program that are told of completions and failures, and threads that wait for them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::TURN;
use crate::common;
use crate::common::{End, connected};
use nonic_device::{
    Access, CompletionObserver, CompletionQueue, Operation, QpState, QueuePairObserver, RemoteRange, Status,
    WaitBell, devices,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Counts what it is told, and rings.
#[derive(Default)]
struct Listener {
    added: AtomicU32,
    overran: AtomicU32,
    failed: AtomicU32,
    ended: AtomicU32,
    bell: Option<WaitBell>,
}

impl Listener {
    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl CompletionObserver for Listener {
    fn completion_added(&self) {
        self.added.fetch_add(1, Ordering::SeqCst);
        self.ring();
    }

    fn overran(&self) {
        self.overran.fetch_add(1, Ordering::SeqCst);
        self.ring();
    }
}

impl QueuePairObserver for Listener {
    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::SeqCst);
        self.ring();
    }

    fn requests_ended(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// An end whose queue and queue pair tell the listener.
fn observed(entries: u32) -> (End, Arc<Listener>) {
    let context = devices()[0].open().unwrap();
    let listener = Arc::new(Listener { bell: Some(context.wait_bell()), ..Listener::default() });
    let completions = context.create_observed_completion_queue(entries, Arc::clone(&listener) as _).unwrap();
    let weak: Weak<Listener> = Arc::downgrade(&listener);
    (End::with_queue(context, completions, Some(weak)), listener)
}

fn join(one: &End, other: &End) {
    one.connect(other.pair.number());
    other.connect(one.pair.number());
}

fn send(end: &End) {
    end.post(1, Operation::Send { immediate: None }, &[end.piece(0, 8)]);
}

/// Waits with the listener's bell until `queue` has a completion.
fn wait(end: &End, listener: &Listener, until: Option<Instant>) -> io::Result<bool> {
    let bell = listener.bell.as_ref().expect("made with one");
    end.context().wait(bell, until, &mut || {
        end.completions.request_notification(false);
        end.completions.waiting() > 0
    })
}

fn take(queue: &CompletionQueue) -> usize {
    let mut count = 0;
    while queue.poll(|_| count += 1, 16).unwrap() > 0 {}
    count
}

#[test]
fn an_armed_queue_tells_its_observer_once_and_an_unarmed_one_does_not() {
    let _turn = TURN.lock();
    let ((sender, receiver), listener) = {
        let (receiver, listener) = observed(64);
        let sender = End::new();
        join(&sender, &receiver);
        ((sender, receiver), listener)
    };
    let receive = |count: u64| {
        for id in 0..count {
            receiver.post_receive(id);
            send(&sender);
            assert_eq!(receiver.completion().status, Status::Success);
            assert_eq!(sender.completion().status, Status::Success);
        }
    };
    receive(3);
    assert_eq!(listener.added.load(Ordering::SeqCst), 0, "nobody asked");
    receiver.completions.request_notification(false);
    receive(3);
    assert_eq!(listener.added.load(Ordering::SeqCst), 1, "once for each time it was asked");
    // Unsolicited sends do not count for who waits for solicited ones.
    receiver.completions.request_notification(true);
    receive(1);
    assert_eq!(listener.added.load(Ordering::SeqCst), 1);
    assert_eq!(receiver.completions.added(), 7);
    assert_eq!((receiver.completions.waiting(), receiver.completions.forgotten()), (0, 0));
}

#[test]
fn what_goes_with_a_queue_pair_is_counted() {
    let _turn = TURN.lock();
    let (receiver, _listener) = observed(64);
    let sender = End::new();
    join(&sender, &receiver);
    for id in 0..3 {
        receiver.post_receive(id);
        send(&sender);
        assert_eq!(sender.completion().status, Status::Success);
    }
    let deadline = Instant::now() + PATIENCE;
    while receiver.completions.waiting() < 3 {
        // The sender's polls drive both: they are one process.
        take(&sender.completions);
        assert!(Instant::now() < deadline);
    }
    let mut first = None;
    receiver.completions.poll(|completion| first = Some(completion.id), 1).unwrap();
    assert_eq!(first, Some(0));
    receiver.pair.destroy().unwrap();
    assert_eq!((receiver.completions.added(), receiver.completions.forgotten()), (3, 2));
    assert_eq!(receiver.completions.waiting(), 0);
}

#[test]
fn an_overrun_is_told_once_and_takes_the_queue_pair_with_it() {
    let _turn = TURN.lock();
    let (receiver, listener) = observed(1);
    let sender = End::new();
    join(&sender, &receiver);
    for id in 0..3 {
        receiver.post_receive(id);
        send(&sender);
    }
    let bell = listener.bell.as_ref().unwrap();
    let failed = receiver
        .context()
        .wait(bell, Some(Instant::now() + PATIENCE), &mut || listener.failed.load(Ordering::SeqCst) > 0);
    assert!(failed.unwrap(), "the queue pair is told too");
    assert_eq!(listener.overran.load(Ordering::SeqCst), 1);
    assert_eq!(receiver.pair.state(), QpState::Error);
}

#[test]
fn a_waiting_thread_finds_its_completion_whoever_brings_it() {
    let _turn = TURN.lock();
    let (receiver, listener) = observed(64);
    let sender = End::new();
    join(&sender, &receiver);
    let (ready, go) = mpsc::channel();
    std::thread::scope(|scope| {
        let (receiver, listener) = (&receiver, &listener);
        let waiter = scope.spawn(move || {
            for round in 0..2000u64 {
                receiver.post_receive(round);
                ready.send(round).unwrap();
                assert!(wait(receiver, listener, Some(Instant::now() + PATIENCE)).unwrap(), "round {round}");
                assert_eq!(take(&receiver.completions), 1);
            }
        });
        for round in go {
            if round % 7 == 0 {
                // Sometimes it has had time to fall asleep.
                std::thread::sleep(Duration::from_micros(round % 400));
            }
            send(&sender);
            assert_eq!(sender.completion().status, Status::Success);
        }
        waiter.join().unwrap();
    });
}

#[test]
fn of_two_waiting_threads_one_drives_and_both_are_woken() {
    let _turn = TURN.lock();
    let ends = [observed(64), observed(64)];
    let senders = [End::new(), End::new()];
    for (sender, (receiver, _)) in senders.iter().zip(&ends) {
        join(sender, receiver);
    }
    std::thread::scope(|scope| {
        let (done, finished) = mpsc::channel();
        for (number, (receiver, listener)) in ends.iter().enumerate() {
            let done = done.clone();
            scope.spawn(move || {
                for round in 0..500u64 {
                    receiver.post_receive(round);
                    done.send(number).unwrap();
                    assert!(wait(receiver, listener, Some(Instant::now() + PATIENCE)).unwrap());
                    assert_eq!(take(&receiver.completions), 1);
                }
            });
        }
        drop(done);
        for number in finished {
            send(&senders[number]);
            assert_eq!(senders[number].completion().status, Status::Success);
        }
    });
}

#[test]
fn ringing_wakes_a_thread_for_something_that_is_no_completion() {
    let _turn = TURN.lock();
    let (end, listener) = observed(16);
    let bell = listener.bell.as_ref().unwrap();
    for round in 0..200u64 {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Two of them: one drives, one sleeps on the bell.
            for _ in 0..2 {
                scope.spawn(|| {
                    let woken = end
                        .context()
                        .wait(bell, Some(Instant::now() + PATIENCE), &mut || done.load(Ordering::Relaxed));
                    assert!(woken.unwrap());
                });
            }
            std::thread::sleep(Duration::from_micros(round * 5));
            done.store(true, Ordering::Relaxed);
            bell.ring();
        });
    }
}

#[test]
fn a_wait_ends_at_its_time_and_sleeps_until_then() {
    let _turn = TURN.lock();
    let (receiver, listener) = observed(16);
    let sender = End::new();
    join(&sender, &receiver);
    let cpu = common::cpu_time_of_this_thread();
    for milliseconds in [0u64, 1, 30, 100] {
        let began = Instant::now();
        let until = began + Duration::from_millis(milliseconds);
        assert!(!wait(&receiver, &listener, Some(until)).unwrap());
        assert!(began.elapsed() >= Duration::from_millis(milliseconds));
    }
    let used = common::cpu_time_of_this_thread() - cpu;
    assert!(used < Duration::from_millis(65), "131 ms of waiting took {used:?} of the CPU");
}

#[test]
fn a_signal_ends_a_wait() {
    let _turn = TURN.lock();
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing; without SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
    }
    let (end, listener) = observed(16);
    for until in [None, Some(Instant::now() + PATIENCE)] {
        let (name, named) = mpsc::channel();
        std::thread::scope(|scope| {
            let (end, listener) = (&end, &listener);
            let waiter = scope.spawn(move || {
                // SAFETY: names this thread.
                name.send(unsafe { libc::pthread_self() }).unwrap();
                wait(end, listener, until)
            });
            let thread = named.recv().unwrap();
            while !waiter.is_finished() {
                // SAFETY: the thread is not joined yet.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(waiter.join().unwrap().unwrap_err().kind(), io::ErrorKind::Interrupted);
        });
    }
}

#[test]
fn a_forbidden_access_fails_both_queue_pairs_and_tells_both() {
    let _turn = TURN.lock();
    for operation in 0..3 {
        let ((one, first), (other, second)) = (observed(64), observed(64));
        join(&one, &other);
        let remote =
            RemoteRange { address: other.buffer.as_ptr() as u64 + 4090, key: other.region.remote_key() };
        let operation = match operation {
            0 => Operation::Write { remote, immediate: None },
            1 => Operation::Read { remote },
            _ => Operation::FetchAdd {
                remote: RemoteRange { address: other.buffer.as_ptr() as u64 + 4096, ..remote },
                add: 1,
            },
        };
        other.post_receive(7);
        assert_eq!(one.pair.idle(), (true, true));
        assert_eq!(other.pair.idle(), (true, false));
        one.post(1, operation, &[one.piece(0, 8)]);
        assert_eq!(one.completion().status, Status::RemoteAccess);
        let flushed = other.completion();
        assert_eq!((flushed.id, flushed.status), (7, Status::Flushed));
        for (end, listener) in [(&one, &first), (&other, &second)] {
            assert_eq!(end.pair.state(), QpState::Error);
            assert_eq!(listener.failed.load(Ordering::SeqCst), 1);
            assert_eq!(end.pair.idle(), (true, true));
        }
    }
}

#[test]
fn a_queue_pair_that_the_program_takes_to_error_tells_nobody() {
    let _turn = TURN.lock();
    let ((one, first), (other, _second)) = (observed(64), observed(64));
    join(&one, &other);
    one.post_receive(3);
    one.to_error();
    assert_eq!(one.completion().status, Status::Flushed);
    assert_eq!(first.failed.load(Ordering::SeqCst), 0);
}

#[test]
fn a_region_shares_memory_with_rights_and_a_zone_of_its_own() {
    let _turn = TURN.lock();
    let (one, other) = connected();
    let zone = other.context().allocate_zone().unwrap();
    let shared = other.region.share(&zone, Access::REMOTE_READ).unwrap();
    assert_ne!(shared.remote_key(), other.region.remote_key());
    assert_eq!((shared.length(), shared.zone().id()), (4096, zone.id()));
    assert!(zone.release().is_err(), "the region is in it");
    shared.deregister().unwrap();
    zone.release().unwrap();

    // The queue pair's own zone, read only; the first region goes, the memory stays.
    let shared = other.region.share(&other.zone, Access::REMOTE_READ).unwrap();
    other.region.deregister().unwrap();
    let remote = RemoteRange { address: other.buffer.as_ptr() as u64, key: shared.remote_key() };
    one.post(1, Operation::Read { remote }, &[one.piece(0, 8)]);
    assert_eq!(one.completion().status, Status::Success);
    assert!(other.region.share(&other.zone, Access::REMOTE_READ).is_err(), "it is gone");
    one.post(2, Operation::Write { remote, immediate: None }, &[one.piece(0, 8)]);
    assert_eq!(one.completion().status, Status::RemoteAccess);
}

#[test]
fn sharing_is_refused_where_writing_is_asked_for_and_the_mapping_forbids_it() {
    let _turn = TURN.lock();
    let (_, end) = connected();
    // SAFETY: a mapping of this test's own, unmapped at its end.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    let memory =
        nonic_device::RegionMemory::Program { address: common::program(page as usize), length: 4096 };
    let request = |access| nonic_device::RegionRequest { memory: memory.clone(), base: 0, access };
    let region = end.zone.register(request(Access::REMOTE_READ)).unwrap();
    for access in [Access::LOCAL_WRITE, Access::REMOTE_WRITE] {
        assert!(region.share(&end.zone, access).is_err());
        assert!(end.zone.register(request(access)).is_err());
    }
    // SAFETY: as above.
    unsafe { assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE), 0) };
    let shared = region.share(&end.zone, Access::REMOTE_WRITE).unwrap();
    shared.deregister().unwrap();
    region.deregister().unwrap();
    // SAFETY: nobody uses it any more.
    unsafe { libc::munmap(page, 4096) };
}

#[test]
fn events_that_nobody_reads_are_not_kept() {
    let _turn = TURN.lock();
    for ignored in [false, true] {
        let (one, other) = connected();
        if ignored {
            other.context().ignore_async_events();
        }
        let remote = RemoteRange { address: 1, key: other.region.remote_key() };
        one.post(1, Operation::Read { remote }, &[one.piece(0, 8)]);
        assert_eq!(one.completion().status, Status::RemoteAccess);
        assert_eq!(other.pair.state(), QpState::Error);
        let waits = nonic_sys::wait_readable(other.context().async_fd(), Some(Duration::ZERO));
        assert_eq!(waits, !ignored);
    }
}

#[test]
fn the_end_of_the_last_request_is_told_once_to_who_asked() {
    let _turn = TURN.lock();
    let (sender, listener) = observed(64);
    let receiver = End::new();
    join(&sender, &receiver);
    let told = || listener.ended.load(Ordering::SeqCst);
    let take_one = |id| {
        receiver.post_receive(id);
        assert_eq!(receiver.completion().status, Status::Success);
        assert_eq!(sender.completion().status, Status::Success);
    };
    // Nobody asked, or nothing is under way.
    send(&sender);
    take_one(1);
    assert!(sender.pair.idle_or_tell());
    send(&sender);
    take_one(2);
    assert_eq!(told(), 0);
    // Not with the first of two, and once; what is posted later is another matter.
    send(&sender);
    send(&sender);
    assert!(!sender.pair.idle_or_tell() && !sender.pair.idle_or_tell());
    take_one(3);
    assert_eq!(told(), 0);
    take_one(4);
    // The library's thread may have brought the completion, and tell of it next.
    let deadline = Instant::now() + PATIENCE;
    while told() == 0 {
        assert!(Instant::now() < deadline, "nobody was told");
        std::thread::yield_now();
    }
    assert_eq!(told(), 1);
    send(&sender);
    take_one(5);
    assert_eq!(told(), 1);
    // A failure ends them too.
    send(&sender);
    send(&sender);
    assert!(!sender.pair.idle_or_tell());
    sender.to_error();
    assert_eq!(told(), 2);
}

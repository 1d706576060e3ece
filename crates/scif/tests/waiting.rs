//! Calls that wait: what ends them, and what they cost meanwhile.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use nonic_scif::{Endpoint, PollEntry, ScifError, poll};

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

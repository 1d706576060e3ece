//! Threads that have been joined. A program of its own: other tests' threads come and go.
#![forbid(unsafe_code)]

use std::sync::mpsc;

use nonic_sys::Threads;

#[test]
fn a_thread_that_was_joined_does_not_count_and_one_that_lives_does() {
    let threads = Threads::open().unwrap();
    let before = threads.count().unwrap();
    let mut still_there = 0;
    for _ in 0..2000 {
        std::thread::spawn(|| ()).join().unwrap();
        still_there += usize::from(threads.count().unwrap() > before);
        assert!(threads.are_at_most(before));
    }
    println!("the kernel still counted {still_there} of 2000 threads");
    for others in 1..5 {
        let living: Vec<_> = (0..others)
            .map(|_| {
                let (end, ended) = mpsc::channel::<()>();
                (end, std::thread::spawn(move || ended.recv().is_err()))
            })
            .collect();
        assert!(!threads.are_at_most(before + others - 1));
        assert!(threads.are_at_most(before + others));
        for (end, thread) in living {
            drop(end);
            assert!(thread.join().unwrap());
        }
        assert!(threads.are_at_most(before));
    }
}

//! What a biased mutex promises.

use super::*;
use crate::prepare_light_fences;
use std::sync::Arc;

/// Two numbers that are equal whenever nobody is inside.
fn twice(pair: &mut (u64, u64)) {
    // Volatile: the compiler must not make one step of two.
    // SAFETY: both are exclusively borrowed.
    unsafe {
        let first = std::ptr::read_volatile(&raw const pair.0);
        std::ptr::write_volatile(&raw mut pair.0, first + 1);
        let second = std::ptr::read_volatile(&raw const pair.1);
        std::ptr::write_volatile(&raw mut pair.1, second + 1);
        assert_eq!(first, second, "two threads were inside");
    }
}

#[test]
fn a_favourite_and_its_rivals_are_never_inside_together() {
    prepare_light_fences();
    let mutex = Arc::new(BiasedMutex::new((0u64, 0u64)));
    std::thread::scope(|scope| {
        for rival in 0..3u32 {
            let mutex = Arc::clone(&mutex);
            scope.spawn(move || {
                for round in 0..60_000u32 {
                    // The rivals come in turns, so that favours are granted and withdrawn over and over.
                    let rare = rival > 0 && !round.is_multiple_of(500);
                    if rare {
                        cpu_relax();
                    } else if rival == 2 {
                        if let Some(mut guard) = mutex.try_lock() {
                            twice(&mut guard);
                        }
                    } else {
                        twice(&mut mutex.lock());
                    }
                }
            });
        }
    });
    let seen = *mutex.lock();
    assert!(seen.0 >= 60_000 && seen.0 == seen.1, "{seen:?}");
}

#[test]
fn a_thread_alone_becomes_the_favourite_where_light_fences_are_free() {
    let free = prepare_light_fences();
    let mutex = BiasedMutex::new(0);
    for _ in 0..=FIRST_PATIENCE {
        *mutex.lock() += 1;
    }
    assert_eq!(mutex.favourite.load(Ordering::Relaxed) == thread_mark(), free);
    assert_eq!(mutex.lock().flag.is_some(), free);
    std::thread::scope(|scope| {
        scope.spawn(|| *mutex.lock() += 1);
    });
    assert_eq!(mutex.favourite.load(Ordering::Relaxed), NOBODY);
    assert_eq!(*mutex.lock(), FIRST_PATIENCE + 2);
}

#[test]
fn nobody_gets_in_while_the_favourite_is_inside() {
    prepare_light_fences();
    let mutex = BiasedMutex::new(());
    for _ in 0..=FIRST_PATIENCE {
        drop(mutex.lock());
    }
    let guard = mutex.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock().is_none()));
    });
    drop(guard);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(mutex.try_lock().is_some()));
    });
}

/// The number of the calling thread's flag, once it is the favourite.
fn become_favourite<T>(mutex: &BiasedMutex<T>) -> Option<usize> {
    for _ in 0..=LAST_PATIENCE {
        if let Some(flag) = mutex.lock().flag {
            return mutex.inside.iter().position(|inside| std::ptr::eq(inside, flag));
        }
    }
    None
}

#[test]
fn a_favourite_that_may_be_about_to_raise_its_flag_shares_it_with_nobody() {
    if !prepare_light_fences() {
        return;
    }
    let mutex = BiasedMutex::new(());
    assert_eq!(become_favourite(&mutex), Some(0));
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                assert_eq!(become_favourite(&mutex), Some(1), "the first one may be about to raise its own");
                // Has come by since: its flag is free.
                std::thread::scope(|scope| scope.spawn(|| drop(mutex.lock())).join().unwrap());
                assert_eq!(become_favourite(&mutex), Some(1));
            })
            .join()
            .unwrap();
    });
    assert_eq!(become_favourite(&mutex), Some(0));
}

#[test]
fn with_every_flag_taken_nobody_else_becomes_the_favourite() {
    if !prepare_light_fences() {
        return;
    }
    let mutex = BiasedMutex::new(());
    // They stay until the end: marks of threads that ended are used again.
    let (became, end) = (std::sync::Barrier::new(2), std::sync::Barrier::new(FLAGS + 1));
    std::thread::scope(|scope| {
        for flag in 0..FLAGS {
            scope.spawn(|| {
                become_favourite(&mutex);
                became.wait();
                end.wait();
            });
            became.wait();
            assert_eq!(mutex.favourite.load(Ordering::Relaxed) & FLAG, flag);
        }
        assert_eq!(become_favourite(&mutex), None);
        end.wait();
    });
}

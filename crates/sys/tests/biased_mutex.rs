//! A mutex and its favourites, under the model checker: whoever was held up, and wherever, two are never inside.
//! Runs with `ci/loom`; elsewhere there is nothing to run.

#![cfg(loom)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use nonic_sys::BiasedMutex;

/// What the model finds used by two threads at once, if they are inside together.
type Counted = Arc<BiasedMutex<UnsafeCell<u32>>>;

fn counted() -> Counted {
    Arc::new(BiasedMutex::new(UnsafeCell::new(0)))
}

fn add_one(mutex: &Counted) {
    // SAFETY: the model ends the test if anybody else is at it.
    mutex.lock().with_mut(|count| unsafe { *count += 1 });
}

fn try_to_add_one(mutex: &Counted) -> u32 {
    let Some(guard) = mutex.try_lock() else { return 0 };
    // SAFETY: as above.
    guard.with_mut(|count| unsafe { *count += 1 });
    1
}

fn total(mutex: &Counted) -> u32 {
    // SAFETY: as above.
    mutex.lock().with(|count| unsafe { *count })
}

/// In the model whoever takes the mutex is its favourite from then on, so that the favour goes from thread to thread while
/// the ones before are anywhere.
#[test]
fn three_threads_that_take_the_favour_from_each_other_are_never_inside_together() {
    loom::model(|| {
        let mutex = counted();
        add_one(&mutex);
        let second = thread::spawn({
            let mutex = Arc::clone(&mutex);
            move || {
                add_one(&mutex);
                add_one(&mutex);
            }
        });
        let third = thread::spawn({
            let mutex = Arc::clone(&mutex);
            move || add_one(&mutex)
        });
        add_one(&mutex);
        second.join().unwrap();
        third.join().unwrap();
        assert_eq!(total(&mutex), 5);
    });
}

#[test]
fn who_only_tries_comes_in_while_nobody_is_inside_or_not_at_all() {
    loom::model(|| {
        let mutex = counted();
        add_one(&mutex);
        let second = thread::spawn({
            let mutex = Arc::clone(&mutex);
            move || try_to_add_one(&mutex) + try_to_add_one(&mutex)
        });
        add_one(&mutex);
        let more = second.join().unwrap() + try_to_add_one(&mutex);
        assert_eq!(total(&mutex), 2 + more);
    });
}

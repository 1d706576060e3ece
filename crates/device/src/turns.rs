//! Turns that threads of the library take as ordinary threads, and how whoever moves pages waits for their end: a program with one
//! thread has nothing else that could hold them back.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nonic_sys::{PerProcess, Threads, is_thread, nap};

/// A turn takes moments. Whoever waits does not wait for ever all the same: without this the pages stay where they are.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether a thread that ends is gone.
const LOOK: Duration = Duration::from_micros(20);

/// Threads of the library in this process.
#[derive(Debug, Default)]
struct Stand {
    /// Those that are counted, in a turn or not.
    own: usize,
    in_turn: usize,
    /// So many wait for the turns to end, or rely on it.
    held: usize,
    /// Those that are counted no more, and that the kernel may still have.
    ending: Vec<i32>,
}

#[derive(Debug, Default)]
struct Turns {
    stand: Mutex<Stand>,
    changed: Condvar,
    threads: OnceLock<Option<Threads>>,
}

static TURNS: PerProcess<Turns> = PerProcess::new();

fn turns() -> &'static Turns {
    TURNS.get_or_make(Turns::default)
}

/// A thread of the library is counted from now on.
pub(crate) fn started() {
    turns().stand().own += 1;
}

/// It is counted no more: the thread that calls, which ends now.
pub(crate) fn ended() {
    let mut stand = turns().stand();
    stand.own = stand.own.saturating_sub(1);
    stand.ending.push(nonic_sys::thread_number());
}

/// A thread of the library becomes an ordinary one, as soon as nobody relies on there being none.
pub(crate) fn begin() {
    turns().begin();
}

/// It keeps off the program's memory again.
pub(crate) fn end() {
    turns().end();
}

/// As long as this exists no thread of the library is an ordinary one, if the program itself has but one thread. Whoever calls
/// must hold nothing that a turn could wait for.
pub(crate) fn hold() -> Option<Held<'static>> {
    let turns = TURNS.get()?;
    turns.hold(|stand| {
        let threads = turns.threads.get_or_init(|| Threads::open().ok()).as_ref();
        // A thread in its turn may just be starting another one.
        let of_library = stand.own + stand.in_turn + stand.ending.len();
        threads.and_then(|threads| threads.count().ok()).is_some_and(|count| count <= 1 + of_library)
    })
}

/// No turn begins.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Turns);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.stand().held -= 1;
        self.0.changed.notify_all();
    }
}

impl Turns {
    fn stand(&self) -> MutexGuard<'_, Stand> {
        self.stand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let stand = self.changed.wait_while(self.stand(), |stand| stand.held > 0);
        stand.unwrap_or_else(PoisonError::into_inner).in_turn += 1;
    }

    fn end(&self) {
        self.stand().in_turn -= 1;
        self.changed.notify_all();
    }

    /// If it is `of_use`.
    fn hold(&self, of_use: impl FnOnce(&Stand) -> bool) -> Option<Held<'_>> {
        let mut stand = self.stand();
        if (stand.own == 0 && stand.ending.is_empty()) || !of_use(&stand) {
            return None;
        }
        stand.held += 1;
        let held = Held(self);
        let deadline = Instant::now() + PATIENCE;
        let waited = self.changed.wait_timeout_while(stand, PATIENCE, |stand| stand.in_turn > 0);
        let mut stand = waited.unwrap_or_else(PoisonError::into_inner).0;
        while !stand.ending.is_empty() {
            stand.ending.retain(|thread| is_thread(*thread));
            if Instant::now() > deadline {
                // Another thread has the number by now.
                stand.ending.clear();
            }
            if !stand.ending.is_empty() {
                drop(stand);
                nap(LOOK);
                stand = self.stand();
            }
        }
        drop(stand);
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn who_holds_waits_for_the_turn_under_way_and_the_next_waits_for_who_holds() {
        let turns = Turns::default();
        turns.stand().own = 1;
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            turns.begin();
            let (turns, holder) = (&turns, sender.clone());
            let holding = scope.spawn(move || {
                let held = turns.hold(|_| true);
                holder.send("held").unwrap();
                held
            });
            while turns.stand().held == 0 {
                std::thread::yield_now();
            }
            sender.send("turn").unwrap();
            turns.end();
            let held = holding.join().unwrap();
            assert_eq!(turns.stand().in_turn, 0);
            let next = scope.spawn(move || {
                turns.begin();
                sender.send("next").unwrap();
                turns.end();
            });
            receiver.recv().and_then(|_| receiver.recv()).unwrap();
            assert!(receiver.try_recv().is_err(), "a turn began while they were held");
            drop(held);
            assert_eq!(receiver.recv(), Ok("next"));
            next.join().unwrap();
        });
        let stand = turns.stand();
        assert_eq!((stand.held, stand.in_turn), (0, 0));
    }

    #[test]
    fn who_holds_waits_until_a_thread_that_ends_is_gone() {
        let turns = Turns::default();
        let thread = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let thread = nonic_sys::thread_number();
                    turns.stand().ending.push(thread);
                    thread
                })
                .join()
                .unwrap()
        });
        assert!(turns.hold(|_| true).is_some());
        assert!(!is_thread(thread));
        assert!(turns.stand().ending.is_empty());
    }

    #[test]
    fn nobody_waits_where_it_is_of_no_use() {
        let turns = Turns::default();
        assert!(turns.hold(|_| true).is_none(), "there is no thread of the library");
        turns.stand().own = 1;
        turns.begin();
        assert!(turns.hold(|_| false).is_none());
        turns.end();
    }
}

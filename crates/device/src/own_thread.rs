//! Threads of the library beside the agent: how many there are, and that they keep off the program's memory while pages of it
//! are moved.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use crate::exposed::count_threads;
use crate::presence::Presence;
use crate::turns;

/// A thread of the library's that keeps off the program's memory while pages are moved: it touches memory only inside
/// [`OwnThread::work`], and does nothing outside but wait in the kernel.
#[derive(Debug)]
pub struct OwnThread {
    at_work: Arc<Mutex<()>>,
    presence: Arc<Presence>,
    is_counted: Cell<bool>,
}

/// For whoever starts an [`OwnThread`].
#[derive(Debug)]
pub struct Starter(Arc<Presence>);

impl Starter {
    /// The thread is there now: it counts from here on, though it may not have run yet.
    pub fn has_started(self) {
        self.0.begin();
    }
}

fn count(more: isize) {
    if more > 0 {
        turns::started();
    } else {
        turns::ended();
    }
    count_threads(more);
}

thread_local! {
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside [`OwnThread::work`]: then it may not wait for others of the library's threads.
pub(crate) fn is_at_work() -> bool {
    IS_AT_WORK.get()
}

impl OwnThread {
    /// For a thread that is about to start. It is counted from when it is known to be there, because its starter says so
    /// ([`Starter::has_started`]) or it says itself what it does, to when it drops this.
    pub fn count() -> Self {
        Self::keeping(crate::process::at_work())
    }

    /// The same for a thread that does at once what another process waits for: it waits for no thread that may itself be waiting for
    /// a process.
    pub(crate) fn count_serving() -> Self {
        Self::keeping(crate::process::serving())
    }

    fn keeping(at_work: Arc<Mutex<()>>) -> Self {
        Self { at_work, presence: Presence::new(count), is_counted: Cell::new(false) }
    }

    /// What the starting thread says it by.
    pub fn starter(&self) -> Starter {
        Starter(Arc::clone(&self.presence))
    }

    fn count_once(&self) {
        if !self.is_counted.replace(true) {
            self.presence.begin();
        }
    }

    /// Runs `work`, which may give memory back, as an ordinary thread would. Whoever exposes memory of a program with one thread
    /// waits until it is over, so it must be short, and must not wait for who does.
    pub fn as_ordinary<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Counts it again, also when `work` panics.
        struct Ordinary;
        impl Drop for Ordinary {
            fn drop(&mut self) {
                count_threads(1);
                turns::end();
            }
        }
        self.count_once();
        turns::begin();
        count_threads(-1);
        let _ordinary = Ordinary;
        work()
    }

    /// Runs `work` while no pages are moved. It must neither expose memory nor end that, nor wait for who does.
    pub fn work<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Says so until `work` is over, also when it panics.
        struct AtWork;
        impl Drop for AtWork {
            fn drop(&mut self) {
                IS_AT_WORK.set(false);
            }
        }
        self.count_once();
        let _at_work = crate::engine::lock(&self.at_work);
        IS_AT_WORK.set(true);
        let _says_so = AtWork;
        work()
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        self.presence.end();
    }
}

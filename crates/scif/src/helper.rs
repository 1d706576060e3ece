//! The one thread of this crate: it watches what no call of the program waits for, and is there only while there is
//! something to watch.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_device::OwnThread;
use nonic_sys::{AsFd, AsRawFd, EventFd, EventKind, POLL_IN, PollEntry, RawFd, poll, spawn_without_signals};

/// What a task wants after it has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Never to run again.
    Done,
    /// To run again after this time.
    Again(Duration),
    /// To run again when the descriptor is readable or hung up, and after the time if one is given.
    WhenReadable(RawFd, Option<Duration>),
}

/// Something to do now and then. It runs on the helper's thread, must not block for long, and keeps the descriptors it
/// waits for open.
pub(crate) type Task = Box<dyn FnMut() -> Next + Send>;

/// A thread with nothing to do stays this long.
const LINGER: Duration = Duration::from_millis(200);

struct State {
    added: Vec<Task>,
    running: bool,
    bell: Option<EventFd>,
}

static STATE: Mutex<State> = Mutex::new(State { added: Vec::new(), running: false, bell: None });

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has `task` run soon, and again as it wishes. Without a thread (the kernel gives none) it never runs: what it does must
/// also be done by later calls of the program.
pub(crate) fn add(task: Task) {
    let mut state = lock();
    state.added.push(task);
    if state.bell.is_none() {
        state.bell = EventFd::new(EventKind::All, true).ok();
    }
    let mut started = None;
    if !state.running && state.bell.is_some() {
        // A program with one thread besides needs no protection against itself while its pages are moved.
        let thread = OwnThread::count();
        let starter = thread.starter();
        state.running = spawn_without_signals("nonic-scif", move || run(&thread)).is_ok();
        started = state.running.then_some(starter);
    }
    if let Some(bell) = &state.bell {
        bell.signal();
    }
    // Without the lock: whoever counts threads may wait for those that touch memory, and they for this lock.
    drop(state);
    if let Some(starter) = started {
        starter.has_started();
    }
}

/// Keeps the list as it is while the process forks.
pub(crate) struct Held(MutexGuard<'static, State>);

pub(crate) fn hold() -> Held {
    Held(lock())
}

impl Held {
    /// In a child: the thread and its tasks are the parent's. Nothing is freed, because another thread may have held the
    /// allocator's lock.
    pub(crate) fn become_child(mut self) {
        std::mem::forget(std::mem::take(&mut self.0.added));
        std::mem::forget(self.0.bell.take());
        self.0.running = false;
    }
}

struct Waiting {
    task: Task,
    descriptor: RawFd,
    until: Option<Instant>,
}

/// What the next turn is made of; `None`: the thread ends.
fn gather(
    waiting: &mut Vec<Waiting>,
    entries: &[PollEntry],
    idle_since: Option<Instant>,
) -> Option<Vec<Task>> {
    let added = {
        let mut state = lock();
        let idle = waiting.is_empty() && state.added.is_empty();
        let idle_for_long = idle && idle_since.is_some_and(|since| since.elapsed() >= LINGER);
        if idle_for_long || state.bell.is_none() {
            state.running = false;
            return None;
        }
        std::mem::take(&mut state.added)
    };
    let now = Instant::now();
    let due = |task: &Waiting, entry: Option<&PollEntry>| {
        task.until.is_some_and(|until| until <= now) || entry.is_some_and(|entry| entry.revents != 0)
    };
    // The first entry is the bell's.
    let mut turn: Vec<Task> = added;
    let mut rest = Vec::with_capacity(waiting.len());
    for (index, task) in waiting.drain(..).enumerate() {
        if due(&task, entries.get(index + 1)) { turn.push(task.task) } else { rest.push(task) }
    }
    *waiting = rest;
    Some(turn)
}

/// Runs the tasks of a turn; those that want another wait.
fn take_turn(turn: Vec<Task>, waiting: &mut Vec<Waiting>) {
    for mut task in turn {
        match task() {
            Next::Done => {}
            Next::Again(after) => {
                waiting.push(Waiting { task, descriptor: -1, until: Some(Instant::now() + after) });
            }
            Next::WhenReadable(descriptor, after) => {
                let until = after.map(|after| Instant::now() + after);
                waiting.push(Waiting { task, descriptor, until });
            }
        }
    }
}

fn run(thread: &OwnThread) {
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut entries: Vec<PollEntry> = Vec::new();
    let mut idle_since: Option<Instant> = None;
    loop {
        let Some(turn) = thread.work(|| gather(&mut waiting, &entries, idle_since)) else { return };
        if !turn.is_empty() {
            // Tasks may give windows back.
            thread.as_ordinary(|| take_turn(turn, &mut waiting));
        }
        let timeout = thread.work(|| {
            idle_since = if waiting.is_empty() { idle_since.or(Some(Instant::now())) } else { None };
            let until = waiting.iter().filter_map(|task| task.until).min();
            let until = until.or(idle_since.map(|since| since + LINGER));
            entries.clear();
            let bell = lock().bell.as_ref().map_or(-1, |bell| bell.as_fd().as_raw_fd());
            entries.push(PollEntry { number: bell, events: POLL_IN, revents: 0 });
            let entry = |task: &Waiting| PollEntry { number: task.descriptor, events: POLL_IN, revents: 0 };
            entries.extend(waiting.iter().map(entry));
            until.map(|until| until.saturating_duration_since(Instant::now()))
        });
        let polled = poll(&mut entries, timeout);
        thread.work(|| {
            if polled.is_ok()
                && entries[0].revents != 0
                && let Some(bell) = &lock().bell
            {
                let _ = bell.take();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn tasks_run_when_they_want_to_and_the_thread_ends_without_any() {
        let (sender, receiver) = mpsc::channel();
        let (read_end, write_end) = nonic_sys::pipe().unwrap();
        let mut turns = 0;
        add(Box::new(move || {
            turns += 1;
            sender.send(turns).unwrap();
            match turns {
                1 => Next::Again(Duration::from_millis(1)),
                2 => Next::WhenReadable(read_end.as_raw_fd(), None),
                _ => Next::Done,
            }
        }));
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(2)));
        nonic_sys::write_byte(&write_end).unwrap();
        assert_eq!(receiver.recv(), Ok(3));
        // The task is gone, and with it its end of the channel.
        assert!(receiver.recv().is_err());
        while lock().running {
            std::thread::yield_now();
        }
    }
}

//! What passes between a parent and its child while the child copies: the parent goes on only when the child needs its pages
//! no more, or has to do without the rest of them.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, OwnedFd, PAGE, SharedMapping, nap, pipe, read_byte, wait_readable, write_byte};

/// Where the state stands: a word of [`UNDER_WAY`], [`COPIED`], [`LEFT`].
const STATE: usize = 0;
/// Where the child counts what it has copied.
const STEPS: usize = 64;

/// The child copies.
const UNDER_WAY: u64 = 0;
/// The child has all it wants.
const COPIED: u64 = 1;
/// The parent has gone on: what the child has not copied yet is not what it was at the fork.
const LEFT: u64 = 2;

/// How often a parent without a pipe looks.
const LOOK: Duration = Duration::from_millis(1);

/// Made before a fork, used by both sides after it.
#[derive(Debug)]
pub(super) struct Handshake {
    words: SharedMapping,
    /// Reading and writing end: tells the parent that the child is done, or dead. `None` if no descriptor was to be had.
    ends: Option<(OwnedFd, OwnedFd)>,
}

impl Handshake {
    /// An error means that no child may wait for this process, nor copy anything.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { words: SharedMapping::anonymous(PAGE)?, ends: pipe().ok() })
    }

    fn state(&self) -> &AtomicU64 {
        self.words.word(STATE)
    }

    /// In the parent: returns when the child has copied, is dead, or never was. A child that gets nowhere for as long as
    /// `patience`, because somebody has stopped it, gets nothing more.
    pub(super) fn wait(self, patience: Duration) {
        let Self { words, ends } = self;
        let reading = ends.map(|(reading, writing)| {
            drop(writing);
            reading
        });
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            let is_over = match &reading {
                Some(reading) if wait_readable(reading.as_fd(), Some(patience)) => {
                    let _ = read_byte(reading);
                    return;
                }
                // A signal handler may have cut the waiting short.
                Some(_) => since.elapsed() >= patience,
                None => {
                    let _ = nap(LOOK);
                    words.word(STATE).load(Ordering::Acquire) != UNDER_WAY || since.elapsed() >= patience
                }
            };
            let steps = words.word(STEPS).load(Ordering::Relaxed);
            if steps != seen {
                (seen, since) = (steps, Instant::now());
            } else if is_over {
                let order = (Ordering::SeqCst, Ordering::SeqCst);
                let _ = words.word(STATE).compare_exchange(UNDER_WAY, LEFT, order.0, order.1);
                return;
            }
        }
    }

    /// In the child: whether the parent still waits, so that what was copied until now is what was there at the fork.
    pub(super) fn parent_waits(&self) -> bool {
        // The copying comes before the look.
        fence(Ordering::SeqCst);
        self.words.word(STEPS).fetch_add(1, Ordering::Relaxed);
        self.state().load(Ordering::SeqCst) == UNDER_WAY
    }

    /// In the child: it needs the parent's pages no more.
    pub(super) fn finish(self) {
        let _ = self.state().compare_exchange(UNDER_WAY, COPIED, Ordering::SeqCst, Ordering::SeqCst);
        if let Some((_reading, writing)) = &self.ends {
            let _ = write_byte(writing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(with_pipe: bool) -> (Handshake, Handshake) {
        let mut parent = Handshake::new().unwrap();
        let words = SharedMapping::duplicate(parent.words.as_ptr() as usize, PAGE).unwrap();
        let ends = parent.ends.as_ref().filter(|_| with_pipe);
        let ends =
            ends.map(|(reading, writing)| (reading.try_clone().unwrap(), writing.try_clone().unwrap()));
        if !with_pipe {
            parent.ends = None;
        }
        (parent, Handshake { words, ends })
    }

    #[test]
    fn a_parent_waits_as_long_as_its_child_gets_on() {
        for with_pipe in [true, false] {
            let (parent, child) = pair(with_pipe);
            let patience = Duration::from_millis(300);
            let begun = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for _ in 0..10 {
                        nap(patience / 5);
                        assert!(child.parent_waits());
                    }
                    child.finish();
                });
                parent.wait(patience);
            });
            assert!(begun.elapsed() >= 2 * patience, "{with_pipe}");
        }
    }

    #[test]
    fn a_child_that_gets_nowhere_is_told_that_its_parent_has_gone_on() {
        for with_pipe in [true, false] {
            let (parent, child) = pair(with_pipe);
            assert!(child.parent_waits());
            parent.wait(Duration::from_millis(20));
            assert!(!child.parent_waits(), "{with_pipe}");
        }
    }

    #[test]
    fn a_parent_does_not_wait_for_a_dead_child() {
        let (parent, child) = pair(true);
        drop(child);
        let begun = Instant::now();
        parent.wait(Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

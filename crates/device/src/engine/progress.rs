//! Driving the device: reading rings on whichever thread has time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_sys::yield_now;
use nonic_transport::Link;

use super::{Engine, Progress};
use crate::queue_pair::{Delivery, QueuePair};

impl Engine {
    pub(crate) fn note_poll(&self) {
        if !self.recent_poll.load(Ordering::Relaxed) {
            self.recent_poll.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a program drives the device itself. Asking forgets.
    pub(crate) fn program_polls(&self) -> bool {
        self.recent_poll.swap(false, Ordering::Relaxed) && self.armed.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn anyone_sleeps(&self) -> bool {
        self.armed.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn queue_armed(&self) {
        self.armed.fetch_add(1, Ordering::SeqCst);
        if self.timed.load(Ordering::SeqCst) {
            self.party.doorbell.signal();
        }
    }

    pub(crate) fn queue_disarmed(&self) {
        self.armed.fetch_sub(1, Ordering::SeqCst);
    }

    /// Handles messages until about `wanted` receives were filled. True if anything was handled.
    pub(crate) fn progress_for_poller(&self, wanted: usize) -> bool {
        let progress = self.progress(wanted.max(1));
        if progress.worked {
            return true;
        }
        let polls = self.empty_polls.load(Ordering::Relaxed).wrapping_add(1);
        self.empty_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(POLLS_PER_YIELD) {
            yield_now();
        }
        // Another thread may have filled the queue meanwhile.
        progress.taken
    }

    /// Handles messages now and then for a program whose polls always find completions: its peers must not wait for it
    /// to run out of them.
    pub(crate) fn progress_for_busy_poller(&self) {
        let polls = self.busy_polls.load(Ordering::Relaxed).wrapping_add(1);
        self.busy_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(BUSY_POLLS_PER_LOOK) {
            self.progress(1);
        }
    }

    /// Waits until whoever reads rings right now has sent the answers too, but not for long. A program may exit as soon as
    /// it sees what a peer wrote; the peer must have its answer then.
    pub(super) fn wait_for_driver(&self) {
        let deadline = Instant::now() + EXIT_PATIENCE;
        while self.driver.try_lock().is_err() && Instant::now() < deadline {
            yield_now();
        }
    }

    /// Handles messages of every link, filling about `receives` receives at most.
    pub(crate) fn progress(&self, receives: usize) -> Progress {
        let mut progress = Progress::default();
        let Ok(_driver) = self.driver.try_lock() else {
            progress.taken = true;
            return progress;
        };
        for link in self.links().iter() {
            self.drain(link, receives, &mut progress);
        }
        progress
    }

    /// Handles messages of one link; true if there were any.
    pub(super) fn drain(&self, link: &Arc<Link>, receives: usize, progress: &mut Progress) -> bool {
        let mut handled = 0;
        let mut filled = 0;
        let mut bell = false;
        let mut current: Option<Arc<QueuePair>> = None;
        if let Some(mut ring) = link.try_receive() {
            while handled < MESSAGES_PER_POLL && filled < receives {
                let incoming = match ring.peek() {
                    Ok(Some(incoming)) => incoming,
                    Ok(None) => break,
                    Err(error) => {
                        link.refused_messages.fetch_add(1, Ordering::Relaxed);
                        if !link.is_dead() {
                            let pid = link.credentials().pid;
                            tracing::warn!(pid, %error, "a peer broke the rules; its link is closed");
                            self.end_link(link);
                        }
                        break;
                    }
                };
                let number = incoming.header.destination;
                if current.as_ref().is_none_or(|pair| pair.number() != number || pair.is_destroyed()) {
                    if let Some(pair) = current.take() {
                        pair.answer_now();
                    }
                    current = self.find_pair(number);
                }
                let delivery = match &current {
                    Some(pair) => pair.deliver(link, &incoming),
                    None => {
                        QueuePair::refuse_unknown(link, &incoming.header);
                        Delivery::Quiet
                    }
                };
                match delivery {
                    Delivery::Held => {
                        progress.held = true;
                        break;
                    }
                    Delivery::Filled => filled += 1,
                    Delivery::Quiet => {}
                }
                handled += 1;
                bell |= ring.advance();
            }
            bell |= ring.report();
        }
        if let Some(pair) = current {
            pair.answer_now();
        }
        if bell {
            link.ring_bell_now();
        }
        for number in link.take_stalled() {
            if let Some(pair) = self.find_pair(number) {
                pair.resume();
                handled += 1;
            }
        }
        progress.worked |= handled > 0;
        handled > 0
    }
}

/// Messages handled in one call of a polling program.
pub(super) const MESSAGES_PER_POLL: usize = 256;

/// Polls without result after which a polling thread lets others of its CPU go first.
pub(super) const POLLS_PER_YIELD: u32 = 64;

/// How long an exiting process waits for its own thread to finish what it is at.
const EXIT_PATIENCE: Duration = Duration::from_millis(100);
/// Polls that found all they wanted after which the rings are looked at all the same.
pub(super) const BUSY_POLLS_PER_LOOK: u32 = 16;

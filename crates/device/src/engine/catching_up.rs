//! Catching up: handling everything that peers have said by now, in rings that they have only just made among others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, AsRawFd, POLL_IN, poll_now, yield_now};

use super::links::BlockListener;
use super::{Engine, Progress, lock};

/// Connections that peers have made and that are no links yet.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Those that the agent has taken and that have not introduced themselves.
    pub(crate) newcomers: AtomicUsize,
    rounds: Mutex<Rounds>,
    met: Condvar,
}

/// How often the agent was asked to take in everybody, and up to which of these it has.
#[derive(Debug, Default)]
struct Rounds {
    asked: u64,
    done: u64,
}

impl Engine {
    /// Has the agent make a link of every connection that a peer has made by now, and waits for that, but not for long. What a peer said
    /// last may stand in the ring of one that it had just made. Not on a thread that the agent may wait for.
    pub(crate) fn meet_all(&self) {
        if self.has_met_all() || !self.agent.can_be_awaited() {
            return;
        }
        let mut rounds = lock(&self.links.admission.rounds);
        rounds.asked += 1;
        let number = rounds.asked;
        self.party.doorbell.signal();
        let waited = self
            .links
            .admission
            .met
            .wait_timeout_while(rounds, MEETING_PATIENCE, |rounds| rounds.done < number);
        let timed_out = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        if timed_out {
            tracing::debug!("the agent does not take in who has connected");
        }
    }

    /// Whether no connection waits to become a link.
    fn has_met_all(&self) -> bool {
        // One that the agent is just taking is in neither place.
        let Ok(_agent_rests) = self.agent.at_work.try_lock() else { return false };
        let has_some =
            |listener: &Arc<BlockListener>| poll_now(listener.socket.as_fd().as_raw_fd(), POLL_IN) != 0;
        self.links.admission.newcomers.load(Ordering::SeqCst) == 0
            && !lock(&self.links.listeners).iter().any(has_some)
    }

    /// Asked by the agent: the number of the last who wants everybody taken in, if that was not done for all.
    pub(crate) fn asked_to_meet(&self) -> Option<u64> {
        let rounds = lock(&self.links.admission.rounds);
        (rounds.done < rounds.asked).then_some(rounds.asked)
    }

    /// The agent has taken in everybody, for those who asked up to `number`.
    pub(crate) fn have_met(&self, number: u64) {
        lock(&self.links.admission.rounds).done = number;
        self.links.admission.met.notify_all();
    }

    /// Sends what is owed and handles what has come by now, whoever reads the rings; not what comes meanwhile, as far as that
    /// can be told apart.
    pub(crate) fn catch_up(&self) {
        let deadline = Instant::now() + CATCH_UP_PATIENCE;
        let mut looks = 0;
        while looks < LOOKS_PER_RING {
            let progress = self.progress(usize::MAX);
            if progress.any_of(Progress::WORKED) {
                looks += 1;
            } else if !progress.any_of(Progress::HELD)
                && (progress.any_of(Progress::TAKEN) || self.has_unread())
                && Instant::now() < deadline
            {
                yield_now();
            } else {
                break;
            }
        }
        self.answer_all();
    }

    /// Handles what has come by now. If another thread is at it, it is waited for, but not for long.
    pub(crate) fn look_before_sending(&self) {
        if self.progress(usize::MAX).any_of(Progress::TAKEN) {
            self.catch_up();
        }
    }

    /// Whether a ring may have messages: another thread may just be at it, to fall asleep for one.
    fn has_unread(&self) -> bool {
        let mut unread = self.party.calls.any();
        let looked = self.of_watched(|link| unread |= link.try_receive().is_none_or(|ring| ring.has_work()));
        unread || !looked
    }
}

/// How long who catches up waits for the agent to take in who has connected.
const MEETING_PATIENCE: Duration = Duration::from_secs(2);
/// Looks that handle everything a ring can hold.
const LOOKS_PER_RING: u32 = 32;
/// How long catching up waits for another thread to finish what it is at.
const CATCH_UP_PATIENCE: Duration = Duration::from_millis(100);

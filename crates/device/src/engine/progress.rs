//! Driving the device: reading rings on whichever thread has time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_protocol::{Delivery, QpNumber};
use nonic_sys::{BiasedGuard, Seldom, thread_number};
use nonic_transport::{Consumer, Link, RingCorrupt, Sleeper};

use super::Engine;
use super::driver::Driver;
use crate::completion_queue::CompletionQueue;
use crate::queue_pair::QueuePair;

/// What a look at all rings found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress(u32);

impl Progress {
    /// Messages were handled.
    pub(crate) const WORKED: Self = Self(1);
    /// A message waits for a receive that its program is about to post.
    pub(crate) const HELD: Self = Self(1 << 1);
    /// Another thread was at it.
    pub(crate) const TAKEN: Self = Self(1 << 2);

    /// Whether it was one of these.
    #[inline]
    pub(crate) fn any_of(self, which: Self) -> bool {
        self.0 & which.0 != 0
    }
}

impl std::ops::BitOr for Progress {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a look at a ring that polls do not look at found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// Nothing is left; the peer says over the socket when there is something.
    Quiet,
    /// There may be more.
    More,
    /// A message waits for a receive.
    Held,
}

impl Engine {
    /// The program sends something.
    #[inline]
    pub(crate) fn note_send(&self) {
        if !self.driving.sent.load(Ordering::Relaxed) {
            self.driving.sent.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it did since this was last asked. A hint: two threads may miss each other.
    #[inline]
    fn take_sent(&self) -> bool {
        let sent = self.driving.sent.load(Ordering::Relaxed);
        if sent {
            self.driving.sent.store(false, Ordering::Relaxed);
        }
        sent
    }

    /// The number of an arrival: greater than those of all arrivals before it.
    pub(crate) fn number_arrival(&self) -> u64 {
        self.driving.arrivals.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn note_poll(&self) {
        if !self.is_polled() {
            self.note_poller();
        }
    }

    #[cold]
    fn note_poller(&self) {
        self.driving.poller.store(thread_number(), Ordering::Relaxed);
        self.driving.recent_poll.store(true, Ordering::Relaxed);
    }

    /// The thread that polled last, or did for the first time after somebody asked.
    pub(crate) fn poller(&self) -> i32 {
        self.driving.poller.load(Ordering::Relaxed)
    }

    /// Whether a program drives the device itself. Asking forgets.
    pub(crate) fn program_polls(&self) -> bool {
        self.driving.recent_poll.swap(false, Ordering::Relaxed)
            && self.driving.armed.load(Ordering::SeqCst) == 0
    }

    /// Whether a program polled since [`Engine::program_polls`] was last asked.
    pub(crate) fn is_polled(&self) -> bool {
        self.driving.recent_poll.load(Ordering::Relaxed)
    }

    pub(crate) fn anyone_sleeps(&self) -> bool {
        self.driving.armed.load(Ordering::SeqCst) > 0
    }

    /// Somebody sleeps until a completion comes. Who drives the device meanwhile need not call the agent.
    pub(crate) fn queue_armed(&self, calls_agent: bool) {
        self.driving.armed.fetch_add(1, Ordering::SeqCst);
        if calls_agent {
            self.call_agent();
        }
    }

    /// Has the agent look whether somebody sleeps.
    pub(crate) fn call_agent(&self) {
        if self.agent.timed.load(Ordering::SeqCst) {
            self.party.doorbell.signal();
        }
    }

    pub(crate) fn queue_disarmed(&self) {
        self.driving.armed.fetch_sub(1, Ordering::SeqCst);
    }

    /// Handles messages until about `wanted` receives were filled; true if any were. Who polls a queue lets others of its CPU go first
    /// now and then; who sleeps soon, and names none, would only have it back late.
    #[inline(always)]
    pub(crate) fn progress_for_poller(&self, wanted: usize, polled: Option<&CompletionQueue>) -> bool {
        let pause = self.driving.pause.load(Ordering::Relaxed);
        if pause > 0 {
            self.driving.pause.store(pause - 1, Ordering::Relaxed);
            return false;
        }
        let progress = self.look(wanted.max(1), true);
        if progress.any_of(Progress::WORKED) {
            return true;
        }
        let polls = self.driving.empty_polls.load(Ordering::Relaxed).wrapping_add(1);
        self.driving.empty_polls.store(polls, Ordering::Relaxed);
        // A power of two: a division would take longer than all else here.
        if polls & (self.polls_per_rest(polled) - 1) == 0 {
            self.rest(polled);
        }
        // Another thread may have filled the queue meanwhile.
        progress.any_of(Progress::TAKEN)
    }

    /// Handles messages now and then for a program whose polls always find completions: its peers must not wait for it
    /// to run out of them.
    pub(crate) fn progress_for_busy_poller(&self) {
        let polls = self.driving.busy_polls.load(Ordering::Relaxed).wrapping_add(1);
        self.driving.busy_polls.store(polls, Ordering::Relaxed);
        if polls.is_multiple_of(BUSY_POLLS_PER_LOOK) {
            self.progress(1);
        }
    }

    /// Sends what is owed and handles messages of every link, filling about `receives` receives at most.
    pub(crate) fn progress(&self, receives: usize) -> Progress {
        self.look(receives, false)
    }

    /// The same. `again` says that the caller will look again, and soon: what is owed for a stream can then wait.
    #[inline(always)]
    fn look(&self, receives: usize, again: bool) -> Progress {
        let Some(mut driver) = self.driving.driver.try_lock() else { return Progress::TAKEN };
        let driver = &mut *driver;
        if driver.stream.must_answer(self.take_sent()) || !again {
            driver.answer();
        }
        self.prepare(driver);
        let mut progress = Progress::default();
        // Taken out meanwhile, then put back.
        let Some(mut watched) = driver.watched.take() else { return progress };
        for (number, link) in watched.links.iter().enumerate() {
            let most = if number < watched.own { MESSAGES_PER_POLL } else { FOREIGN_MESSAGES_PER_POLL };
            progress = progress | self.drain(link, driver, most, receives);
        }
        progress = progress | self.look_at_wire(driver, again);
        if driver.resting.is_due(watched.links.len(), again) {
            self.let_rest(&mut watched, &mut driver.resting);
        }
        driver.watched = Some(watched);
        if again && progress == Progress::default() {
            let pause = driver.stream.pause();
            if pause > 0 {
                self.driving.pause.store(pause, Ordering::Relaxed);
            }
        }
        progress
    }

    /// Sends what a poll owes that took a message between the agent's last look and its saying that it sleeps: for that
    /// message nobody rings, and the program may never poll again. Later messages bring a bell.
    pub(crate) fn answer_for_poller(&self) {
        if self.is_polled() {
            self.answer_all();
        }
    }

    /// Sends every acknowledgement that is still owed, and what waits for the next look at the wire.
    pub(super) fn answer_all(&self) {
        self.driving.driver.lock().answer();
        self.release_on_wire();
    }

    /// Handles `most` messages of the ring of a link that polls do not look at, on the agent's thread.
    pub(crate) fn look_aside(&self, link: &Arc<Link>, most: usize) -> Aside {
        // Nearly always there is nothing. The lock of the thread that polls is then left alone: it would be slower for long.
        let is_empty = link.try_receive().is_some_and(|ring| !ring.has_message());
        if is_empty && !link.has_stalled() && !link.set_sleeping(Sleeper::Agent) {
            return Aside::Quiet;
        }
        let mut driver = self.driving.driver.lock();
        let progress = self.drain(link, &mut driver, most, usize::MAX);
        driver.answer();
        if progress.any_of(Progress::HELD) {
            Aside::Held
        } else if link.is_dead() {
            Aside::Quiet
        } else if progress.any_of(Progress::WORKED) || link.set_sleeping(Sleeper::Agent) {
            Aside::More
        } else {
            Aside::Quiet
        }
    }

    /// Handles `most` messages of one link.
    #[inline(always)]
    pub(super) fn drain(
        &self,
        link: &Arc<Link>,
        driver: &mut Driver,
        most: usize,
        receives: usize,
    ) -> Progress {
        // Nearly always there is nothing, and a look at one word says so.
        match link.try_receive() {
            Some(ring) if ring.has_work() => self.drain_ring(link, ring, driver, most, receives),
            Some(_) | None if link.has_stalled() => self.resume_stalled(link),
            Some(_) => Progress::default(),
            // To fall asleep for a message, which may just have come.
            None => Progress::TAKEN,
        }
    }

    /// Handles messages of a ring that has some.
    fn drain_ring(
        &self,
        link: &Arc<Link>,
        mut ring: BiasedGuard<'_, Consumer>,
        driver: &mut Driver,
        most: usize,
        receives: usize,
    ) -> Progress {
        let mut progress = Progress::default();
        let (mut handled, mut filled, mut bell, mut presses, mut refused) = (0, 0, false, false, false);
        while handled < most && filled < receives {
            if let Some(short) = ring.peek_short()
                && let Some(pair) = self.indebted_pair(driver, short.send.base.destination)
                && pair.express_receive(link, &short)
            {
                filled += 1;
                handled += 1;
                bell |= ring.advance();
                continue;
            }
            let incoming = match ring.peek() {
                Ok(Some(incoming)) => incoming,
                Ok(None) => break,
                Err(error) => {
                    self.refuse_ring(link, error);
                    break;
                }
            };
            presses = true;
            let delivery = match self.indebted_pair(driver, incoming.message.base.destination) {
                Some(pair) => pair.deliver(link, &incoming),
                None => {
                    refused |= QueuePair::refuse_unknown(link, &incoming);
                    Delivery::Quiet
                }
            };
            match delivery {
                Delivery::Held => {
                    progress = progress | Progress::HELD;
                    break;
                }
                Delivery::Filled => filled += 1,
                Delivery::Quiet => {}
            }
            handled += 1;
            bell |= ring.advance();
        }
        driver.stream.note(handled as u32);
        let all = self.driving.handled.load(Ordering::Relaxed).wrapping_add(handled as u32);
        self.driving.handled.store(all, Ordering::Relaxed);
        bell |= ring.report();
        drop(ring);
        if bell {
            link.ring_bell_now();
        }
        if refused {
            link.ring_bell();
        }
        if presses {
            driver.answer_what_presses();
        }
        if link.has_stalled() {
            progress = progress | self.resume_stalled(link);
        }
        if handled > 0 { progress | Progress::WORKED } else { progress }
    }

    /// The queue pair of a number, which may owe its peer something from now on.
    #[inline]
    fn indebted_pair<'a>(&self, driver: &'a mut Driver, number: QpNumber) -> Option<&'a QueuePair> {
        driver.note_debt(number);
        driver.pair(number, || self.find_pair(number))
    }

    #[cold]
    fn refuse_ring(&self, link: &Arc<Link>, error: RingCorrupt) {
        if !link.is_dead() {
            if let Some(unsaid) = CORRUPT.turn() {
                let (pid, uid) = (link.credentials().pid, link.credentials().uid);
                tracing::warn!(pid, uid, %error, unsaid, "a peer broke the rules; its link is closed");
            }
            self.end_link(link);
        }
    }

    /// Has those go on that waited for room in a ring.
    #[cold]
    fn resume_stalled(&self, link: &Link) -> Progress {
        let mut progress = Progress::default();
        if !link.stalled_may_go_on() {
            return progress;
        }
        let declined = link.take_declined();
        let told =
            declined.into_iter().fold(false, |told, base| QueuePair::refuse_request(link, base) | told);
        if told {
            link.ring_bell();
            progress = Progress::WORKED;
        }
        // Who finds no room again waits behind all others, and not for ever here.
        for _ in 0..link.stalled_pairs() {
            let Some(number) = link.take_stalled_pair() else { break };
            if let Some(pair) = self.find_pair(number) {
                pair.resume();
                progress = Progress::WORKED;
            }
        }
        progress
    }
}

static CORRUPT: Seldom = Seldom::new();

/// Messages of one link handled in one call of a polling program.
pub(super) const MESSAGES_PER_POLL: usize = 256;

/// The same of a link to a foreigner: it comes last, and the next look for everybody comes soon.
const FOREIGN_MESSAGES_PER_POLL: usize = 32;

/// Polls that found all they wanted after which the rings are looked at all the same.
pub(super) const BUSY_POLLS_PER_LOOK: u32 = 16;

//! Links to processes of other users: they have the agent's time in turns, and those that nobody here talks with go when
//! there are too many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_sys::{Seldom, Shares};
use nonic_transport::{Link, LinkEvent};

use super::Agent;
use super::shares::{Held, Limits, most_silent, surplus};
use super::turns::Turn;
use crate::engine::Aside;

/// Messages of a socket that are handled in one turn.
const SOCKET_MESSAGES: usize = 16;
/// Messages of a ring that are.
const RING_MESSAGES: usize = 8;
/// Messages of the ring of a peer that is gone which are handled at all: as many as a ring holds.
const LAST_MESSAGES: usize = 8192;
/// How often it is looked who still talks with whom.
const LOOK_WHO_TALKS: Duration = Duration::from_secs(1);
/// How soon a message that waits for a receive is looked at again.
const HELD: Duration = Duration::from_micros(250);

static PARTED: Seldom = Seldom::new();

impl Agent<'_> {
    /// A number that grows with each call.
    pub(super) fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// A foreigner's link waits for its turn.
    pub(super) fn queue(&mut self, token: u64, link: Arc<Link>) {
        if self.engine.is_attended(&link) { &mut self.talking } else { &mut self.others }
            .add(Turn::Link(token, Arc::downgrade(&link)));
    }

    /// Gives foreigners their turns; returns when there are more.
    pub(super) fn serve(&mut self) -> Option<Duration> {
        if self.talking.is_empty() && self.others.is_empty() {
            return None;
        }
        for talking in [true, false] {
            let began = Instant::now();
            let mut held = false;
            let mut any = false;
            while let Some(turn) = self.turns(talking).next(began) {
                any = true;
                if self.take_turn(turn) {
                    held = true;
                    break;
                }
            }
            let now = Instant::now();
            if any {
                self.turns(talking).rest.begin(began, now);
            }
            if held {
                self.turns(talking).rest.last(now, HELD);
            }
        }
        let now = Instant::now();
        [self.talking.next_in(now), self.others.next_in(now)].into_iter().flatten().min()
    }

    fn turns(&mut self, talking: bool) -> &mut super::turns::Turns {
        if talking { &mut self.talking } else { &mut self.others }
    }

    /// One turn; true if the next makes sense only after a while.
    fn take_turn(&mut self, turn: Turn) -> bool {
        match turn {
            Turn::Newcomer(token) => {
                self.meet(token);
                false
            }
            Turn::Link(token, link) => link.upgrade().is_some_and(|link| self.hear(token, link)),
            Turn::Last(link, messages) => {
                // Who brought rubbish is parted from by now, or soon.
                let Some(link) = link.upgrade().filter(|link| !link.is_dead()) else { return false };
                let messages = messages.saturating_sub(RING_MESSAGES);
                let aside = self.engine.look_aside(&link, RING_MESSAGES);
                if aside == Aside::Quiet || messages == 0 {
                    self.engine.part_from(&link);
                } else {
                    self.others.add(Turn::Last(Arc::downgrade(&link), messages));
                }
                aside == Aside::Held
            }
        }
    }

    /// Handles some of what a foreigner says.
    fn hear(&mut self, token: u64, link: Arc<Link>) -> bool {
        if link.is_dead() {
            return false;
        }
        link.attention.note_heard(self.moment());
        let attended = self.engine.is_attended(&link);
        if link.handle_messages(SOCKET_MESSAGES) == LinkEvent::Ended || link.process_ended() {
            if attended {
                self.accept_all();
                self.engine.bury(&link);
            } else {
                self.engine.stop_watching(&link);
                self.others.add(Turn::Last(Arc::downgrade(&link), LAST_MESSAGES));
            }
            return false;
        }
        if !self.engine.is_foreign(&link) {
            // It has shown that it can be trusted. What it said behind that may be that there is something in the ring.
            self.engine.watch_again(&link);
            self.be_called();
            self.engine.watch_on(&link, token);
            self.engine.look_who_talks();
            return false;
        }
        if attended {
            // Its ring is read with all others.
            self.engine.watch_again(&link);
            self.be_called();
            self.engine.watch_on(&link, token);
            return false;
        }
        let aside = self.engine.look_aside(&link, RING_MESSAGES);
        if aside == Aside::Quiet {
            self.engine.watch_on(&link, token);
        } else {
            self.others.add(Turn::Link(token, Arc::downgrade(&link)));
        }
        aside == Aside::Held
    }

    /// The links that may go when there are too many: nobody talks with those at their other ends.
    fn idle_links(&self, foreign: bool) -> Vec<Held<Arc<Link>>> {
        let links = self.engine.links();
        let may_go = |link: &&Arc<Link>| {
            let is_kept = link.is_loopback() || link.is_dead() || link.attention.was_used_lately();
            let is_asked_for = self.engine.is_foreign(link) == foreign;
            is_asked_for && !is_kept && !(foreign && self.engine.is_attended(link))
        };
        let held = |link: &Arc<Link>| Held {
            user: link.credentials().uid,
            heard: link.attention.heard(),
            which: Arc::clone(link),
        };
        links.iter().filter(may_go).map(held).collect()
    }

    /// Whether a user has fewer links that nobody here needs than it may have.
    pub(super) fn may_have_link(&self, user: u32, shares: Shares) -> bool {
        let foreign = !self.engine.is_own_user(user);
        let count = self.idle_links(foreign).iter().filter(|held| held.user == user).count();
        count < if foreign { shares.stranger } else { shares.own }
    }

    /// Parts from links that are more than their users may have.
    pub(super) fn part_from_surplus(&mut self) {
        let limits = Limits::now().links;
        let links = self.engine.links().len();
        if links > limits.stranger {
            let foreign = self.idle_links(true);
            if let Some(link) = surplus(&foreign, None, limits) {
                self.part_from_idle(&link);
            }
        }
        if links > limits.own
            && let Some(link) = most_silent(&self.idle_links(false), |_| true)
        {
            self.part_from_idle(&link);
        }
    }

    /// Parts from the foreigner that has been silent for longest; whether there was one.
    pub(super) fn part_from_most_silent(&mut self) -> bool {
        let link = most_silent(&self.idle_links(true), |_| true);
        link.inspect(|link| self.part_from_idle(link)).is_some()
    }

    fn part_from_idle(&mut self, link: &Arc<Link>) {
        if let Some(unsaid) = PARTED.turn() {
            let user = link.credentials().uid;
            tracing::warn!(
                user,
                unsaid,
                "a user has more links to this process than strangers may: the most silent is closed"
            );
        }
        self.others.forget(
            |turn| matches!(turn, Turn::Link(_, gone) | Turn::Last(gone, _) if gone.as_ptr() == Arc::as_ptr(link)),
        );
        self.engine.part_from(link);
    }

    /// Looks now and then who still talks; returns when to look again.
    pub(super) fn look_who_talks(&mut self, now: Instant) -> Option<Duration> {
        let version = self.engine.links_version();
        if version != self.links_version {
            self.links_version = version;
            let talking = self.engine.foreigners_attended();
            let gone: Vec<_> = self
                .attended
                .iter()
                .filter(|link| !talking.iter().any(|other| Arc::ptr_eq(link, other)))
                .cloned()
                .collect();
            self.attended = talking;
            for link in gone {
                // Its peer must say over the socket from now on when it has something to say.
                if !link.is_dead()
                    && let Some(token) = self.engine.token_of(&link)
                {
                    self.queue(token, link);
                }
            }
        }
        if self.attended.is_empty() {
            self.next_look = None;
            return None;
        }
        let next = *self.next_look.get_or_insert(now + LOOK_WHO_TALKS);
        if now >= next {
            self.next_look = Some(now + LOOK_WHO_TALKS);
            self.engine.forget_who_talked();
            return Some(Duration::ZERO);
        }
        Some(next.saturating_duration_since(now))
    }
}

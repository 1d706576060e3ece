//! What foreigners want of the agent: in the order in which they asked, for a share of its time.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_transport::Link;

/// How long the agent works for foreigners at a stretch.
const SPELL: Duration = Duration::from_micros(100);

/// One foreigner's turn. It keeps no link: who is gone, and no longer counts towards what foreigners may have, must not hold
/// its descriptors until its turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// A connection that has not introduced itself, by its token.
    Newcomer(u64),
    /// A link, with its token.
    Link(u64, Weak<Link>),
    /// A link whose peer is gone; so many messages of its ring are still handled.
    Last(Weak<Link>, usize),
}

impl Turn {
    /// The link, if it is one's and still there.
    fn link(&self) -> Option<Arc<Link>> {
        match self {
            Self::Newcomer(_) => None,
            Self::Link(_, link) | Self::Last(link, _) => link.upgrade(),
        }
    }
}

/// After some work, a pause in proportion to it.
#[derive(Debug)]
pub(super) struct Rest {
    /// How many times as long as the work.
    times: u32,
    until: Option<Instant>,
}

impl Rest {
    pub(super) const fn new(times: u32) -> Self {
        Self { times, until: None }
    }

    /// Work that began at `began` has ended now.
    pub(super) fn begin(&mut self, began: Instant, now: Instant) {
        self.until = Some(now + now.saturating_duration_since(began) * self.times);
    }

    /// At least so long.
    pub(super) fn last(&mut self, now: Instant, least: Duration) {
        self.until = self.until.max(Some(now + least));
    }

    /// How long it still takes, if it is not over.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// Those who wait, and when the next has its turn.
#[derive(Debug)]
pub(super) struct Turns {
    waiting: VecDeque<Turn>,
    pub(super) rest: Rest,
}

impl Turns {
    /// The agent rests `times` as long as it worked.
    pub(super) const fn new(times: u32) -> Self {
        Self { waiting: VecDeque::new(), rest: Rest::new(times) }
    }

    /// Somebody waits from now on, once.
    pub(super) fn add(&mut self, turn: Turn) {
        if turn.link().is_none_or(|link| !link.attention.set_queued(true)) {
            self.waiting.push_back(turn);
        }
    }

    /// Those who are gone do not wait.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&Turn) -> bool) {
        self.waiting.retain(|turn| !is_gone(turn));
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the next has its turn; `None` if nobody waits.
    pub(super) fn next_in(&self, now: Instant) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| self.rest.left(now).unwrap_or_default())
    }

    /// The next in a spell that began at `began`; `None` when it is over, or nobody waits, or the agent rests.
    pub(super) fn next(&mut self, began: Instant) -> Option<Turn> {
        let now = Instant::now();
        if self.rest.left(now).is_some() || now.saturating_duration_since(began) >= SPELL {
            return None;
        }
        let turn = self.waiting.pop_front()?;
        if let Some(link) = turn.link() {
            link.attention.set_queued(false);
        }
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_as_many_times_as_long_as_the_work_before_it() {
        let mut rest = Rest::new(9);
        let began = Instant::now();
        assert_eq!(rest.left(began), None);
        let ended = began + Duration::from_micros(100);
        rest.begin(began, ended);
        assert_eq!(rest.left(ended), Some(Duration::from_micros(900)));
        assert_eq!(rest.left(ended + Duration::from_micros(900)), None);
        rest.last(ended, Duration::from_millis(5));
        assert_eq!(rest.left(ended), Some(Duration::from_millis(5)));
        rest.last(ended, Duration::from_millis(1));
        assert_eq!(rest.left(ended), Some(Duration::from_millis(5)));
    }

    #[test]
    fn turns_come_in_order_and_not_before_the_rest_is_over() {
        let mut turns = Turns::new(9);
        let now = Instant::now();
        assert!(turns.next_in(now).is_none() && turns.next(now).is_none());
        turns.add(Turn::Newcomer(1));
        turns.add(Turn::Newcomer(2));
        assert_eq!(turns.next_in(now), Some(Duration::ZERO));
        assert!(matches!(turns.next(Instant::now()), Some(Turn::Newcomer(1))));
        turns.rest.last(Instant::now(), Duration::from_secs(60));
        assert!(turns.next(Instant::now()).is_none());
        assert!(turns.next_in(Instant::now()).is_some_and(|left| left > Duration::from_secs(50)));
    }
}

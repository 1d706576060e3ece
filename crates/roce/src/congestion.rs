//! Congestion notification (IBTA vol. 1, annex A17, 17.9): who is told of congestion, and what whoever is told does about it.
//!
//! The specification leaves to the sender how it slows down, and says nothing of losses, which on a wire of Ethernet without flow
//! control tell the same. Here the number of packets under way is halved, for notifications at most once in so long a time, and
//! grows by one with each round that is acknowledged.

use core::time::Duration;

use nonic_protocol::Moment;

/// Time between two notifications, and between two that are heeded.
const APART: Duration = Duration::from_micros(50);

/// Packets of one queue pair under way at most.
pub(crate) const WINDOW_MAX: u32 = 1024;
/// Fewer are not under way because some were lost.
const WINDOW_AFTER_LOSS: u32 = 32;

/// What a queue pair knows of congestion on its way. `T` is an instant of the caller's clock.
#[derive(Debug)]
pub(crate) struct Congestion<T> {
    window: u32,
    acknowledged: u32,
    slowed_at: Option<T>,
    told_at: Option<T>,
    owes_notice: bool,
    pub(crate) counts: CongestionCounts,
}

/// How often there was congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionCounts {
    /// Notifications that came.
    pub notices_received: u64,
    /// Notifications that were sent.
    pub notices_sent: u64,
}

impl<T> Congestion<T> {
    pub(crate) fn new() -> Self {
        Self {
            window: WINDOW_MAX,
            acknowledged: 0,
            slowed_at: None,
            told_at: None,
            owes_notice: false,
            counts: CongestionCounts::default(),
        }
    }

    /// Packets that may be under way.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// So many packets more were acknowledged.
    pub(crate) fn was_acknowledged(&mut self, packets: u32) {
        if self.window == WINDOW_MAX {
            return;
        }
        self.acknowledged = self.acknowledged.saturating_add(packets);
        while self.acknowledged >= self.window && self.window < WINDOW_MAX {
            self.acknowledged -= self.window;
            self.window += 1;
        }
    }

    /// Packets were lost: there was no room for them on the way, most likely at its end.
    pub(crate) fn were_lost(&mut self) {
        self.acknowledged = 0;
        self.window = self.window.min((self.window / 2).max(WINDOW_AFTER_LOSS));
    }

    /// Whether the peer is to be told.
    pub(crate) fn owes_notice(&self) -> bool {
        self.owes_notice
    }

    /// The peer was told.
    pub(crate) fn has_noticed(&mut self) {
        self.owes_notice = false;
        self.counts.notices_sent += 1;
    }
}

impl<T: Moment> Congestion<T> {
    /// The peer says that packets of this side met congestion.
    pub(crate) fn take_notice(&mut self, now: T) {
        self.counts.notices_received += 1;
        if self.slowed_at.is_none_or(|at| now >= at + APART) {
            self.slowed_at = Some(now);
            self.acknowledged = 0;
            self.window = (self.window / 2).max(1);
        }
    }

    /// A packet of the peer's met congestion.
    pub(crate) fn was_met(&mut self, now: T) {
        if self.told_at.is_none_or(|at| now >= at + APART) {
            self.told_at = Some(now);
            self.owes_notice = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn notices_halve_what_is_under_way_and_answers_bring_it_back() {
        let mut congestion = Congestion::new();
        for (at, window) in [(0, 512), (10, 512), (49, 512), (50, 256), (100, 128)] {
            congestion.take_notice(US * at);
            assert_eq!(congestion.window(), window);
        }
        congestion.was_acknowledged(127);
        assert_eq!(congestion.window(), 128);
        congestion.was_acknowledged(1);
        assert_eq!(congestion.window(), 129);
        congestion.was_acknowledged(1 << 20);
        assert_eq!(congestion.window(), WINDOW_MAX);
        for round in 10..100 {
            congestion.take_notice(US * 50 * round);
        }
        assert_eq!((congestion.window(), congestion.counts.notices_received), (1, 95));
    }

    #[test]
    fn losses_halve_it_too_but_not_without_end() {
        let mut congestion = Congestion::<Duration>::new();
        let windows = [(); 7].map(|()| {
            congestion.were_lost();
            congestion.window()
        });
        assert_eq!(windows, [512, 256, 128, 64, 32, 32, 32]);
        congestion.was_acknowledged(32 + 33);
        assert_eq!(congestion.window(), 34);
        for at in 1..10 {
            congestion.take_notice(US * 50 * at);
        }
        congestion.were_lost();
        assert_eq!(congestion.window(), 1, "a loss makes no room");
    }

    #[test]
    fn the_peer_is_told_once_in_50_us() {
        let mut congestion = Congestion::new();
        let mut told = 0;
        for at in 0..100 {
            congestion.was_met(US * at);
            if congestion.owes_notice() {
                congestion.has_noticed();
                told += 1;
            }
        }
        assert_eq!((told, congestion.counts.notices_sent), (2, 2));
    }
}

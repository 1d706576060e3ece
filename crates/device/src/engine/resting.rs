//! Links over which nothing comes rest, so that a poll costs the same however many peers there are: it looks at the rings of
//! those that talk, and at one word for all others (`nonic_transport::Calls`).
//!
//! Which links rest is known to the driver alone. A peer that sends something over one calls for it, and wakes whoever sleeps;
//! it wakes the thread that every watched ring names, since both are said in one place (`Engine::say_asleep`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use nonic_sys::{FenceReach, heavy_fence_for_grants};
use nonic_transport::{BeginsRest, CallNumber, Link};

use super::Engine;
use super::driver::Driver;
use crate::config::RestPolicy;

impl RestPolicy {
    /// With so many links at most, resting ones among them, none begins to rest: to look at their rings costs next to nothing,
    /// and to call for one a little. With more any may, so that the last few that talked do not cost every poll a look each.
    fn few(self) -> usize {
        match self {
            Self::Auto => 4,
            Self::Always => 0,
            Self::Never => usize::MAX,
        }
    }

    /// After so long without a message a link rests.
    fn quiet(self) -> Duration {
        match self {
            Self::Always => Duration::ZERO,
            Self::Auto | Self::Never => Duration::from_millis(2),
        }
    }

    /// Looks of a program that polls after which the clock is asked.
    fn looks_per_clock(self) -> u32 {
        match self {
            Self::Always => 1,
            Self::Auto | Self::Never => 64,
        }
    }
}

/// As many looks of a program that polls is one of a thread that is about to sleep.
const LOOKS_OF_A_SLEEPER: u32 = 16;

/// The links that every poll looks at.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) links: Vec<Arc<Link>>,
    /// So many of them, the first, do not lead to foreigners.
    pub(super) own: usize,
}

impl Watched {
    /// Looks at a link from now on.
    fn add(&mut self, link: Arc<Link>, foreign: bool) {
        self.links.push(link);
        if !foreign {
            let last = self.links.len() - 1;
            self.links.swap(self.own, last);
            self.own += 1;
        }
    }

    /// Ceases to look at the link at a place; returns it.
    fn remove(&mut self, mut at: usize) -> Arc<Link> {
        if at < self.own {
            self.own -= 1;
            self.links.swap(at, self.own);
            at = self.own;
        }
        self.links.swap_remove(at)
    }
}

/// The links that rest, by the numbers by which their peers call for them.
#[derive(Debug)]
pub(super) struct Resting {
    links: HashMap<CallNumber, Arc<Link>>,
    few: usize,
    quiet: Duration,
    looks_per_clock: u32,
    looks: u32,
    /// When links were last asked whether they may rest.
    asked: Option<Instant>,
}

impl Resting {
    pub(super) fn new(policy: RestPolicy) -> Self {
        Self {
            links: HashMap::new(),
            few: policy.few(),
            quiet: policy.quiet(),
            looks_per_clock: policy.looks_per_clock(),
            looks: 0,
            asked: None,
        }
    }

    /// Whether some of so many links that polls look at may rest, and it is time to ask the clock which. `again`: the look was
    /// one of many.
    #[inline]
    pub(super) fn is_due(&mut self, watched: usize, again: bool) -> bool {
        if !self.may_rest(watched, self.links.len()) {
            return false;
        }
        self.looks += if again { 1 } else { LOOKS_OF_A_SLEEPER };
        let due = self.looks >= self.looks_per_clock;
        if due {
            self.looks = 0;
        }
        due
    }

    /// Whether some of the links that polls look at may rest, if so many others do.
    #[inline]
    fn may_rest(&self, watched: usize, resting: usize) -> bool {
        watched > 0 && watched + resting > self.few
    }

    /// Whether it was long ago that links were asked. They are now.
    fn ask(&mut self) -> bool {
        let now = Instant::now();
        let asks = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= self.quiet);
        if asks {
            self.asked = Some(now);
        }
        asks
    }
}

impl Engine {
    /// Does something with every link that polls look at; false if another thread drives, and nothing was done.
    pub(super) fn of_watched(&self, mut each: impl FnMut(&Link)) -> bool {
        let Some(mut driver) = self.driving.driver.try_lock() else { return false };
        // Also calls for links that do not rest any more: with one left nobody could fall asleep. While others rest, they are
        // answered with theirs.
        if driver.resting.links.is_empty() && self.party.calls.any() {
            self.answer_calls(&mut driver);
        }
        self.prepare(&mut driver);
        let Some(watched) = &driver.watched else { return false };
        watched.links.iter().for_each(|link| each(link));
        true
    }

    /// Sees to it that the driver looks at the right links.
    #[inline]
    pub(super) fn prepare(&self, driver: &mut Driver) {
        if !driver.resting.links.is_empty() && self.party.calls.any() {
            self.answer_calls(driver);
        }
        if driver.links_version != self.links.version.load(Ordering::Acquire) {
            self.refresh(driver);
        }
    }

    /// Other links than before are attended.
    #[cold]
    fn refresh(&self, driver: &mut Driver) {
        // The version first: if a link comes in between, the next look finds another version again.
        driver.links_version = self.links.version.load(Ordering::Acquire);
        let attended = self.attended();
        let mut watched = Watched::default();
        let mut rested = std::mem::take(&mut driver.resting.links);
        for (at, link) in attended.links.iter().enumerate() {
            match link.call_number().and_then(|number| rested.remove_entry(&number)) {
                Some((number, resting)) if Arc::ptr_eq(link, &resting) => {
                    driver.resting.links.insert(number, resting);
                }
                _ => watched.add(Arc::clone(link), at >= attended.own),
            }
        }
        for (_, link) in rested {
            link.end_rest();
        }
        driver.watched = Some(Box::new(watched));
    }

    /// Has those of the watched links rest over which nothing has come for a while. The caller holds the driver's lock.
    #[cold]
    pub(super) fn let_rest(&self, watched: &mut Watched, resting: &mut Resting) {
        if !resting.ask() {
            return;
        }
        let mut begun = Vec::new();
        let mut heavy = false;
        for at in (0..watched.links.len()).rev() {
            let link = &watched.links[at];
            let Some(number) = link.call_number().filter(|_| !link.is_dead() && link.is_quiet()) else {
                continue;
            };
            if let Some(begins) = link.begin_rest() {
                heavy |= begins == BeginsRest::AfterHeavyFence;
                begun.push((number, watched.remove(at)));
            }
        }
        if begun.is_empty() {
            return;
        }
        if heavy {
            heavy_fence_for_grants(FenceReach::Machine);
        } else {
            fence(Ordering::SeqCst);
        }
        let mut disturbed = false;
        for (number, link) in begun {
            if link.is_still_quiet() {
                resting.links.insert(number, link);
            } else {
                disturbed = true;
                self.look_at(watched, link);
            }
        }
        if disturbed {
            // Its ring may have named the agent before.
            self.party.doorbell.signal();
        }
    }

    fn look_at(&self, watched: &mut Watched, link: Arc<Link>) {
        link.end_rest();
        let foreign = self.is_foreign(&link);
        watched.add(link, foreign);
    }

    /// Looks again at the links that are called for.
    #[cold]
    fn answer_calls(&self, driver: &mut Driver) {
        let Driver { watched, resting, .. } = driver;
        let Some(watched) = watched else { return };
        self.party.calls.take(|number| {
            if let Some(link) = resting.links.remove(&number) {
                self.look_at(watched, link);
            }
        });
    }

    /// Looks again at a link whose peer cannot call for it.
    pub(crate) fn watch_again(&self, link: &Link) {
        if !link.rests() {
            return;
        }
        let mut driver = self.driving.driver.lock();
        let Driver { watched, resting, .. } = &mut *driver;
        let rested = link.call_number().and_then(|number| resting.links.remove(&number));
        if let (Some(link), Some(watched)) = (rested, watched) {
            self.look_at(watched, link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_links_never_rest_unless_others_do() {
        let auto = Resting::new(RestPolicy::Auto);
        assert!(!auto.may_rest(4, 0) && auto.may_rest(5, 0));
        assert!(auto.may_rest(1, 4) && auto.may_rest(4, 1) && !auto.may_rest(0, 5));
        let always = Resting::new(RestPolicy::Always);
        assert!(always.may_rest(1, 0) && !always.may_rest(0, 1));
        assert!(!Resting::new(RestPolicy::Never).may_rest(1_000, 0));
    }
}

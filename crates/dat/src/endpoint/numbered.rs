//! The cookies of requests whose ids are numbers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::completing::SILENT;
use crate::error::DatResult;

/// Where requests are numbered so that a dispatcher can tell those that notify from those that do not: the cookies, by
/// number.
#[derive(Debug)]
pub(super) struct Tags {
    pub(super) requests: Numbered,
    /// Nothing if receives are not numbered.
    pub(super) receives: Option<Numbered>,
}

/// Cookies by number. A number whose completion will be shown is passed over until it was. Others are only shown if they
/// fail, and then all that were posted later are outstanding, or were shown after them: four times as many places as
/// requests can be outstanding are more than come between.
#[derive(Debug)]
pub(super) struct Numbered {
    places: Box<[Place]>,
    next: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Place {
    cookie: AtomicU64,
    /// Its completion will be shown.
    taken: AtomicBool,
}

impl Numbered {
    pub(super) fn new(outstanding: u32) -> Self {
        let places = outstanding.max(1).next_power_of_two() as usize * 4;
        Self { places: (0..places).map(|_| Place::default()).collect(), next: Mutex::new(0) }
    }

    /// The place of a number.
    fn place(&self, number: u64) -> &Place {
        &self.places[(number & !SILENT) as usize & (self.places.len() - 1)]
    }

    /// Posts a request under the next number that is free, which counts only if `post` took it. `shown`: its completion is
    /// shown whatever becomes of it.
    pub(super) fn post(
        &self,
        cookie: u64,
        silent: bool,
        shown: bool,
        post: impl FnOnce(u64) -> DatResult<()>,
    ) -> DatResult<()> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (0..self.places.len() as u64)
            .map(|step| (*next + step) & !SILENT)
            .find(|number| !self.place(*number).taken.load(Ordering::Acquire));
        // None is free only when completions were lost with a dispatcher: their cookies will not be asked for.
        let number = free.unwrap_or(*next);
        let place = self.place(number);
        place.cookie.store(cookie, Ordering::Release);
        // Before it is posted: its completion may be shown before this returns.
        place.taken.store(shown, Ordering::Release);
        post(number | if silent { SILENT } else { 0 })
            .inspect_err(|_| place.taken.store(false, Ordering::Release))?;
        *next = (number + 1) & !SILENT;
        Ok(())
    }

    /// The cookie of a request whose completion is shown now.
    pub(super) fn take(&self, number: u64) -> u64 {
        let place = self.place(number);
        let cookie = place.cookie.load(Ordering::Acquire);
        place.taken.store(false, Ordering::Release);
        cookie
    }

    /// Nothing of what was posted will be shown.
    pub(super) fn forget(&self) {
        self.places.iter().for_each(|place| place.taken.store(false, Ordering::Release));
    }
}

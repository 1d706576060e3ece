//! How a call waits for something of one socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use nonic_device::Context;
use nonic_sys::{Hope, LOOK, cpu_relax, usable_cpus, yield_now};

use crate::settings::Defaults;
use crate::wakeup::Wakeup;
use crate::{Error, Result};

/// How closely a socket looks for what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It takes in what the device has completed. That costs next to nothing, so it comes first: who finds what is wanted
    /// need not look further.
    Glance,
    /// It has the device look, too.
    Thorough,
    /// And from now on it tells of what comes later.
    Armed,
    /// The same, for a thread that is about to wait and drives the device meanwhile.
    Waiting,
}

/// A socket whose completions can be waited for.
pub(crate) trait Awaited {
    /// Whom it tells.
    fn wakeup(&self) -> &Arc<Wakeup>;

    /// A thread waits, which looks with [`Look::Armed`] or [`Look::Waiting`] before it sleeps. The device, if there is one yet.
    fn begin_wait(&self) -> Option<Arc<Context>>;

    /// It looks again before it sleeps: until then nothing need be told, unless others wait.
    fn pause_wait(&self);

    /// It waits no longer.
    fn end_wait(&self);
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    Until(Instant),
    Endless,
}

/// How long a thread that waits looks before it sleeps: the time that is set, or longer where that has paid lately. Who sleeps gives
/// the rings to the agent when it wakes, and peers then ring for each message that comes while the program does something else.
#[derive(Debug)]
pub(crate) struct Looking {
    until: Instant,
    /// It is one of those that teach whether looking pays.
    teaches: bool,
}

/// Calls that found nothing and may not wait, and after how many one lets others go first.
static IN_VAIN: AtomicU32 = AtomicU32::new(1);
const IN_VAIN_PER_YIELD: u32 = 64;

/// A call has found nothing and may not wait. A program that asks again and again: on one CPU its peer must have a turn.
pub(crate) fn looked_in_vain() {
    if IN_VAIN.fetch_add(1, Ordering::Relaxed).is_multiple_of(IN_VAIN_PER_YIELD) {
        yield_now();
    }
}

static HOPE: Hope = Hope::new();
/// On one CPU whoever is waited for runs only when this thread does not.
static ALONE: AtomicBool = AtomicBool::new(false);

impl Looking {
    /// Of a wait that begins now.
    pub(crate) fn begin() -> Self {
        let tries = HOPE.begin();
        if tries {
            ALONE.store(usable_cpus() < 2, Ordering::Relaxed);
        }
        let teaches = (tries || HOPE.is_left()) && !ALONE.load(Ordering::Relaxed);
        let set = Defaults::get().polling;
        Self { until: Instant::now() + if teaches { set.max(LOOK) } else { set }, teaches }
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// What was waited for came while the thread looked, or not.
    pub(crate) fn end(&self, came: bool) {
        if self.teaches {
            HOPE.learn(came);
        }
    }
}

/// Waits until `look` gives something; with `EAGAIN` if it may wait no longer, with `EINTR` after a signal.
pub(crate) fn wait<T>(
    socket: &impl Awaited,
    patience: Patience,
    look: &mut dyn FnMut(Look) -> Option<T>,
) -> Result<T> {
    if let Some(found) = look(Look::Glance).or_else(|| look(Look::Thorough)) {
        return Ok(found);
    }
    let end = match patience {
        Patience::None => {
            looked_in_vain();
            return Err(Error::new(libc::EAGAIN));
        }
        Patience::Until(end) => Some(end),
        Patience::Endless => None,
    };
    let looking = Looking::begin();
    while !looking.is_over() {
        cpu_relax();
        if let Some(found) = look(Look::Thorough) {
            looking.end(true);
            return Ok(found);
        }
    }
    looking.end(false);
    let mut found = None;
    let waited = match socket.begin_wait() {
        Some(context) => {
            let bell = socket.wakeup().bell(&context);
            let mut ready = || {
                found = look(Look::Waiting);
                found.is_some()
            };
            context.wait_then(bell, end, &mut ready, &mut || socket.pause_wait())
        }
        // What would be waited for went meanwhile.
        None => Ok({
            found = look(Look::Thorough);
            false
        }),
    };
    socket.end_wait();
    match (found, waited) {
        (Some(found), _) => Ok(found),
        (None, Err(error)) => Err(error.into()),
        (None, Ok(false)) if end.is_some() => Err(Error::new(libc::EAGAIN)),
        (None, Ok(_)) => Err(Error::new(libc::ENOTCONN)),
    }
}

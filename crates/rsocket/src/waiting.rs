//! How a call waits for something of one socket.

use std::sync::Arc;
use std::time::Instant;

use nonic_device::Context;
use nonic_sys::cpu_relax;

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
}

/// A socket whose completions can be waited for.
pub(crate) trait Awaited {
    /// Whom it tells.
    fn wakeup(&self) -> &Arc<Wakeup>;

    /// A thread waits, and tells of completions are wanted. The device, if there is one yet.
    fn begin_wait(&self) -> Option<Arc<Context>>;

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
        Patience::None => return Err(Error::new(libc::EAGAIN)),
        Patience::Until(end) => Some(end),
        Patience::Endless => None,
    };
    let until = Instant::now() + Defaults::get().polling;
    while Instant::now() < until {
        cpu_relax();
        if let Some(found) = look(Look::Thorough) {
            return Ok(found);
        }
    }
    let mut found = None;
    let waited = match socket.begin_wait() {
        Some(context) => context.wait(socket.wakeup().bell(&context), end, &mut || {
            found = look(Look::Armed);
            found.is_some()
        }),
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

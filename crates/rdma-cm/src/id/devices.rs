//! The device that identifiers are bound to, and what they hear of it when somebody changes it.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::{AsyncEventKind, Context, devices, observe_changes};
use nonic_sys::PerProcess;

use super::connecting::Link;
use super::{Core, State};
use crate::{Error, EventKind, Id, Parameters};

/// What this process has of both.
#[derive(Default)]
struct Known {
    context: Option<Arc<Context>>,
    /// Every identifier, the oldest first.
    ids: Vec<Weak<Id>>,
    /// When so many are remembered, those that are gone are forgotten.
    tidy_at: usize,
}

static KNOWN: PerProcess<Mutex<Known>> = PerProcess::new();

/// The least number of identifiers that makes it worth looking which are gone.
const MANY: usize = 64;

fn known() -> MutexGuard<'static, Known> {
    KNOWN.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device that addresses lead to, the first one; opened once in a process, and open from then on. After it has failed it is opened
/// anew.
pub(crate) fn device_context() -> Result<Arc<Context>, Error> {
    if let Some(context) = known().context.as_ref().filter(|context| context.is_usable()) {
        return Ok(Arc::clone(context));
    }
    observe_changes(device_changed);
    let device = devices().into_iter().next().ok_or(Error::NoDevice)?;
    let new = device.open().map_err(|_| Error::NoDevice)?;
    let mut known = known();
    let other = known.context.as_ref().filter(|context| context.is_usable()).cloned();
    // Another thread may have been at it.
    let context = other.unwrap_or_else(|| Arc::clone(&new));
    known.context = Some(Arc::clone(&context));
    Ok(context)
}

/// Remembers an identifier, for as long as it is there.
pub(super) fn remember(id: &Arc<Id>) {
    let mut known = known();
    if known.ids.len() >= known.tidy_at {
        known.ids.retain(|other| other.strong_count() > 0);
        known.tidy_at = (known.ids.len() * 2).max(MANY);
    }
    known.ids.push(Arc::downgrade(id));
}

fn device_changed(kind: AsyncEventKind) {
    let look: fn(&Id) = match kind {
        AsyncEventKind::DeviceFatal => Id::look_at_device,
        AsyncEventKind::GidChange => Id::look_at_address,
        _ => return,
    };
    let ids: Vec<_> = known().ids.iter().filter_map(Weak::upgrade).collect();
    ids.iter().for_each(|id| look(id));
}

impl Core {
    /// The device that it is bound to, for as long as that is of any use to it.
    fn device(&self) -> Option<&Arc<Context>> {
        self.context.as_ref().filter(|_| self.state != State::Destroying && !self.is_removed)
    }
}

impl Id {
    /// If its device has failed: DEVICE_REMOVAL for each identifier that is bound to it, and none for a wildcard. Its connection is over,
    /// which the other side sees; nothing but destroying it is possible from now on.
    fn look_at_device(&self) {
        let _ended = {
            let mut core = self.lock();
            if !core.device().is_some_and(|device| device.has_failed()) {
                return;
            }
            core.is_removed = true;
            let link = std::mem::replace(&mut core.link, Link::Over);
            self.push(&core, EventKind::DeviceRemoval, 0, Parameters::None);
            (link.leave(), core.listening.take())
        };
    }

    /// The GID table has changed: ADDR_CHANGE if the identifier's own address is in it no more, once, until it is back.
    fn look_at_address(&self) {
        let mut core = self.lock();
        let (Some(source), Some(device)) = (core.source, core.device()) else { return };
        let gid = match source.ip().to_canonical() {
            IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
            IpAddr::V6(six) => six.octets(),
        };
        let has_moved = !device.has_gid(gid);
        if has_moved && !core.has_moved {
            self.push(&core, EventKind::AddressChange, 0, Parameters::None);
        }
        core.has_moved = has_moved;
    }
}

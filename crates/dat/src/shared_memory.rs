//! Memory that several consumers share (`DAT_MEM_TYPE_SHARED_VIRTUAL`), by the cookies that name it.
//!
//! The machine shares the bytes; a cookie says that two registrations mean the same. So what is checked is that the memory is
//! shared at all, and that nobody in this process uses the cookie for other memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::SharedPlace;
use nonic_sys::PerProcess;

use crate::error::{DatError, DatResult, Resource, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::local_region::{Cookie, LocalRegion};

type Registered = HashMap<Cookie, Vec<Registration>>;

/// Living registrations of this process, of whatever adapter.
static REGISTERED: PerProcess<Mutex<Registered>> = PerProcess::new();

#[derive(Debug)]
struct Registration {
    memory: Memory,
    region: Weak<LocalRegion>,
}

/// A range of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    place: SharedPlace,
    /// Where this process has it.
    address: u64,
    length: u64,
}

impl Memory {
    fn is_other_than(&self, other: &Self) -> bool {
        (self.place, self.length) != (other.place, other.length)
    }
}

fn lock() -> MutexGuard<'static, Registered> {
    REGISTERED.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

const OTHER_MEMORY: DatError = DatError::argument(3);

/// Shared memory that may be registered.
#[derive(Debug)]
pub(crate) struct Judged {
    memory: Memory,
    /// A registration of the same memory at the same address.
    pub(crate) same: Option<Arc<LocalRegion>>,
}

/// `INVALID_STATE` if the machine does not share the memory, `INVALID_PARAMETER|ARG3` if a living registration has the same
/// cookie for other memory, `INSUFFICIENT_RESOURCES|MEMORY_REGION` if it is not mapped.
pub(crate) fn judge(
    adapter: &InterfaceAdapter,
    cookie: &Cookie,
    address: u64,
    length: u64,
) -> DatResult<Judged> {
    let place = match adapter.context().shared_place(address as usize, length as usize) {
        Ok(place) => place.ok_or(DatError::state(Subtype::None))?,
        Err(_) => return Err(DatError::resources(Subtype::Resource(Resource::MemoryRegion))),
    };
    let memory = Memory { place, address, length };
    let mut same = None;
    for other in lock().get(cookie).into_iter().flatten() {
        if memory.is_other_than(&other.memory) {
            return Err(OTHER_MEMORY);
        }
        if other.memory == memory {
            same = Some(Weak::clone(&other.region));
        }
    }
    // Not under the lock: it may turn out to be the last trace of a region.
    Ok(Judged { memory, same: same.and_then(|region| region.upgrade()) })
}

/// A region on shared memory was registered. Refused as in [`judge`] if another thread was faster.
pub(crate) fn add(cookie: Cookie, judged: &Judged, region: &Arc<LocalRegion>) -> DatResult<()> {
    let mut registered = lock();
    let others = registered.entry(cookie).or_default();
    if others.iter().any(|other| judged.memory.is_other_than(&other.memory)) {
        return Err(OTHER_MEMORY);
    }
    others.push(Registration { memory: judged.memory, region: Arc::downgrade(region) });
    Ok(())
}

/// It was freed. Harmless if it is not there.
pub(crate) fn remove(cookie: &Cookie, region: &LocalRegion) {
    let mut registered = lock();
    if let Some(registrations) = registered.get_mut(cookie) {
        registrations.retain(|registration| !std::ptr::eq(registration.region.as_ptr(), region));
        if registrations.is_empty() {
            registered.remove(cookie);
        }
    }
}

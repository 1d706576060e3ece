//! Memory that several consumers share (`DAT_MEM_TYPE_SHARED_VIRTUAL`), by the cookies that name it.
//!
//! The machine shares the bytes; a cookie says that two registrations mean the same. So what is checked is that the memory is
//! shared at all, and that nobody in this process uses the cookie for other memory.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::SharedPlace;
use nonic_sys::fork_generation;

use crate::error::{DatError, DatResult, Resource, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::local_region::{Cookie, LocalRegion};

type Registered = HashMap<Cookie, Vec<Registration>>;

/// Living registrations of this process, of whatever adapter.
static REGISTERED: LazyLock<Mutex<Registered>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct Registration {
    place: SharedPlace,
    address: u64,
    length: u64,
    /// LMR context, which tells registrations apart.
    context: u32,
    /// What a child has of its parent's is not registered in the child.
    generation: u32,
    region: Weak<LocalRegion>,
}

fn lock() -> MutexGuard<'static, Registered> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shared memory that may be registered.
#[derive(Debug)]
pub(crate) struct Judged {
    place: SharedPlace,
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
    let generation = fork_generation();
    let mut same = None;
    for other in lock().get(cookie).into_iter().flatten().filter(|other| other.generation == generation) {
        if (other.place, other.length) != (place, length) {
            return Err(DatError::argument(3));
        }
        if other.address == address {
            same = Some(Weak::clone(&other.region));
        }
    }
    // Not under the lock: it may turn out to be the last trace of a region.
    Ok(Judged { place, same: same.and_then(|region| region.upgrade()) })
}

/// A region on shared memory was registered.
pub(crate) fn add(cookie: Cookie, judged: &Judged, address: u64, length: u64, region: &Arc<LocalRegion>) {
    lock().entry(cookie).or_default().push(Registration {
        place: judged.place,
        address,
        length,
        context: region.local_context(),
        generation: fork_generation(),
        region: Arc::downgrade(region),
    });
}

/// It was freed.
pub(crate) fn remove(cookie: &Cookie, region: &LocalRegion) {
    let context = region.local_context();
    let mut registered = lock();
    if let Some(registrations) = registered.get_mut(cookie) {
        registrations.retain(|registration| registration.context != context);
        if registrations.is_empty() {
            registered.remove(cookie);
        }
    }
}

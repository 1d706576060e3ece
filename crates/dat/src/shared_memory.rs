//! Memory that several consumers share (`DAT_MEM_TYPE_SHARED_VIRTUAL`), by the cookies that name it.
//!
//! The machine shares the bytes; a cookie says that two registrations mean the same. So what is checked is that the memory is
//! shared at all, and that nobody uses the cookie for other memory: in this process by its own table, in others of the same user
//! by the ledger (`nonic_device::claim_cookie`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::{Claim, Cookie, LedgerError, SharedMemoryRange, SharedPlace, claim_cookie};
use nonic_sys::{PerProcess, Seldom};

use crate::error::{DatError, DatResult, Resource, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::local_region::LocalRegion;

type Registered = HashMap<Cookie, Vec<Registration>>;

/// Living registrations of this process, of whatever adapter.
static REGISTERED: PerProcess<Mutex<Registered>> = PerProcess::new();

#[derive(Debug)]
struct Registration {
    memory: Memory,
    region: Weak<LocalRegion>,
    /// That this process uses the cookie; one for all registrations.
    claim: Arc<Claim>,
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

    fn range(&self) -> SharedMemoryRange {
        SharedMemoryRange { file: self.place.file, offset: self.place.offset, length: self.length }
    }
}

fn lock() -> MutexGuard<'static, Registered> {
    REGISTERED.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

const OTHER_MEMORY: DatError = DatError::argument(3);
const NOT_MAPPED: DatError = DatError::argument(3);

/// Shared memory that may be registered.
#[derive(Debug)]
pub(crate) struct Judged {
    memory: Memory,
    claim: Arc<Claim>,
    /// A registration of the same memory at the same address.
    pub(crate) same: Option<Arc<LocalRegion>>,
}

impl Judged {
    /// Where the memory is in what processes share.
    pub(crate) fn place(&self) -> SharedPlace {
        self.memory.place
    }
}

/// `INVALID_STATE` if the machine does not share the memory, `INVALID_PARAMETER|ARG3` if a living registration, here or in another
/// process of this user, has the same cookie for other memory, or the memory is not mapped, and
/// `INSUFFICIENT_RESOURCES|MEMORY_REGION` if nothing can be agreed on with other processes.
pub(crate) fn judge(
    adapter: &InterfaceAdapter,
    cookie: &Cookie,
    address: u64,
    length: u64,
) -> DatResult<Judged> {
    let place = match adapter.context().shared_place(address as usize, length as usize) {
        Ok(place) => place.ok_or(DatError::state(Subtype::None))?,
        Err(_) => return Err(NOT_MAPPED),
    };
    let memory = Memory { place, address, length };
    let (mut same, mut claim) = (None, None);
    let registered = lock();
    for other in registered.get(cookie).into_iter().flatten() {
        if memory.is_other_than(&other.memory) {
            return Err(OTHER_MEMORY);
        }
        claim = Some(Arc::clone(&other.claim));
        if other.memory == memory {
            same = Some(Weak::clone(&other.region));
        }
    }
    let claim = match claim {
        Some(claim) => claim,
        None => Arc::new(claim_cookie(*cookie, memory.range()).map_err(|error| refusal(&error))?),
    };
    drop(registered);
    // Not under the lock: it may turn out to be the last trace of a region.
    Ok(Judged { memory, claim, same: same.and_then(|region| region.upgrade()) })
}

fn refusal(error: &LedgerError) -> DatError {
    if let LedgerError::OtherMemory { process } = error {
        tracing::info!(process, "a cookie is refused: another process uses it for other memory");
        return OTHER_MEMORY;
    }
    tell(error);
    DatError::resources(Subtype::Resource(Resource::MemoryRegion))
}

/// Tells people what the number that the program gets does not say.
pub(crate) fn tell(error: &LedgerError) {
    static REFUSED: Seldom = Seldom::new();
    if let Some(unsaid) = REFUSED.turn() {
        tracing::warn!(unsaid, "shared memory is refused: {error}");
    }
}

/// A region on shared memory was registered. Refused as in [`judge`] if another thread was faster.
pub(crate) fn add(cookie: Cookie, judged: &Judged, region: &Arc<LocalRegion>) -> DatResult<()> {
    let mut registered = lock();
    let others = registered.entry(cookie).or_default();
    if others.iter().any(|other| judged.memory.is_other_than(&other.memory)) {
        return Err(OTHER_MEMORY);
    }
    let (region, claim) = (Arc::downgrade(region), Arc::clone(&judged.claim));
    others.push(Registration { memory: judged.memory, region, claim });
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

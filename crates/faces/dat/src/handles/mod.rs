//! Handles of programs.
//!
//! A handle is the address of a slot (`slab`), whose first word is the provider's table, as the interface wants it. Whatever
//! a program passes is compared with the range of slots, then with the kind that the slot holds at the moment: garbage, NULL,
//! handles of another kind, of the other version, freed ones and those of a closed interface adapter are all refused
//! ([`NoSuchObject`]), and none is followed. Freed slots rest behind thousands of others before they are used again. Looking
//! up takes no lock (`readers`). A child of `fork` has none of its parent's handles.

mod adapters;
mod readers;
mod slab;

use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use nonic_dat::{DatError, HandleKind, Mark, Subtype};
use nonic_sys::PerProcess;

pub(crate) use adapters::{add_adapter_number, forget_adapter_number, number_of_adapter, real_adapter};

use crate::error::Numbering;
use readers::Inside;
use slab::{Release, Slab, release};

/// `DAT_HANDLE_TYPE`, the same in both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ObjectKind {
    ConnectionRequest = 0,
    Endpoint,
    EventDispatcher,
    InterfaceAdapter,
    LocalRegion,
    PublicServicePoint,
    ProtectionZone,
    RemoteRegion,
    ReservedServicePoint,
    NotificationObject,
    SharedReceiveQueue,
}

const KINDS: [ObjectKind; 11] = [
    ObjectKind::ConnectionRequest,
    ObjectKind::Endpoint,
    ObjectKind::EventDispatcher,
    ObjectKind::InterfaceAdapter,
    ObjectKind::LocalRegion,
    ObjectKind::PublicServicePoint,
    ObjectKind::ProtectionZone,
    ObjectKind::RemoteRegion,
    ObjectKind::ReservedServicePoint,
    ObjectKind::NotificationObject,
    ObjectKind::SharedReceiveQueue,
];

/// What a handle can stand for.
pub(crate) trait Object: Send + Sync + 'static {
    /// Its kind.
    const KIND: ObjectKind;
    /// Where its handle is written.
    fn mark(&self) -> &Mark;
}

/// No living object of the wanted kind and version stands behind the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoSuchObject;

impl NoSuchObject {
    /// As a refusal, naming the handle.
    pub(crate) fn named(self, kind: HandleKind) -> DatError {
        DatError::handle(Subtype::Handle(kind))
    }
}

/// There is no slot left, or the interface adapter was closed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdded {
    /// A million objects are alive.
    NoRoom,
    /// The interface adapter that it would belong to is gone.
    Closed,
}

/// What a slot's word says: bits 0 to 7 the kind and one, bits 8 to 15 the version, above a number that nothing else has.
const fn word(numbering: Numbering, kind: ObjectKind) -> u64 {
    0x6e6f_6e69_6344_0000 | (numbering as u64) << 8 | (kind as u64 + 1)
}

static SLAB: PerProcess<Slab> = PerProcess::new();

fn slab() -> &'static Slab {
    SLAB.get_or_make(Slab::reserve)
}

/// Runs `work` on the object behind a handle. For calls that do not block: until it returns, memory of objects that other
/// threads free is kept.
#[inline]
pub(crate) fn with<T: Object, R>(
    numbering: Numbering,
    handle: usize,
    work: impl FnOnce(&Arc<T>) -> R,
) -> Result<R, NoSuchObject> {
    let slot = SLAB.get().and_then(|slab| slab.slot(handle)).ok_or(NoSuchObject)?;
    let _inside = Inside::enter();
    if slot.word.load(Ordering::Acquire) != word(numbering, T::KIND) {
        return Err(NoSuchObject);
    }
    let object = slot.object.load(Ordering::Acquire);
    // Had the slot been used again between the two, for an object of another kind, the word would be another now.
    if slot.word.load(Ordering::Relaxed) != word(numbering, T::KIND) {
        return Err(NoSuchObject);
    }
    // SAFETY: the words say that this is an `Arc<T>` which the slot held after this thread went inside. Whoever empties the slot
    // keeps the object until this thread has left. So the pointer is that of a living `Arc`, of which this is not an owner.
    let object = ManuallyDrop::new(unsafe { Arc::<T>::from_raw(object.cast()) });
    Ok(work(&object))
}

/// The object behind a handle.
pub(crate) fn find<T: Object>(numbering: Numbering, handle: usize) -> Result<Arc<T>, NoSuchObject> {
    with(numbering, handle, Arc::clone)
}

/// Gives an interface adapter its handle. `provider` is what the first word of it and of its objects says.
pub(crate) fn add_adapter<T: Object>(
    numbering: Numbering,
    provider: usize,
    object: Arc<T>,
) -> Result<usize, NotAdded> {
    add_to_slot(numbering, Some(provider), 0, object)
}

/// Gives an object its handle, and writes it on it; one that has a handle keeps it. `beside` is the handle of its interface
/// adapter, or of any object of that.
pub(crate) fn add<T: Object>(numbering: Numbering, beside: usize, object: Arc<T>) -> Result<usize, NotAdded> {
    add_to_slot(numbering, None, beside, object)
}

fn add_to_slot<T: Object>(
    numbering: Numbering,
    provider: Option<usize>,
    beside: usize,
    object: Arc<T>,
) -> Result<usize, NotAdded> {
    let slab = slab();
    let mut free = slab.free();
    if object.mark().get() != 0 {
        return Ok(object.mark().get());
    }
    let owner = match provider {
        Some(provider) => Some((provider, 0)),
        None => slab.slot(beside).and_then(|slot| {
            let adapter = slot.adapter.load(Ordering::Relaxed);
            let owner = slab.slot(adapter)?;
            let living = owner.word.load(Ordering::Relaxed) == word(numbering, ObjectKind::InterfaceAdapter);
            living.then(|| (owner.provider.load(Ordering::Relaxed), adapter))
        }),
    };
    let (provider, adapter) = owner.ok_or(NotAdded::Closed)?;
    let number = free.take().ok_or(NotAdded::NoRoom)?;
    let (slot, handle) = (slab.at(number), slab.handle(number));
    object.mark().set(handle);
    slot.provider.store(provider, Ordering::Relaxed);
    slot.context.store(0, Ordering::Relaxed);
    slot.adapter.store(if adapter == 0 { handle } else { adapter }, Ordering::Relaxed);
    slot.release.store(release::<T> as Release as *mut (), Ordering::Relaxed);
    slot.object.store(Arc::into_raw(object).cast_mut().cast(), Ordering::Release);
    slot.word.store(word(numbering, T::KIND), Ordering::Release);
    Ok(handle)
}

/// Takes a handle back from a program; `false` if it was no handle of such an object (any more).
pub(crate) fn remove<T: Object>(numbering: Numbering, handle: usize) -> bool {
    let Some(slab) = SLAB.get() else { return false };
    let Some(number) = slab.number_of(handle) else { return false };
    let freed = slab.empty(&mut slab.free(), number, word(numbering, T::KIND));
    let was_there = freed.is_some();
    freed.into_iter().for_each(|object| slab.bin.put(object));
    was_there
}

/// Takes back the handle of an interface adapter, and those of all its objects.
pub(crate) fn remove_adapter(numbering: Numbering, adapter: usize) {
    let Some(slab) = SLAB.get() else { return };
    let Some(own) = slab.number_of(adapter) else { return };
    let mut free = slab.free();
    // Itself first: nothing can be added from then on.
    let itself = slab.empty(&mut free, own, word(numbering, ObjectKind::InterfaceAdapter));
    let mut freed = Vec::from_iter(itself);
    for number in 0..free.used() {
        let slot = slab.at(number);
        if slot.adapter.load(Ordering::Relaxed) == adapter {
            freed.extend(slab.empty(&mut free, number, slot.word.load(Ordering::Relaxed)));
        }
    }
    drop(free);
    freed.into_iter().for_each(|object| slab.bin.put(object));
    slab.bin.sweep();
}

/// Version and kind of the living object behind a handle.
pub(crate) fn describe(handle: usize) -> Option<(Numbering, ObjectKind)> {
    let found = SLAB.get()?.slot(handle)?.word.load(Ordering::Acquire);
    let versions = [Numbering::V1_2, Numbering::V2_0].into_iter();
    let mut all = versions.flat_map(|numbering| KINDS.map(|kind| (numbering, kind)));
    all.find(|(numbering, kind)| found == word(*numbering, *kind))
}

/// Whether a handle is the address of one of our slots, used or not.
#[inline]
pub(crate) fn is_ours(handle: usize) -> bool {
    SLAB.get().is_some_and(|slab| slab.slot(handle).is_some())
}

/// The handle of the interface adapter that an object belongs to; its own for an interface adapter.
pub(crate) fn adapter_of(handle: usize) -> usize {
    let slot = SLAB.get().and_then(|slab| slab.slot(handle));
    slot.map_or(0, |slot| slot.adapter.load(Ordering::Relaxed))
}

/// Stores the word that the program keeps with an object of any kind.
pub(crate) fn set_context(numbering: Numbering, handle: usize, context: u64) -> Result<(), NoSuchObject> {
    living(numbering, handle)?.context.store(context, Ordering::Relaxed);
    Ok(())
}

/// The word that the program keeps with an object of any kind; 0 at first.
pub(crate) fn context(numbering: Numbering, handle: usize) -> Result<u64, NoSuchObject> {
    Ok(living(numbering, handle)?.context.load(Ordering::Relaxed))
}

fn living(numbering: Numbering, handle: usize) -> Result<&'static slab::Slot, NoSuchObject> {
    let slot = SLAB.get().and_then(|slab| slab.slot(handle)).ok_or(NoSuchObject)?;
    match describe(handle) {
        Some((found, _)) if found == numbering => Ok(slot),
        _ => Err(NoSuchObject),
    }
}

#[cfg(test)]
mod tests;

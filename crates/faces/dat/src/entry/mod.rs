//! The calls, for every version of the interface: what goes into `nonic-dat`, and what comes out.
//!
//! Handles and NULL are judged here, everything else there. Nothing is stored before a call is known to succeed.

pub(crate) mod adapter;
pub(crate) mod connection_request;
pub(crate) mod context;
pub(crate) mod dispatcher;
pub(crate) mod endpoint;
pub(crate) mod local_region;
pub(crate) mod notification_object;
pub(crate) mod posting;
pub(crate) mod remote_region;
pub(crate) mod service_point;
pub(crate) mod shared_receive_queue;
pub(crate) mod zone;

use core::ffi::c_void;
use core::slice;
use std::sync::Arc;
use std::time::Duration;

use nonic_dat::{
    ConnectionRequest, DatError, DatResult, Endpoint, EventDispatcher, HandleKind, LocalRegion, Mark,
    NotificationObject, ProtectionZone, PublicServicePoint, RemoteRegion, ReservedServicePoint, Resource,
    SharedReceiveQueue, Subtype,
};

use crate::calls::{Count, Handle};
use crate::handles::{self, NotAdded, Object, ObjectKind};
use crate::version::Version;

macro_rules! objects {
    ($($type:ident is $kind:ident;)*) => {$(
        impl Object for $type {
            const KIND: ObjectKind = ObjectKind::$kind;

            #[inline]
            fn mark(&self) -> &Mark {
                $type::mark(self)
            }
        }
    )*};
}

objects! {
    ConnectionRequest is ConnectionRequest;
    Endpoint is Endpoint;
    EventDispatcher is EventDispatcher;
    LocalRegion is LocalRegion;
    NotificationObject is NotificationObject;
    ProtectionZone is ProtectionZone;
    PublicServicePoint is PublicServicePoint;
    RemoteRegion is RemoteRegion;
    ReservedServicePoint is ReservedServicePoint;
    SharedReceiveQueue is SharedReceiveQueue;
}

/// `DAT_TIMEOUT_INFINITE`.
const FOREVER: u32 = u32::MAX;

/// `DAT_TIMEOUT`: microseconds, or for ever.
fn timeout(microseconds: u32) -> Option<Duration> {
    (microseconds != FOREVER).then(|| Duration::from_micros(microseconds.into()))
}

/// The object behind a handle, which a refusal calls by `kind`.
pub(crate) fn find<V: Version, T: Object>(handle: Handle, kind: HandleKind) -> DatResult<Arc<T>> {
    handles::find(V::NUMBERING, handle).map_err(|wrong| wrong.named(kind))
}

/// [`find`] for a handle that may be NULL.
fn find_if_given<V: Version, T: Object>(handle: Handle, kind: HandleKind) -> DatResult<Option<Arc<T>>> {
    if handle == 0 { Ok(None) } else { find::<V, T>(handle, kind).map(Some) }
}

/// Runs `work` on the object behind a handle; for calls that never block.
#[inline]
pub(crate) fn with<V: Version, T: Object, R>(
    handle: Handle,
    kind: HandleKind,
    work: impl FnOnce(&Arc<T>) -> DatResult<R>,
) -> DatResult<R> {
    handles::with(V::NUMBERING, handle, work).map_err(|wrong| wrong.named(kind))?
}

/// Hands a new object to the program. `beside` is a handle of its adapter or of an object of that. If that cannot be, `undo`
/// takes the object away again.
fn hand_out<V: Version, T: Object>(
    beside: Handle,
    object: &Arc<T>,
    undo: impl FnOnce(&Arc<T>) -> DatResult<()>,
) -> DatResult<Handle> {
    handles::add(V::NUMBERING, handles::real_adapter(beside), Arc::clone(object)).map_err(|reason| {
        let _ = undo(object);
        not_added(reason)
    })
}

fn not_added(reason: NotAdded) -> DatError {
    match reason {
        NotAdded::NoRoom => DatError::resources(Subtype::Resource(Resource::Memory)),
        NotAdded::Closed => DatError::handle(Subtype::Handle(HandleKind::InterfaceAdapter)),
    }
}

/// The handle by which the program knows an object, or gets to know one that was made for it; 0 for none.
fn shown<V: Version, T: Object>(beside: Handle, object: Option<&Arc<T>>) -> Handle {
    let Some(object) = object else { return 0 };
    match object.mark().get() {
        0 => handles::add(V::NUMBERING, beside, Arc::clone(object)).unwrap_or_else(|reason| {
            tracing::error!(?reason, "an object that was made for the program has no handle");
            0
        }),
        handle => handle,
    }
}

/// What the program calls the adapter of an object.
fn shown_adapter<V: Version>(object: Handle) -> DatResult<Handle> {
    Ok(V::shown_adapter(&*crate::opened::opened_of::<V>(object)?))
}

/// The room behind a pointer, which is the argument of this number and must not be NULL.
pub(crate) fn room<T>(pointer: *mut c_void, argument: u8) -> DatResult<Room<T>> {
    if pointer.is_null() { Err(DatError::argument(argument)) } else { Ok(Room(pointer.cast())) }
}

/// Where a result goes.
pub(crate) struct Room<T>(*mut T);

impl<T> Room<T> {
    pub(crate) fn store(self, value: T) {
        // SAFETY: not NULL (`room`), and by the contract of every call the pointers it is given lead to what it stores.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// [`room`] for a result that nobody need want.
fn room_if_given<T>(pointer: *mut T) -> Option<Room<T>> {
    (!pointer.is_null()).then_some(Room(pointer))
}

/// The structure behind a pointer, which is the argument of this number and must not be NULL.
pub(crate) fn fetch<T: Copy>(pointer: *const c_void, argument: u8) -> DatResult<T> {
    // SAFETY: as in `Room::store`; the structures of the interface are numbers, of which all bits are values.
    (!pointer.is_null())
        .then(|| unsafe { pointer.cast::<T>().read_unaligned() })
        .ok_or(DatError::argument(argument))
}

/// A list of structures and its length; the numbers are those of the two arguments.
///
/// # Safety
/// The pointer is NULL or leads to `count` structures, which stay as they are as long as the list is in use.
#[inline]
pub(crate) unsafe fn list<'a, T>(
    count: usize,
    pointer: *const c_void,
    (count_argument, argument): (u8, u8),
) -> DatResult<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || !pointer.cast::<T>().is_aligned() {
        return Err(DatError::argument(argument));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(DatError::argument(count_argument));
    }
    // SAFETY: the caller's promise; not NULL, aligned, and the length fits (all above).
    Ok(unsafe { slice::from_raw_parts(pointer.cast(), count) })
}

/// A `DAT_COUNT` that must not be negative.
#[inline]
pub(crate) fn unsigned(count: Count, argument: u8) -> DatResult<usize> {
    usize::try_from(count).map_err(|_| DatError::argument(argument))
}

/// Private data of the program, copied; the numbers are those of the two arguments.
pub(crate) fn private_data(size: Count, pointer: *const c_void, arguments: (u8, u8)) -> DatResult<Vec<u8>> {
    let size = unsigned(size, arguments.0)?;
    if size > PRIVATE_DATA_MAX {
        return Err(DatError::argument(arguments.0));
    }
    // SAFETY: by the contract of the calls the pointer leads to that many bytes.
    Ok(unsafe { list::<u8>(size, pointer, arguments) }?.to_vec())
}

/// Bytes of private data at most, as the provider's attributes say.
const PRIVATE_DATA_MAX: usize = 256;

/// Whether all bits of a mask mean something; it is the argument of this number.
fn check_mask(mask: u32, all: u32, argument: u8) -> DatResult<()> {
    if mask & !all == 0 { Ok(()) } else { Err(DatError::argument(argument)) }
}

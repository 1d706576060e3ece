//! What the numbers of the process stand for.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nonic_sys::RawFd;

use crate::event_set::EventSet;
use crate::socket::Socket;

/// Numbers below this can be ours; sockets that get a higher one stay the kernel's.
pub const NUMBERS: usize = 1 << 16;

/// What a number stands for, for who asks with every call of the program: one byte each, as [`Kind`] says.
pub static KINDS: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Something of the kernel's alone.
    Kernel = 0,
    /// A socket of this crate.
    Socket = 1,
    /// An event poll that has sockets of this crate.
    EventSet = 2,
}

/// What stands in the table. It is ours to lock around a fork, so it belongs to no process.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Socket(Arc<Socket>),
    EventSet(Arc<EventSet>),
}

pub(crate) type Slots = Vec<Option<Object>>;

static SLOTS: RwLock<Slots> = RwLock::new(Vec::new());
/// Of the highest number ever used, one more.
static USED: AtomicUsize = AtomicUsize::new(0);

/// What a number stands for. Takes no lock.
pub fn kind_of(number: RawFd) -> Kind {
    let kind = usize::try_from(number).ok().and_then(|number| KINDS.get(number));
    match kind.map_or(0, |kind| kind.load(Ordering::Relaxed)) {
        1 => Kind::Socket,
        2 => Kind::EventSet,
        _ => Kind::Kernel,
    }
}

fn read() -> RwLockReadGuard<'static, Slots> {
    SLOTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// The table, for who changes it.
pub(crate) fn write() -> RwLockWriteGuard<'static, Slots> {
    SLOTS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a number can stand for something of ours.
pub(crate) fn has_place(number: RawFd) -> bool {
    usize::try_from(number).is_ok_and(|number| number < NUMBERS)
}

fn object(number: RawFd) -> Option<Object> {
    if kind_of(number) == Kind::Kernel {
        return None;
    }
    read().get(number.cast_unsigned() as usize)?.clone()
}

/// The socket of a number.
pub(crate) fn socket(number: RawFd) -> Option<Arc<Socket>> {
    match object(number)? {
        Object::Socket(socket) => Some(socket),
        Object::EventSet(_) => None,
    }
}

/// The event poll of a number, if it has sockets of ours.
pub(crate) fn event_set(number: RawFd) -> Option<Arc<EventSet>> {
    match object(number)? {
        Object::EventSet(set) => Some(set),
        Object::Socket(_) => None,
    }
}

/// Has a number stand for something from now on; what it stood for until now.
///
/// # Panics
/// If there is no place for it ([`has_place`]).
pub(crate) fn put(number: RawFd, object: Object) -> Option<Object> {
    assert!(has_place(number), "number {number} has no place");
    let place = number.cast_unsigned() as usize;
    let kind = match &object {
        Object::Socket(socket) => {
            socket.add_descriptor();
            Kind::Socket
        }
        Object::EventSet(_) => Kind::EventSet,
    };
    let mut slots = write();
    if slots.len() <= place {
        slots.resize(place + 1, None);
        USED.fetch_max(place + 1, Ordering::Relaxed);
    }
    let old = slots[place].replace(object);
    KINDS[place].store(kind as u8, Ordering::SeqCst);
    old
}

/// A number stands for the kernel's alone from now on; what it stood for.
pub(crate) fn take(number: RawFd) -> Option<Object> {
    let place = number.cast_unsigned() as usize;
    let mut slots = write();
    KINDS.get(place)?.store(Kind::Kernel as u8, Ordering::SeqCst);
    slots.get_mut(place)?.take()
}

/// The same for every number that stands for this socket; which those were.
pub(crate) fn take_all(socket: &Arc<Socket>) -> Vec<RawFd> {
    let mut numbers = Vec::new();
    for (place, slot) in write().iter_mut().enumerate() {
        if matches!(slot, Some(Object::Socket(other)) if Arc::ptr_eq(other, socket)) {
            *slot = None;
            KINDS[place].store(Kind::Kernel as u8, Ordering::SeqCst);
            numbers.push(place as RawFd);
        }
    }
    numbers
}

/// The numbers that stand for this socket.
pub(crate) fn numbers_of(socket: &Arc<Socket>) -> Vec<RawFd> {
    let is_it = |(_, other): &(RawFd, Arc<Socket>)| Arc::ptr_eq(other, socket);
    sockets_by_number().into_iter().filter(is_it).map(|(number, _)| number).collect()
}

/// All sockets with their numbers.
pub(crate) fn sockets_by_number() -> Vec<(RawFd, Arc<Socket>)> {
    let socket = |(place, slot): (usize, &Option<Object>)| match slot {
        Some(Object::Socket(socket)) => Some((place as RawFd, Arc::clone(socket))),
        _ => None,
    };
    read().iter().enumerate().filter_map(socket).collect()
}

/// All sockets, some of them more than once; none while somebody changes the table.
pub(crate) fn sockets_if_free() -> Vec<Arc<Socket>> {
    let socket = |slot: &Option<Object>| match slot {
        Some(Object::Socket(socket)) => Some(Arc::clone(socket)),
        _ => None,
    };
    SLOTS.try_read().map_or(Vec::new(), |slots| slots.iter().filter_map(socket).collect())
}

/// Numbers of ours from `first` to `last`.
pub(crate) fn numbers_in(first: u32, last: u32) -> Vec<RawFd> {
    let end = (last as usize).saturating_add(1).min(USED.load(Ordering::Relaxed));
    (first as usize..end)
        .map(|number| number as RawFd)
        .filter(|number| kind_of(*number) != Kind::Kernel)
        .collect()
}

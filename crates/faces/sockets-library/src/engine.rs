//! Finding the engine, and what its calls are before it is found, or if it is not.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::Once;

use libc::{epoll_event, fd_set, iovec, pollfd, sockaddr, timespec};
use nonic_neighbour::Engine;

use crate::calls::{EVENT_SET, KERNEL, NUMBERS, SocketsTable, TABLE_VERSION};

/// The engine's table, or [`ABSENT`].
static ENGINE: Engine<SocketsTable> = Engine::absent(&ABSENT);

static NOTHING: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];

/// Without an engine everything is the kernel's.
static ABSENT: SocketsTable = absent_table();

trait Kernel {
    const VALUE: Self;
}

impl Kernel for c_int {
    const VALUE: Self = KERNEL;
}

impl Kernel for isize {
    const VALUE: Self = KERNEL as isize;
}

macro_rules! absent {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        const fn absent_table() -> SocketsTable {
            $(
                unsafe extern "C" fn $name($(_: $type),*) -> $result {
                    Kernel::VALUE
                }
            )*
            SocketsTable { version: TABLE_VERSION, kinds: &NOTHING, $($name),* }
        }
    };
}

for_each_call!(absent);

/// The process whose table it is.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// This process has the table from now on.
pub(crate) fn own() {
    // SAFETY: asks for nothing.
    OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// Whether this process has the table: a child of `vfork` sees its parent's, and gives nothing back in it.
pub(crate) fn is_own() -> bool {
    // SAFETY: asks for nothing.
    OWNER.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

/// The engine's calls.
#[inline(always)]
pub(crate) fn table() -> &'static SocketsTable {
    ENGINE.table()
}

/// Finds the engine, once, and gives its calls.
pub(crate) fn found() -> &'static SocketsTable {
    static FIND: Once = Once::new();
    FIND.call_once(|| {
        let consequence = c"Connections go over TCP.";
        // SAFETY: the engine's table of this name and version is made of the same list of calls.
        unsafe { ENGINE.connect(c"libnonic-sockets.so", c"nonic_sockets_table", TABLE_VERSION, consequence) }
        own();
    });
    table()
}

#[inline(always)]
fn kind(number: c_int) -> u8 {
    match table().kinds.get(number.cast_unsigned() as usize) {
        Some(kind) => kind.load(Ordering::Relaxed),
        None => 0,
    }
}

/// Whether a number is a socket that the engine has something to do with.
#[inline(always)]
pub(crate) fn is_socket(number: c_int) -> bool {
    let kind = kind(number);
    kind != 0 && kind != EVENT_SET
}

/// Whether it is an event poll with sockets of the engine's.
#[inline(always)]
pub(crate) fn is_event_set(number: c_int) -> bool {
    kind(number) == EVENT_SET
}

/// Whether it is either.
#[inline(always)]
pub(crate) fn is_known(number: c_int) -> bool {
    kind(number) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_engine_no_number_is_known_and_every_call_is_the_kernels() {
        assert!((-1..70_000).all(|number| !is_known(number) && !is_socket(number) && !is_event_set(number)));
        // SAFETY: these functions look at no argument.
        unsafe {
            assert_eq!((table().adopt)(3, libc::AF_INET, 0), KERNEL);
            assert_eq!((table().send)(3, core::ptr::null(), 1, 0), KERNEL as isize);
        }
    }
}

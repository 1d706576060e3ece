//! Finding the engine, and what calls do if there is none.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::ptr;

use nonic_neighbour::Engine;

use crate::abi::*;
use crate::calls::{RdmacmTable, TABLE_VERSION};

/// The engine's table, or [`ABSENT`].
pub(crate) static ENGINE: Engine<RdmacmTable> = Engine::absent(&ABSENT);

/// What every call does without an engine.
static ABSENT: RdmacmTable = absent_table();

/// The value that says a call failed.
trait Failure {
    const VALUE: Self;
}

macro_rules! minus_one {
    ($($kind:ty),*) => {$(
        impl Failure for $kind {
            const VALUE: Self = -1;
        }
    )*};
}

minus_one!(c_int, i64, isize);

impl Failure for usize {
    const VALUE: Self = Self::MAX;
}

impl Failure for u16 {
    const VALUE: Self = 0;
}

impl Failure for () {
    const VALUE: Self = ();
}

impl<T> Failure for *mut T {
    const VALUE: Self = ptr::null_mut();
}

/// A text that programs print as it comes.
impl Failure for *const c_char {
    const VALUE: Self = c"UNKNOWN EVENT".as_ptr();
}

macro_rules! absent {
    ($($node:literal $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        const fn absent_table() -> RdmacmTable {
            $(
                unsafe extern "C-unwind" fn $name($(_: $type),*) -> $result {
                    nonic_neighbour::set_errno(libc::ENODEV);
                    Failure::VALUE
                }
            )*
            RdmacmTable { version: TABLE_VERSION, $($name),* }
        }
    };
}

for_each_call!(absent);

/// The loader calls this when it has loaded the library.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = connect;

#[cfg_attr(test, allow(dead_code))] // No loader loads a unit test as a library.
extern "C" fn connect() {
    let consequence = c"Every call of the connection manager fails with ENODEV.";
    // SAFETY: the engine's table of this name and version is made of the same list of calls.
    unsafe { ENGINE.connect(c"librdmacm.so.1", c"nonic_rdmacm_table", TABLE_VERSION, consequence) }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;

    #[test]
    fn without_an_engine_calls_fail_with_enodev_in_the_value_of_their_type() {
        // SAFETY: these functions look at no argument; the text is one of this file.
        unsafe {
            assert!((ENGINE.table().rdma_create_event_channel)().is_null());
            assert_eq!(*libc::__errno_location(), libc::ENODEV);
            assert_eq!((ENGINE.table().rdma_listen)(ptr::null_mut(), 1), -1);
            assert_eq!((ENGINE.table().riomap)(0, ptr::null_mut(), 1, 0, 0, 0), -1);
            assert_eq!(CStr::from_ptr((ENGINE.table().rdma_event_str)(0)), c"UNKNOWN EVENT");
        }
    }
}

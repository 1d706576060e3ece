//! Finding the engine, and what calls do if there is none.

use core::ffi::{c_int, c_long, c_uint, c_void};
use core::ptr;

use nonic_neighbour::Engine;

use crate::calls::{Offset, ScifPollEntry, ScifPortId, ScifTable, TABLE_VERSION};

/// The engine's table, or [`ABSENT`].
pub(crate) static ENGINE: Engine<ScifTable> = Engine::absent(&ABSENT);

/// What every call does without an engine.
static ABSENT: ScifTable = absent_table();

/// The value that says a call failed: -1 in each type.
trait Failure {
    const VALUE: Self;
}

impl Failure for c_int {
    const VALUE: Self = -1;
}

impl Failure for Offset {
    const VALUE: Self = -1;
}

impl Failure for *mut c_void {
    const VALUE: Self = ptr::without_provenance_mut(usize::MAX);
}

macro_rules! absent {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        const fn absent_table() -> ScifTable {
            $(
                #[allow(non_snake_case)]
                unsafe extern "C" fn $name($(_: $type),*) -> $result {
                    nonic_neighbour::set_errno(libc::ENXIO);
                    Failure::VALUE
                }
            )*
            ScifTable { version: TABLE_VERSION, $($name),* }
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
    let consequence = c"Every SCIF call fails with ENXIO.";
    // SAFETY: the engine's table of this name and version is made of the same list of calls.
    unsafe { ENGINE.connect(c"libscif.so.0", c"nonic_scif_table", TABLE_VERSION, consequence) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_engine_calls_fail_with_enxio_in_the_value_of_their_type() {
        // SAFETY: these functions look at no argument.
        unsafe {
            assert_eq!((ENGINE.table().scif_open)(), -1);
            assert_eq!(*libc::__errno_location(), libc::ENXIO);
            assert_eq!((ENGINE.table().scif_register)(0, ptr::null_mut(), 0, 0, 0, 0), -1);
            assert_eq!((ENGINE.table().scif_mmap)(ptr::null_mut(), 0, 0, 0, 0, 0).addr(), usize::MAX);
        }
    }
}

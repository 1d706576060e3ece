//! Finding the engine, and what calls do if there is none.

use core::ffi::{c_char, c_void};

use nonic_neighbour::Engine;

use crate::calls::{
    Context, Count, DatTable, Handle, ProviderCalls, ProxyAgent, RegionDescription, Return, TABLE_VERSION,
};

/// The engine's table, or [`ABSENT`].
pub(crate) static ENGINE: Engine<DatTable> = Engine::absent(&ABSENT);

/// What every call does without an engine.
static ABSENT: DatTable = absent_table();

/// `DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND`.
const NO_PROVIDER: Return = 0x800a_0000;

macro_rules! absent_provider {
    ($($name:ident $short:ident $first:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        const fn absent_provider() -> ProviderCalls {
            $(
                unsafe extern "C" fn $short($(_: $type),*) -> Return {
                    NO_PROVIDER
                }
            )*
            ProviderCalls { $($short),* }
        }
    };
}

for_each_provider_call!(absent_provider);

macro_rules! absent {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        const fn absent_table() -> DatTable {
            $(
                unsafe extern "C" fn $name($(_: $type),*) -> Return {
                    NO_PROVIDER
                }
            )*
            DatTable { version: TABLE_VERSION, provider: absent_provider(), $($name),* }
        }
    };
}

for_each_registry_call!(absent);

/// The loader calls this when it has loaded the library.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = connect;

#[cfg_attr(test, allow(dead_code))] // No loader loads a unit test as a library.
extern "C" fn connect() {
    let consequence = c"Every uDAPL call answers DAT_PROVIDER_NOT_FOUND.";
    // SAFETY: the engine's table of this name and version is made of the same list of calls.
    unsafe { ENGINE.connect(c"libdat.so.1", c"nonic_dat_table", TABLE_VERSION, consequence) }
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    #[test]
    fn without_an_engine_every_call_answers_that_there_is_no_provider() {
        // SAFETY: these functions look at no argument.
        unsafe {
            assert_eq!((ENGINE.table().provider.evd_dequeue)(0, ptr::null_mut()), NO_PROVIDER);
            assert_eq!((ENGINE.table().dat_strerror)(0, ptr::null_mut(), ptr::null_mut()), NO_PROVIDER);
        }
    }
}

//! The functions of the library, each under the one version node of the original.

use core::ffi::{c_char, c_void};

use nonic_neighbour::versioned;

use crate::calls::{Context, Count, Handle, ProxyAgent, RegionDescription, Return};
use crate::engine::ENGINE;

macro_rules! forwarded {
    ($($name:ident $short:ident $first:ident($($argument:ident: $type:ty),* $(,)?);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, see `dat/udat.h`.")]
        ///
        /// # Safety
        ///
        /// As in C: pointers lead to what the call expects. The engine refuses handles that lead nowhere.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Return {
            // SAFETY: the caller's promise is the one that the function in the table asks for.
            unsafe { (ENGINE.table().provider.$short)($($argument),*) }
        }
        versioned!($name, "DAT_1.2");
    )*};
}

for_each_provider_call!(forwarded);

macro_rules! registry_forwarded {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, see `dat/udat.h` and `dat/dat_registry.h`.")]
        ///
        /// # Safety
        ///
        /// As in C: pointers lead to what the call expects.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Return {
            // SAFETY: the caller's promise is the one that the function in the table asks for.
            unsafe { (ENGINE.table().$name)($($argument),*) }
        }
        versioned!($name, "DAT_1.2");
    )*};
}

for_each_registry_call!(registry_forwarded);

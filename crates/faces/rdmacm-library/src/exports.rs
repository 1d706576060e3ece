//! The functions of the library, each under the version node of the original.

use core::ffi::{c_char, c_int, c_ulong, c_void};

use nonic_neighbour::versioned;

use crate::abi::*;
use crate::engine::ENGINE;

macro_rules! forwarded {
    ($($node:literal $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, see its manual page.")]
        ///
        /// # Safety
        ///
        /// As in C: pointers lead to what the call expects. The engine refuses objects that it does not know.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller's promise is the one that the function in the table asks for.
            unsafe { (ENGINE.table().$name)($($argument),*) }
        }
        versioned!($name, $node);
    )*};
}

for_each_call!(forwarded);

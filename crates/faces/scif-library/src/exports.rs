//! The functions of the library, each under the one version node of the original.

use core::ffi::{c_int, c_long, c_uint, c_void};

use nonic_neighbour::versioned;

use crate::calls::{Offset, ScifPollEntry, ScifPortId};
use crate::engine::ENGINE;

macro_rules! forwarded {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, see `scif.h`.")]
        ///
        /// # Safety
        ///
        /// As in C: pointers lead to what the call expects. The engine refuses those that lead nowhere.
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller's promise is the one that the function in the table asks for.
            unsafe { (ENGINE.table().$name)($($argument),*) }
        }
        versioned!($name, "SCIF_0.0");
    )*};
}

for_each_call!(forwarded);

/// `scif_get_fd`, see `scif.h`: an endpoint is its descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn scif_get_fd(epd: c_int) -> c_int {
    epd
}
versioned!(scif_get_fd, "SCIF_0.0");

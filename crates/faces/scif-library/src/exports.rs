//! The functions of the library, each under the one version node of the original.

use core::ffi::{c_int, c_long, c_uint, c_void};

use crate::calls::{Offset, ScifPollEntry, ScifPortId};
use crate::engine;

/// Gives a function its version and takes its plain name away (`@@@`). It has to stand in the module that defines the
/// function: the assembler can only do this to a symbol it sees defined.
macro_rules! versioned {
    ($name:ident) => {
        #[cfg(not(test))] // Unit tests are a program, which has no versions.
        core::arch::global_asm!(concat!(
            ".symver ",
            stringify!($name),
            ", ",
            stringify!($name),
            "@@@SCIF_0.0"
        ));
    };
}

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
            unsafe { (engine::table().$name)($($argument),*) }
        }
        versioned!($name);
    )*};
}

for_each_call!(forwarded);

/// `scif_get_fd`, see `scif.h`: an endpoint is its descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn scif_get_fd(epd: c_int) -> c_int {
    epd
}
versioned!(scif_get_fd);

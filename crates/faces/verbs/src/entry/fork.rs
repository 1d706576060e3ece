//! `fork`. The engine handles it without being told; a program that says that its children do not use registered memory
//! spares it the copying.

use core::ffi::{c_int, c_void};

use crate::abi::{IBV_FORK_ENABLED, IBV_FORK_UNNEEDED};
use crate::guard;

versions! {
    nonic_ibv_fork_init => "ibv_fork_init@@IBVERBS_1.1";
    nonic_ibv_is_fork_initialized => "ibv_is_fork_initialized@@IBVERBS_1.13";
    nonic_ibv_dontfork_range => "ibv_dontfork_range@@IBVERBS_1.1";
    nonic_ibv_dofork_range => "ibv_dofork_range@@IBVERBS_1.1";
}

/// `ibv_fork_init(3)`: 0. Children do not inherit registered memory that peers map.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_fork_init() -> c_int {
    guard::status(|| {
        nonic_device::fork_init();
        Ok(())
    })
}

/// `ibv_is_fork_initialized(3)`: not needed, since children get a copy of registered memory; enabled once the program has
/// asked, because from then on they do not get it.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_is_fork_initialized() -> c_int {
    if nonic_device::is_fork_initialized() { IBV_FORK_ENABLED } else { IBV_FORK_UNNEEDED }
}

/// For drivers that keep memory from a child: 0, nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// The reverse of [`nonic_ibv_dontfork_range`]: 0, nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

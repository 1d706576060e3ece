//! Every system call nonic makes, as small functions that are safe wherever they can be.
//!
//! What depends on the machine (copying, pausing a spinning CPU) stands here too, so that nothing above knows x86.

mod atomics;
mod copy;
mod descriptor;
mod fork;
mod interface;
mod mapping;
#[cfg(loom)]
mod model;
mod process_memory;
mod socket;
mod spin;
mod thread;
mod virtual_memory;

pub use atomics::{compare_swap_u64, fetch_add_u64};
pub use copy::{STREAM_MIN, copy_ordered, copy_ordered_near, copy_with_threshold};
pub use descriptor::{Epoll, EventFd, EventKind, Ready, wait_readable};
pub use fork::{forget_in_children, fork_generation, keep_in_children};
pub use interface::{InterfaceAddress, interface_addresses};
#[cfg(not(loom))]
pub use mapping::SharedMapping;
pub use mapping::{Protection, SharedMemory};
#[cfg(loom)]
pub use model::{AtomicU64, SharedMapping};
pub use process_memory::{
    Piece, allow_any_tracer, effective_user, open_process, read_process, write_process,
};
pub use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
pub use socket::{Credentials, MAX_DESCRIPTORS, PacketSocket, Received, listen_abstract};
pub use spin::{cpu_relax, sequence_point, yield_now};
#[cfg(not(loom))]
pub use std::sync::atomic::AtomicU64;
pub use thread::{
    at_exit, host_name, prefer_short_slices, random_u64, spawn_without_signals, timer_slack_ns,
};
pub use virtual_memory::{Backing, MemoryArea, PAGE, find_area, shared_file_of, touch_pages};

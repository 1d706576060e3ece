//! Every system call nonic makes, as small functions that are safe wherever they can be.
//!
//! What depends on the machine (copying, pausing a spinning CPU) stands here too, so that nothing above knows x86.

mod address_file;
mod area_flags;
mod asymmetric;
mod atomics;
mod biased_mutex;
mod call_lock;
mod cancellation;
mod copy;
mod descriptor;
mod errno;
mod event_count;
mod file_mapping;
mod fork;
mod hope;
mod interface;
mod mapping;
#[cfg(loom)]
mod model;
mod page_map;
mod per_process;
mod poll;
mod process_memory;
mod raw_lock;
mod record_lock;
mod signals;
mod socket;
mod spin;
mod stream_socket;
mod thread;
mod ticks;
mod userfault;
mod virtual_memory;

pub use address_file::{
    AddressFile, Rights, keep_from_children, map_zeros_over, populate, set_rights, sparse_data,
};
pub use area_flags::{AreaAdvice, area_advice, grows_down, is_locked, lock_pages};
pub use asymmetric::{FenceReach, heavy_fence, light_fence, light_fences_are_free, prepare_light_fences};
pub use atomics::{compare_swap_u64, fetch_add_u64};
pub use biased_mutex::{BiasedGuard, BiasedMutex};
pub use call_lock::{CallLock, Record};
pub use cancellation::CancellationHeld;
pub use copy::{STREAM_MIN, copy_ordered, copy_ordered_near, copy_with_threshold};
pub use descriptor::{Epoll, EventFd, EventKind, Ready, pipe, read_byte, wait_readable, write_byte};
pub use errno::ErrnoKept;
pub use event_count::{EventCount, Ticket};
pub use file_mapping::{
    map_file_over, open_file_behind, open_file_of, process_maps_file, reserve_addresses, unmap_range,
};
pub use fork::{
    ForkHandler, ForkLayer, current_generation, forget_in_children, fork_generation, forks, keep_in_children,
    on_fork,
};
pub use hope::{Hope, LOOK};
pub use interface::{InterfaceAddress, interface_addresses};
pub use mapping::{Protection, SharedMemory};
#[cfg(not(loom))]
pub use mapping::{SharedMapping, SharedWords};
#[cfg(loom)]
pub use model::{AtomicU64, SharedMapping, SharedWords};
pub use page_map::{Holding, PageMap, PageRun};
pub use per_process::PerProcess;
pub use poll::{
    POLL_ERROR, POLL_HANG_UP, POLL_IN, POLL_INVALID, POLL_OUT, PollEntry, poll, poll_at, poll_now,
};
pub use process_memory::{
    Piece, allow_any_tracer, effective_user, may_administer, may_lock, open_process, process_has_ended,
    read_process, write_process,
};
pub use raw_lock::RawLock;
pub use record_lock::{RecordLock, lock_record};
pub use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
pub use signals::SignalsHeld;
pub use socket::{
    Credentials, MAX_DESCRIPTORS, PacketSocket, Received, listen_abstract, receive_message, send_message,
};
pub use spin::{cpu_relax, full_fence, yield_now};
#[cfg(not(loom))]
pub use std::sync::atomic::AtomicU64;
pub use stream_socket::{
    accept_stream, bind_name, close_number, connect_stream, give_other_end, is_listening, is_nonblocking,
    is_unix_stream, listen_for, open_stream, own_name, peer_name, peer_user, replace_descriptor,
    replace_number, send_byte, set_send_buffer, socket_cookie, take_bytes,
};
pub use thread::{
    THREAD_PLACES, Threads, at_exit, host_name, nap, online_cpus, own_stack, prefer_short_slices,
    process_status, process_status_at, random_u64, spawn_without_signals, thread_mark, thread_place,
    timer_slack_ns, usable_cpus,
};
pub use ticks::{ticks, ticks_in};
pub use userfault::{Reach, Userfault};
pub use virtual_memory::{
    AreaMap, AreaName, Backing, FileIdentity, MemoryArea, PAGE, file_identity, find_area, shared_file_of,
    touch_pages,
};

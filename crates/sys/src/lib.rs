//! Every system call nonic makes, as small functions that are safe wherever they can be.
//!
//! What depends on the machine (copying, pausing a spinning CPU) stands here too, so that nothing above knows x86.

mod address_file;
mod area_flags;
mod area_map;
mod asymmetric;
mod atomics;
mod biased_mutex;
mod budget;
mod byte_file;
mod call_lock;
mod cancellation;
mod clock;
mod control_messages;
mod copy;
mod datagram_socket;
mod descriptor;
mod errno;
mod event_count;
mod file_mapping;
mod folder;
mod foreign;
mod fork;
mod hope;
mod host;
mod interface;
mod leak_checker;
mod loopback;
mod mapping;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod nameless_memory;
mod network_namespace;
mod numbered_folder;
mod open_descriptors;
mod own_memory;
mod owned_lock;
mod page_map;
#[cfg(test)]
mod patience;
mod peer_memory;
mod per_process;
mod poll;
mod private_memory;
mod private_pages;
mod process_memory;
mod program_socket;
mod range_lock;
mod raw_lock;
mod record_lock;
mod route_socket;
mod seldom;
mod shared_memory;
#[cfg(not(loom))]
mod shared_words;
mod shown_event;
mod shown_record;
mod signals;
mod sleepers;
mod socket;
mod spawn;
mod spin;
mod standard_error;
mod stream_socket;
#[cfg(not(loom))]
mod system_v;
mod thread;
mod thread_count;
mod ticks;
mod use_count;
mod user;
mod user_file;
mod userfault;
mod virtual_memory;
mod wire_group;
mod wire_socket;
mod yielder;

pub use address_file::{AddressFile, Reserve, Rights, Sharing, sparse_data};
pub use area_flags::{AreaAdvice, area_advice, grows_down, is_locked, lock_pages, refuses_new_code};
pub use area_map::{AreaMap, AreaWalk};
pub use asymmetric::{
    FenceReach, heavy_fence, heavy_fence_for_grants, light_fence, light_fences_are_free,
    prepare_light_fences, show_fences,
};
pub use atomics::{compare_swap_u64, fetch_add_u64};
pub use biased_mutex::{BiasedGuard, BiasedMutex};
pub use budget::{Budget, Share, Shares};
pub use byte_file::{ByteFile, check_file_limit};
pub use call_lock::{CallLock, Record};
pub use cancellation::{
    CancelState, CancellationHeld, Sleep, cancel_if_asked, put_off_cancellation, restore_cancellation,
    sleep_cancellably,
};
pub use clock::{raw_clock_ns, thread_cpu_ns_of, wall_clock_ns};
pub use copy::{STREAM_MIN, copy_ordered, copy_ordered_near, copy_with_threshold};
pub use datagram_socket::{
    any_option, bind_datagram, datagram_name, open_datagram, receive_datagram, send_datagram, set_any_option,
    source_towards,
};
pub use descriptor::{
    Epoll, EventFd, EventKind, Ready, is_out_of_descriptors, pipe, read_byte, wait_readable, write_byte,
};
pub use errno::ErrnoKept;
pub use event_count::{EventCount, Ticket};
pub use file_mapping::{
    map_file_over, open_file_behind, open_file_of, process_maps_file, reserve_addresses, unmap_range,
};
pub use folder::{Folder, Life, LifeSign};
pub use foreign::{
    check_is_let_back, may_trace_others, open_foreign_file, overflow_user, peer_credentials, peer_process,
    read_copied_file, read_foreign_file,
};
pub use fork::{
    ForkHandler, ForkLayer, around_forks, current_generation, forget_in_children, fork_generation, forks,
    keep_in_children, on_fork,
};
pub use hope::{Hope, LOOK};
pub use host::{host_name, host_number, stable_number};
pub use interface::{AddressWatch, InterfaceAddress, interface_addresses, is_own_address};
pub use leak_checker::tell_leak_checker;
pub use loopback::{LoopbackListener, TcpEnd, connect_to_loopback, give_tcp_end, name_of_number};
pub use mapping::Protection;
#[cfg(not(loom))]
pub use mapping::SharedMapping;
#[cfg(loom)]
pub use model::{AtomicU64, SetOnce, SharedMapping, SharedWords};
#[cfg(not(loom))]
pub use nameless_memory::{duplicate_at, has_swap, nameless_device, shared_anonymous};
pub use network_namespace::{CableEnd, NetworkNamespace, enter_own_user_namespace, lay_cable};
pub use numbered_folder::numbers_in;
pub use open_descriptors::OpenDescriptors;
pub use own_memory::{copies_own_memory, read_own_memory, write_own_memory};
pub use owned_lock::OwnedLock;
pub use page_map::{Holding, PageMap, PageRun};
pub use peer_memory::{Mark, PIECES_MAX, PeerMemory, Witness};
pub use per_process::PerProcess;
pub use poll::{
    POLL_ERROR, POLL_HANG_UP, POLL_IN, POLL_INVALID, POLL_OUT, PollEntry, poll, poll_at, poll_now,
};
pub use private_memory::{keep_from_children, map_nothing_over, map_zeros_over, populate, set_rights};
pub use private_pages::{
    address_space_is_unlimited, leave_out_of_dumps, lend_pages, map_private_pages, take_pages_back,
};
pub use process_memory::{
    Piece, allow_any_tracer, may_administer, may_bind_any_port, may_lock, open_process, process_has_ended,
    process_is_ending, process_is_stopped, read_process, read_process_into,
};
pub use program_socket::{
    PollEvent, connect_number, control_events, events_now, inode_of_number, is_event_poll, open_event_poll,
    open_tcp, time_of,
};
pub use range_lock::{
    LockedByte, RangeLock, lock_byte_within, locked_by_others, try_lock_range, unlock_range,
};
pub use raw_lock::RawLock;
pub use record_lock::{RecordLock, lock_record};
pub use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
pub use seldom::{SILENCE, Seldom};
pub use shared_memory::SharedMemory;
#[cfg(not(loom))]
pub use shared_words::{SharedBlock, SharedWords};
pub use shown_event::ShownEvent;
pub use shown_record::{word_of_copy, words_of_shown_record, write_shown_record};
pub use signals::SignalsHeld;
pub use sleepers::{Place, Sleepers};
pub use socket::{
    Credentials, MAX_DESCRIPTORS, PacketSocket, Received, bind_abstract, holder_of, listen_abstract,
    receive_message, send_message,
};
pub use spawn::{Thread, at_thread_end, spawn_without_signals};
pub use spin::{cpu_relax, full_fence, yield_now};
pub use standard_error::{StandardError, say_to_people};
#[cfg(not(loom))]
pub use std::sync::{OnceLock as SetOnce, atomic::AtomicU64};
pub use stream_socket::{
    accept_stream, bind_name, close_number, connect_stream, give_other_end, is_listening, is_nonblocking,
    is_unix_stream, listen_for, open_stream, own_name, peer_name, peer_user, replace_descriptor,
    replace_number, send_byte, set_send_buffer, socket_cookie, take_bytes, take_signed, want_senders,
};
#[cfg(not(loom))]
pub use system_v::{SegmentPlace, attach_segment, duplicate_over, duplicate_segment, segment_at};
pub use thread::{
    THREAD_PLACES, at_exit, is_runnable, is_thread, nap, online_cpus, own_stack, prefer_short_slices,
    process_status, process_status_at, random_u64, thread_mark, thread_number, thread_place, timer_slack_ns,
    usable_cpus,
};
pub use thread_count::Threads;
pub use ticks::{ticks, ticks_in};
pub use use_count::{CannotClose, UseCount};
pub use user::{descriptor_limit, effective_user, own_user};
pub use user_file::{UserFileError, is_still_at, namespace_number, open_user_file, remove_user_file};
pub use userfault::{Reach, Userfault};
pub use virtual_memory::{
    AreaName, Backing, FileIdentity, MemoryArea, PAGE, file_identity, find_area, is_system_v,
    pages_in_memory, shared_file_of, touch_pages,
};
pub use wire_socket::{
    DATAGRAM_RUN_MAX, DATAGRAM_SEGMENTS_MAX, DatagramBatch, DatagramHeader, DatagramRoute, RunSent,
    WireSocket,
};
pub use yielder::Yielder;

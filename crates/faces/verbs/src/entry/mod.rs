//! The exported functions and the ones behind inline calls, one file per object.
//!
//! Each entry turns pointers into types, calls the engine and maps the result; nothing is decided here. Every
//! pointer argument must be one the manual page of the function allows: that is the safety contract of all of
//! them, and the `# Safety` sections only add what else counts.

pub mod address_handle;
pub mod async_event;
pub mod buffer;
pub mod completion_channel;
pub mod completion_queue;
pub mod context;
pub(crate) mod counters;
pub mod device;
pub mod device_memory;
pub mod extended_completion_queue;
pub mod extended_domain;
pub mod fork;
pub mod gid;
pub mod import;
pub mod kernel_format;
pub mod later;
pub mod memory_window;
pub mod multicast;
pub mod oldest;
pub mod paging;
pub mod parent_domain;
pub mod posting;
pub mod private;
pub mod query;
pub mod queue_pair;
pub mod rate;
pub mod region;
pub mod shared_receive_queue;
pub mod sysfs;
pub mod text;
mod work_request;
pub mod zone;

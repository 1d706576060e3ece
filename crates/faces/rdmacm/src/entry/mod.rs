//! The functions, by object. Each turns pointers into objects, asks the machine and hands the result to the guard of the verbs
//! face; the order of checks is that of the original library.
//!
//! Every pointer argument must be one that the manual page of the function allows: that is the safety contract of all of them.
//! Identifiers, channels and events are looked up, so that a stale one is `EINVAL`.

pub(crate) mod address;
pub(crate) mod address_info;
pub(crate) mod address_resolution;
pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod device;
pub(crate) mod ece;
pub(crate) mod endpoint;
pub(crate) mod event;
pub(crate) mod identifier;
pub(crate) mod multicast;
pub(crate) mod option;
pub(crate) mod queue_pair;
pub(crate) mod rsocket;
pub(crate) mod shared_receive_queue;

use core::ffi::c_int;

use nonic_verbs::errno::Errno;
use nonic_verbs::guard;

/// For functions that answer 0, or -1 with `errno` set.
fn zero(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    guard::or_minus_one(|| work().map(|()| 0))
}

//! TCP sockets of programs that know nothing of RDMA, over rsockets.
//!
//! The number that a program has is that of a TCP socket of the kernel's. As long as it is neither connected nor listening it is
//! nothing else, and all that is asked about it the kernel answers. A socket that listens does so twice: by the kernel and by a
//! stream of `nonic-rsocket` under the same port. One that connects asks for such a stream first, and only where nobody offers one
//! for TCP; then it is the kernel's for good. What is connected by a stream keeps its kernel's socket, which stays unconnected:
//! it holds the number, the flags and the options.
//!
//! A library that is loaded in front of the C library (`libnonic-sockets.so`) asks [`kind_of`] about the number of each call, and
//! calls here what is not the kernel's alone. A call here may answer that it is the kernel's after all ([`Way::Kernel`]).

#![deny(unsafe_code)]

mod calls;
mod carrier;
mod carrying;
mod event_set;
mod exit;
mod fork;
mod listener;
mod listening;
mod option;
mod poll;
mod setting;
mod shown;
mod socket;
mod table;
mod transfer;

pub use calls::*;
pub use event_set::{control, wait};
pub use exit::say_goodbye;
pub use fork::around_fork;
pub use listening::{accept, cease_to_listen, listen};
pub use nonic_rsocket::{DescriptorSet, Error, Result, SharedSlice};
pub use nonic_sys::{PollEntry, PollEvent};
pub use option::{note_option, option};
pub use poll::{poll, select};
pub use setting::Taken;
pub use shown::{Course, SOCKETS_NAME, ShownSockets, SocketFacts, read_sockets};
pub use table::{KINDS, Kind, NUMBERS, kind_of};
pub use transfer::{receive, send, waiting};

/// Who carries a call out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<T> {
    /// It was carried out here.
    Done(T),
    /// The kernel has to, by the C library's function.
    Kernel,
}

//! The calls through which `libnonic-view.so` reaches the engine, once for both: the table of the face, and the library (which
//! includes this file). No panic and no `errno` comes out of them.

use core::ffi::{c_char, c_int};

/// The calls as pointers.
#[repr(C)]
#[derive(Debug)]
pub struct ViewTable {
    /// [`TABLE_VERSION`] of whoever made it. At the same place in every version.
    pub version: usize,
    /// Sees that the tree is there, and writes the path of its folder, with a NUL, to `out`, which has room for `room` bytes: the
    /// path's length, or a negative errno.
    pub root: unsafe extern "C" fn(out: *mut c_char, room: usize) -> c_int,
    /// A descriptor from which the present value of the counter at `path` can be read; a negative errno, `-ENOENT` if no counter
    /// stands there.
    pub counter: unsafe extern "C" fn(path: *const c_char) -> c_int,
    /// Answers a request of `length` bytes which the program sends by a socket of its own that stands for one of `NETLINK_RDMA`: the answer
    /// waits at the socket when this returns 0; else a negative errno.
    pub netlink: unsafe extern "C" fn(socket: c_int, request: *const u8, length: usize) -> c_int,
    /// This process is about to end: the tree is taken away if nobody else has it.
    pub leave: unsafe extern "C" fn(),
}

/// Both sides have to come from one build.
pub const TABLE_VERSION: usize = 2;

/// Begins the name of the folder that holds a user's trees; the user's number follows. A tree is a folder in it.
pub const FOLDER: &str = "nonic-view.";

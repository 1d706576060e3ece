//! Waiting for several endpoints at a time.

use nonic_sys::PollEntry;

use crate::ScifError;

/// Waits until one of `entries` is ready, at most `timeout_ms` milliseconds (negative: for ever); returns how many are. As
/// `poll(2)`, and exact where a socket alone is not: `POLLERR` for an endpoint that is not connected, `POLLIN` beside
/// `POLLHUP` only while bytes are left. Other descriptors may be among them.
pub fn poll(entries: &mut [PollEntry], timeout_ms: i64) -> Result<usize, ScifError> {
    let _ = (entries, timeout_ms);
    Err(ScifError::NotOpen)
}

/// [`poll`] on `count` entries of the program at `address`: [`ScifError::BadMemory`] if they are not there.
pub fn poll_at(address: usize, count: u32, timeout_ms: i64) -> Result<usize, ScifError> {
    let _ = (address, count, timeout_ms);
    Err(ScifError::NotOpen)
}

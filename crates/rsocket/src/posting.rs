//! Posting requests of a socket.

#![allow(unsafe_code)]

use nonic_device::{Destination, Operation, QueuePair, ScatterGather, SendFlags, SendRequest};
use nonic_memory::SharedSlice;

use crate::Result;
use crate::memory::Buffer;

/// Where the bytes of a request stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// In a buffer of the socket's, which lives longer than the queue pair: two parts of it, each with its offset and length.
    Buffer(&'a Buffer, [(u32, u32); 2]),
    /// Anywhere: they are copied during the call.
    Inline(SharedSlice<'a>),
}

/// Posts one request, and starts it.
pub(crate) fn post(pair: &QueuePair, mark: u64, operation: Operation, source: Source<'_>) -> Result<()> {
    post_to(pair, mark, operation, source, None)
}

/// The same for a queue pair of datagrams, with where they go.
pub(crate) fn post_to(
    pair: &QueuePair,
    mark: u64,
    operation: Operation,
    source: Source<'_>,
    destination: Option<Destination>,
) -> Result<()> {
    let (pieces, inline) = match source {
        Source::Buffer(buffer, parts) => (parts.map(|(offset, length)| buffer.piece(offset, length)), false),
        Source::Inline(bytes) => {
            let piece =
                |length| ScatterGather { address: bytes.address() as u64, length, key: nonic_device::Key(0) };
            ([piece(bytes.length() as u32), piece(0)], true)
        }
    };
    let count = pieces.iter().take_while(|piece| piece.length > 0).count();
    let flags = SendFlags { signaled: true, inline: inline && count > 0, ..SendFlags::default() };
    let request = SendRequest { id: mark, operation, flags, pieces: &pieces[..count], destination };
    let mut posting = pair.post()?;
    // SAFETY: the pieces of a request that is not inline lie in a buffer whose memory stays mapped until its region ends; those
    // of an inline request are shared bytes that stand for the length of this call.
    unsafe { posting.post(&request) }?;
    posting.ring_doorbell();
    Ok(())
}

//! Bytes the program hands over by pointer for the length of a call.

#![allow(unsafe_code)]

use nonic_memory::SharedSlice;
use nonic_protocol::SendRequest;

/// Copies the bytes of an inline request; the keys are not looked at.
pub(crate) fn copy_inline(request: &SendRequest<'_>, bytes: &mut [u8]) {
    let mut at = 0;
    for piece in request.pieces {
        let length = piece.length as usize;
        // SAFETY: the caller of `post_send` vouches that the pieces of an inline request are readable.
        let source = unsafe { SharedSlice::from_raw(piece.address as *mut u8, length) };
        source.read(&mut bytes[at..at + length]);
        at += length;
    }
}

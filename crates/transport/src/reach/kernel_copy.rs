//! Copies by the kernel, between slices of this process and addresses of a peer.

#![allow(unsafe_code)]

use std::io;

use nonic_memory::SharedSlice;
use nonic_sys::{PIECES_MAX, PeerMemory, Piece};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the peer.
    Out,
    /// From the peer.
    In,
}

/// Copies between `local` slices, one after the other, and `address` of a peer's memory.
pub(super) fn copy<'a>(
    way: Way,
    peer: &PeerMemory,
    local: impl IntoIterator<Item = SharedSlice<'a>>,
    mut address: usize,
) -> io::Result<()> {
    let mut local = local.into_iter();
    let mut pieces = [Piece { address: 0, length: 0 }; PIECES_MAX];
    loop {
        let (mut count, mut length) = (0, 0);
        for (piece, slice) in pieces.iter_mut().zip(&mut local) {
            *piece = Piece { address: slice.address(), length: slice.length() };
            (count, length) = (count + 1, length + slice.length());
        }
        if count == 0 {
            return Ok(());
        }
        let copied = match way {
            Way::Out => peer.write(&pieces[..count], address)?,
            // SAFETY: the pieces are slices the caller resolved for writing; they stand until it drops its guard.
            Way::In => unsafe { peer.read(&pieces[..count], address)? },
        };
        if copied != length {
            return Err(io::Error::from_raw_os_error(EFAULT));
        }
        address += length;
    }
}

/// What the kernel says of memory that is not there; a copy that ends early ended at such memory.
const EFAULT: i32 = 14;

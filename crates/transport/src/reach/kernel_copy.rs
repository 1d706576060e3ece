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
    let mut local = local.into_iter().peekable();
    let mut pieces = [Piece { address: 0, length: 0 }; PIECES_MAX];
    loop {
        let (mut count, mut length) = (0, 0);
        while let Some(slice) = local.next_if(|slice| count < PIECES_MAX && !slice.is_paged()) {
            pieces[count] = Piece { address: slice.address(), length: slice.length() };
            (count, length) = (count + 1, length + slice.length());
        }
        if count == 0 {
            let Some(paged) = local.next() else { return Ok(()) };
            copy_paged(way, peer, paged, address)?;
            address += paged.length();
            continue;
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

/// The same for one local slice of which nobody knows whether it is there, or that is nowhere; its own operation remembers if it was not.
#[cold]
fn copy_paged(way: Way, peer: &PeerMemory, local: SharedSlice<'_>, address: usize) -> io::Result<()> {
    const CHUNK: usize = 4096;
    let mut buffer = [0; CHUNK];
    let mut at = 0;
    while at < local.length() {
        let bytes = &mut buffer[..CHUNK.min(local.length() - at)];
        let (part, there) = (local.part(at, bytes.len()), address + at);
        at += bytes.len();
        match way {
            Way::Out => {
                if !part.try_read(bytes) {
                    return Ok(());
                }
                copy(way, peer, [SharedSlice::of_private(bytes)], there)?;
            }
            Way::In => {
                copy(way, peer, [SharedSlice::of_private(bytes)], there)?;
                part.write(bytes);
            }
        }
    }
    Ok(())
}

/// What the kernel says of memory that is not there; a copy that ends early ended at such memory.
const EFAULT: i32 = 14;

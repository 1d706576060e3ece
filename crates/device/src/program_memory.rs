//! Memory of the program, which nobody here can know to be what it should: addresses that it registers, and bytes that it hands over
//! by pointer for the length of a call.

#![allow(unsafe_code)]

use nonic_memory::SharedSlice;
use nonic_protocol::SendRequest;

/// An address of the program's at which memory is to be registered. Whoever makes one vouches for that memory; so everything
/// behind it is safe: requests and peers reach only what was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramAddress(usize);

impl ProgramAddress {
    /// Names it. Nothing need be mapped there: registering what is not mapped is refused.
    ///
    /// # Safety
    /// As long as a region stands that was registered at this address, the memory in it is only accessed as memory is that other
    /// threads and processes write at any time: no Rust reference leads there while requests or peers may write, and none that
    /// may be written through while they may read. It stays mapped, and with the rights it has, until the region is deregistered,
    /// unless it is [`RegionMemory::OnDemand`].
    ///
    /// [`RegionMemory::OnDemand`]: crate::RegionMemory::OnDemand
    #[inline]
    pub const unsafe fn new(address: usize) -> Self {
        Self(address)
    }

    /// One that was named before: of a region that stands.
    #[inline]
    pub(crate) const fn again(address: usize) -> Self {
        Self(address)
    }

    /// As a number.
    #[inline]
    pub const fn get(self) -> usize {
        self.0
    }
}

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

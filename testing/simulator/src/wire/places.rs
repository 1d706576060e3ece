//! Where in the memory of an end stands what, and the bytes that belong there.

use super::host::ADDRESS;

/// Bytes of a message at most: seven packets of the smallest MTU.
pub(super) const LENGTH_MAX: u32 = 1700;
pub(super) const SLOT: usize = 2048;
/// What peers read stands first.
pub(super) const READABLE: usize = 8 * SLOT;
/// Then a word that atomics count with.
pub(super) const WORD: usize = READABLE;
/// Then where peers write, one place for each request that may be under way.
pub(super) const WRITABLE: usize = WORD + SLOT;
/// Then what this side sends, and reads into.
pub(super) const LOCAL: usize = WRITABLE + REQUESTS as usize * SLOT;
/// Then receives.
pub(super) const RECEIVES: usize = LOCAL + REQUESTS as usize * SLOT;
/// Then what peers read by a key of its own, one place for each request.
pub(super) const SHOWN: usize = RECEIVES + 2 * REQUESTS as usize * SLOT;
/// Then what was given to somebody else.
pub(super) const OTHERS: usize = SHOWN + REQUESTS as usize * SLOT;
pub(super) const MEMORY: usize = OTHERS + SLOT;
pub(super) const REQUESTS: u32 = 16;

/// The byte of a request at an offset.
pub(super) fn byte(serial: u64, offset: usize) -> u8 {
    (serial.wrapping_mul(31) as usize).wrapping_add(offset * 7 + offset / 256) as u8
}

pub(super) fn bytes(serial: u64, length: u32) -> impl Iterator<Item = u8> {
    (0..length as usize).map(move |offset| byte(serial, offset))
}

pub(super) fn address(place: usize) -> u64 {
    ADDRESS + place as u64
}

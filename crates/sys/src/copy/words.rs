//! Copies of at most one cache line, without loops: a few moves that overlap where the length is odd.

use core::arch::asm;
use core::arch::x86_64::__m128i;

use super::body_of;

/// The longest copy this file makes.
pub(super) const MOST: usize = 64;

/// One load and one store that the compiler cannot see through. Both keep their order against each other and against
/// every other access to memory.
macro_rules! move_piece {
    ($name:ident, $type:ty, $class:ident, $load:literal, $store:literal) => {
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8) {
            // SAFETY: the caller vouches for the bytes of one piece at both places; no alignment is needed.
            unsafe {
                let piece: $type;
                asm!($load, out($class) piece, in(reg) source,
                    options(nostack, preserves_flags, readonly));
                asm!($store, in($class) piece, in(reg) destination, options(nostack, preserves_flags));
            }
        }
    };
}

/// The two ends of a range that is at least one and at most two pieces long.
macro_rules! move_ends {
    ($name:ident, $type:ty, $class:ident, $load:literal, $store:literal) => {
        #[inline(always)]
        unsafe fn $name(destination: *mut u8, source: *const u8, length: usize) {
            const PIECE: usize = size_of::<$type>();
            // SAFETY: the caller vouches for `length` bytes, at least one piece, at both places.
            unsafe {
                let (first, last): ($type, $type);
                asm!($load, out($class) first, in(reg) source,
                    options(nostack, preserves_flags, readonly));
                asm!($load, out($class) last, in(reg) source.add(length - PIECE),
                    options(nostack, preserves_flags, readonly));
                asm!($store, in($class) first, in(reg) destination, options(nostack, preserves_flags));
                asm!($store, in($class) last, in(reg) destination.add(length - PIECE),
                    options(nostack, preserves_flags));
            }
        }
    };
}

move_piece!(move_1, u8, reg_byte, "mov {}, byte ptr [{}]", "mov byte ptr [{1}], {0}");
move_piece!(move_2, u16, reg, "mov {:x}, word ptr [{}]", "mov word ptr [{1}], {0:x}");
move_piece!(move_4, u32, reg, "mov {:e}, dword ptr [{}]", "mov dword ptr [{1}], {0:e}");
move_piece!(move_8, u64, reg, "mov {}, qword ptr [{}]", "mov qword ptr [{1}], {0}");
move_ends!(move_2_to_4, u16, reg, "mov {:x}, word ptr [{}]", "mov word ptr [{1}], {0:x}");
move_ends!(move_4_to_8, u32, reg, "mov {:e}, dword ptr [{}]", "mov dword ptr [{1}], {0:e}");
move_ends!(move_8_to_16, u64, reg, "mov {}, qword ptr [{}]", "mov qword ptr [{1}], {0}");
move_ends!(move_16_to_32, __m128i, xmm_reg, "movdqu {}, xmmword ptr [{}]", "movdqu xmmword ptr [{1}], {0}");

/// Copies at most [`MOST`] bytes.
#[inline]
pub(super) unsafe fn copy_words(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: the caller vouches for `length` bytes; the body and the last word are parts of them.
    unsafe {
        // The most frequent copy by far: flags, counters, and the messages of every latency benchmark.
        if length == 8 && (destination as usize).is_multiple_of(8) {
            move_8(destination, source);
        } else if length > 0 {
            copy_odd_words(destination, source, length);
        }
    }
}

unsafe fn copy_odd_words(destination: *mut u8, source: *const u8, length: usize) {
    let body = body_of(destination, length);
    // SAFETY: as the caller vouches.
    unsafe {
        copy_short_body(destination, source, body);
        copy_last_word(destination.add(body), source.add(body), length - body);
    }
}

/// At most [`MOST`] bytes, in any order.
#[inline(always)]
pub(super) unsafe fn copy_short_body(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: the caller vouches for `length` bytes at both places; every arm stays within them.
    unsafe {
        match length {
            0 => {}
            1 => move_1(destination, source),
            2..4 => move_2_to_4(destination, source, length),
            4..8 => move_4_to_8(destination, source, length),
            8..16 => move_8_to_16(destination, source, length),
            16..=32 => move_16_to_32(destination, source, length),
            _ => {
                move_16_to_32(destination, source, 32);
                move_16_to_32(destination.add(length - 32), source.add(length - 32), 32);
            }
        }
    }
}

/// 1 to 8 bytes within one aligned word of the destination, in ascending order. Stores within such a word are never
/// divided, whatever their alignment; a store across two words could show its end first.
#[inline(always)]
pub(super) unsafe fn copy_last_word(mut destination: *mut u8, mut source: *const u8, length: usize) {
    // SAFETY: the caller vouches for `length` bytes at both places; the pieces add up to it.
    unsafe {
        if length == 8 {
            return move_8(destination, source);
        }
        if length & 4 != 0 {
            move_4(destination, source);
            (destination, source) = (destination.add(4), source.add(4));
        }
        if length & 2 != 0 {
            move_2(destination, source);
            (destination, source) = (destination.add(2), source.add(2));
        }
        if length & 1 != 0 {
            move_1(destination, source);
        }
    }
}

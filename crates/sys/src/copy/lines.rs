//! Copies of more than one cache line, with the widest registers this machine has.

use core::arch::asm;
use std::arch::is_x86_feature_detected;

use super::body_of;
use super::words::{copy_last_word, copy_short_body};

/// Bytes of a cache line, and of one turn of every loop here.
const LINE: usize = 64;

/// Copies more than [`super::words::MOST`] bytes.
pub(super) unsafe fn copy_lines(destination: *mut u8, source: *const u8, length: usize, stream_min: usize) {
    // SAFETY: as the caller vouches; the machine was asked.
    unsafe {
        if is_x86_feature_detected!("avx") {
            copy_in::<true>(destination, source, length, stream_min);
        } else {
            copy_in::<false>(destination, source, length, stream_min);
        }
    }
}

/// `WIDE`: with the registers of AVX, which this machine must have then.
#[inline(always)]
unsafe fn copy_in<const WIDE: bool>(
    destination: *mut u8,
    source: *const u8,
    length: usize,
    stream_min: usize,
) {
    let body = body_of(destination, length);
    // SAFETY: the caller vouches for `length` bytes; the body and the last word are parts of them.
    unsafe {
        if length >= stream_min.max(4 * LINE) {
            stream_body::<WIDE>(destination, source, body);
        } else if body > LINE {
            copy_body::<WIDE>(destination, source, body);
        } else {
            copy_short_body(destination, source, body);
        }
        copy_last_word(destination.add(body), source.add(body), length - body);
    }
}

/// More than one line, in any order, through the caches.
#[inline(always)]
unsafe fn copy_body<const WIDE: bool>(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: `length` is more than a line. The first line is copied as it lies, then whole lines from the first aligned
    // one on, then the last line as it lies; each within `length`.
    unsafe {
        let last = length - LINE;
        let aligned = LINE - destination as usize % LINE;
        let lines = length.saturating_sub(aligned) / LINE;
        plain::<WIDE>(destination, source, 1);
        if lines > 0 {
            plain::<WIDE>(destination.add(aligned), source.add(aligned), lines);
        }
        plain::<WIDE>(destination.add(last), source.add(last), 1);
    }
}

/// At least three lines, past the caches. Such stores become visible in any order, and only the fence orders them before
/// the last word; the bytes around the whole lines stand before the fence too.
#[inline(always)]
unsafe fn stream_body<const WIDE: bool>(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: of three lines at least two are whole and aligned; `head`, they and what is left make up `length`.
    unsafe {
        let head = destination.align_offset(LINE);
        let lines = (length - head) / LINE;
        let rest = head + lines * LINE;
        copy_short_body(destination, source, head);
        stream::<WIDE>(destination.add(head), source.add(head), lines);
        copy_short_body(destination.add(rest), source.add(rest), length - rest);
        asm!("sfence", options(nostack, preserves_flags));
    }
}

/// A loop over lines, at least one: `$move` are the moves of one line through registers 0 to 3 of a kind. The
/// destination of the streaming ones is aligned to a line.
macro_rules! line_loop {
    ($name:ident, $end:literal, $($move:literal),+) => {
        #[inline(always)]
        pub(super) unsafe fn $name(destination: *mut u8, source: *const u8, lines: usize) {
            // SAFETY: the caller vouches for `lines` lines at both places, and for what the instructions need: that this
            // machine has them, and the alignment of streaming stores. An `xmm` register stands for the wider one it is
            // a part of; `vzeroupper` changes nothing but the upper parts of those, so all are given up.
            unsafe {
                asm!(
                    "2:",
                    $($move,)+
                    "add {source}, 64",
                    "add {destination}, 64",
                    "dec {lines}",
                    "jnz 2b",
                    $end,
                    source = inout(reg) source => _,
                    destination = inout(reg) destination => _,
                    lines = inout(reg) lines => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack)
                );
            }
        }
    };
}

#[inline(always)]
unsafe fn plain<const WIDE: bool>(destination: *mut u8, source: *const u8, lines: usize) {
    // SAFETY: as the caller vouches.
    unsafe {
        if WIDE { avx::plain(destination, source, lines) } else { sse2::plain(destination, source, lines) }
    }
}

#[inline(always)]
unsafe fn stream<const WIDE: bool>(destination: *mut u8, source: *const u8, lines: usize) {
    // SAFETY: as the caller vouches.
    unsafe {
        if WIDE { avx::stream(destination, source, lines) } else { sse2::stream(destination, source, lines) }
    }
}

mod sse2 {
    use super::asm;
    line_loop!(
        plain,
        "",
        "movdqu xmm0, [{source}]",
        "movdqu xmm1, [{source} + 16]",
        "movdqu xmm2, [{source} + 32]",
        "movdqu xmm3, [{source} + 48]",
        "movdqu [{destination}], xmm0",
        "movdqu [{destination} + 16], xmm1",
        "movdqu [{destination} + 32], xmm2",
        "movdqu [{destination} + 48], xmm3"
    );
    line_loop!(
        stream,
        "",
        "movdqu xmm0, [{source}]",
        "movdqu xmm1, [{source} + 16]",
        "movdqu xmm2, [{source} + 32]",
        "movdqu xmm3, [{source} + 48]",
        "movntdq [{destination}], xmm0",
        "movntdq [{destination} + 16], xmm1",
        "movntdq [{destination} + 32], xmm2",
        "movntdq [{destination} + 48], xmm3"
    );
}

mod avx {
    use super::asm;
    line_loop!(
        plain,
        "vzeroupper",
        "vmovdqu ymm0, [{source}]",
        "vmovdqu ymm1, [{source} + 32]",
        "vmovdqu [{destination}], ymm0",
        "vmovdqu [{destination} + 32], ymm1"
    );
    line_loop!(
        stream,
        "vzeroupper",
        "vmovdqu ymm0, [{source}]",
        "vmovdqu ymm1, [{source} + 32]",
        "vmovntdq [{destination}], ymm0",
        "vmovntdq [{destination} + 32], ymm1"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_with_narrow_registers_copy_the_same() {
        let source: Vec<u8> = (0..2048u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let ways: &[bool] = if is_x86_feature_detected!("avx") { &[false, true] } else { &[false] };
        for (&wide, stream_min) in ways.iter().flat_map(|wide| [(wide, 0), (wide, usize::MAX)]) {
            for length in (65..300).chain([511, 512, 513, 1024, 1500]) {
                for (to, from) in [(0, 0), (1, 0), (0, 1), (3, 5), (31, 33), (63, 8), (56, 64)] {
                    let mut target = vec![0xEEu8; 2048];
                    // SAFETY: `to + length` and `from + length` are below 2048; AVX was asked for.
                    unsafe {
                        let (destination, source) = (target.as_mut_ptr().add(to), source.as_ptr().add(from));
                        let copy = if wide { copy_in::<true> } else { copy_in::<false> };
                        copy(destination, source, length, stream_min);
                    }
                    assert!(target[..to].iter().all(|&byte| byte == 0xEE));
                    assert_eq!(
                        &target[to..to + length],
                        &source[from..from + length],
                        "{length} {to} {from}"
                    );
                    assert!(target[to + length..].iter().all(|&byte| byte == 0xEE));
                }
            }
        }
    }
}

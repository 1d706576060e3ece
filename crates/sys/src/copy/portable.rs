//! Copies through relaxed atomics, for machines without assembly of their own here.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use super::body_of;

pub(super) unsafe fn copy(destination: *mut u8, source: *const u8, length: usize) {
    if length == 0 {
        return;
    }
    let body = body_of(destination, length);
    // SAFETY: the caller vouches for `length` bytes at both places; the two parts are within them.
    unsafe {
        copy_body(destination, source, body);
        // Orders the body before the last word for a reader that acquires the last byte.
        fence(Ordering::Release);
        copy_last_word(destination.add(body), source.add(body), length - body);
    }
}

unsafe fn copy_body(destination: *mut u8, source: *const u8, length: usize) {
    let mut at = 0;
    let alike = (destination as usize ^ source as usize).is_multiple_of(8);
    while at < length {
        // SAFETY: `at` plus what is moved is at most `length`; a word is moved only where both ends are aligned.
        unsafe {
            let (to, from) = (destination.add(at), source.add(at).cast_mut());
            if alike && (to as usize).is_multiple_of(8) && length - at >= 8 {
                let word = AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed);
                AtomicU64::from_ptr(to.cast()).store(word, Ordering::Relaxed);
                at += 8;
            } else {
                let byte = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
                AtomicU8::from_ptr(to).store(byte, Ordering::Relaxed);
                at += 1;
            }
        }
    }
}

/// 1 to 8 bytes within one aligned word of the destination, in ascending order.
unsafe fn copy_last_word(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: the caller vouches for `length` bytes at both places.
    unsafe {
        if length == 8 {
            let word = if (source as usize).is_multiple_of(8) {
                AtomicU64::from_ptr(source.cast_mut().cast()).load(Ordering::Relaxed)
            } else {
                let byte = |i| AtomicU8::from_ptr(source.add(i).cast_mut()).load(Ordering::Relaxed);
                u64::from_ne_bytes(std::array::from_fn(byte))
            };
            AtomicU64::from_ptr(destination.cast()).store(word, Ordering::Release);
            return;
        }
        for i in 0..length {
            let byte = AtomicU8::from_ptr(source.add(i).cast_mut()).load(Ordering::Relaxed);
            AtomicU8::from_ptr(destination.add(i)).store(byte, Ordering::Release);
        }
    }
}

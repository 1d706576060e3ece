//! Whoever polls the last byte of a copy sees all bytes before it, in memory that is mapped twice.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use nonic_sys::{
    Protection, STREAM_MIN, SharedMapping, SharedMemory, copy_ordered, copy_ordered_near,
    copy_with_threshold, cpu_relax, yield_now,
};

type Copy = unsafe fn(*mut u8, *const u8, usize);

unsafe fn streamed(destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: as the caller vouches.
    unsafe { copy_with_threshold(destination, source, length, 0) }
}

const WAYS: [Copy; 3] = [copy_ordered, copy_ordered_near, streamed];
const LONGEST: usize = 65_536;

/// Spins, but lets the other thread run if they share a CPU.
fn wait_until(condition: impl Fn() -> bool) {
    let mut turns = 0u32;
    while !condition() {
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1024) { yield_now() } else { cpu_relax() }
    }
}

/// The offset of a byte that is not `value`, from the end, which was written last.
fn stale(start: *const u8, length: usize, value: u8) -> Option<usize> {
    let mut at = length;
    while at > 0 {
        let step = if at >= 8 { 8 } else { 1 };
        at -= step;
        // SAFETY: `at + step` is at most `length`, which the caller knows to be mapped.
        let same = unsafe {
            match step {
                8 => ptr::read_volatile(start.add(at).cast::<[u8; 8]>()) == [value; 8],
                _ => ptr::read_volatile(start.add(at)) == value,
            }
        };
        if !same {
            return Some(at);
        }
    }
    None
}

fn lengths() -> impl Iterator<Item = usize> {
    let around = |length: usize| length - 9..=length + 9;
    let long = [LONGEST / 4 + 5, LONGEST - 57, LONGEST - 1, LONGEST];
    (1..=80).chain(around(128)).chain(around(256)).chain(around(STREAM_MIN)).chain([600, 4099]).chain(long)
}

/// What the two threads tell each other.
#[derive(Default)]
struct Round {
    /// Counts the copies; the rest belongs to the latest.
    number: AtomicUsize,
    place: AtomicUsize,
    /// 0: no more.
    length: AtomicUsize,
    /// Copies the poller has checked.
    checked: AtomicUsize,
    /// The poller found one that came too late.
    failure: OnceLock<String>,
}

impl Round {
    fn begin(&self, place: usize, length: usize) -> usize {
        self.place.store(place, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Release) + 1
    }

    fn poll(&self, memory: &SharedMapping) {
        for round in 1.. {
            wait_until(|| self.number.load(Ordering::Acquire) == round);
            let (place, length) = (self.place.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed));
            if length == 0 {
                return;
            }
            let start = memory.as_ptr().wrapping_add(place);
            // SAFETY: the last byte is inside the mapping.
            let last = unsafe { AtomicU8::from_ptr(start.wrapping_add(length - 1)) };
            wait_until(|| last.load(Ordering::Acquire) == value_of(round));
            if let Some(stale) = stale(start, length, value_of(round)) {
                let _ = self.failure.set(format!("byte {stale} of {length} at {place} came after the last"));
            }
            self.checked.store(round, Ordering::Release);
        }
    }
}

#[test]
fn a_poller_of_the_last_byte_sees_every_byte_before_it() {
    let memory = SharedMemory::create("copy-order", LONGEST + 4096).unwrap();
    let written = memory.map(Protection::ReadWrite).unwrap();
    let read = memory.map(Protection::ReadWrite).unwrap();
    assert_ne!(written.as_ptr(), read.as_ptr());
    let round = Round::default();
    std::thread::scope(|scope| {
        scope.spawn(|| round.poll(&read));
        let mut source = vec![0u8; LONGEST + 64];
        let places = || lengths().flat_map(|length| (0..64).map(move |place| (place, length)));
        for (copy, (place, length)) in WAYS.into_iter().flat_map(|copy| places().map(move |at| (copy, at))) {
            if round.failure.get().is_some() {
                break;
            }
            let from = place * 5 % 64;
            let target = written.as_ptr().wrapping_add(place);
            // SAFETY: both ranges are inside their memory. No value is 0, so the last byte of an earlier round cannot be
            // taken for this one's.
            unsafe {
                AtomicU8::from_ptr(target.add(length - 1)).store(0, Ordering::Relaxed);
                let number = round.begin(place, length);
                source[from..from + length].fill(value_of(number));
                copy(target, source.as_ptr().add(from), length);
                wait_until(|| round.checked.load(Ordering::Acquire) == number);
            }
        }
        round.begin(0, 0);
    });
    assert_eq!(round.failure.get(), None);
}

/// Differs from what the neighbouring rounds left in the same bytes.
fn value_of(round: usize) -> u8 {
    (round % 251) as u8 + 1
}

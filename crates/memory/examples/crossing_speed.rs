//! Measures how fast bytes cross from a core to another one through a ring that one fills and the other empties, in GB/s, as they are stored
//! through the caches, past them, and as `Crossing` finds out: `cargo run --release -p nonic-memory --example crossing_speed`.
//!
//! The other core copies each piece out. Beside each row stands what a line takes from core to core, which tells whether they share a cache.
//! With two processors at least.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nonic_memory::{Crossing, SharedSlice};
use nonic_sys::SharedMapping;

const PIECE: usize = 64 << 10;
const RINGS: [usize; 6] = [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// Bytes that are moved in each way.
const TOTAL: u64 = 1 << 30;

/// Bytes written and read so far, far from each other.
#[derive(Default)]
struct Counts {
    written: AtomicU64,
    read: Far,
}

#[derive(Default)]
#[repr(align(256))]
struct Far(AtomicU64);

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::hint::spin_loop();
    }
}

/// GB/s with such a ring.
fn cross(ring: usize, mut copy: impl FnMut(SharedSlice<'_>, SharedSlice<'_>)) -> f64 {
    let memory = SharedMapping::anonymous(ring).expect("memory for the ring");
    let place = |at: u64| SharedSlice::of_mapping(&memory, at as usize % ring, PIECE).expect("inside");
    let counts = Counts::default();
    let (mut source, begun) = (vec![1; 2 * PIECE], Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut target = vec![0; 2 * PIECE];
            let target = SharedSlice::of_private(&mut target);
            for at in (0..TOTAL).step_by(PIECE) {
                wait_until(|| counts.written.load(Ordering::Acquire) > at);
                target.part(at as usize % (2 * PIECE), PIECE).copy_near_from(place(at));
                counts.read.0.store(at + PIECE as u64, Ordering::Release);
            }
        });
        let source = SharedSlice::of_private(&mut source);
        for at in (0..TOTAL).step_by(PIECE) {
            let end = at + PIECE as u64;
            wait_until(|| counts.read.0.load(Ordering::Acquire) + ring as u64 >= end);
            copy(place(at), source.part(at as usize % (2 * PIECE), PIECE));
            counts.written.store(end, Ordering::Release);
        }
    });
    TOTAL as f64 / begun.elapsed().as_secs_f64() / 1e9
}

/// Nanoseconds that a line takes from core to core.
fn line() -> f64 {
    const TURNS: u64 = 20_000;
    let turn = AtomicU64::new(0);
    let begun = Instant::now();
    let play = |own: u64| {
        for at in (own..2 * TURNS).step_by(2) {
            wait_until(|| turn.load(Ordering::Acquire) == at);
            turn.store(at + 1, Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(1));
        play(0);
    });
    begun.elapsed().as_secs_f64() * 1e9 / (2 * TURNS) as f64
}

fn main() {
    println!("{:>8}  {:>7}  {:>7}  {:>7}  {:>7}", "ring KiB", "through", "past", "learnt", "line ns");
    for ring in RINGS {
        let mut crossing = Crossing::default();
        let through = cross(ring, |target, source| target.copy_near_from(source));
        let past = cross(ring, |target, source| target.copy_from(source));
        let learnt = cross(ring, |target, source| crossing.copy(target, source));
        println!("{:>8}  {through:>7.1}  {past:>7.1}  {learnt:>7.1}  {:>7.0}", ring >> 10, line());
    }
}

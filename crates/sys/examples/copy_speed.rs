//! Measures the ways to copy by size, in GB/s: `cargo run --release -p nonic-sys --example copy_speed`.
//!
//! Four situations, because the best way depends on who reads next:
//! - *written*: one core writes again and again into 2 MiB that nobody reads;
//! - *same*: the same into one place;
//! - *handed over*: the other core reads every byte after each copy, and the time of both counts;
//! - *fetched*: the other core wrote the source; this one copies, and reads every byte of the copy.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use nonic_sys::{SharedMapping, copy_with_threshold};

const PLACES: usize = 2 << 20;
const SIZES: [usize; 14] = [
    8,
    64,
    256,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
];

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Microcode,
    Plain,
    Stream,
}

const WAYS: [(&str, Way); 3] =
    [("rep movsb", Way::Microcode), ("plain", Way::Plain), ("stream", Way::Stream)];

fn copy(way: Way, destination: *mut u8, source: *const u8, length: usize) {
    // SAFETY: every caller passes two ranges of its own mappings.
    unsafe {
        match way {
            Way::Microcode => asm!(
                "rep movsb",
                inout("rcx") length => _, inout("rdi") destination => _, inout("rsi") source => _,
                options(nostack, preserves_flags)
            ),
            Way::Plain => copy_with_threshold(destination, source, length, usize::MAX),
            Way::Stream => copy_with_threshold(destination, source, length, 0),
        }
    }
}

/// Loads every byte, as a program that uses them would.
fn read_all(start: *const u8, length: usize) {
    for at in (0..length).step_by(32) {
        // SAFETY: the sizes are multiples of 8 and the places are 1 MiB apart from their mapping's end at least.
        unsafe {
            asm!("movdqu {}, [{}]", "movdqu {0}, [{1} + 16]", out(xmm_reg) _, in(reg) start.add(at), options(nostack, readonly))
        };
    }
}

fn pin(cpu: usize) {
    // SAFETY: a local set of this thread's own.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn median(mut body: impl FnMut() -> f64) -> f64 {
    let mut values: Vec<f64> = (0..5).map(|_| body()).collect();
    values.sort_by(f64::total_cmp);
    values[2]
}

struct Arena {
    source: SharedMapping,
    target: SharedMapping,
    turn: AtomicU64,
    length: AtomicU64,
    job: AtomicU64,
}

impl Arena {
    fn target(&self, turn: u64, length: usize) -> *mut u8 {
        let step = length.next_multiple_of(4096);
        self.target.as_ptr().wrapping_add(turn as usize * step % PLACES)
    }

    fn written(&self, way: Way, length: usize, moving: bool) -> f64 {
        let count = ((4 << 20) / length).clamp(16, 20_000) as u64;
        median(|| {
            let start = Instant::now();
            for turn in 0..count {
                copy(way, self.target(if moving { turn } else { 0 }, length), self.source.as_ptr(), length);
            }
            count as f64 * length as f64 / start.elapsed().as_secs_f64() / 1e9
        })
    }

    /// Odd turns are the other core's.
    fn other(&self) {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if turn == u64::MAX {
                return;
            }
            if turn % 2 == 1 {
                let length = self.length.load(Ordering::Relaxed) as usize;
                if self.job.load(Ordering::Relaxed) == 0 {
                    read_all(self.target(turn / 2, length), length);
                } else {
                    // SAFETY: the source is as long as the largest size.
                    unsafe { std::ptr::write_bytes(self.source.as_ptr(), turn as u8, length) };
                }
                fence(Ordering::SeqCst);
                self.turn.store(turn + 1, Ordering::Release);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn pass_turn(&self) -> u64 {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Release);
        while self.turn.load(Ordering::Acquire) != turn + 2 {
            std::hint::spin_loop();
        }
        turn / 2 + 1
    }

    /// Nanoseconds that one word takes from one core to the other.
    fn line(&self) -> f64 {
        self.length.store(0, Ordering::Relaxed);
        median(|| {
            let start = Instant::now();
            (0..1000).for_each(|_| {
                self.pass_turn();
            });
            start.elapsed().as_secs_f64() * 1e9 / 2000.0
        })
    }

    fn handed_over(&self, way: Way, length: usize) -> f64 {
        self.length.store(length as u64, Ordering::Relaxed);
        self.job.store(0, Ordering::Relaxed);
        let count = ((2 << 20) / length).clamp(8, 2000);
        let mut turn = self.pass_turn();
        median(|| {
            let start = Instant::now();
            for _ in 0..count {
                copy(way, self.target(turn, length), self.source.as_ptr(), length);
                turn = self.pass_turn();
            }
            (count * length) as f64 / start.elapsed().as_secs_f64() / 1e9
        })
    }

    fn fetched(&self, way: Way, length: usize) -> f64 {
        self.length.store(length as u64, Ordering::Relaxed);
        self.job.store(1, Ordering::Relaxed);
        let count = ((2 << 20) / length).clamp(8, 2000);
        median(|| {
            let mut seconds = 0.0;
            for _ in 0..count {
                let turn = self.pass_turn();
                let start = Instant::now();
                copy(way, self.target(turn, length), self.source.as_ptr(), length);
                read_all(self.target(turn, length), length);
                fence(Ordering::SeqCst);
                seconds += start.elapsed().as_secs_f64();
            }
            (count * length) as f64 / seconds / 1e9
        })
    }
}

fn main() {
    let arena = Arena {
        source: SharedMapping::anonymous(2 << 20).expect("memory for the source"),
        target: SharedMapping::anonymous(PLACES + (2 << 20)).expect("memory for the target"),
        turn: AtomicU64::new(0),
        length: AtomicU64::new(0),
        job: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            arena.other();
        });
        pin(0);
        // SAFETY: all of both mappings, touched before anything is timed.
        unsafe {
            std::ptr::write_bytes(arena.source.as_ptr(), 1, arena.source.length());
            std::ptr::write_bytes(arena.target.as_ptr(), 2, arena.target.length());
        }
        println!("{:>8}  {:>24}  {:>24}  {:>24}  {:>24}", "", "written", "same", "handed over", "fetched");
        print!("{:>8}", "bytes");
        for _ in 0..4 {
            print!("  {}", WAYS.map(|(name, _)| format!("{name:>9}")).join("").split_at(3).1);
        }
        println!("  line ns");
        for length in SIZES {
            print!("{length:>8}");
            let cells: [&dyn Fn(Way) -> f64; 4] = [
                &|way| arena.written(way, length, true),
                &|way| arena.written(way, length, false),
                &|way| arena.handed_over(way, length),
                &|way| arena.fetched(way, length),
            ];
            for cell in cells {
                print!("  {:>6.2}{:>9.2}{:>9.2}", cell(Way::Microcode), cell(Way::Plain), cell(Way::Stream));
            }
            println!("  {:>5.0}", arena.line());
        }
        arena.turn.store(u64::MAX, Ordering::Release);
    });
}

//! The allocator as the allocator of a process: this one.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nonic_second_process::{SecondProcess, role};

#[global_allocator]
static HEAP: nonic_heap::Heap = nonic_heap::Heap;

/// Tests that look at the whole process, or fork it, run one at a time.
static WHOLE_PROCESS: Mutex<()> = Mutex::new(());

fn whole_process() -> std::sync::MutexGuard<'static, ()> {
    WHOLE_PROCESS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One allocation, filled with a byte of its own.
struct Filled {
    place: *mut u8,
    layout: Layout,
    byte: u8,
}

impl Filled {
    fn new(layout: Layout, byte: u8, zeroed: bool) -> Self {
        // SAFETY: no layout here is of size 0; what comes back is checked.
        let place = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        assert!(!place.is_null() && (place as usize).is_multiple_of(layout.align()), "{layout:?}: {place:p}");
        let mut new = Self { place, layout, byte: 0 };
        assert!(!zeroed || new.is_whole(), "zeros");
        new.fill(byte);
        new
    }

    fn fill(&mut self, byte: u8) {
        self.byte = byte;
        // SAFETY: as long as the allocation.
        unsafe { self.place.write_bytes(byte, self.layout.size()) };
    }

    fn is_whole(&self) -> bool {
        // SAFETY: as long as the allocation, which has been filled.
        let bytes = unsafe { std::slice::from_raw_parts(self.place, self.layout.size()) };
        bytes.iter().all(|byte| *byte == self.byte)
    }

    fn resize(&mut self, size: usize) {
        assert!(self.is_whole());
        // SAFETY: allocated with this layout; no size here is 0.
        let place = unsafe { realloc(self.place, self.layout, size) };
        assert!(!place.is_null());
        let old = self.layout.size();
        self.place = place;
        self.layout = Layout::from_size_align(old.min(size), self.layout.align()).unwrap();
        assert!(self.is_whole(), "{old} to {size} bytes");
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        self.fill(self.byte);
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        assert!(self.is_whole(), "{:?} was overwritten", self.layout);
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.place, self.layout) };
    }
}

/// A stream of numbers that is the same in every run with one seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn layout(&mut self) -> Layout {
        let size = match self.below(100) {
            0..80 => 1 + self.below(512),
            80..98 => 1 + self.below(100_000),
            _ => 1 + self.below(3 << 20),
        };
        let align = if self.below(10) == 0 { 1 << self.below(18) } else { 8 };
        Layout::from_size_align(size as usize, align).unwrap()
    }
}

fn use_at_random(seed: u64, turns: usize) {
    let mut numbers = Numbers(seed);
    let mut held: Vec<Filled> = Vec::new();
    for _ in 0..turns {
        let some = numbers.below(held.len().max(1) as u64) as usize;
        match numbers.below(8) {
            0..4 => {
                let (layout, zeroed) = (numbers.layout(), numbers.below(2) == 0);
                held.push(Filled::new(layout, numbers.below(256) as u8, zeroed));
            }
            4 if !held.is_empty() => {
                let size = numbers.layout().size();
                held[some].resize(size);
            }
            _ if !held.is_empty() => drop(held.swap_remove(some)),
            _ => {}
        }
        if held.len() > 100 {
            held.clear();
        }
    }
}

#[test]
fn what_several_threads_allocate_stays_theirs_and_errno_too() {
    let _alone = whole_process();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || {
                // SAFETY: this thread's variable.
                let errno = unsafe { libc::__errno_location() };
                // SAFETY: as above.
                unsafe { *errno = 77 };
                use_at_random(seed, 3000);
                // SAFETY: as above.
                assert_eq!(unsafe { *errno }, 77);
            });
        }
    });
}

/// Bytes that the C library has given to callers.
fn in_c_heap() -> usize {
    // SAFETY: returns a structure of numbers.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

#[test]
fn nothing_of_it_is_in_the_c_librarys_heap() {
    let _alone = whole_process();
    let before = in_c_heap();
    let many: Vec<Box<[u8]>> = (1..2000usize).map(|size| vec![1; size * 7].into_boxed_slice()).collect();
    let after = in_c_heap();
    // Threads of other tests begin and end meanwhile, which takes some hundreds of bytes each.
    assert!(after < before + 100_000, "{before} to {after} bytes for {} allocations", many.len());
}

/// KiB of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
}

#[test]
fn what_was_freed_goes_back_to_the_kernel() {
    // In a process of its own: what the harness allocates for other tests meanwhile would lie behind, and hold what is before it.
    const TEST: &str = "what_was_freed_goes_back_to_the_kernel";
    if role().is_none() {
        SecondProcess::start(TEST, "alone", &[]).finish();
        return;
    }
    let before = resident();
    let small: Vec<Box<[u8]>> = (0..60_000).map(|_| vec![1; 1000].into_boxed_slice()).collect();
    let large: Vec<Box<[u8]>> = (0..8).map(|_| vec![1; 4 << 20].into_boxed_slice()).collect();
    let full = resident();
    // 91 MiB in all.
    assert!(full > before + 80_000, "{before} to {full} KiB");
    drop((small, large));
    let after = resident();
    assert!(after < before + 20_000, "{before} to {full} to {after} KiB");
}

static IN_HANDLER: AtomicU64 = AtomicU64::new(0);

extern "C" fn allocate_in_handler(_: libc::c_int) {
    // Freed here: in the ordinary case, and where this thread is inside the allocator.
    let mut words = vec![7u64; 40];
    words.resize(100, 8);
    assert_eq!(words.iter().sum::<u64>(), 40 * 7 + 60 * 8);
    IN_HANDLER.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_handler_that_interrupted_it_may_allocate() {
    let done = AtomicBool::new(false);
    // SAFETY: the action is a local, filled with a handler that does what this test is about.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = allocate_in_handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let ready = AtomicU64::new(0);
    let (ready, done) = (&ready, &done);
    std::thread::scope(|scope| {
        let victim = scope.spawn(move || {
            // SAFETY: this thread's own number.
            ready.store(unsafe { libc::pthread_self() }, Ordering::Release);
            let mut numbers = Numbers(3);
            while !done.load(Ordering::Relaxed) {
                let size = 1 + numbers.below(300) as usize;
                assert_eq!(std::hint::black_box(vec![5u8; size]).len(), size);
            }
        });
        while ready.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
        for count in 0..20_000 {
            // SAFETY: the thread lives until `done`.
            unsafe { libc::pthread_kill(ready.load(Ordering::Relaxed), libc::SIGUSR1) };
            // One at a time: signals that wait already are not added up.
            while IN_HANDLER.load(Ordering::Relaxed) <= count {
                assert!(!victim.is_finished());
                std::hint::spin_loop();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn children_forked_while_threads_allocate_find_a_sound_heap() {
    const FORKS: u64 = 200;
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(nonic_heap::survive_forks);
    let _alone = whole_process();
    let done = AtomicBool::new(false);
    let mut failed = Vec::new();
    let kept: HashSet<usize> = (0..1000).collect();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let done = &done;
            scope.spawn(move || {
                let mut seed = 100 + seed;
                while !done.load(Ordering::Relaxed) {
                    use_at_random(seed, 50);
                    seed += 10;
                }
            });
        }
        for child in 0..FORKS {
            // SAFETY: the child allocates, which is what is tested, and leaves by `_exit`.
            match unsafe { libc::fork() } {
                0 => {
                    // SAFETY: a child that stands still is ended by the signal.
                    unsafe { libc::alarm(10) };
                    let sound = std::panic::catch_unwind(|| {
                        use_at_random(child, 100);
                        kept.len() == 1000 && kept.iter().all(|number| *number < 1000)
                    });
                    // SAFETY: ends the process.
                    unsafe { libc::_exit(if matches!(sound, Ok(true)) { 0 } else { 1 }) };
                }
                pid => {
                    assert!(pid > 0);
                    let mut status = -1;
                    // SAFETY: this process's child.
                    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                    if status != 0 {
                        failed.push((child, status));
                        break;
                    }
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(failed.is_empty(), "children and how they ended, 14 being a deadlock: {failed:?}");
}

#[test]
fn more_than_a_range_is_a_mapping_of_its_own() {
    let layout = Layout::from_size_align((1 << 30) + 5, 1 << 20).unwrap();
    // SAFETY: of that layout, given back with it.
    unsafe {
        let place = alloc_zeroed(layout);
        assert!(!place.is_null() && (place as usize).is_multiple_of(1 << 20));
        place.add(1 << 30).write(1);
        dealloc(place, layout);
    }
}

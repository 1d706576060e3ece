//! What there is to know about threads and processes, places for threads, and randomness for names.

use std::cell::Cell;
use std::ffi::CStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use crate::spawn::at_thread_end;

/// Sets how late this thread's timers may fire, in nanoseconds (the default is 50,000).
pub fn timer_slack_ns(slack: u64) {
    // SAFETY: this prctl takes a number and touches no memory; failure leaves the default, which is only less exact.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, 0, 0, 0) };
}

/// Sleeps. Whether a signal ended it.
pub fn nap(time: std::time::Duration) -> bool {
    let time =
        rustix::thread::Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    matches!(rustix::thread::nanosleep(&time), rustix::thread::NanosleepRelativeResult::Interrupted(_))
}

/// Asks the scheduler to let this thread run soon after it wakes, for short times (Linux 6.12; elsewhere nothing changes).
/// Needs no privilege: it gets no more of the CPU than before, only sooner.
pub fn prefer_short_slices(slice_ns: u64) {
    #[repr(C)]
    #[derive(Default)]
    struct SchedulingAttributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let mut attributes = SchedulingAttributes::default();
    let size = size_of::<SchedulingAttributes>() as u32;
    // SAFETY: the structure is a local of the size given; both calls concern this thread only. Reading first keeps
    // policy and nice value as they are.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) == 0
            && attributes.policy == libc::SCHED_OTHER as u32
        {
            (attributes.size, attributes.runtime) = (size, slice_ns);
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

/// The kernel's number of the calling thread, as `/proc/self/task` shows it.
pub fn thread_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Whether this process still has the thread of a number. (A list of them would not tell: the kernel cuts it short where it comes to one
/// that ends while it is read, and those behind are missing.)
pub fn is_thread(number: i32) -> bool {
    use rustix::fs::{Access, access};
    access(format!("/proc/self/task/{number}"), Access::EXISTS).is_ok()
}

/// Whether a thread of this process runs, or would if it had a processor; false if that is not to be known. Allocates nothing.
pub fn is_runnable(number: i32) -> bool {
    words_of_thread(number, |mut words| words.next() == Some("R")) == Some(true)
}

/// Whether a thread of this process runs no code of it any more, and is gone soon if not yet.
pub(crate) fn is_ending(number: i32) -> bool {
    // `PF_EXITING` of the kernel.
    const EXITING: u64 = 4;
    let flags = words_of_thread(number, |mut words| words.nth(6).and_then(|flags| flags.parse().ok()));
    flags.is_none_or(|flags: Option<u64>| flags.is_some_and(|flags| flags & EXITING != 0))
}

/// What `look` finds in what the kernel tells of a thread: its state, then the numbers of `proc(5)`. `None` if it tells nothing.
fn words_of_thread<R>(number: i32, look: impl FnOnce(std::str::SplitAsciiWhitespace<'_>) -> R) -> Option<R> {
    // As many as are asked for: number, name, state, six numbers. A name has 15 bytes at most.
    let mut text = [0; 128];
    let count = read_of_thread(number, &mut text)?;
    // Behind the name, in which there may be anything.
    let name_end = text[..count].iter().rposition(|byte| *byte == b')')?;
    Some(look(str::from_utf8(&text[name_end + 1..count]).ok()?.split_ascii_whitespace()))
}

/// The beginning of what the kernel tells of a thread; how many bytes.
fn read_of_thread(number: i32, text: &mut [u8]) -> Option<usize> {
    use rustix::fs::{Mode, OFlags};
    let mut path = [0; 40];
    write!(&mut path[..], "/proc/self/task/{number}/stat").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::io::read(&file, text).ok()
}

/// Opens what the kernel tells about this process's memory (`/proc/self/status`).
pub fn process_status() -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open("/proc/self/status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Reads what it says now; returns the bytes read.
pub fn process_status_at(status: &OwnedFd, text: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::pread(status, text, 0)?)
}

/// First byte and end of the calling thread's stack, as the C library knows it.
pub fn own_stack() -> Option<(usize, usize)> {
    thread_local! { static BOUNDS: Option<(usize, usize)> = stack_bounds(); }
    BOUNDS.with(|bounds| *bounds)
}

fn stack_bounds() -> Option<(usize, usize)> {
    let (mut start, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are a local, filled by the first call and freed by the last.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut length);
        libc::pthread_attr_destroy(&raw mut attributes);
        (found == 0).then_some((start as usize, start as usize + length))
    }
}

/// How many CPUs this thread may run on; at least 1.
pub fn usable_cpus() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count().max(1))
}

/// How many CPUs this machine runs, whether or not this thread may; at least 1.
pub fn online_cpus() -> u32 {
    // SAFETY: takes a number and touches no memory.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).unwrap_or(1).max(1)
}

/// A random number from the kernel, or one made of time and process id where the kernel refuses.
pub fn random_u64() -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            (now.as_nanos() as u64).rotate_left(20)
                ^ u64::from(std::process::id()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        }
    }
}

/// Has `handler` called once when the process exits in order; those that were asked for last come first.
pub fn at_exit(handler: extern "C" fn()) {
    use std::sync::Mutex;
    static KNOWN: Mutex<Vec<extern "C" fn()>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if known.iter().any(|other| *other as usize == handler as usize) {
        return;
    }
    known.push(handler);
    // SAFETY: the handler is a function of this library, which is never unloaded while it is registered: `atexit` runs the
    // handlers of an object before the object goes.
    unsafe { libc::atexit(handler) };
}

/// Places that threads of this process can have to themselves ([`thread_place`]).
pub const THREAD_PLACES: usize = 12;
const NO_PLACE: u32 = THREAD_PLACES as u32;
const NOT_ASKED: u32 = u32::MAX;

/// A bit for each place that is taken.
static PLACES: AtomicU32 = AtomicU32::new(0);
/// The mark of the thread that has each place, or 0.
static OWNERS: [AtomicUsize; THREAD_PLACES] = [const { AtomicUsize::new(0) }; THREAD_PLACES];
/// The place that a thread with such a mark took last. A hint: two marks may share one.
static HINTS: [AtomicU8; HINT_COUNT] = [const { AtomicU8::new(0) }; HINT_COUNT];
const HINT_COUNT: usize = 256;

thread_local! {
    static MINE: Cell<u32> = const { Cell::new(NOT_ASKED) };
}

/// Gives a thread's place back when the thread ends. What still runs on the thread does without one.
fn give_place_back() {
    let place = MINE.replace(NO_PLACE);
    if place < NO_PLACE {
        OWNERS[place as usize].store(0, Ordering::Release);
        PLACES.fetch_and(!(1 << place), Ordering::AcqRel);
    }
}

/// A number that no other living thread of this process has; never 0.
#[inline(always)]
pub fn thread_mark() -> usize {
    // The thread's own control block: its address stands in its first word, by the ABI of x86-64 (ELF thread-local storage,
    // variant II). In a shared object a variable of the thread costs a call.
    #[cfg(target_arch = "x86_64")]
    {
        let mark: usize;
        // SAFETY: one load of the word every thread of a Linux process has there.
        unsafe {
            core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) mark,
                options(nostack, preserves_flags, pure, readonly));
        }
        mark
    }
    #[cfg(not(target_arch = "x86_64"))]
    MINE.with(|mine| std::ptr::from_ref(mine) as usize)
}

/// A number below [`THREAD_PLACES`] that no other living thread has, as long as there are any; later threads have none.
#[inline]
pub fn thread_place() -> Option<usize> {
    let mark = thread_mark();
    let hint = usize::from(HINTS[hint_of(mark)].load(Ordering::Relaxed));
    // Only the owner of a mark ever sees its own: nobody else writes or clears it.
    if OWNERS.get(hint).is_some_and(|owner| owner.load(Ordering::Relaxed) == mark) {
        return Some(hint);
    }
    thread_place_slowly()
}

/// Control blocks of threads stand at the ends of their stacks, megabytes apart.
#[inline(always)]
fn hint_of(mark: usize) -> usize {
    ((mark >> 6) ^ (mark >> 12) ^ (mark >> 20)) % HINT_COUNT
}

#[cold]
fn thread_place_slowly() -> Option<usize> {
    let mut place = MINE.with(Cell::get);
    if place == NOT_ASKED {
        place = take_place();
    }
    (place < NO_PLACE).then_some(place as usize)
}

#[cold]
fn take_place() -> u32 {
    let free = |taken: u32| (!taken).trailing_zeros();
    let taken = PLACES.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
        (free(taken) < NO_PLACE).then(|| taken | 1 << free(taken))
    });
    let place = taken.map_or(NO_PLACE, free);
    // A thread that is ending already has no place: nobody would give it back.
    let kept = place < NO_PLACE && at_thread_end(give_place_back);
    if !kept && place < NO_PLACE {
        PLACES.fetch_and(!(1 << place), Ordering::AcqRel);
    }
    let place = if kept { place } else { NO_PLACE };
    if let Some(owner) = OWNERS.get(place as usize) {
        let mark = thread_mark();
        owner.store(mark, Ordering::Release);
        HINTS[hint_of(mark)].store(place as u8, Ordering::Relaxed);
    }
    MINE.with(|mine| mine.set(place));
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Barrier, Mutex, mpsc};

    #[test]
    fn a_thread_is_there_until_it_has_ended_whatever_others_do_meanwhile() {
        let over = AtomicBool::new(false);
        let right = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let those = [(); 6].map(|()| std::thread::spawn(|| ()));
                        those.into_iter().for_each(|thread| thread.join().unwrap());
                    }
                });
            }
            let is_right = |_: &usize| {
                let (sender, receiver) = mpsc::channel();
                let (end, ended) = mpsc::channel::<()>();
                let newest = std::thread::spawn(move || {
                    sender.send(thread_number()).unwrap();
                    let _ = ended.recv();
                });
                let there = is_thread(receiver.recv().unwrap());
                drop(end);
                newest.join().unwrap();
                there
            };
            let right = (0..2000).filter(is_right).count();
            over.store(true, Ordering::Relaxed);
            right
        });
        assert_eq!((right, is_thread(thread_number()), is_thread(i32::MAX)), (2000, true, false));
    }

    #[test]
    fn threads_have_places_of_their_own_and_give_them_back() {
        for _ in 0..3 {
            let seen = Mutex::new((HashSet::new(), 0));
            let barrier = Barrier::new(20);
            std::thread::scope(|scope| {
                let body = || {
                    scope.spawn(|| {
                        {
                            let mut seen = seen.lock().unwrap();
                            match thread_place() {
                                Some(place) => assert!(place < THREAD_PLACES && seen.0.insert(place)),
                                None => seen.1 += 1,
                            }
                            assert_eq!(thread_place(), thread_place());
                        }
                        // Nobody ends before everybody has asked.
                        barrier.wait();
                    })
                };
                // Joined one by one: only then are their variables gone for certain.
                let threads: Vec<_> = (0..20).map(|_| body()).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
            let (places, without) = &*seen.lock().unwrap();
            // Other tests' threads may have some.
            assert_eq!(places.len() + without, 20);
            assert!(*without >= 20 - THREAD_PLACES);
        }
        assert!(std::thread::spawn(|| thread_place().is_some()).join().unwrap());
    }
}

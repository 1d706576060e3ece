//! Threads of the library, and what is done when a thread of whoever it is ends.
//!
//! Both are the standard library's elsewhere. That allocates in the C library's heap, on the program's thread, for its own
//! records of threads and of variables that have to be dropped; here the C library alone is asked for a thread, and a
//! variable of a thread has no destructor.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex;
use rustix::time::Timespec;

/// Bytes of stack that a thread of the library has.
const STACK: usize = 256 * 1024;

/// How long a thread is waited for that was started: always enough, but where the loader lets no other thread have its variables
/// until it has loaded what starts this one.
const PATIENCE: Duration = Duration::from_secs(1);

/// A thread that was started. Dropping this leaves it alone.
#[derive(Debug)]
pub struct Thread(libc::pthread_t);

struct Start {
    name: [u8; 16],
    /// 1 when the thread has its name and its variables.
    ready: Arc<AtomicU32>,
    body: Box<dyn FnOnce() + Send>,
}

/// Starts a thread with every signal blocked, so that the program's handlers run on the program's threads only. Of the name
/// 15 bytes are shown. A panic ends the thread.
///
/// When this returns, the thread has its variables. The C library allocates them at first use, and maps and unmaps what it
/// allocates from. Open MPI and UCX write over the code of `munmap` once they have a device: a thread that is inside at that moment
/// comes back to half an instruction.
pub fn spawn_without_signals<F>(name: &str, body: F) -> io::Result<Thread>
where
    F: FnOnce() + Send + 'static,
{
    let ready = Arc::new(AtomicU32::new(0));
    let mut start = Box::new(Start { name: [0; 16], ready: Arc::clone(&ready), body: Box::new(body) });
    let length = name.len().min(15);
    start.name[..length].copy_from_slice(&name.as_bytes()[..length]);
    let start = Box::into_raw(start);
    // SAFETY: both sets are locals that outlive the calls; a thread inherits the mask of the one that starts it, and
    // the old mask is put back before this returns.
    let made = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        // A program with many variables of its own in every thread leaves too little of a small stack.
        let made = create(start, Some(STACK)).or_else(|_| create(start, None));
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
        made
    };
    let thread = made.map(Thread).inspect_err(|_| {
        // SAFETY: made above, and no thread has it.
        drop(unsafe { Box::from_raw(start) });
    })?;
    wait_until(&ready);
    Ok(thread)
}

fn wait_until(ready: &AtomicU32) {
    let until = Instant::now() + PATIENCE;
    while ready.load(Ordering::Acquire) == 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // Whatever it says, the word is looked at again.
        let _ = futex::wait(ready, futex::Flags::PRIVATE, 0, Timespec::try_from(left).ok().as_ref());
    }
}

/// # Safety
/// `start` came from a box, which the thread takes over if there is one.
unsafe fn create(start: *mut Start, stack: Option<usize>) -> io::Result<libc::pthread_t> {
    let mut thread = MaybeUninit::uninit();
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the attributes are made before and ended after their use; the thread is told where its start is.
    let failed = unsafe {
        let mut failed = libc::pthread_attr_init(attributes.as_mut_ptr());
        if failed == 0 {
            if let Some(stack) = stack {
                libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack);
            }
            failed = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, start.cast());
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
        failed
    };
    // SAFETY: filled in, since the call succeeded.
    if failed == 0 { Ok(unsafe { thread.assume_init() }) } else { Err(io::Error::from_raw_os_error(failed)) }
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn_without_signals` made it for this thread.
    let start = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: a text that ends with a zero byte; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, start.name.as_ptr()) };
    // The first use of any has the C library make room for all.
    std::hint::black_box(HAS_ENDED.get());
    start.ready.store(1, Ordering::Release);
    let _ = futex::wake(&start.ready, futex::Flags::PRIVATE, 1);
    // What there is to say was said where it panicked.
    let _ = catch_unwind(AssertUnwindSafe(start.body));
    std::ptr::null_mut()
}

impl Thread {
    /// Whether it is the one that asks.
    pub fn is_current(&self) -> bool {
        // SAFETY: has no preconditions.
        unsafe { libc::pthread_self() == self.0 }
    }

    /// Waits until it has ended.
    pub fn join(self) {
        // SAFETY: neither joined nor detached before: both consume this.
        unsafe { libc::pthread_join(self.0, std::ptr::null_mut()) };
        std::mem::forget(self);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: neither joined nor detached before: both consume this.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// Functions at most that one thread's end calls: one for each variable of a thread that has something to give back.
const ENDS: usize = 6;

type Ends = [Option<fn()>; ENDS];

thread_local! {
    static AT_END: Cell<Ends> = const { Cell::new([None; ENDS]) };
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
}

/// Has `end` called when this thread ends, once for each time it was asked for. False: it is ending already, or the process
/// has no room for it; what `end` would give back must not be kept.
#[must_use]
pub fn at_thread_end(end: fn()) -> bool {
    if HAS_ENDED.get() {
        return false;
    }
    let mut ends = AT_END.get();
    let (Some(key), Some(place)) = (key(), ends.iter_mut().find(|place| place.is_none())) else {
        return false;
    };
    *place = Some(end);
    // The value says only that the thread has something to do at its end.
    // SAFETY: the key is this library's, which stays loaded.
    if unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) } != 0 {
        return false;
    }
    AT_END.set(ends);
    true
}

extern "C" fn thread_ends(_: *mut c_void) {
    HAS_ENDED.set(true);
    AT_END.take().into_iter().flatten().for_each(|end| end());
}

/// The process's key for it, made when it is first needed.
fn key() -> Option<libc::pthread_key_t> {
    const NONE: u64 = u64::MAX;
    static KEY: AtomicU64 = AtomicU64::new(NONE);
    let known = KEY.load(Ordering::Acquire);
    if known != NONE {
        return Some(known as libc::pthread_key_t);
    }
    let mut new: libc::pthread_key_t = 0;
    // SAFETY: the key is a local; the function stays, as the library does.
    let failed: c_int = unsafe { libc::pthread_key_create(&raw mut new, Some(thread_ends)) };
    if failed != 0 {
        return None;
    }
    match KEY.compare_exchange(NONE, u64::from(new), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(new),
        Err(known) => {
            // SAFETY: made above; another thread was faster, and nobody has seen this one.
            unsafe { libc::pthread_key_delete(new) };
            Some(known as libc::pthread_key_t)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    #[test]
    fn a_thread_has_its_name_and_no_signals_and_is_waited_for() {
        let (sender, receiver) = mpsc::channel();
        let thread = spawn_without_signals("nonic-test-of-a-long-name", move || {
            // SAFETY: a set of this thread's, filled by the call.
            let blocked = unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
                libc::sigismember(&raw const set, libc::SIGTERM)
            };
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            sender.send((name, blocked)).unwrap();
        })
        .unwrap();
        assert!(!thread.is_current());
        thread.join();
        assert_eq!(receiver.try_recv().unwrap(), ("nonic-test-of-a\n".to_owned(), 1));
    }

    #[test]
    fn a_thread_that_was_started_has_begun_by_then() {
        for _ in 0..100 {
            let (sender, receiver) = mpsc::channel::<()>();
            let thread = spawn_without_signals("nonic-begun", move || {
                let _ = receiver.recv();
            })
            .unwrap();
            // Asked of the one thread: the kernel's list lacks some that live while others end, as those of other tests do.
            let mut name = [0u8; 16];
            // SAFETY: a thread that has not been joined, and a place for as long a name as there is.
            let failed = unsafe { libc::pthread_getname_np(thread.0, name.as_mut_ptr().cast(), name.len()) };
            drop(sender);
            thread.join();
            assert!(
                failed == 0 && name.starts_with(b"nonic-begun\0"),
                "it has no name yet, so no variables either"
            );
        }
    }

    #[test]
    fn a_panic_ends_the_thread_and_nothing_else() {
        // Past the hook: a message of a panic that is wanted hides, in a long log, one that is not.
        let body = || std::panic::resume_unwind(Box::new("as it should"));
        spawn_without_signals("nonic-panic", body).unwrap().join();
    }

    #[test]
    fn what_a_thread_asked_for_is_done_once_at_its_end_and_no_more_is_taken_then() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        fn end() {
            assert!(!at_thread_end(|| panic!("nothing is taken any more")));
            ENDED.fetch_add(1, Ordering::Relaxed);
        }
        let body = || {
            assert!(at_thread_end(end) && at_thread_end(end));
            assert_eq!(ENDED.load(Ordering::Relaxed), 0);
        };
        spawn_without_signals("nonic-end", body).unwrap().join();
        assert_eq!(ENDED.load(Ordering::Relaxed), 2);
    }
}

//! Sleeping until something that others bring about is so, without a lock around it.
//!
//! Who waits says that it sleeps, looks once more, and sleeps. Who brings something about then looks whether anybody sleeps.
//! Between the two steps of each stands a full fence: so either the sleeper sees what was brought, or the other sees the
//! sleeper. While nobody sleeps, ringing is a fence and a look.

use std::io;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Instant;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// Somebody sleeps in [`EventCount::sleep`].
const HERE: u32 = 1;
/// Somebody sleeps elsewhere, and whoever rings must wake it there.
const ELSEWHERE: u32 = 2;

/// The bell of those who wait for one thing. Any number of threads may sleep here, one elsewhere.
#[derive(Debug, Default)]
pub struct EventCount {
    asleep: AtomicU32,
    /// How often sleepers here were woken: the word they sleep on.
    rings: AtomicU32,
    kernel: Kernel,
}

/// What a sleeper here has seen, before its last look.
#[derive(Clone, Copy, Debug)]
pub struct Ticket(u32);

impl EventCount {
    /// Says that this thread will sleep here. It then looks once more at what it waits for, and only then sleeps.
    pub fn prepare(&self) -> Ticket {
        // Before it is said: whoever takes note of it, and says so to nobody else, rings after this.
        let ticket = Ticket(self.rings.load(Ordering::SeqCst));
        self.asleep.fetch_or(HERE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        ticket
    }

    /// Sleeps until somebody has rung since [`EventCount::prepare`], or until `until`. It may return early; a signal ends it
    /// (`Interrupted`), unless there is no `until` and its handler has `SA_RESTART`.
    pub fn sleep(&self, ticket: Ticket, until: Option<Instant>) -> io::Result<()> {
        self.kernel.sleep(&self.rings, ticket.0, until)
    }

    /// Says that this thread will sleep elsewhere. It then looks once more at what it waits for.
    pub fn prepare_elsewhere(&self) {
        self.asleep.fetch_or(ELSEWHERE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// That thread is awake.
    pub fn wake_elsewhere(&self) {
        self.asleep.fetch_and(!ELSEWHERE, Ordering::Relaxed);
    }

    /// Wakes everybody who sleeps here. The caller has brought about what they wait for. True: somebody sleeps elsewhere, and
    /// must be woken there.
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let asleep = self.asleep.swap(0, Ordering::SeqCst);
        if asleep & HERE != 0 {
            self.rings.fetch_add(1, Ordering::SeqCst);
            self.kernel.wake(&self.rings);
        }
        asleep & ELSEWHERE != 0
    }
}

/// The kernel's part (`futex(2)`).
#[cfg(not(loom))]
#[derive(Debug, Default)]
struct Kernel;

#[cfg(not(loom))]
impl Kernel {
    fn sleep(&self, word: &AtomicU32, seen: u32, until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            libc::timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        // SAFETY: word and time live through the call; the kernel only reads them.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                seen,
                left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            )
        } != 0;
        let error = io::Error::last_os_error();
        if failed && error.kind() == io::ErrorKind::Interrupted { Err(error) } else { Ok(()) }
    }

    fn wake(&self, word: &AtomicU32) {
        // SAFETY: the word lives through the call; waking touches no memory.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
            )
        };
    }
}

/// The kernel's part in the model: comparing and falling asleep are one step to whoever wakes.
#[cfg(loom)]
#[derive(Debug, Default)]
struct Kernel {
    bucket: loom::sync::Mutex<()>,
    sleepers: loom::sync::Condvar,
}

#[cfg(loom)]
impl Kernel {
    fn sleep(&self, word: &AtomicU32, seen: u32, _: Option<Instant>) -> io::Result<()> {
        let bucket = self.bucket.lock().unwrap();
        if word.load(Ordering::SeqCst) == seen {
            drop(self.sleepers.wait(bucket).unwrap());
        }
        Ok(())
    }

    fn wake(&self, _: &AtomicU32) {
        drop(self.bucket.lock().unwrap());
        self.sleepers.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn ringing_wakes_who_sleeps_here_and_names_who_sleeps_elsewhere() {
        let bell = EventCount::default();
        assert!(!bell.ring(), "nobody sleeps");
        let ticket = bell.prepare();
        assert!(!bell.ring());
        // It was rung since: no sleep.
        bell.sleep(ticket, None).unwrap();
        bell.prepare_elsewhere();
        assert!(bell.ring());
        assert!(!bell.ring(), "it was told already");
        bell.prepare_elsewhere();
        bell.wake_elsewhere();
        assert!(!bell.ring());
    }

    #[test]
    fn a_sleep_ends_with_its_time() {
        let bell = EventCount::default();
        let began = Instant::now();
        let ticket = bell.prepare();
        bell.sleep(ticket, Some(began + Duration::from_millis(20))).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn many_sleepers_all_wake() {
        let (bell, done) = (EventCount::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let ticket = bell.prepare();
                        if !done.load(Ordering::Relaxed) {
                            bell.sleep(ticket, None).unwrap();
                        }
                    }
                });
            }
            done.store(true, Ordering::Relaxed);
            bell.ring();
        });
    }
}

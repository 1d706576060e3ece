//! Threads that wait.

use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

pub(crate) fn own_thread() -> i32 {
    // SAFETY: takes nothing and touches nothing.
    unsafe { libc::gettid() }
}

/// Starts a thread and says its number.
pub(crate) fn named_thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> (ScopedJoinHandle<'scope, T>, i32) {
    let (name, named) = mpsc::channel();
    let thread = scope.spawn(move || {
        name.send(own_thread()).unwrap();
        run()
    });
    (thread, named.recv().unwrap())
}

/// Waits until a thread of this process sleeps in a system call in which nonic's waits end: `read`, `poll`, `futex`.
pub(crate) fn until_asleep(thread: i32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap();
        let number = call.split(' ').next().and_then(|number| number.parse::<i64>().ok());
        let sleeps = [libc::SYS_read, libc::SYS_poll, libc::SYS_ppoll, libc::SYS_futex];
        if number.is_some_and(|number| sleeps.contains(&number)) {
            return;
        }
        assert!(Instant::now() < deadline, "the thread never sleeps: {call}");
        std::thread::yield_now();
    }
}

pub(crate) fn cpu_time_of_this_thread() -> Duration {
    // SAFETY: the kernel fills the structure.
    let time = unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        assert_eq!(libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time), 0);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Has `SIGUSR1` interrupt system calls.
pub(crate) fn let_signals_interrupt() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, and the structure is whole.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Sends the signal to a thread of this process.
pub(crate) fn interrupt(thread: i32) {
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) }, 0);
}

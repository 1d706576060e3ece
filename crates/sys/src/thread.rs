//! Threads that never run the program's signal handlers, and randomness for names.

use std::io;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

/// Starts a thread with every signal blocked, so that the program's handlers run on the program's threads only.
pub fn spawn_without_signals<F>(name: &str, body: F) -> io::Result<JoinHandle<()>>
where
    F: FnOnce() + Send + 'static,
{
    // SAFETY: both sets are locals that outlive the calls; a thread inherits the mask of the one that starts it, and
    // the old mask is put back before this returns.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(256 * 1024).spawn(body);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
        thread
    }
}

/// Sets how late this thread's timers may fire, in nanoseconds (the default is 50,000).
pub fn timer_slack_ns(slack: u64) {
    // SAFETY: this prctl takes a number and touches no memory; failure leaves the default, which is only less exact.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, 0, 0, 0) };
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

/// How many threads this process has.
pub fn thread_count() -> io::Result<usize> {
    let links = rustix::fs::stat("/proc/self/task")?.st_nlink as usize;
    // The kernel counts a folder's links as it would subfolders, plus two. Other systems' `/proc` may not.
    if links > 2 { Ok(links - 2) } else { Ok(std::fs::read_dir("/proc/self/task")?.count()) }
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

/// The name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Has `handler` called once when the process exits in order.
pub fn at_exit(handler: extern "C" fn()) {
    use std::sync::Once;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which is never unloaded while it is registered: `atexit`
        // runs the handlers of an object before the object goes.
        unsafe { libc::atexit(handler) };
    });
}

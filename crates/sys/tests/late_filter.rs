//! A filter of system calls that is installed when fences were light already: nothing that relied on them breaks, and whoever
//! was told of them is told. Alone in its process, whose filter stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nonic_sys::{
    BiasedMutex, FenceReach, SharedMapping, heavy_fence, light_fence, light_fences_are_free,
    prepare_light_fences, show_fences,
};

/// Has the kernel refuse `membarrier` to every thread of this process.
fn refuse_membarrier() {
    let statement = |code: u32, jumps: (u8, u8), k: u32| libc::sock_filter {
        code: code as u16,
        jt: jumps.0,
        jf: jumps.1,
        k,
    };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // The number of the call stands at the beginning of what a filter sees.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, 1), libc::SYS_membarrier as u32),
        statement(libc::BPF_RET | libc::BPF_K, (0, 0), refusal),
        statement(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is a local that the kernel copies; it ends with an answer on every way.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
        assert_eq!(
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program),
            0
        );
        assert_eq!(libc::syscall(libc::SYS_membarrier, 0, 0, 0), -1);
    }
}

/// Two threads were inside a lock together. (Noted, since a thread that panics would leave the others waiting.)
static TOGETHER: AtomicBool = AtomicBool::new(false);

/// Two numbers that are equal whenever nobody is inside.
fn twice(pair: &mut (u64, u64)) {
    // SAFETY: both are exclusively borrowed. Volatile: the compiler must not make one step of two.
    unsafe {
        let first = std::ptr::read_volatile(&raw const pair.0);
        std::ptr::write_volatile(&raw mut pair.0, first + 1);
        let second = std::ptr::read_volatile(&raw const pair.1);
        std::ptr::write_volatile(&raw mut pair.1, second + 1);
        TOGETHER.fetch_or(first != second, Ordering::Relaxed);
    }
}

/// Two threads that each raise a flag and then look at the other's, the rare one with a heavy fence between: they never both
/// find nothing. Returns how often they did.
fn race(rounds: u64) -> u64 {
    let flags: [AtomicU64; 2] = Default::default();
    let (turn, missed, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                let now = turn.load(Ordering::Acquire);
                if now == last {
                    std::hint::spin_loop();
                    continue;
                }
                last = now;
                flags[0].store(now, Ordering::Relaxed);
                light_fence(light_fences_are_free);
                seen.store(flags[1].load(Ordering::Relaxed), Ordering::Relaxed);
                flags[0].store(u64::MAX, Ordering::Release);
            }
        });
        for round in 1..=rounds {
            flags[0].store(0, Ordering::Relaxed);
            turn.store(round, Ordering::Release);
            flags[1].store(round, Ordering::Relaxed);
            heavy_fence(FenceReach::Process);
            let theirs = flags[0].load(Ordering::Relaxed);
            while flags[0].load(Ordering::Acquire) != u64::MAX {
                std::hint::spin_loop();
            }
            if theirs == 0 && seen.load(Ordering::Relaxed) != round {
                missed.fetch_add(1, Ordering::Relaxed);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    missed.into_inner()
}

#[test]
fn a_kernel_that_begins_to_refuse_heavy_fences_breaks_no_lock_and_every_peer_is_told() {
    if !prepare_light_fences() {
        println!("SKIPPED: the loss of heavy fences: this kernel refuses them from the beginning");
        return;
    }
    let shown = Arc::new(SharedMapping::anonymous(4096).unwrap());
    show_fences(&shown, 64);
    assert_eq!(shown.word(64).load(Ordering::Relaxed), 1);
    let mutexes: Vec<_> = (0..64).map(|_| BiasedMutex::new((0u64, 0u64))).collect();
    let mut missed = 0;
    let (stop, refused) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The favourite of all of them, before and after.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                mutexes.iter().for_each(|mutex| (0..32).for_each(|_| twice(&mut mutex.lock())));
            }
        });
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                // First a few favours only, so that most are granted when the kernel begins to refuse.
                let few = if refused.load(Ordering::Relaxed) { mutexes.len() } else { 1 };
                mutexes[..few].iter().for_each(|mutex| twice(&mut mutex.lock()));
                if round % 16 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        missed += race(2000);
        refuse_membarrier();
        refused.store(true, Ordering::Relaxed);
        missed += race(20_000);
        let ready = || mutexes.iter().all(|mutex| mutex.lock().0 > 1000);
        while !ready() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(missed, 0, "both looked past each other");
    assert!(!TOGETHER.load(Ordering::Relaxed), "two threads were inside");
    assert!(!light_fences_are_free());
    assert_eq!(shown.word(64).load(Ordering::Relaxed), 0);
    show_fences(&shown, 128);
    assert_eq!(shown.word(128).load(Ordering::Relaxed), 0);
    assert!(!prepare_light_fences(), "they do not come back");
}

//! Moving data allocates nothing, whatever the operation: not on the program's thread and not on the agent's.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use common::{End, connected};
use nonic_device::{Operation, RemoteRange, Status};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn transfer(one: &End, other: &End, operation: Operation, length: u32, receives: bool) {
    if receives {
        other.post_receive(7);
    }
    one.post(1, operation, &[one.piece(0, length)]);
    if receives {
        assert_eq!(other.completion().status, Status::Success);
    }
    assert_eq!(one.completion().status, Status::Success);
}

/// Every operation once, each way.
fn everything(one: &End, other: &End) {
    for (one, other) in [(one, other), (other, one)] {
        let remote = RemoteRange { address: other.buffer.as_ptr() as u64, key: other.region.remote_key() };
        for length in [0, 8, 700, 4096] {
            transfer(one, other, Operation::Send { immediate: None }, length, true);
            transfer(one, other, Operation::Send { immediate: Some(3) }, length, true);
            transfer(one, other, Operation::Write { remote, immediate: None }, length, false);
            transfer(one, other, Operation::Write { remote, immediate: Some(4) }, length, true);
            transfer(one, other, Operation::Read { remote }, length, false);
        }
        transfer(one, other, Operation::CompareSwap { remote, compare: 0, swap: 1 }, 8, false);
        transfer(one, other, Operation::FetchAdd { remote, add: 1 }, 8, false);
    }
}

/// Lists may grow once to the length they need.
const GROWTH: u64 = 5;

#[test]
fn no_operation_allocates_on_any_tier() {
    const NAME: &str = "no_operation_allocates_on_any_tier";
    const INNER: &str = "NONIC_TEST_INNER";
    if std::env::var_os(INNER).is_none() {
        // A process has one tier.
        for tier in ["mapped", "kernel", "ring"] {
            let mut program = std::process::Command::new(std::env::current_exe().unwrap());
            let output =
                program.args(["--exact", NAME]).env(INNER, "1").env("NONIC_TIER", tier).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && printed.contains("1 passed"), "{tier}: {printed}");
        }
        return;
    }
    let (one, other) = connected();
    (0..50).for_each(|_| everything(&one, &other));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..500).for_each(|_| everything(&one, &other));
    let count = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert!(count <= GROWTH, "{count} allocations in 22,000 operations");
}

//! What calls cost. Printed, for whoever measures (`cargo test --release -- --ignored --nocapture speed`); the benches judge.

use super::*;

fn nanoseconds(rounds: u32, mut body: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..rounds {
            body();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(rounds));
    }
    best
}

#[test]
#[ignore = "measures"]
fn calls() {
    let (pair, near, far) = (Pair::new(), Pages::filled(1024, 1), Pages::filled(1024, 2));
    let (local, remote) = (pair.open(&near), pair.open_there(&far));
    let now = RmaFlags { use_cpu: true, sync: true, ordered: false };
    let small = nanoseconds(20_000, || pair.here.write_to(local, 8, remote, now).unwrap());
    println!("8 bytes written: {small:.0} ns");
    let read = nanoseconds(20_000, || pair.here.read_from(local, 8, remote, now).unwrap());
    println!("8 bytes read: {read:.0} ns");
    let word = 1u64;
    let plain =
        nanoseconds(20_000, || pair.here.write_out(&raw const word as usize, 8, remote, now).unwrap());
    println!("8 bytes written from plain memory: {plain:.0} ns");
    let signal = nanoseconds(20_000, || {
        pair.here.fence_signal(None, Some((remote, 1)), crate::Initiator::Own).unwrap();
    });
    println!("signal: {signal:.0} ns");
    let length = 1 << 20;
    let long = nanoseconds(200, || pair.here.write_to(local, length, remote, now).unwrap());
    // SAFETY: both are this test's, as long as that.
    let copy = nanoseconds(200, || unsafe {
        nonic_sys::copy_with_threshold(far.start() as *mut u8, near.start() as *const u8, length, 0);
    });
    let other = (Pages::filled(256, 1), Pages::filled(256, 1));
    // SAFETY: as above.
    let private = nanoseconds(200, || unsafe {
        nonic_sys::copy_with_threshold(other.0.start() as *mut u8, other.1.start() as *const u8, length, 0);
    });
    println!(
        "1 MiB: {:.1} GB/s; a copy past the caches of the same memory {:.1}, of private memory {:.1}",
        length as f64 / long,
        length as f64 / copy,
        length as f64 / private
    );
    let mut offset = 0;
    let cycle = nanoseconds(5000, || {
        offset = pair.here.register(pair.fd(), near.start(), PAGE, 0, BOTH, false).unwrap();
        pair.close(offset, PAGE).unwrap();
    });
    println!("a page adopted before, opened and closed: {cycle:.0} ns");
    for _ in 0..10_000 {
        pair.open_there(&Pages { whole: (far.start() - PAGE) as *mut _, length: PAGE }.kept());
    }
    let mut at = 0i64;
    let spread = nanoseconds(20_000, || {
        at = (at + 7919) % 10_000;
        pair.here.write_to(local, 8, remote + far.length as i64 + at * PAGE as i64, now).unwrap();
    });
    let mut mirrors = pair.here.process().mirrors.lock();
    let lookup = nanoseconds(20_000, || {
        at = (at + 7919) % 10_000;
        let offset = (remote + far.length as i64 + at * PAGE as i64) as u64;
        assert!(mirrors.peer.slice(offset, 8, BOTH).is_some());
    });
    println!("of 10,000 windows: a lookup {lookup:.0} ns, 8 bytes written {spread:.0} ns");
    drop(mirrors);
    let again = nanoseconds(500, || {
        offset = pair.there.register(pair.sockets.1.as_fd(), far.start(), PAGE, 0, BOTH, false).unwrap();
        pair.there.unregister(pair.sockets.1.as_fd(), offset, PAGE).unwrap();
    });
    println!("among 10,000 windows, one opened and closed: {again:.0} ns");
}

impl Pages {
    /// Pages of another owner.
    fn kept(self) -> std::mem::ManuallyDrop<Self> {
        std::mem::ManuallyDrop::new(self)
    }
}

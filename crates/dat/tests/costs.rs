//! What calls cost that have to be cheap. Prints figures: `cargo test --release -p nonic-dat --test costs -- --ignored
//! --nocapture`.

mod common;

use std::sync::Arc;
use std::time::Instant;

use common::{Pages, open, part, register};
use nonic_dat::{Description, LocalRegion, Privileges, ProtectionZone};

/// Nanoseconds of one turn: the median of 31 rounds.
fn cost(turns: u32, mut turn: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..31)
        .map(|_| {
            let begin = Instant::now();
            (0..turns).for_each(|_| turn());
            begin.elapsed().as_nanos() as f64 / f64::from(turns)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

#[test]
#[ignore = "prints figures"]
fn synchronizing_and_registering_again() {
    for coherent in [true, false] {
        let adapter = open(coherent);
        let zone = ProtectionZone::create(&adapter).unwrap();
        let pages = Pages::private(256);
        let region = register(&zone, &pages, Privileges::ALL).unwrap();
        let segment = part(&region, 64, 4096);
        let mut fence = 0;
        let fences = cost(100_000, || {
            fence += 1;
            std::hint::black_box(fence);
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        });
        let write = cost(100_000, || adapter.sync_rdma_write([segment].into_iter()).unwrap());
        let read = cost(10_000, || adapter.sync_rdma_read([segment].into_iter()).unwrap());
        let mut made = Vec::with_capacity(1000 * 31);
        let create = cost(1000, || {
            let description = Description::Region(Arc::clone(&region));
            made.push(LocalRegion::create(&adapter, description, 0, &zone, Privileges::ALL).unwrap());
        });
        println!(
            "coherent {coherent}: full fence {fences:.1} ns, sync_rdma_write {write:.1} ns, sync_rdma_read \
             {read:.1} ns, LMR on LMR {create:.0} ns"
        );
        adapter.close(false).unwrap();
    }
}

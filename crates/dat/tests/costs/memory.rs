//! What calls cost that have to be cheap.

use std::sync::Arc;
use std::time::Instant;

use crate::common::peers::{PLAIN, connected};
use crate::common::{Pages, open, part, register};
use nonic_dat::{Description, LocalRegion, Privileges, ProtectionZone, RemoteRegion};

/// Nanoseconds of one turn: the least of 101 rounds, which is what it costs when nobody else wants the CPU.
fn cost(turns: u32, mut turn: impl FnMut()) -> f64 {
    let rounds = (0..101).map(|_| {
        let begin = Instant::now();
        (0..turns).for_each(|_| turn());
        begin.elapsed().as_nanos() as f64 / f64::from(turns)
    });
    rounds.fold(f64::INFINITY, f64::min)
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
        let fences = cost(10_000, || {
            fence += 1;
            std::hint::black_box(fence);
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        });
        let write = cost(10_000, || adapter.sync_rdma_write([segment].into_iter()).unwrap());
        let read = cost(10_000, || adapter.sync_rdma_read([segment].into_iter()).unwrap());
        let mut made = Vec::with_capacity(500 * 101);
        let create = cost(500, || {
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

#[test]
#[ignore = "prints figures"]
fn binding() {
    for coherent in [true, false] {
        let (server, _client) = connected(coherent);
        let remote = RemoteRegion::create(&server.zone).unwrap();
        let segment = server.piece(64, 4096);
        let bind = cost(500, || {
            remote.bind(segment, Privileges::REMOTE, &server.endpoint, 7, PLAIN).unwrap();
            while server.transfers.dequeue(|_| ()).is_err() {}
        });
        let unbound = server.piece(64, 0);
        let both = cost(500, || {
            for segment in [segment, unbound] {
                remote.bind(segment, Privileges::REMOTE, &server.endpoint, 7, PLAIN).unwrap();
                while server.transfers.dequeue(|_| ()).is_err() {}
            }
        });
        println!("coherent {coherent}: bind to completion {bind:.0} ns, bind and unbind {both:.0} ns");
    }
}

//! What a transfer costs more than on the engine's own queue pair.

use std::iter::once;
use std::time::Instant;

use crate::common;
use crate::common::Pages;
use crate::common::connected::{PLAIN, pair};
use crate::engine;
use nonic_dat::{CompletionFlags, Event};
use nonic_device::{
    Access, Operation, RegionMemory, RegionRequest, RemoteRange, ScatterGather, SendFlags, SendRequest,
};

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
fn transfers_of_eight_bytes() {
    let (near, far) = pair();
    let (piece, remote) = (near.piece(0, 8), far.remote(0, 8));
    let take = |want: u32| {
        let mut count = 0;
        while count < want {
            let _ = near.transfers.dequeue(|event| {
                assert!(matches!(event, Event::Transfer { .. }));
                count += 1;
            });
        }
    };
    let write = cost(20_000, || {
        near.endpoint.post_rdma_write(once(piece), 1, remote, PLAIN).unwrap();
        take(1);
    });
    let suppressed = cost(2_000, || {
        for _ in 0..7 {
            near.endpoint.post_rdma_write(once(piece), 1, remote, CompletionFlags::SUPPRESS).unwrap();
        }
        near.endpoint.post_rdma_write(once(piece), 1, remote, PLAIN).unwrap();
        take(1);
    }) / 8.0;
    let read = cost(20_000, || {
        near.endpoint.post_rdma_read(once(piece), 1, remote, PLAIN).unwrap();
        take(1);
    });
    let empty = cost(100_000, || {
        let _ = near.transfers.dequeue(|_| {});
    });
    println!(
        "uDAPL:  write and completion {write:.1} ns, suppressed write {suppressed:.1} ns, read {read:.1} ns, \
         empty dequeue {empty:.1} ns"
    );
    on_the_engine();
}

fn on_the_engine() {
    let (near, far) = (engine::End::new(), engine::End::new());
    near.connect(far.pair.number());
    far.connect(near.pair.number());
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let (near_pages, far_pages) = (Pages::private(4), Pages::private(4));
    let register = |end: &engine::End, pages: &Pages| {
        let memory = RegionMemory::Program {
            address: common::program(pages.address()),
            length: pages.length() as usize,
        };
        end.zone.register(RegionRequest { memory, base: pages.address(), access }).unwrap()
    };
    let (local, target) = (register(&near, &near_pages), register(&far, &far_pages));
    let pieces = [ScatterGather { address: near_pages.address(), length: 8, key: local.local_key() }];
    let remote = RemoteRange { address: far_pages.address(), key: target.remote_key() };
    let post = |operation| {
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        let request = SendRequest { id: 1, operation, flags, pieces: &pieces, destination: None };
        let mut posting = near.pair.post().unwrap();
        // SAFETY: the pieces lie in a region over this test's own pages.
        unsafe { posting.post(&request) }.unwrap();
        posting.ring_doorbell();
    };
    let take = || {
        let mut count = 0;
        while count == 0 {
            near.completions
                .poll(
                    |completion| {
                        assert!(completion.status.is_success());
                        count += 1;
                    },
                    1,
                )
                .unwrap();
        }
    };
    let write = cost(20_000, || {
        post(Operation::Write { remote, immediate: None });
        take();
    });
    let read = cost(20_000, || {
        post(Operation::Read { remote });
        take();
    });
    let empty = cost(100_000, || {
        near.completions.poll(|_| {}, 1).unwrap();
    });
    println!("engine: write and completion {write:.1} ns, read {read:.1} ns, empty poll {empty:.1} ns");
}

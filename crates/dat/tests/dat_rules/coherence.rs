//! `dat_lmr_sync_rdma_read(3)` and `dat_lmr_sync_rdma_write(3)`.

use std::sync::Arc;

use crate::common;
use crate::common::peers::{Side, connected, far};
use crate::common::{Pages, open, part, register};
use nonic_dat::{
    DatError, Description, LocalRegion, Privileges, ProtectionZone, RemoteSegment, Segment, TransferStatus,
};

const REFUSED: Result<(), DatError> = Err(DatError::argument(2));

/// SYNC-1, SYNC-3, SYNC-5.
#[test]
fn segments_of_many_regions_and_zones_are_taken_in_one_call() {
    for coherent in [true, false] {
        let adapter = open(coherent);
        assert_eq!(adapter.provider_attributes().sync_required, !coherent);
        let pages = Pages::private(4);
        let segments: Vec<Segment> = (0..4)
            .map(|_| {
                let zone = ProtectionZone::create(&adapter).unwrap();
                let region = register(&zone, &pages, Privileges::NONE).unwrap();
                let segment = part(&region, 10, 4000);
                std::mem::forget((zone, region));
                segment
            })
            .collect();
        adapter.sync_rdma_read(segments.iter().copied()).unwrap();
        adapter.sync_rdma_write(segments.iter().copied()).unwrap();
        adapter.sync_rdma_read(std::iter::empty()).unwrap();
        adapter.close(false).unwrap();
    }
}

/// SYNC-8.
#[test]
fn a_segment_outside_its_region_or_of_no_region_is_refused() {
    for coherent in [true, false] {
        let (adapter, other_adapter) = (open(coherent), open(coherent));
        let zone = ProtectionZone::create(&adapter).unwrap();
        let other_zone = ProtectionZone::create(&other_adapter).unwrap();
        let pages = Pages::private(2);
        let region = register(&zone, &pages, Privileges::ALL).unwrap();
        let strange = register(&other_zone, &pages, Privileges::ALL).unwrap();
        let whole = part(&region, 0, pages.length());
        let remote = Segment { context: region.facts().remote_context, ..whole };
        let freed = register(&zone, &pages, Privileges::ALL).unwrap();
        let gone = part(&freed, 0, 1);
        freed.free().unwrap();
        for wrong in [
            part(&region, 0, pages.length() + 1),
            part(&region, 1, pages.length()),
            part(&region, u64::MAX, 1),
            part(&region, 0, u64::MAX),
            part(&region, pages.length(), 1),
            part(&strange, 0, 1),
            remote,
            gone,
            Segment { context: 0, ..whole },
            Segment { context: u32::MAX, ..whole },
        ] {
            for segments in [vec![wrong], vec![whole, wrong], vec![wrong, whole]] {
                assert_eq!(adapter.sync_rdma_read(segments.iter().copied()), REFUSED, "{wrong:?}");
                assert_eq!(adapter.sync_rdma_write(segments.into_iter()), REFUSED, "{wrong:?}");
            }
        }
        adapter.sync_rdma_write([whole, part(&region, pages.length(), 0)].into_iter()).unwrap();
        adapter.close(false).unwrap();
        assert!(adapter.sync_rdma_write([whole].into_iter()).is_err());
        other_adapter.close(false).unwrap();
    }
}

#[track_caller]
fn assert_bytes(pages: &Pages, offset: usize, length: usize, byte: u8) {
    (offset..offset + length).for_each(|at| assert_eq!(pages.read(at), byte, "at {at}"));
}

/// A server whose memory is not coherent, holding ones that its client was shown, and a client that holds twos.
fn stale() -> (Side, Side) {
    let (server, client) = connected(false);
    server.pages.fill(1);
    let whole = server.piece(0, server.pages.length());
    server.adapter.sync_rdma_read([whole].into_iter()).unwrap();
    client.pages.fill(2);
    (server, client)
}

fn remote(server: &Side, offset: u64, length: u64) -> RemoteSegment {
    far(server.region.facts().remote_context, server.piece(offset, length))
}

/// SYNC-2, SYNC-4, SYNC-7: nothing before the call, everything of the range afterwards, and nothing else.
#[test]
fn what_a_peer_writes_is_seen_when_the_program_asks_for_it() {
    let (server, client) = stale();
    let show = |offset, length| {
        server.adapter.sync_rdma_write([server.piece(offset, length)].into_iter()).unwrap();
    };
    assert_eq!(client.write(remote(&server, 1000, 300)), TransferStatus::Success);
    show(0, 1000);
    show(1300, 4096);
    assert_bytes(&server.pages, 0, server.pages.length() as usize, 1);
    show(1100, 100);
    assert_bytes(&server.pages, 1000, 100, 1);
    assert_bytes(&server.pages, 1100, 100, 2);
    assert_bytes(&server.pages, 1200, 100, 1);
    show(0, server.pages.length());
    assert_bytes(&server.pages, 1000, 300, 2);
    assert_bytes(&server.pages, 0, 1000, 1);
    assert_bytes(&server.pages, 1300, 2000, 1);
}

/// SYNC-3: on a coherent adapter it is seen at once.
#[test]
fn coherent_memory_needs_no_call() {
    let (server, client) = connected(true);
    client.pages.fill(2);
    assert_eq!(client.write(remote(&server, 1000, 300)), TransferStatus::Success);
    assert_bytes(&server.pages, 1000, 300, 2);
}

/// SYNC-4 for the other direction: a peer reads what was published.
#[test]
fn what_the_program_writes_is_read_by_peers_when_it_says_so() {
    let (server, client) = stale();
    server.pages.fill(3);
    assert_eq!(client.read(remote(&server, 0, 100)), TransferStatus::Success);
    assert_bytes(&client.pages, 0, 100, 1);
    server.adapter.sync_rdma_read([server.piece(50, 50)].into_iter()).unwrap();
    assert_eq!(client.read(remote(&server, 0, 150)), TransferStatus::Success);
    assert_bytes(&client.pages, 0, 50, 1);
    assert_bytes(&client.pages, 50, 50, 3);
    assert_bytes(&client.pages, 100, 50, 1);
}

/// SYNC-5.
#[test]
fn one_call_shows_many_writes() {
    let (server, client) = stale();
    let other = Pages::private(1);
    let zone = ProtectionZone::create(&server.adapter).unwrap();
    let base = register(&zone, &other, Privileges::ALL).unwrap();
    let here = LocalRegion::create(
        &server.adapter,
        Description::Region(Arc::clone(&base)),
        0,
        &server.zone,
        Privileges::ALL,
    )
    .unwrap();
    for offset in [0, 100, 8000] {
        assert_eq!(client.write(remote(&server, offset, 10)), TransferStatus::Success);
    }
    assert_eq!(client.write(far(here.facts().remote_context, part(&here, 5, 10))), TransferStatus::Success);
    let segments = [server.piece(0, 10), server.piece(100, 10), server.piece(8000, 10), part(&base, 5, 10)];
    server.adapter.sync_rdma_write(segments.into_iter()).unwrap();
    for offset in [0, 100, 8000] {
        assert_bytes(&server.pages, offset, 10, 2);
    }
    assert_bytes(&other, 5, 10, 2);
    assert_bytes(&other, 15, 10, 0);
}

/// SYNC-6.
#[test]
fn local_writes_and_remote_writes_take_turns() {
    let (server, client) = stale();
    for turn in 0..20 {
        let show = || server.adapter.sync_rdma_write([server.piece(0, 64)].into_iter()).unwrap();
        (0..64).for_each(|at| server.pages.write(at, 100 + turn));
        show();
        client.pages.fill(turn);
        assert_eq!(client.write(remote(&server, 16, 16)), TransferStatus::Success);
        show();
        assert_bytes(&server.pages, 0, 16, 100 + turn);
        assert_bytes(&server.pages, 16, 16, turn);
        assert_bytes(&server.pages, 32, 32, 100 + turn);
    }
}

/// SYNC-8: a refused call shows nothing, wherever the wrong segment stands.
#[test]
fn a_refused_call_shows_nothing() {
    let (server, client) = stale();
    assert_eq!(client.write(remote(&server, 0, 100)), TransferStatus::Success);
    server.pages.write(200, 9);
    let good = server.piece(0, 300);
    let wrong = server.piece(0, server.pages.length() + 1);
    for segments in [[good, wrong], [wrong, good]] {
        assert_eq!(server.adapter.sync_rdma_write(segments.into_iter()), REFUSED);
        assert_eq!(server.adapter.sync_rdma_read(segments.into_iter()), REFUSED);
    }
    assert_bytes(&server.pages, 0, 100, 1);
    assert_eq!(client.read(remote(&server, 200, 1)), TransferStatus::Success);
    assert_eq!(client.pages.read(0), 1);
    server.adapter.sync_rdma_write([good].into_iter()).unwrap();
    assert_bytes(&server.pages, 0, 100, 2);
}

/// Publishing does not lose what peers wrote meanwhile.
#[test]
fn publishing_leaves_what_peers_wrote() {
    let (server, client) = stale();
    assert_eq!(client.write(remote(&server, 40, 20)), TransferStatus::Success);
    server.pages.fill(3);
    server.adapter.sync_rdma_read([server.piece(0, 100)].into_iter()).unwrap();
    assert_eq!(client.read(remote(&server, 0, 100)), TransferStatus::Success);
    assert_bytes(&client.pages, 0, 40, 3);
    assert_bytes(&client.pages, 40, 20, 2);
    assert_bytes(&client.pages, 60, 40, 3);
    server.adapter.sync_rdma_write([server.piece(0, 100)].into_iter()).unwrap();
    assert_bytes(&server.pages, 40, 20, 2);
    assert_bytes(&server.pages, 0, 40, 3);
}

/// Sends, receives and the local side of RDMA are the program's own memory, coherent or not.
#[test]
fn operations_of_this_process_use_the_programs_memory() {
    let (server, client) = stale();
    client.post_receive(1, 0, 64).unwrap();
    server.pages.fill(4);
    server.post_send(2, 0, 64).unwrap();
    server.expect(2, TransferStatus::Success);
    client.expect(1, TransferStatus::Success);
    assert_bytes(&client.pages, 0, 64, 4);
    server.post_receive(3, 128, 64).unwrap();
    client.pages.fill(5);
    client.post_send(4, 0, 64).unwrap();
    client.expect(4, TransferStatus::Success);
    server.expect(3, TransferStatus::Success);
    assert_bytes(&server.pages, 128, 64, 5);
    assert_eq!(
        server.read(far(client.region.facts().remote_context, client.piece(0, 32))),
        TransferStatus::Success
    );
    assert_bytes(&server.pages, 0, 32, 5);
    // The adapter placed it, so it is there for peers as well.
    assert_eq!(client.read(remote(&server, 128, 64)), TransferStatus::Success);
    assert_bytes(&client.pages, 0, 64, 5);
    // And so it is no store that a call would have to follow.
    client.pages.fill(6);
    for (at, length) in [(0, 32), (128, 64)] {
        assert_eq!(client.write(remote(&server, at, length)), TransferStatus::Success);
        server.adapter.sync_rdma_write([server.piece(at, length)].into_iter()).unwrap();
        assert_bytes(&server.pages, at as usize, length as usize, 6);
    }
}

/// Regions on the same bytes, in the order in which they are made: the first covers all, the others parts, one of them twice.
fn overlapping(server: &Side) -> Vec<(Arc<LocalRegion>, u64, u64)> {
    [(0, 8192), (100, 200), (100, 200), (250, 5000)]
        .into_iter()
        .map(|(offset, length)| {
            let address = server.piece(offset, 0).address;
            let description = Description::Virtual { address: common::program(address), strong_order: false };
            let region =
                LocalRegion::create(&server.adapter, description, length, &server.zone, Privileges::ALL);
            (region.unwrap(), offset, length)
        })
        .collect()
}

/// SYNC-2, SYNC-7: caches hold memory and not regions.
#[test]
fn what_is_synchronized_through_one_region_is_so_for_all_regions_on_the_bytes() {
    for order in 0..4 {
        let (server, client) = stale();
        let mut regions = overlapping(&server);
        regions.rotate_left(order);
        let mut turn = 10;
        while regions.len() > 1 {
            for (writer, w_at, w_length) in &regions {
                for (reader, r_at, r_length) in &regions {
                    let (from, to) = (*w_at.max(r_at), (w_at + w_length).min(r_at + r_length));
                    if from >= to {
                        continue;
                    }
                    turn = turn % 100 + 10;
                    let (length, first) = ((to - from).min(64), from as usize);
                    let there = |region: &Arc<LocalRegion>, at| {
                        far(region.facts().remote_context, part(region, from - at, length))
                    };
                    client.pages.fill(turn);
                    assert_eq!(client.write(there(writer, *w_at)), TransferStatus::Success);
                    let segment = part(reader, from - r_at, length);
                    server.adapter.sync_rdma_write([segment].into_iter()).unwrap();
                    assert_bytes(&server.pages, first, length as usize, turn);
                    // The other way: stored, published through one, read through the other.
                    for publishes in [true, false] {
                        turn += 1;
                        (first..first + length as usize).for_each(|at| server.pages.write(at, turn));
                        if publishes {
                            server.adapter.sync_rdma_read([segment].into_iter()).unwrap();
                        } else {
                            server.adapter.sync_rdma_write([segment].into_iter()).unwrap();
                        }
                        assert_eq!(client.read(there(writer, *w_at)), TransferStatus::Success);
                        assert_bytes(&client.pages, 0, length as usize, turn);
                    }
                }
            }
            regions.remove(0).0.free().unwrap();
        }
    }
}

/// SYNC-2 for regions of several adapters: they are on the memory of one process.
#[test]
fn regions_of_two_adapters_have_one_memory() {
    let (server, client) = stale();
    let other = open(false);
    let zone = ProtectionZone::create(&other).unwrap();
    let region = register(&zone, &server.pages, Privileges::ALL).unwrap();
    assert_eq!(client.write(remote(&server, 100, 50)), TransferStatus::Success);
    assert_bytes(&server.pages, 100, 50, 1);
    other.sync_rdma_write([part(&region, 100, 50)].into_iter()).unwrap();
    assert_bytes(&server.pages, 100, 50, 2);
    server.region.free().unwrap();
    other.sync_rdma_write([part(&region, 0, 500)].into_iter()).unwrap();
    assert_bytes(&server.pages, 100, 50, 2);
    assert_bytes(&server.pages, 150, 350, 1);
}

/// SYNC-6, SYNC-7: after the call a peer's read sees the store, and a peer's write is safe from it.
#[test]
fn after_a_store_and_the_call_both_sides_see_the_same() {
    let (server, client) = stale();
    server.pages.fill(3);
    server.adapter.sync_rdma_write([server.piece(0, 300)].into_iter()).unwrap();
    assert_eq!(client.read(remote(&server, 0, 400)), TransferStatus::Success);
    assert_bytes(&client.pages, 0, 300, 3);
    assert_bytes(&client.pages, 300, 100, 1);
    assert_eq!(client.write(remote(&server, 0, 300)), TransferStatus::Success);
    server.adapter.sync_rdma_write([server.piece(0, 300)].into_iter()).unwrap();
    assert_bytes(&server.pages, 0, 300, 3);
}

/// SYNC-6: a store, no call, a peer's write: cache lines go back over the peer's bytes.
#[test]
fn a_store_without_the_call_before_a_write_costs_the_peers_bytes() {
    let (server, client) = stale();
    server.pages.fill(3);
    assert_eq!(client.write(remote(&server, 1000, 1000)), TransferStatus::Success);
    server.adapter.sync_rdma_write([server.piece(0, 4096)].into_iter()).unwrap();
    let lost: Vec<usize> = (1000..2000).filter(|at| server.pages.read(*at) == 3).collect();
    assert!(!lost.is_empty(), "no byte of the peer's was lost");
    let rest = (1000..2000).filter(|at| !lost.contains(at));
    rest.for_each(|at| assert_eq!(server.pages.read(at), 2, "at {at}"));
    assert_bytes(&server.pages, 0, 1000, 3);
    assert_bytes(&server.pages, 2000, 1000, 3);
    // Both sides have the same wreck, and a program that calls from now on is well.
    assert_eq!(client.read(remote(&server, 0, 4096)), TransferStatus::Success);
    (0..4096).for_each(|at| assert_eq!(client.pages.read(at), server.pages.read(at), "at {at}"));
    client.pages.fill(7);
    assert_eq!(client.write(remote(&server, 1000, 1000)), TransferStatus::Success);
    server.adapter.sync_rdma_write([server.piece(0, 4096)].into_iter()).unwrap();
    assert_bytes(&server.pages, 1000, 1000, 7);
}

/// SYNC-6: a peer's write, no call, a store: the line goes back over the peer's bytes, or the store is lost.
#[test]
fn a_store_without_the_call_after_a_write_costs_one_of_the_two() {
    for whole in [false, true] {
        let (server, client) = stale();
        let length = if whole { 16 } else { 1000 };
        assert_eq!(client.write(remote(&server, 1000, length)), TransferStatus::Success);
        (1000..1016).for_each(|at| server.pages.write(at, 3));
        server.adapter.sync_rdma_write([server.piece(0, 4096)].into_iter()).unwrap();
        let as_believed =
            (1000..1000 + length as usize).all(|at| server.pages.read(at) == if at < 1016 { 3 } else { 2 });
        assert!(!as_believed, "the program found what it believed in");
        assert_bytes(&server.pages, 0, 1000, 1);
        assert_bytes(&server.pages, 2000, 1000, 1);
    }
}

/// SYNC-6, SYNC-7: who stores and who writes beside each other, in one line, do not meet.
#[test]
fn stores_beside_a_write_are_no_omission() {
    let (server, client) = stale();
    for at in (0..4096).step_by(16) {
        (at..at + 8).for_each(|at| server.pages.write(at, 3));
        assert_eq!(client.write(remote(&server, at as u64 + 8, 8)), TransferStatus::Success);
    }
    server.adapter.sync_rdma_write([server.piece(0, 4096)].into_iter()).unwrap();
    for at in (0..4096).step_by(16) {
        assert_bytes(&server.pages, at, 8, 3);
        assert_bytes(&server.pages, at + 8, 8, 2);
    }
}

/// What was not asked for is lost with its region, and memory registered anew is what it is.
#[test]
fn freeing_a_region_drops_what_was_not_shown() {
    let (server, client) = stale();
    assert_eq!(client.write(remote(&server, 0, 64)), TransferStatus::Success);
    server.region.free().unwrap();
    assert_bytes(&server.pages, 0, 64, 1);
    let again = register(&server.zone, &server.pages, Privileges::ALL).unwrap();
    server.adapter.sync_rdma_write([part(&again, 0, 64)].into_iter()).unwrap();
    assert_bytes(&server.pages, 0, 64, 1);
    assert_eq!(client.read(far(again.facts().remote_context, part(&again, 0, 64))), TransferStatus::Success);
    assert_bytes(&client.pages, 0, 64, 1);
}

/// SYNC-9: calls, writes of peers and frees from many threads at once: after its own call each thread sees what was written
/// before it, and nothing beside it has changed.
#[test]
fn synchronizing_from_many_threads_is_safe() {
    let (server, client) = stale();
    let length = server.pages.length();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    server.adapter.sync_rdma_write([server.piece(0, length)].into_iter()).unwrap();
                    server.adapter.sync_rdma_read([server.piece(0, length)].into_iter()).unwrap();
                    let region = register(&server.zone, &server.pages, Privileges::ALL).unwrap();
                    server.adapter.sync_rdma_write([part(&region, 0, 10)].into_iter()).unwrap();
                    region.free().unwrap();
                }
            });
        }
        for turn in 0..200 {
            client.pages.fill(turn);
            assert_eq!(client.write(remote(&server, 100, 5000)), TransferStatus::Success);
            server.adapter.sync_rdma_write([server.piece(100, 5000)].into_iter()).unwrap();
            assert_bytes(&server.pages, 100, 5000, turn);
        }
    });
    server.adapter.sync_rdma_write([server.piece(0, length)].into_iter()).unwrap();
    assert_bytes(&server.pages, 0, 100, 1);
    assert_bytes(&server.pages, 5100, length as usize - 5100, 1);
}

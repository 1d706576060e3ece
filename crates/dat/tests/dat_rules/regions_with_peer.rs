//! Local memory regions as peers and data transfer operations see them: `dat_lmr_create(3)`, `dat_lmr_free(3)`.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, mpsc};

use crate::common;
use crate::common::peers::{PLAIN, Side, connect, connect_endpoints, connected, expect_broken, far};
use crate::common::{Pages, part, register};
use nonic_dat::{
    ConnectionEvent, Description, LocalRegion, Privileges, ProtectionZone, Segment, TransferStatus,
};

#[track_caller]
fn assert_bytes(pages: &Pages, offset: usize, length: usize, byte: u8) {
    (offset..offset + length).for_each(|at| assert_eq!(pages.read(at), byte, "at {at}"));
}

fn show(server: &Side, segment: Segment) {
    server.adapter.sync_rdma_write(std::iter::once(segment)).unwrap();
}

fn publish(server: &Side, segment: Segment) {
    server.adapter.sync_rdma_read(std::iter::once(segment)).unwrap();
}

/// LMR-8, LMR-9, LMR-12: a peer can do what the privileges say, and nothing moves otherwise.
#[test]
fn peers_can_do_what_the_privileges_say() {
    for coherent in [true, false] {
        for bits in [0, 0x02, 0x11, 0x12, 0x13, 0x20, 0x22, 0x31, 0x33] {
            let privileges = Privileges::from_bits(bits).unwrap();
            for write in [false, true] {
                let (server, client) = connected(coherent);
                let pages = Pages::private(2);
                pages.fill(1);
                let region = register(&server.zone, &pages, privileges).unwrap();
                client.pages.fill(2);
                let facts = region.facts();
                // Without any remote privilege there is no context; the local one is not for peers.
                let contexts = match facts.remote_context {
                    0 => vec![facts.local_context, facts.local_context ^ 1],
                    context => vec![context],
                };
                let segment = part(&region, 100, 300);
                let needed = if write { Privileges::REMOTE_WRITE } else { Privileges::REMOTE_READ };
                let allowed = privileges.contains(needed);
                let wanted = if allowed { TransferStatus::Success } else { TransferStatus::RemoteAccess };
                let remote = far(contexts[0], segment);
                let status = if write { client.write(remote) } else { client.read(remote) };
                assert_eq!(status, wanted, "{bits:#x}, write {write}");
                show(&server, segment);
                assert_bytes(&pages, 100, 300, if write && allowed { 2 } else { 1 });
                assert_bytes(&client.pages, 0, 300, if !write && allowed { 1 } else { 2 });
                assert_bytes(&pages, 400, 100, 1);
                if !allowed {
                    expect_broken(&server, &client);
                }
            }
        }
    }
}

/// LMR-11, LMR-13: for sends, receives and the local side of RDMA.
#[test]
fn the_zone_of_a_region_restricts_local_use() {
    for coherent in [true, false] {
        for operation in 0..4 {
            let (server, client) = connected(coherent);
            let other_zone = ProtectionZone::create(&server.adapter).unwrap();
            let foreign = register(&other_zone, &server.pages, Privileges::ALL).unwrap();
            let pieces = || std::iter::once(part(&foreign, 0, 32));
            let target = client.piece(64, 32);
            let remote = far(client.region.facts().remote_context, target);
            client.pages.fill(4);
            match operation {
                0 => server.endpoint.post_send(pieces(), 7, PLAIN).unwrap(),
                1 => {
                    server.endpoint.post_receive(pieces(), 7, PLAIN).unwrap();
                    client.post_send(1, 0, 32).unwrap();
                }
                2 => server.endpoint.post_rdma_write(pieces(), 7, remote, PLAIN).unwrap(),
                _ => server.endpoint.post_rdma_read(pieces(), 7, remote, PLAIN).unwrap(),
            }
            server.expect(7, TransferStatus::LocalProtection);
            assert_bytes(&server.pages, 0, 32, 0);
            assert_bytes(&client.pages, 0, 128, 4);
            assert_eq!(server.connection_event(), ConnectionEvent::Broken);
            assert_eq!(client.connection_event(), ConnectionEvent::Broken);
        }
    }
}

/// LMR-11: receives and the target of RDMA reads need local write; sends and the source of RDMA writes need nothing.
#[test]
fn local_write_is_what_local_use_can_lack() {
    for coherent in [true, false] {
        for (privileges, writable) in [
            (Privileges::NONE, false),
            (Privileges::LOCAL_READ | Privileges::REMOTE, false),
            (Privileges::LOCAL_WRITE, true),
        ] {
            let (server, client) = connected(coherent);
            let region = register(&server.zone, &server.pages, privileges).unwrap();
            let pieces = || std::iter::once(part(&region, 0, 32));
            let remote = far(client.region.facts().remote_context, client.piece(64, 32));
            server.pages.fill(3);
            client.post_receive(5, 0, 32).unwrap();
            server.endpoint.post_send(pieces(), 6, PLAIN).unwrap();
            server.expect(6, TransferStatus::Success);
            client.expect(5, TransferStatus::Success);
            server.endpoint.post_rdma_write(pieces(), 7, remote, PLAIN).unwrap();
            server.expect(7, TransferStatus::Success);
            assert_bytes(&client.pages, 64, 32, 3);
            client.pages.fill(8);
            server.endpoint.post_rdma_read(pieces(), 8, remote, PLAIN).unwrap();
            let wanted = if writable { TransferStatus::Success } else { TransferStatus::LocalProtection };
            server.expect(8, wanted);
            assert_bytes(&server.pages, 0, 32, if writable { 8 } else { 3 });
        }
    }
}

/// LMR-14: for the peers of every connection of the zone.
#[test]
fn a_freed_region_is_reached_by_nobody() {
    for coherent in [true, false] {
        for write in [false, true] {
            let (server, client) = connected(coherent);
            let (second, far_second) = (server.endpoint_of(&server.zone), client.endpoint_of(&client.zone));
            connect_endpoints((&server, &second), (&client, &far_second));
            let pages = Pages::private(1);
            pages.fill(1);
            client.pages.fill(2);
            let region = register(&server.zone, &pages, Privileges::ALL).unwrap();
            let context = region.facts().remote_context;
            let segment = part(&region, 0, 64);
            publish(&server, segment);
            assert_eq!(client.read(far(context, segment)), TransferStatus::Success);
            client.pages.fill(2);
            region.free().unwrap();
            for endpoint in [&client.endpoint, &far_second] {
                let (pieces, remote) = (std::iter::once(client.piece(0, 64)), far(context, segment));
                match write {
                    true => endpoint.post_rdma_write(pieces, 9, remote, PLAIN).unwrap(),
                    false => endpoint.post_rdma_read(pieces, 9, remote, PLAIN).unwrap(),
                }
                client.expect(9, TransferStatus::RemoteAccess);
                expect_broken(&server, &client);
            }
            assert_bytes(&pages, 0, 64, 1);
            assert_bytes(&client.pages, 0, 64, 2);
        }
    }
}

/// LMR-14: for local use.
#[test]
fn a_freed_region_is_no_source() {
    let (server, client) = connected(true);
    let region = register(&server.zone, &server.pages, Privileges::ALL).unwrap();
    let piece = part(&region, 0, 8);
    region.free().unwrap();
    client.post_receive(1, 0, 8).unwrap();
    server.endpoint.post_send(std::iter::once(piece), 2, PLAIN).unwrap();
    server.expect(2, TransferStatus::LocalProtection);
    client.expect(1, TransferStatus::Flushed);
}

/// LMR-4: privileges and zone of each count, and the memory is one.
#[test]
fn regions_on_a_region_reach_the_same_bytes_by_their_own_rights() {
    for coherent in [true, false] {
        let (server, client) = connected(coherent);
        let zone = ProtectionZone::create(&server.adapter).unwrap();
        let pages = Pages::private(2);
        let base = register(&zone, &pages, Privileges::NONE).unwrap();
        let on = |base: &Arc<LocalRegion>, privileges| {
            let description = Description::Region(Arc::clone(base));
            LocalRegion::create(&server.adapter, description, 0, &server.zone, privileges).unwrap()
        };
        let writes = on(&base, Privileges::REMOTE_WRITE | Privileges::LOCAL_WRITE);
        let reads = on(&writes, Privileges::REMOTE_READ);
        base.free().unwrap();
        client.pages.fill(6);
        let segment = part(&writes, 500, 700);
        let remote = far(writes.facts().remote_context, segment);
        assert_eq!(client.write(remote), TransferStatus::Success);
        client.pages.fill(0);
        // Peers see through one region what they wrote through the other, synchronized or not.
        let remote = far(reads.facts().remote_context, part(&reads, 500, 700));
        assert_eq!(client.read(remote), TransferStatus::Success);
        assert_bytes(&client.pages, 0, 700, 6);
        // The book of what was written is the memory's, too.
        show(&server, part(&reads, 500, 700));
        assert_bytes(&pages, 500, 700, 6);
        writes.free().unwrap();
        assert_eq!(client.read(remote), TransferStatus::Success);
        let remote = far(reads.facts().remote_context, part(&reads, 500, 700));
        assert_eq!(client.write(remote), TransferStatus::RemoteAccess);
        assert_bytes(&pages, 500, 700, 6);
    }
}

/// LMR-15: read before anybody wrote to it, and written before the program did.
#[test]
fn memory_that_nobody_has_touched_is_read_and_written() {
    for coherent in [true, false] {
        let (server, client) = connected(coherent);
        let pages = Pages::private(64);
        let region = register(&server.zone, &pages, Privileges::ALL).unwrap();
        let reach = |page: u64| far(region.facts().remote_context, part(&region, page * 4096 + 8, 100));
        client.pages.fill(9);
        assert_eq!(client.read(reach(1)), TransferStatus::Success);
        assert_bytes(&client.pages, 0, 100, 0);
        client.pages.fill(9);
        for page in (2..64).step_by(7) {
            assert_eq!(client.write(reach(page)), TransferStatus::Success);
        }
        show(&server, part(&region, 0, pages.length()));
        for page in (2..64).step_by(7) {
            assert_bytes(&pages, page * 4096, 8, 0);
            assert_bytes(&pages, page * 4096 + 8, 100, 9);
            assert_bytes(&pages, page * 4096 + 108, 100, 0);
        }
    }
}

/// LMR-5: two adapters have one memory at two addresses.
#[test]
fn what_is_written_to_shared_memory_is_seen_by_all_who_share_it() {
    let (server, client) = connected(true);
    let neighbour = Side::new(true);
    let file = Pages::file(2);
    let (one, other) = (Pages::of_file(2, file), Pages::of_file(2, file));
    // SAFETY: the mappings keep the file.
    unsafe { libc::close(file) };
    let create = |side: &Side, pages: &Pages| {
        let description =
            Description::Shared { address: common::program(pages.address()), cookie: common::own_cookie(9) };
        let zone = &side.zone;
        LocalRegion::create(&side.adapter, description, pages.length(), zone, Privileges::ALL).unwrap()
    };
    let (first, second) = (create(&server, &one), create(&neighbour, &other));
    client.pages.fill(7);
    let remote = far(first.facts().remote_context, part(&first, 10, 100));
    assert_eq!(client.write(remote), TransferStatus::Success);
    assert_bytes(&other, 10, 100, 7);
    // The neighbour's region is not the server's to give away.
    let remote = far(second.facts().remote_context, part(&second, 10, 100));
    assert_eq!(client.read(remote), TransferStatus::RemoteAccess);
}

/// LMR-3: a program that sees the last byte of a write sees all of it. Each write begins while the program looks.
#[test]
fn bytes_of_a_write_become_visible_in_ascending_order() {
    const WRITES: u32 = 500;
    let (server, client) = (Side::new(true), Side::new(true));
    connect(&server, &client);
    let pages = Pages::private(16);
    let description = Description::Virtual { address: common::program(pages.address()), strong_order: true };
    let region =
        LocalRegion::create(&server.adapter, description, pages.length(), &server.zone, Privileges::ALL)
            .unwrap();
    let source = Pages::private(16);
    let from = register(&client.zone, &source, Privileges::NONE).unwrap();
    let remote = far(region.facts().remote_context, part(&region, 0, pages.length()));
    let end = pages.length() as usize - 1;
    let before_it = [0, 1, 63, 64, 4096, end / 2, end - 64, end - 1];
    let seen = AtomicU32::new(0);
    let (writing, written) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Ends the reader if this thread fails.
        let _writing = writing;
        let seen = &seen;
        let pages = &pages;
        let reader = scope.spawn(move || {
            let mut last = 0;
            while last < WRITES && written.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
                last += u32::from(pages.read(end).wrapping_sub(last as u8));
                fence(Ordering::Acquire);
                for at in before_it {
                    // The next write may be under way.
                    let newer = pages.read(at).wrapping_sub(last as u8);
                    assert!(newer <= 1, "the byte at {at} came after the last of write {last}");
                }
                seen.store(last, Ordering::Release);
            }
        });
        for turn in 1..=WRITES {
            // The reader has looked at the whole write before.
            while seen.load(Ordering::Acquire) < turn - 1 && !reader.is_finished() {
                std::thread::yield_now();
            }
            if reader.is_finished() {
                break;
            }
            before_it.iter().chain([&end]).for_each(|at| source.write(*at, turn as u8));
            let piece = std::iter::once(part(&from, 0, source.length()));
            client.endpoint.post_rdma_write(piece, turn.into(), remote, PLAIN).unwrap();
            client.expect(turn.into(), TransferStatus::Success);
        }
        reader.join().unwrap();
    });
}

/// LMR-3: the same without chance. What is written over its own source, a page below, arrives whole only in ascending order.
#[test]
fn a_write_over_its_own_source_goes_from_the_first_byte_to_the_last() {
    let (server, client) = connected(true);
    let pages = Pages::private(16);
    let region = register(&server.zone, &pages, Privileges::ALL).unwrap();
    let from = register(&client.zone, &pages, Privileges::NONE).unwrap();
    let byte = |at: usize| (at / 61) as u8;
    (0..16 * 4096).for_each(|at| pages.write(at, byte(at)));
    let length = 15 * 4096;
    let remote = far(region.facts().remote_context, part(&region, 0, length));
    client.endpoint.post_rdma_write(std::iter::once(part(&from, 4096, length)), 1, remote, PLAIN).unwrap();
    client.expect(1, TransferStatus::Success);
    (0..length as usize).for_each(|at| assert_eq!(pages.read(at), byte(at + 4096), "at {at}"));
}

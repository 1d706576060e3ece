//! Memory that is not coherent with what peers see of it.

use std::sync::Arc;

use crate::common;
use crate::common::{End, connected};
use nonic_device::{
    Access, AddressRange, Operation, ReceiveRequest, Region, RegionMemory, RegionRequest, RemoteRange,
    SendFlags, SendRequest, Status, WindowKind,
};

/// Every right a shadow can give.
fn everything() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE | Access::WINDOW_BIND
}

/// A shadow over the buffer of an end.
fn shadow(end: &End) -> Arc<Region> {
    end.region.shadow(&end.zone, everything(), None).unwrap()
}

fn address(end: &End, offset: u64) -> u64 {
    end.buffer.as_ptr() as u64 + offset
}

fn range(end: &End, offset: u64, length: u64) -> AddressRange {
    AddressRange::new(address(end, offset), length)
}

/// The bytes of an end's buffer, which the device writes behind the compiler's back.
fn bytes(end: &End, offset: usize, length: usize) -> Vec<u8> {
    (offset..offset + length)
        // SAFETY: inside the buffer.
        .map(|at| unsafe { end.buffer.as_ptr().add(at).read_volatile() })
        .collect()
}

fn fill(end: &End, offset: usize, with: &[u8]) {
    for (at, byte) in with.iter().enumerate() {
        // SAFETY: inside the buffer; the ends of these tests own theirs, and nobody holds a reference.
        unsafe { end.buffer.as_ptr().cast_mut().add(offset + at).write_volatile(*byte) };
    }
}

fn carry_out(end: &End, operation: Operation, offset: usize, length: u32) -> Status {
    end.post(1, operation, &[end.piece(offset, length)]);
    end.completion().status
}

fn write(end: &End, peer: &End, key: &Region, to: u64, with: &[u8]) -> Status {
    fill(end, 0, with);
    let remote = RemoteRange { address: address(peer, to), key: key.remote_key() };
    carry_out(end, Operation::Write { remote, immediate: None }, 0, with.len() as u32)
}

fn read(end: &End, peer: &End, key: &Region, from: u64, length: u32) -> Vec<u8> {
    let remote = RemoteRange { address: address(peer, from), key: key.remote_key() };
    assert_eq!(carry_out(end, Operation::Read { remote }, 2048, length), Status::Success);
    bytes(end, 2048, length as usize)
}

#[test]
fn a_write_is_invisible_until_it_is_shown_and_then_only_where_it_is_shown() {
    let (client, server) = connected();
    fill(&server, 0, &[1; 100]);
    let region = shadow(&server);
    assert_eq!(write(&client, &server, &region, 10, b"hello, world"), Status::Success);
    assert_eq!(bytes(&server, 0, 100), [1; 100]);
    // Peers see it at once.
    assert_eq!(read(&client, &server, &region, 8, 16), b"\x01\x01hello, world\x01\x01");
    assert!(region.synchronize(range(&server, 0, 15)));
    assert_eq!(bytes(&server, 8, 9), b"\x01\x01hello\x01\x01");
    // What the program writes there now stays, since it was shown.
    fill(&server, 10, b"HELLO");
    assert!(region.synchronize(range(&server, 0, 4096)));
    assert_eq!(bytes(&server, 8, 16), b"\x01\x01HELLO, world\x01\x01");
    assert!(region.synchronize(range(&server, 0, 0)));
}

#[test]
fn what_the_program_writes_is_invisible_to_peers_until_it_is_published() {
    let (client, server) = connected();
    fill(&server, 0, b"before");
    let region = shadow(&server);
    assert_eq!(write(&client, &server, &region, 2, b"--"), Status::Success);
    fill(&server, 0, b"BE");
    fill(&server, 4, b"RE");
    assert_eq!(read(&client, &server, &region, 0, 6), b"be--re");
    assert!(region.publish(range(&server, 1, 4)));
    assert_eq!(read(&client, &server, &region, 0, 6), b"bE--Re");
    // What was not shown yet was not overwritten.
    assert!(region.synchronize(range(&server, 0, 6)));
    assert_eq!(bytes(&server, 0, 6), b"BE--RE");
}

#[test]
fn every_operation_of_a_peer_meets_the_shadow() {
    let (client, server) = connected();
    let region = shadow(&server);
    let remote = RemoteRange { address: address(&server, 64), key: region.remote_key() };
    for (operation, seen) in [
        (Operation::FetchAdd { remote, add: 5 }, 0u64),
        (Operation::CompareSwap { remote, compare: 5, swap: 9 }, 5),
        (Operation::FetchAdd { remote, add: 0 }, 9),
    ] {
        assert_eq!(carry_out(&client, operation, 128, 8), Status::Success);
        assert_eq!(bytes(&client, 128, 8), seen.to_ne_bytes());
    }
    assert_eq!(bytes(&server, 64, 8), [0; 8]);
    server.post_receive(4);
    let operation = Operation::Write {
        remote: RemoteRange { address: address(&server, 512), ..remote },
        immediate: Some(3),
    };
    fill(&client, 0, &[7; 300]);
    assert_eq!(carry_out(&client, operation, 0, 300), Status::Success);
    assert_eq!(server.completion().immediate, Some(3));
    assert_eq!(bytes(&server, 512, 300), [0; 300]);
    assert!(region.synchronize(range(&server, 0, 4096)));
    assert_eq!(
        (bytes(&server, 64, 8), bytes(&server, 512, 300)),
        (9u64.to_ne_bytes().to_vec(), vec![7; 300])
    );
}

#[test]
fn a_shadow_is_refused_to_whom_it_is_not_given_and_nothing_moves() {
    for beyond in [false, true] {
        let (client, server) = connected();
        let region = server.region.shadow(&server.zone, Access::REMOTE_READ, None).unwrap();
        let to = if beyond { 4090 } else { 0 };
        assert_eq!(write(&client, &server, &region, to, b"12345678"), Status::RemoteAccess);
        assert!(region.synchronize(range(&server, 0, 4096)));
        assert_eq!(bytes(&server, 0, 4096), [0; 4096]);
    }
}

#[test]
fn the_local_key_of_a_shadow_leads_nowhere() {
    let (client, server) = connected();
    let region = shadow(&client);
    let piece =
        nonic_device::ScatterGather { address: address(&client, 0), length: 8, key: region.local_key() };
    client.post(
        1,
        Operation::Write {
            remote: RemoteRange { address: address(&server, 0), key: server.region.remote_key() },
            immediate: None,
        },
        &[piece],
    );
    assert_eq!(client.completion().status, Status::LocalProtection);
}

#[test]
fn a_range_outside_moves_nothing_and_a_region_without_a_shadow_has_none() {
    let (client, server) = connected();
    let region = shadow(&server);
    assert_eq!(write(&client, &server, &region, 0, b"x"), Status::Success);
    fill(&server, 100, b"y");
    for wrong in [
        AddressRange::new(address(&server, 0) - 1, 8),
        AddressRange::new(address(&server, 0), 4097),
        AddressRange::new(address(&server, 8), u64::MAX),
        AddressRange::new(0, 1),
    ] {
        assert!(!region.synchronize(wrong) && !region.publish(wrong));
    }
    assert_eq!(bytes(&server, 0, 1), [0]);
    assert_eq!(read(&client, &server, &region, 100, 1), [0]);
    assert!(!server.region.synchronize(range(&server, 0, 1)));
    assert!(region.shadow(&server.zone, everything(), None).is_err());
    region.deregister().unwrap();
    assert!(!region.synchronize(range(&server, 0, 1)));
}

#[test]
fn regions_share_a_shadow_and_it_lasts_as_long_as_one_of_them() {
    let (client, server) = connected();
    let region = shadow(&server);
    let shared = region.share(&server.zone, everything()).unwrap();
    server.region.deregister().unwrap();
    assert_eq!(write(&client, &server, &region, 0, b"one"), Status::Success);
    region.deregister().unwrap();
    assert_eq!(read(&client, &server, &shared, 0, 3), b"one");
    assert!(shared.synchronize(range(&server, 0, 3)));
    assert_eq!(bytes(&server, 0, 3), b"one");
}

#[test]
fn a_window_leads_to_the_shadow() {
    let (client, server) = connected();
    let region = shadow(&server);
    let window = server.zone.allocate_window(WindowKind::Type1).unwrap();
    let key = window.next_key();
    let operation = Operation::Bind {
        window: window.id(),
        key,
        region: Some(region.local_key()),
        address: address(&server, 100),
        length: 50,
        access: Access::REMOTE_WRITE,
        zero_based: false,
    };
    let request =
        SendRequest { id: 9, operation, flags: SendFlags::default(), pieces: &[], destination: None };
    // SAFETY: there are no pieces.
    unsafe { server.pair.post_send(&request).unwrap() };
    server.pair.ring_doorbell();
    assert_eq!(server.completion().status, Status::Success);
    fill(&client, 0, b"through");
    let remote = RemoteRange { address: address(&server, 120), key };
    assert_eq!(carry_out(&client, Operation::Write { remote, immediate: None }, 0, 7), Status::Success);
    assert_eq!(bytes(&server, 120, 7), [0; 7]);
    assert!(region.deregister().is_err(), "a window is bound to it");
    assert!(region.synchronize(range(&server, 100, 50)));
    assert_eq!(bytes(&server, 120, 7), b"through");
}

#[test]
fn a_byte_has_one_shadow_whatever_regions_are_on_it_and_in_whatever_order_they_go() {
    for turn in 0..6 {
        let (client, server) = connected();
        let base = address(&server, 100);
        let memory = RegionMemory::Program { address: common::program(base as usize), length: 200 };
        let plain = server.zone.register(RegionRequest { memory, base, access: everything() }).unwrap();
        let mut regions =
            [shadow(&server), plain.shadow(&server.zone, everything(), None).unwrap(), shadow(&server)];
        regions.rotate_left(turn % 3);
        if turn > 2 {
            regions.swap(0, 1);
        }
        for turn in (1..=3).rev() {
            let (writer, other) = (&regions[0], &regions[turn - 1]);
            let byte = turn as u8;
            assert_eq!(write(&client, &server, writer, 150, &[byte; 50]), Status::Success);
            assert_eq!(read(&client, &server, other, 150, 50), [byte; 50]);
            assert!(other.synchronize(range(&server, 150, 50)));
            assert_eq!(bytes(&server, 150, 50), [byte; 50]);
            fill(&server, 160, &[byte + 10; 20]);
            assert!(writer.publish(range(&server, 160, 20)));
            assert_eq!(read(&client, &server, other, 160, 20), [byte + 10; 20]);
            regions[turn - 1].deregister().unwrap();
        }
        plain.deregister().unwrap();
    }
}

#[test]
fn what_the_device_itself_places_is_seen_by_the_program_and_its_peers() {
    let (client, server) = connected();
    let region = shadow(&server);
    // A peer's write that the message overtakes, and one beside it.
    assert_eq!(write(&client, &server, &region, 1000, b"older"), Status::Success);
    assert_eq!(write(&client, &server, &region, 600, b"unseen"), Status::Success);
    fill(&server, 1000, b"local");
    for length in [5, 2000] {
        let request = ReceiveRequest { id: 3, pieces: &[server.piece(1000, 2000)] };
        server.pair.post_receive(&request).unwrap();
        fill(&client, 0, &[b'm'; 2000]);
        assert_eq!(carry_out(&client, Operation::Send { immediate: None }, 0, length), Status::Success);
        assert_eq!(server.completion().status, Status::Success);
        assert_eq!(bytes(&server, 1000, length as usize), vec![b'm'; length as usize]);
        assert_eq!(read(&client, &server, &region, 1000, length), vec![b'm'; length as usize]);
    }
    let remote = RemoteRange { address: address(&client, 8), key: client.region.remote_key() };
    for (operation, at) in [
        (Operation::Read { remote }, 1200),
        (Operation::FetchAdd { remote, add: 1 }, 1240),
        (Operation::CompareSwap { remote, compare: 0, swap: 0 }, 1280),
    ] {
        fill(&server, at, b"--------");
        assert_eq!(carry_out(&server, operation, at, 8), Status::Success);
        let seen = bytes(&server, at, 8);
        assert_ne!(seen, b"--------");
        assert_eq!(read(&client, &server, &region, at as u64, 8), seen);
    }
    assert!(region.synchronize(range(&server, 0, 4096)));
    assert_eq!(bytes(&server, 600, 6), b"unseen");
    assert_eq!(bytes(&server, 1000, 5), b"mmmmm", "the write is not shown after what came later");
}

#[test]
fn a_store_that_meets_a_write_without_a_call_costs_one_of_them() {
    let (client, server) = connected();
    let region = shadow(&server);
    // Stored, and not made consistent before the write.
    fill(&server, 0, &[1; 256]);
    assert_eq!(write(&client, &server, &region, 0, &[2; 256]), Status::Success);
    assert!(region.synchronize(range(&server, 0, 256)));
    assert!(bytes(&server, 0, 256).contains(&1), "the peer's bytes came through");
    // Made consistent, which peers see, and which harms nothing.
    fill(&server, 0, &[3; 256]);
    assert!(region.synchronize(range(&server, 0, 256)));
    assert_eq!(read(&client, &server, &region, 0, 256), [3; 256]);
    assert_eq!(write(&client, &server, &region, 0, &[4; 256]), Status::Success);
    assert!(region.synchronize(range(&server, 0, 256)));
    assert_eq!(bytes(&server, 0, 256), [4; 256]);
    // Written, and not made consistent before the store.
    assert_eq!(write(&client, &server, &region, 0, &[5; 256]), Status::Success);
    fill(&server, 100, &[6; 8]);
    assert!(region.synchronize(range(&server, 0, 256)));
    let mut believed = [5; 256];
    believed[100..108].fill(6);
    assert_ne!(bytes(&server, 0, 256), believed);
}

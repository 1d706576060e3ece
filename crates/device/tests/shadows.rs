//! Memory that is not coherent with what peers see of it.

mod common;

use std::sync::Arc;

use common::{End, connected};
use nonic_device::{
    Access, AddressRange, Operation, Region, RegionMemory, RegionRequest, RemoteRange, SendFlags,
    SendRequest, Status, WindowKind,
};

/// Every right a shadow can give.
fn everything() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE | Access::WINDOW_BIND
}

/// A shadow over the buffer of an end.
fn shadow(end: &End) -> Arc<Region> {
    end.region.shadow(&end.zone, everything()).unwrap()
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
    assert!(region.show_writes(range(&server, 0, 15)));
    assert_eq!(bytes(&server, 8, 9), b"\x01\x01hello\x01\x01");
    // What the program writes there now stays, since it was shown.
    fill(&server, 10, b"HELLO");
    assert!(region.show_writes(range(&server, 0, 4096)));
    assert_eq!(bytes(&server, 8, 16), b"\x01\x01HELLO, world\x01\x01");
    assert!(region.show_writes(range(&server, 0, 0)));
}

#[test]
fn what_the_program_writes_is_invisible_to_peers_until_it_is_published() {
    let (client, server) = connected();
    fill(&server, 0, b"before");
    let region = shadow(&server);
    fill(&server, 0, b"BEFORE");
    assert_eq!(read(&client, &server, &region, 0, 6), b"before");
    assert_eq!(write(&client, &server, &region, 2, b"--"), Status::Success);
    assert!(region.publish(range(&server, 1, 4)));
    assert_eq!(read(&client, &server, &region, 0, 6), b"bE--Re");
    // What was not shown yet was not overwritten.
    assert!(region.show_writes(range(&server, 0, 6)));
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
    assert!(region.show_writes(range(&server, 0, 4096)));
    assert_eq!(
        (bytes(&server, 64, 8), bytes(&server, 512, 300)),
        (9u64.to_ne_bytes().to_vec(), vec![7; 300])
    );
}

#[test]
fn a_shadow_is_refused_to_whom_it_is_not_given_and_nothing_moves() {
    for beyond in [false, true] {
        let (client, server) = connected();
        let region = server.region.shadow(&server.zone, Access::REMOTE_READ).unwrap();
        let to = if beyond { 4090 } else { 0 };
        assert_eq!(write(&client, &server, &region, to, b"12345678"), Status::RemoteAccess);
        assert!(region.show_writes(range(&server, 0, 4096)));
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
        assert!(!region.show_writes(wrong) && !region.publish(wrong));
    }
    assert_eq!(bytes(&server, 0, 1), [0]);
    assert_eq!(read(&client, &server, &region, 100, 1), [0]);
    assert!(!server.region.show_writes(range(&server, 0, 1)));
    assert!(region.shadow(&server.zone, everything()).is_err());
    region.deregister().unwrap();
    assert!(!region.show_writes(range(&server, 0, 1)));
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
    assert!(shared.show_writes(range(&server, 0, 3)));
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
    assert!(region.show_writes(range(&server, 100, 50)));
    assert_eq!(bytes(&server, 120, 7), b"through");
}

#[test]
fn what_is_shown_costs_what_was_written_and_not_the_range() {
    const LENGTH: usize = 64 << 20;
    let (client, server) = connected();
    let mut big = vec![1u8; LENGTH];
    let base = big.as_mut_ptr() as u64;
    let memory = RegionMemory::Program { address: base as usize, length: LENGTH };
    let plain = server.zone.register(RegionRequest { memory, base, access: everything() }).unwrap();
    let region = plain.shadow(&server.zone, everything()).unwrap();
    let whole = AddressRange::new(base, LENGTH as u64);
    let time = |run: &dyn Fn()| {
        let began = std::time::Instant::now();
        run();
        began.elapsed()
    };
    fill(&client, 0, b"12345678");
    let remote = RemoteRange { address: base + (LENGTH as u64) / 2, key: region.remote_key() };
    assert_eq!(carry_out(&client, Operation::Write { remote, immediate: None }, 0, 8), Status::Success);
    let whole_range = time(&|| assert!(region.publish(whole)));
    let few_bytes = time(&|| assert!(region.show_writes(whole)));
    assert!(
        few_bytes * 20 < whole_range,
        "8 bytes shown in {few_bytes:?}, 64 MiB published in {whole_range:?}"
    );
    region.deregister().unwrap();
    plain.deregister().unwrap();
    assert_eq!(&big[LENGTH / 2..LENGTH / 2 + 9], b"12345678\x01");
}

//! Registering memory, and what a region is: section 5.1.

use nonic_device::{Access, RemoteRange, Status};

use crate::command::{Command, MemoryKind, Source};
use crate::memory::{EVERYTHING, Memory, UNTOUCHED, pattern};
use crate::options::RELIABLE;
use crate::pair::{Pair, Scene};
use crate::program_memory::PAGE;
use crate::request::{read, send, write};

pub(crate) fn remote_write_without_local_write_lets_peers_write_and_nobody_else(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let target = pair.server.register_again(scene.far, scene.server.zone, Access::REMOTE_WRITE);
    let bytes = Scene::bytes();
    let written = write(&[scene.near.all()], target.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, written), Status::Success);
    pair.server.assert_holds(&scene.far, &bytes);
    pair.client.write(&scene.near, 0, &[UNTOUCHED; 8]);
    let own = read(&[target.piece(0, 8)], scene.near.remote(0));
    assert_eq!(pair.server.carry_out(&scene.server, own), Status::LocalProtection);
    pair.server.assert_holds(&scene.far, &bytes);
}

pub(crate) fn unmapped_memory_cannot_be_registered(pair: &mut Pair) {
    let zone = pair.client.zone();
    let (hole, start) = pair.client.buffer(MemoryKind::Hole, 4096);
    let nowhere = [
        Source::Raw { address: 4096, length: 4096 },
        Source::Raw { address: 0, length: 1 },
        Source::Raw { address: 1 << 62, length: 4096 },
        Source::Raw { address: start, length: 3 * 4096 },
        Source::Raw { address: start + 4095, length: 2 },
        Source::Raw { address: start + 4096, length: 1 },
    ];
    for source in nowhere {
        let refused = pair.client.register(zone, source, None, Access::LOCAL_READ).unwrap_err();
        assert!(refused.starts_with("NotMapped"), "{source:?}: {refused}");
    }
    let before = Source::Buffer { buffer: hole, offset: 0, length: 4096 };
    assert!(pair.client.register(zone, before, None, Access::LOCAL_WRITE).is_ok());
}

pub(crate) fn read_only_memory_is_refused_when_writing_is_asked_for(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let (buffer, _) = pair.server.buffer(MemoryKind::ReadOnly, 4096);
    let source = Source::Buffer { buffer, offset: 0, length: 4096 };
    for access in [Access::LOCAL_WRITE, EVERYTHING] {
        let refused = pair.server.register(scene.server.zone, source, None, access).unwrap_err();
        assert!(refused.starts_with("NotWritable"), "{refused}");
    }
    let (_, _, key) = pair.server.register(scene.server.zone, source, Some(0), Access::REMOTE_READ).unwrap();
    let zeros = read(&[scene.near.piece(0, 100)], RemoteRange { address: 8, key });
    assert_eq!(pair.client.carry_out(&scene.client, zeros), Status::Success);
    assert_eq!(pair.client.read(&scene.near, 0, 100), [0; 100]);
}

pub(crate) fn ranges_around_the_end_cannot_be_registered(pair: &mut Pair) {
    let zone = pair.client.zone();
    let (buffer, address) = pair.client.buffer(MemoryKind::Private, 4096);
    let register = |pair: &mut Pair, source, base| pair.client.register(zone, source, base, EVERYTHING);
    assert_eq!(register(pair, Source::Raw { address, length: u64::MAX }, None).unwrap_err(), "Wraps");
    let source = Source::Buffer { buffer, offset: 0, length: 64 };
    assert_eq!(register(pair, source, Some(u64::MAX - 62)).unwrap_err(), "Wraps");
    assert!(register(pair, source, Some(u64::MAX - 63)).is_ok());
}

pub(crate) fn a_region_is_addressed_from_its_own_base(pair: &mut Pair) {
    // No region is longer than asked for, so that one ends with the last address there is.
    let length = if pair.arrangement.memory == MemoryKind::Pages { PAGE } else { 512 };
    for base in [0, 1, 0x1234_5678_9000, 1 << 63, u64::MAX - (length - 1)] {
        let scene = pair.scene(&RELIABLE);
        let kind = pair.arrangement.memory;
        let near = pair.client.memory_of(kind, scene.client.zone, length, Some(base), EVERYTHING);
        let far = pair.server.memory_of(kind, scene.server.zone, length, Some(base), EVERYTHING);
        let bytes = pattern(2, length);
        pair.client.write(&near, 0, &bytes);
        assert_eq!(
            pair.client.carry_out(&scene.client, write(&[near.all()], far.remote(0))),
            Status::Success
        );
        pair.server.assert_holds(&far, &bytes);
        let part = read(&[scene.near.piece(0, 100)], far.remote(length - 100));
        assert_eq!(pair.client.carry_out(&scene.client, part), Status::Success);
        assert_eq!(pair.client.read(&scene.near, 0, 100), &bytes[length as usize - 100..]);
        if base.checked_add(length).is_some() {
            let beyond = write(&[near.piece(0, 1)], far.remote(length));
            assert_eq!(pair.client.carry_out(&scene.client, beyond), Status::RemoteAccess);
        }
        pair.server.assert_holds(&far, &bytes);
        pair.reset();
    }
}

pub(crate) fn regions_on_one_memory_have_rights_of_their_own(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let reader = pair.server.register_again(scene.far, scene.server.zone, Access::REMOTE_READ);
    let writer = Access::REMOTE_WRITE | Access::LOCAL_WRITE;
    let writer = pair.server.register_again(scene.far, scene.server.zone, writer);
    let bytes = Scene::bytes();
    assert_eq!(
        pair.client.carry_out(&scene.client, write(&[scene.near.all()], writer.remote(0))),
        Status::Success
    );
    pair.server.assert_holds(&scene.far, &bytes);
    // The first goes; the others stay.
    pair.server.must(Command::Deregister { region: scene.far.region });
    let back = pair.client.memory(scene.client.zone, Scene::LENGTH, Access::LOCAL_WRITE);
    assert_eq!(pair.client.carry_out(&scene.client, read(&[back.all()], reader.remote(0))), Status::Success);
    pair.client.assert_holds(&back, &bytes);
    let wrong = write(&[back.piece(0, 8)], reader.remote(8));
    assert_eq!(pair.client.carry_out(&scene.client, wrong), Status::RemoteAccess);
    pair.server.assert_holds(&scene.far, &bytes);
}

pub(crate) fn a_zone_in_use_cannot_go(pair: &mut Pair) {
    let end = pair.client.end(&RELIABLE);
    let zone = end.zone;
    pair.client.refuses(Command::ReleaseZone { zone }, "Busy");
    pair.client.must(Command::DestroyPair { pair: end.pair });
    let memory = pair.client.memory(zone, 64, EVERYTHING);
    pair.client.refuses(Command::ReleaseZone { zone }, "Busy");
    pair.client.must(Command::Deregister { region: memory.region });
    let vector = pair.client.path();
    let handle = pair.client.make(Command::AddressHandle { zone, vector });
    pair.client.refuses(Command::ReleaseZone { zone }, "Busy");
    pair.client.must(Command::DestroyAddressHandle { handle });
    let queue = pair.client.make(Command::Shared { zone, requests: 4, pieces: 1, limit: 0 });
    pair.client.refuses(Command::ReleaseZone { zone }, "Busy");
    pair.client.must(Command::DestroyShared { queue });
    pair.client.must(Command::ReleaseZone { zone });
    let source = Source::Buffer { buffer: memory.buffer, offset: 0, length: 8 };
    assert_eq!(pair.client.register(zone, source, None, EVERYTHING).unwrap_err(), "Closed");
}

pub(crate) fn new_memory_is_never_taken_for_memory_that_went_before(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    for kind in [MemoryKind::Shared, MemoryKind::Private, MemoryKind::Device] {
        let mut before = pair.server.memory_of(kind, scene.server.zone, 64, None, EVERYTHING);
        for round in 0..20 {
            let old = write(&[scene.near.piece(0, 64)], before.remote(0));
            assert_eq!(pair.client.carry_out(&scene.client, old), Status::Success);
            before = replaced(pair, &scene, before, kind, round);
        }
    }
}

pub(crate) fn new_memory_is_never_taken_for_memory_that_went_before_by_a_busy_peer(pair: &mut Pair) {
    const LENGTH: u64 = 1 << 19;
    const COUNT: u64 = 24;
    let scene = pair.scene(&RELIABLE);
    let (client, server) = pair.connect(&RELIABLE);
    let sink = pair.client.memory_of(MemoryKind::Private, client.zone, LENGTH, None, EVERYTHING);
    let source = pair.server.memory_of(MemoryKind::Private, server.zone, LENGTH, None, EVERYTHING);
    let mut before = pair.server.memory_of(MemoryKind::Shared, scene.server.zone, 64, None, EVERYTHING);
    for round in 0..8 {
        for _ in 0..2 {
            let old = write(&[scene.near.piece(0, 64)], before.remote(0));
            assert_eq!(pair.client.carry_out(&scene.client, old), Status::Success);
            // Time for whatever a peer does once it has met a region.
            pair.client.assert_quiet(scene.client.send_queue);
        }
        // Messages that keep the client's side busy while the region goes.
        for _ in 0..COUNT {
            pair.client.receive(&client, 1, &[sink.all()]);
        }
        pair.server.post_all(&server, (0..COUNT).map(|_| send(&[source.all()])).collect());
        before = replaced(pair, &scene, before, MemoryKind::Shared, round);
        pair.client.completions(client.receive_queue, COUNT as u32);
        pair.server.completions(server.send_queue, COUNT as u32);
    }
}

/// The region goes, another comes, and is written at once: the bytes are there and not where the first was.
#[track_caller]
fn replaced(pair: &mut Pair, scene: &Scene, before: Memory, kind: MemoryKind, round: u8) -> Memory {
    pair.server.write(&before, 0, &[UNTOUCHED; 64]);
    pair.client.write(&scene.near, 0, &[round; 64]);
    pair.server.must(Command::Deregister { region: before.region });
    let memory = pair.server.memory_of(kind, scene.server.zone, 64, None, EVERYTHING);
    let request = write(&[scene.near.piece(0, 64)], memory.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    pair.server.assert_untouched(&before);
    pair.server.assert_holds(&memory, &[round; 64]);
    memory
}

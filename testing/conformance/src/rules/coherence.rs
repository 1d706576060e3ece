//! Regions on the memory of others, and memory that is not coherent with what peers see of it: LMR-4 to LMR-14, SYNC-2 to
//! SYNC-8, as the engine promises them to uDAPL.

use nonic_device::{Access, Status};

use crate::command::Command;
use crate::memory::{EVERYTHING, Memory, UNTOUCHED, pattern};
use crate::options::RELIABLE;
use crate::pair::{Pair, Scene};
use crate::request::{compare_swap, fetch_add, read, send, write};
use crate::side::Side;

/// What a command that makes a region of another answers.
fn made(side: &mut Side, memory: Memory, command: Command) -> Memory {
    let answer = side.ask(command);
    Memory {
        region: answer[0] as u32,
        local_key: nonic_device::Key(answer[1] as u32),
        remote_key: nonic_device::Key(answer[2] as u32),
        ..memory
    }
}

fn share(side: &mut Side, memory: Memory, zone: u32, access: Access) -> Memory {
    made(side, memory, Command::Share { region: memory.region, zone, access })
}

fn shadow(side: &mut Side, memory: Memory, zone: u32, access: Access) -> Memory {
    made(side, memory, Command::Shadow { region: memory.region, zone, access })
}

fn synchronize(side: &mut Side, memory: &Memory, offset: u64, length: u64) -> bool {
    let address = memory.base.wrapping_add(offset);
    side.ask(Command::Synchronize { region: memory.region, address, length }) == [1]
}

fn publish(side: &mut Side, memory: &Memory, offset: u64, length: u64) -> bool {
    let address = memory.base.wrapping_add(offset);
    side.ask(Command::Publish { region: memory.region, address, length }) == [1]
}

/// What the client reads of the server's memory.
fn seen(pair: &mut Pair, scene: &Scene, far: &Memory, offset: u64, length: u64) -> Vec<u8> {
    let back = pair.client.memory(scene.client.zone, length, Access::LOCAL_WRITE);
    let request = read(&[back.all()], far.remote(offset));
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    pair.client.read(&back, 0, length)
}

pub(crate) fn a_region_shares_the_memory_of_another_with_rights_of_its_own(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let zone = scene.server.zone;
    let reader = share(&mut pair.server, scene.far, zone, Access::REMOTE_READ);
    let writer = share(&mut pair.server, reader, zone, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
    let bytes = Scene::bytes();
    let written = write(&[scene.near.all()], writer.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, written), Status::Success);
    pair.server.assert_holds(&scene.far, &bytes);
    // The first goes, and with it nothing but its key.
    pair.server.must(Command::Deregister { region: scene.far.region });
    pair.server.must(Command::Deregister { region: writer.region });
    assert_eq!(seen(pair, &scene, &reader, 0, Scene::LENGTH), bytes);
    let wrong = write(&[scene.near.piece(8, 8)], reader.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, wrong), Status::RemoteAccess);
    pair.server.assert_holds(&scene.far, &bytes);
}

pub(crate) fn a_shared_region_serves_its_own_zone_and_no_other(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let zone = pair.server.zone();
    let shared = share(&mut pair.server, scene.far, zone, EVERYTHING);
    pair.server.refuses(Command::ReleaseZone { zone }, "Busy");
    let wrong = write(&[scene.near.piece(0, 8)], shared.remote(0));
    pair.assert_refused(&scene, wrong, Status::RemoteAccess);
    pair.server.must(Command::Deregister { region: shared.region });
    pair.server.must(Command::ReleaseZone { zone });
}

pub(crate) fn the_key_of_a_shared_region_is_dead_with_it_though_the_memory_stays(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let shared = share(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    assert_eq!(seen(pair, &scene, &shared, 0, 8), [UNTOUCHED; 8]);
    pair.server.must(Command::Deregister { region: shared.region });
    let wrong = write(&[scene.near.piece(0, 8)], shared.remote(0));
    pair.assert_refused(&scene, wrong, Status::RemoteAccess);
    pair.server.refuses(
        Command::Share { region: shared.region, zone: scene.server.zone, access: EVERYTHING },
        "Closed",
    );
}

pub(crate) fn what_peers_write_is_shown_by_the_call_and_not_before(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    let bytes = Scene::bytes();
    let whole = write(&[scene.near.all()], far.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, whole), Status::Success);
    pair.server.assert_holds(&scene.far, &[UNTOUCHED; Scene::LENGTH as usize]);
    assert_eq!(seen(pair, &scene, &far, 0, Scene::LENGTH), bytes, "peers see it at once");
    assert!(synchronize(&mut pair.server, &far, 3, 10));
    let mut shown = [UNTOUCHED; Scene::LENGTH as usize];
    shown[3..13].copy_from_slice(&bytes[3..13]);
    pair.server.assert_holds(&scene.far, &shown);
    assert!(synchronize(&mut pair.server, &far, 0, Scene::LENGTH));
    pair.server.assert_holds(&scene.far, &bytes);
}

pub(crate) fn atomics_and_immediate_writes_stay_unseen_until_they_are_shown(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    pair.server.write(&scene.far, 8, &5u64.to_ne_bytes());
    let far = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    for request in [
        fetch_add(scene.near.piece(0, 8), far.remote(8), 3),
        compare_swap(scene.near.piece(0, 8), far.remote(8), 8, 21),
    ] {
        assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    }
    assert_eq!(pair.client.word(&scene.near, 0), 8, "the second found what the first had done");
    assert_eq!(pair.server.word(&scene.far, 8), 5);
    pair.server.receive(&scene.server, 4, &[]);
    let notify = write(&[scene.near.piece(16, 16)], far.remote(64)).immediate(7);
    assert_eq!(pair.client.carry_out(&scene.client, notify), Status::Success);
    assert_eq!(pair.server.received(&scene.server).immediate, Some(7));
    assert_eq!(pair.server.read(&scene.far, 64, 16), [UNTOUCHED; 16]);
    assert!(synchronize(&mut pair.server, &far, 0, Scene::LENGTH));
    assert_eq!(pair.server.word(&scene.far, 8), 21);
    assert_eq!(pair.server.read(&scene.far, 64, 16), Scene::bytes()[16..32]);
}

pub(crate) fn what_the_program_writes_is_seen_when_it_is_published_and_not_before(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    let mut bytes = pattern(9, Scene::LENGTH);
    bytes[100..108].fill(UNTOUCHED);
    pair.server.write(&scene.far, 0, &bytes);
    assert_eq!(seen(pair, &scene, &far, 0, Scene::LENGTH), [UNTOUCHED; Scene::LENGTH as usize]);
    // What peers wrote and the program was not shown is not published over.
    let written = write(&[scene.near.piece(100, 8)], far.remote(100));
    assert_eq!(pair.client.carry_out(&scene.client, written), Status::Success);
    assert!(publish(&mut pair.server, &far, 0, 200));
    let mut expected = bytes.clone();
    expected[100..108].copy_from_slice(&Scene::bytes()[100..108]);
    expected[200..].fill(UNTOUCHED);
    assert_eq!(seen(pair, &scene, &far, 0, Scene::LENGTH), expected);
    pair.server.assert_holds(&scene.far, &bytes);
}

pub(crate) fn after_showing_a_write_the_program_writes_over_it_and_publishes(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    for round in 0..3u8 {
        let written = write(&[scene.near.piece(0, 16)], far.remote(0));
        assert_eq!(pair.client.carry_out(&scene.client, written), Status::Success);
        assert!(synchronize(&mut pair.server, &far, 0, 16));
        assert_eq!(pair.server.read(&scene.far, 0, 16), Scene::bytes()[..16]);
        pair.server.write(&scene.far, 4, &[round; 4]);
        assert!(publish(&mut pair.server, &far, 0, 16));
        assert_eq!(seen(pair, &scene, &far, 4, 4), [round; 4]);
    }
}

pub(crate) fn what_the_device_places_itself_is_seen_on_both_sides(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    pair.server.receive(&scene.server, 1, &[scene.far.all()]);
    assert_eq!(pair.client.carry_out(&scene.client, send(&[scene.near.all()])), Status::Success);
    assert_eq!(pair.server.received(&scene.server).status, Status::Success);
    pair.server.assert_holds(&scene.far, &Scene::bytes());
    assert_eq!(seen(pair, &scene, &far, 0, Scene::LENGTH), Scene::bytes());
    // The shadow's local key leads nowhere.
    let own = write(&[far.piece(0, 8)], scene.near.remote(0));
    assert_eq!(pair.server.carry_out(&scene.server, own), Status::LocalProtection);
    pair.client.assert_holds(&scene.near, &Scene::bytes());
}

pub(crate) fn what_the_device_reads_into_memory_is_seen_on_both_sides(pair: &mut Pair) {
    const LONG: u64 = 300_000;
    let scene = pair.scene(&RELIABLE);
    let source = pair.client.memory(scene.client.zone, LONG, EVERYTHING);
    let target = pair.server.memory(scene.server.zone, LONG, EVERYTHING);
    let far = shadow(&mut pair.server, target, scene.server.zone, EVERYTHING);
    for turn in 0..2 {
        let bytes = pattern(turn + 1, LONG);
        pair.client.write(&source, 0, &bytes);
        if turn == 0 {
            let request = read(&[target.all()], source.remote(0));
            assert_eq!(pair.server.carry_out(&scene.server, request), Status::Success);
        } else {
            // So long that it may be pulled.
            pair.server.receive(&scene.server, 1, &[target.all()]);
            assert_eq!(pair.client.carry_out(&scene.client, send(&[source.all()])), Status::Success);
            assert_eq!(pair.server.received(&scene.server).status, Status::Success);
        }
        assert_eq!(seen(pair, &scene, &far, 0, LONG), bytes);
        assert_eq!(pair.server.read(&target, 0, LONG), bytes);
        for request in [
            fetch_add(target.piece(8, 8), source.remote(64), 1),
            compare_swap(target.piece(8, 8), source.remote(64), 0, 0),
        ] {
            pair.server.write(&target, 8, &[UNTOUCHED; 8]);
            assert_eq!(pair.server.carry_out(&scene.server, request), Status::Success);
            assert_ne!(pair.server.read(&target, 8, 8), [UNTOUCHED; 8]);
            assert_eq!(seen(pair, &scene, &far, 8, 8), pair.server.read(&target, 8, 8));
        }
    }
}

pub(crate) fn a_byte_has_one_shadow_through_all_regions_on_it(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let whole = [UNTOUCHED; Scene::LENGTH as usize];
    let first = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    let second = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    let written = write(&[scene.near.piece(0, 64)], first.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, written), Status::Success);
    assert_eq!(seen(pair, &scene, &second, 0, 64), Scene::bytes()[..64]);
    pair.server.assert_holds(&scene.far, &whole);
    // The region it came through goes, and it is there all the same.
    pair.server.must(Command::Deregister { region: first.region });
    assert!(synchronize(&mut pair.server, &second, 0, Scene::LENGTH));
    let mut expected = whole;
    expected[..64].copy_from_slice(&Scene::bytes()[..64]);
    pair.server.assert_holds(&scene.far, &expected);
}

pub(crate) fn a_store_that_meets_a_write_without_a_call_costs_one_of_them(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    let bytes = Scene::bytes();
    // With the call both are there.
    pair.server.write(&scene.far, 0, &pattern(9, Scene::LENGTH));
    assert!(synchronize(&mut pair.server, &far, 0, Scene::LENGTH));
    assert_eq!(seen(pair, &scene, &far, 0, Scene::LENGTH), pattern(9, Scene::LENGTH));
    let whole = write(&[scene.near.all()], far.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, whole.clone()), Status::Success);
    assert!(synchronize(&mut pair.server, &far, 0, Scene::LENGTH));
    pair.server.assert_holds(&scene.far, &bytes);
    // Without it the peer's bytes are not, or not all.
    pair.server.write(&scene.far, 0, &pattern(9, Scene::LENGTH));
    assert_eq!(pair.client.carry_out(&scene.client, whole), Status::Success);
    assert!(synchronize(&mut pair.server, &far, 0, Scene::LENGTH));
    let wreck = pair.server.read(&scene.far, 0, Scene::LENGTH);
    assert_ne!(wreck, bytes);
    assert_eq!(seen(pair, &scene, &far, 0, Scene::LENGTH), wreck);
}

pub(crate) fn a_range_outside_shows_and_publishes_nothing(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = shadow(&mut pair.server, scene.far, scene.server.zone, EVERYTHING);
    let written = write(&[scene.near.piece(0, 8)], far.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, written), Status::Success);
    pair.server.write(&scene.far, 16, &[1; 8]);
    for (offset, length) in [(0, far.registered + 1), (u64::MAX, 8), (8, u64::MAX), (far.registered, 1)] {
        assert!(!synchronize(&mut pair.server, &far, offset, length), "{offset:#x}+{length:#x}");
        assert!(!publish(&mut pair.server, &far, offset, length), "{offset:#x}+{length:#x}");
    }
    assert!(!synchronize(&mut pair.server, &scene.far, 0, 8), "this region is no shadow");
    assert_eq!(pair.server.read(&scene.far, 0, 8), [UNTOUCHED; 8]);
    assert_eq!(seen(pair, &scene, &far, 16, 8), [UNTOUCHED; 8]);
    pair.server.must(Command::Deregister { region: far.region });
    assert!(!synchronize(&mut pair.server, &far, 0, 8), "it is gone");
    assert_eq!(pair.server.read(&scene.far, 0, 8), [UNTOUCHED; 8], "what was not shown is dropped");
}

pub(crate) fn a_shadow_is_guarded_as_memory_is(pair: &mut Pair) {
    for wrong in 0..3 {
        let scene = pair.scene(&RELIABLE);
        let access = if wrong == 0 { Access::REMOTE_READ } else { EVERYTHING };
        let far = shadow(&mut pair.server, scene.far, scene.server.zone, access);
        let offset = if wrong == 1 { far.registered - 4 } else { 0 };
        if wrong == 2 {
            pair.server.must(Command::Deregister { region: far.region });
        }
        let request = write(&[scene.near.piece(0, 8)], far.remote(offset));
        pair.assert_refused(&scene, request, Status::RemoteAccess);
        if wrong < 2 {
            assert!(synchronize(&mut pair.server, &far, 0, far.registered));
        }
        pair.assert_nothing_moved(&scene);
        pair.reset();
    }
}

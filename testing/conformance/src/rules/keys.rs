//! Keys, ranges and rights, and who refuses what: section 5.1.

use nonic_device::{Access, AsyncEventKind, Key, RemoteRange, ScatterGather, Status};

use crate::command::{Command, Send};
use crate::memory::{EVERYTHING, Memory, UNTOUCHED};
use crate::options::RELIABLE;
use crate::pair::{Pair, Scene};
use crate::request::{compare_swap, fetch_add, read, send, write};

/// A request for each one-sided operation.
fn one_sided(near: &Memory, remote: RemoteRange, length: u64) -> [Send; 4] {
    [
        write(&[near.piece(0, length)], remote),
        read(&[near.piece(0, length)], remote),
        fetch_add(near.piece(0, 8), remote, 1),
        compare_swap(near.piece(0, 8), remote, 0xa5a5_a5a5_a5a5_a5a5, 1),
    ]
}

/// Each one-sided operation on what `remote` makes of a scene ends with a refusal of the server.
#[track_caller]
fn all_refused(pair: &mut Pair, mut remote: impl FnMut(&mut Pair, &Scene) -> RemoteRange) {
    for operation in 0..4 {
        let scene = pair.scene(&RELIABLE);
        let remote = remote(pair, &scene);
        let request = one_sided(&scene.near, remote, 8)[operation].clone();
        pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        pair.reset();
    }
}

pub(crate) fn a_local_key_is_no_remote_key(pair: &mut Pair) {
    all_refused(pair, |_, scene| {
        assert_ne!(scene.far.local_key, scene.far.remote_key);
        RemoteRange { address: scene.far.base, key: scene.far.local_key }
    });
}

pub(crate) fn a_remote_key_is_no_local_key(pair: &mut Pair) {
    for operation in 0..5 {
        let scene = pair.scene(&RELIABLE);
        let mixed = ScatterGather { key: scene.near.remote_key, ..scene.near.piece(0, 8) };
        let far = scene.far.remote(0);
        let request = [
            write(&[mixed], far),
            read(&[mixed], far),
            fetch_add(mixed, far, 1),
            send(&[mixed]),
            write(&[scene.near.piece(0, 8), mixed], far),
        ];
        pair.server.receive(&scene.server, 1, &[scene.far.all()]);
        pair.assert_refused_here(&scene, request[operation].clone(), Status::LocalProtection);
        pair.reset();
    }
}

pub(crate) fn a_made_up_key_is_refused(pair: &mut Pair) {
    for change in [0xFFu32, 0x0100, 0xFF00_0000, u32::MAX] {
        all_refused(pair, |_, scene| {
            let key = Key(scene.far.remote_key.0 ^ change);
            RemoteRange { address: scene.far.base, key }
        });
    }
    all_refused(pair, |_, scene| RemoteRange { address: scene.far.base, key: Key(0) });
}

pub(crate) fn a_key_of_another_zone_is_refused_at_the_target(pair: &mut Pair) {
    all_refused(pair, |pair, scene| {
        let other = pair.server.zone();
        pair.server.register_again(scene.far, other, EVERYTHING).remote(0)
    });
}

pub(crate) fn a_key_of_another_zone_is_refused_locally(pair: &mut Pair) {
    for operation in 0..4 {
        let scene = pair.scene(&RELIABLE);
        let other = pair.client.zone();
        let near = pair.client.register_again(scene.near, other, EVERYTHING);
        let request = one_sided(&near, scene.far.remote(0), 8)[operation].clone();
        pair.assert_refused_here(&scene, request, Status::LocalProtection);
        pair.reset();
    }
}

pub(crate) fn a_key_of_another_zone_in_a_receive_fails_both_sides(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let other = pair.server.zone();
    let far = pair.server.register_again(scene.far, other, EVERYTHING);
    pair.server.receive(&scene.server, 5, &[far.all()]);
    pair.assert_refused(&scene, send(&[scene.near.piece(0, 100)]), Status::RemoteOperation);
    let received = pair.server.received(&scene.server);
    assert_eq!((received.id, received.status), (5, Status::LocalProtection));
}

/// How long the regions of a scene are.
#[track_caller]
fn registered_length(pair: &mut Pair) -> u64 {
    let scene = pair.scene(&RELIABLE);
    pair.reset();
    assert_eq!(scene.near.registered, scene.far.registered);
    scene.far.registered
}

pub(crate) fn a_range_beyond_before_or_around_the_region_is_refused(pair: &mut Pair) {
    let length = registered_length(pair);
    for offset in [length, length - 7, length + 4096, u64::MAX, 8u64.wrapping_neg(), 1 << 63] {
        for operation in 0..2 {
            let scene = pair.scene(&RELIABLE);
            let request = one_sided(&scene.near, scene.far.remote(offset), 8)[operation].clone();
            pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
            pair.reset();
        }
    }
    for offset in [length, 8u64.wrapping_neg(), 1 << 40] {
        for operation in 2..4 {
            let scene = pair.scene(&RELIABLE);
            let request = one_sided(&scene.near, scene.far.remote(offset), 8)[operation].clone();
            pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
            pair.reset();
        }
    }
}

pub(crate) fn an_address_that_wraps_around_is_refused(pair: &mut Pair) {
    for address in [u64::MAX, u64::MAX - 6, u64::MAX - 7] {
        all_refused_unaligned(pair, |_, scene| RemoteRange { address, key: scene.far.remote_key });
    }
}

/// As [`all_refused`], without the atomics, which want an aligned address first.
#[track_caller]
fn all_refused_unaligned(pair: &mut Pair, mut remote: impl FnMut(&mut Pair, &Scene) -> RemoteRange) {
    for operation in 0..2 {
        let scene = pair.scene(&RELIABLE);
        let remote = remote(pair, &scene);
        let request = one_sided(&scene.near, remote, 8)[operation].clone();
        pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        pair.reset();
    }
}

pub(crate) fn a_local_range_beyond_the_region_is_refused(pair: &mut Pair) {
    let length = registered_length(pair);
    for (offset, count) in [(length, 1), (length - 7, 8), (0, length + 1), (u64::MAX - 3, 8), (1 << 40, 8)] {
        for operation in 0..3 {
            let scene = pair.scene(&RELIABLE);
            let address = scene.near.base.wrapping_add(offset);
            let piece = ScatterGather { address, length: count as u32, key: scene.near.local_key };
            pair.server.receive(&scene.server, 1, &[scene.far.all()]);
            let whole = pair.server.memory(scene.server.zone, length + 1024, EVERYTHING);
            let requests =
                [write(&[piece], whole.remote(0)), read(&[piece], whole.remote(0)), send(&[piece])];
            pair.assert_refused_here(&scene, requests[operation].clone(), Status::LocalProtection);
            pair.server.assert_untouched(&whole);
            pair.reset();
        }
    }
}

pub(crate) fn a_right_the_region_does_not_give_is_missed(pair: &mut Pair) {
    let rights = [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC, Access::REMOTE_ATOMIC];
    for (operation, right) in rights.into_iter().enumerate() {
        for access in [Access::LOCAL_READ, Access::LOCAL_WRITE, without(right)] {
            let scene = pair.scene(&RELIABLE);
            let far = pair.server.register_again(scene.far, scene.server.zone, access);
            let request = one_sided(&scene.near, far.remote(0), 8)[operation].clone();
            pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
            pair.reset();
        }
    }
}

fn without(right: Access) -> Access {
    Access::from_bits(EVERYTHING.bits() & !right.bits()).expect("a part of the rights")
}

pub(crate) fn what_is_received_or_read_needs_local_write(pair: &mut Pair) {
    for operation in 0..2 {
        let scene = pair.scene(&RELIABLE);
        let near = pair.client.register_again(scene.near, scene.client.zone, Access::REMOTE_READ);
        let request = [
            read(&[near.piece(0, 8)], scene.far.remote(0)),
            fetch_add(near.piece(0, 8), scene.far.remote(0), 1),
        ];
        pair.assert_refused_here(&scene, request[operation].clone(), Status::LocalProtection);
        pair.reset();
    }
    let scene = pair.scene(&RELIABLE);
    let far = pair.server.register_again(scene.far, scene.server.zone, Access::REMOTE_READ);
    pair.server.receive(&scene.server, 5, &[far.all()]);
    pair.assert_refused(&scene, send(&[scene.near.all()]), Status::RemoteOperation);
    assert_eq!(pair.server.received(&scene.server).status, Status::LocalProtection);
}

pub(crate) fn the_key_of_a_deregistered_region_is_stale_at_the_target(pair: &mut Pair) {
    all_refused(pair, |pair, scene| {
        let write = write(&[scene.near.piece(0, 8)], scene.far.remote(0));
        assert_eq!(pair.client.carry_out(&scene.client, write), Status::Success);
        pair.server.write(&scene.far, 0, &[UNTOUCHED; 8]);
        pair.server.must(Command::Deregister { region: scene.far.region });
        // The place in the table is used again, under another key.
        pair.server.register_again(scene.far, scene.server.zone, EVERYTHING);
        scene.far.remote(0)
    });
}

pub(crate) fn the_key_of_a_deregistered_region_is_stale_locally(pair: &mut Pair) {
    for operation in 0..3 {
        let scene = pair.scene(&RELIABLE);
        pair.client.must(Command::Deregister { region: scene.near.region });
        pair.client.register_again(scene.near, scene.client.zone, EVERYTHING);
        pair.server.receive(&scene.server, 1, &[scene.far.all()]);
        let requests = [
            write(&[scene.near.all()], scene.far.remote(0)),
            read(&[scene.near.all()], scene.far.remote(0)),
            send(&[scene.near.all()]),
        ];
        pair.assert_refused_here(&scene, requests[operation].clone(), Status::LocalProtection);
        pair.reset();
    }
}

pub(crate) fn a_receive_into_a_deregistered_region_fails_both_sides(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    pair.server.receive(&scene.server, 5, &[scene.far.all()]);
    pair.server.must(Command::Deregister { region: scene.far.region });
    pair.assert_refused(&scene, send(&[scene.near.all()]), Status::RemoteOperation);
    assert_eq!(pair.server.received(&scene.server).status, Status::LocalProtection);
}

pub(crate) fn an_operation_without_bytes_needs_no_key(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let nowhere = RemoteRange { address: u64::MAX, key: Key(0xdead_beef) };
    let nothing = ScatterGather { address: 3, length: 0, key: Key(0xbad) };
    for pieces in [&[][..], &[nothing], &[nothing; 3]] {
        for request in [write(pieces, nowhere), read(pieces, nowhere)] {
            assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
        }
    }
    pair.assert_nothing_moved(&scene);
    assert_eq!(pair.server.state(&scene.server), nonic_device::QpState::ReadyToSend);
}

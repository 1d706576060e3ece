//! Binds that are wrong.

use nonic_device::{Access, AsyncEventKind, Key, Operation, RemoteRange, Status, WindowKind};

use super::{AT, BINDABLE, LONG, Window, bind_again, bound, connection_beside, fails_there, stage};
use crate::command::{Command, Send};
use crate::memory::{EVERYTHING, Memory, UNTOUCHED};
use crate::options::RELIABLE;
use crate::pair::{Pair, Scene};
use crate::request::{of, write};

/// What is wrong with a bind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Beyond,
    Before,
    Around,
    NoRight,
    NoLocalWrite,
    NoLocalWriteForAtomics,
    LocalRight,
    OtherZonesRegion,
    OtherZonesWindow,
    GoneRegion,
    GoneWindow,
    NoRegion,
    RemoteKey,
    OtherWindowsKey,
    SameKey,
}

const WRONG: [Wrong; 15] = [
    Wrong::Beyond,
    Wrong::Before,
    Wrong::Around,
    Wrong::NoRight,
    Wrong::NoLocalWrite,
    Wrong::NoLocalWriteForAtomics,
    Wrong::LocalRight,
    Wrong::OtherZonesRegion,
    Wrong::OtherZonesWindow,
    Wrong::GoneRegion,
    Wrong::GoneWindow,
    Wrong::NoRegion,
    Wrong::RemoteKey,
    Wrong::OtherWindowsKey,
    Wrong::SameKey,
];

/// A bind of that kind.
fn wrong_bind(pair: &mut Pair, scene: &Scene, window: &Window, wrong: Wrong) -> Send {
    let everything = EVERYTHING & Access::REMOTE;
    let mut again = |access: Access, zone: u32| pair.server.register_again(scene.far, zone, access);
    let (zone, whole) = (scene.server.zone, scene.far.registered);
    let (region, offset, length, access) = match wrong {
        Wrong::Beyond => (scene.far, whole - 8, 9, everything),
        Wrong::Before => (scene.far, 1u64.wrapping_neg(), 8, everything),
        Wrong::Around => (scene.far, 0, u64::MAX, everything),
        Wrong::NoRight => (again(EVERYTHING, zone), AT, LONG, Access::REMOTE_READ),
        Wrong::NoLocalWrite => (again(Access::WINDOW_BIND, zone), AT, LONG, Access::REMOTE_WRITE),
        Wrong::NoLocalWriteForAtomics => (again(Access::WINDOW_BIND, zone), AT, LONG, Access::REMOTE_ATOMIC),
        Wrong::LocalRight => (scene.far, AT, LONG, Access::REMOTE_READ | Access::LOCAL_WRITE),
        Wrong::OtherZonesRegion => {
            let other = pair.server.zone();
            (pair.server.register_again(scene.far, other, BINDABLE), AT, LONG, everything)
        }
        Wrong::GoneRegion => {
            let gone = again(BINDABLE, zone);
            pair.server.must(Command::Deregister { region: gone.region });
            (gone, AT, LONG, everything)
        }
        _ => (scene.far, AT, LONG, everything),
    };
    let key = window.next_key(&mut pair.server);
    match wrong {
        Wrong::OtherZonesWindow => {
            let other = pair.server.zone();
            let window = Window::allocate(&mut pair.server, other, window.kind);
            let key = window.next_key(&mut pair.server);
            window.bind(key, &region, offset, length, access)
        }
        Wrong::GoneWindow => {
            let gone = Window::allocate(&mut pair.server, zone, window.kind);
            pair.server.must(Command::ReleaseWindow { window: gone.number });
            gone.bind(Key::new(gone.key.index(), gone.key.tag() ^ 1), &region, offset, length, access)
        }
        Wrong::NoRegion => {
            let (window, address) = (window.id, region.base);
            of(Operation::Bind { window, key, region: None, address, length, access, zero_based: false })
        }
        Wrong::RemoteKey => {
            let mixed = Memory { local_key: region.remote_key, ..region };
            window.bind(key, &mixed, offset, length, access)
        }
        Wrong::OtherWindowsKey => {
            let other = Window::allocate(&mut pair.server, zone, window.kind);
            window.bind(other.next_key(&mut pair.server), &region, offset, length, access)
        }
        Wrong::SameKey => {
            let now = Key(pair.server.ask(Command::WindowKey { window: window.number })[0] as u32);
            window.bind(now, &region, offset, length, access)
        }
        _ => window.bind(key, &region, offset, length, access),
    }
}

pub(crate) fn a_wrong_bind_fails_binds_nothing_and_leaves_the_old_key(pair: &mut Pair) {
    for wrong in WRONG {
        let scene = stage(pair, &RELIABLE);
        let (window, remote) = bound(pair, &scene, WindowKind::Type1, EVERYTHING & Access::REMOTE);
        let request = wrong_bind(pair, &scene, &window, wrong);
        let Operation::Bind { key, .. } = request.operation else { unreachable!() };
        let (client, server) = connection_beside(pair, &scene);
        fails_there(pair, &scene, &server, request);
        pair.client.must(Command::DestroyPair { pair: client.pair });
        // The old key goes on to hold.
        let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
        assert_eq!(status, Status::Success, "{wrong:?}");
        pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
        // The new one never did.
        if wrong != Wrong::SameKey {
            let request = write(&[scene.near.piece(0, 8)], RemoteRange { key, ..remote });
            pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        }
        pair.reset();
    }
}

pub(crate) fn a_wrong_bind_of_type_2_fails_and_binds_nothing(pair: &mut Pair) {
    for wrong in WRONG {
        let scene = stage(pair, &RELIABLE);
        let window = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type2);
        let request = wrong_bind(pair, &scene, &window, wrong);
        let (client, server) = connection_beside(pair, &scene);
        fails_there(pair, &scene, &server, request);
        pair.client.must(Command::DestroyPair { pair: client.pair });
        // It is free: another queue pair can bind it.
        let key = bind_again(pair, &scene, &window, Access::REMOTE_WRITE);
        let remote = RemoteRange { address: scene.far.base + AT, key };
        let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
        assert_eq!(status, Status::Success, "{wrong:?}");
        pair.reset();
    }
}

//! Memory windows: section 5.4. The server binds, the client uses the keys.

use nonic_device::{
    Access, AsyncEventKind, CompletionOpcode, Key, Operation, QpState, RemoteRange, ScatterGather, Status,
    WindowId, WindowKind,
};

use crate::command::{Command, Send};
use crate::memory::{EVERYTHING, Memory, UNTOUCHED, pattern};
use crate::options::{DATAGRAM, End, Options, RELIABLE, UNRELIABLE};
use crate::pair::{Pair, Scene, to_init};
use crate::request::{fetch_add, of, read, send, write};
use crate::side::Side;

/// Every right of a region, that to bind windows included.
const BINDABLE: Access = match Access::from_bits(0b1_1111) {
    Some(access) => access,
    None => Access::LOCAL_READ,
};
/// Where the rules' windows begin in the region, and how long they are.
const AT: u64 = 64;
const LONG: u64 = 128;

/// A window of a side.
#[derive(Clone, Copy, Debug)]
struct Window {
    number: u32,
    id: WindowId,
    kind: WindowKind,
    key: Key,
}

impl Window {
    fn allocate(side: &mut Side, zone: u32, kind: WindowKind) -> Self {
        let made = side.ask(Command::AllocateWindow { zone, kind });
        let (number, id, key) = (made[0] as u32, WindowId(made[1] as u32), Key(made[2] as u32));
        Self { number, id, kind, key }
    }

    /// The key for the next bind, whoever chooses it.
    fn next_key(&self, side: &mut Side) -> Key {
        match self.kind {
            WindowKind::Type1 => Key(side.ask(Command::NextKey { window: self.number })[0] as u32),
            WindowKind::Type2 => {
                let now = Key(side.ask(Command::WindowKey { window: self.number })[0] as u32);
                Key::new(now.index(), now.tag().wrapping_add(1))
            }
        }
    }

    fn bind(&self, key: Key, region: &Memory, offset: u64, length: u64, access: Access) -> Send {
        let (window, address) = (self.id, region.base.wrapping_add(offset));
        let region = Some(region.local_key);
        of(Operation::Bind { window, key, region, address, length, access, zero_based: false })
    }

    fn unbind(&self, key: Key) -> Send {
        let access = Access::LOCAL_READ;
        let (window, region) = (self.id, None);
        of(Operation::Bind { window, key, region, address: 0, length: 0, access, zero_based: false })
    }
}

/// A scene whose server can bind windows to its memory.
#[track_caller]
fn stage(pair: &mut Pair, options: &Options) -> Scene {
    let scene = pair.scene(options);
    let far = pair.server.register_again(scene.far, scene.server.zone, BINDABLE);
    Scene { far, ..scene }
}

/// A window on the middle of the server's memory, bound through the scene's queue pair.
#[track_caller]
fn bound(pair: &mut Pair, scene: &Scene, kind: WindowKind, access: Access) -> (Window, RemoteRange) {
    let window = Window::allocate(&mut pair.server, scene.server.zone, kind);
    let key = bind_again(pair, scene, &window, access);
    (window, RemoteRange { address: scene.far.base + AT, key })
}

#[track_caller]
fn bind_again(pair: &mut Pair, scene: &Scene, window: &Window, access: Access) -> Key {
    let key = window.next_key(&mut pair.server);
    pair.server.post(&scene.server, window.bind(key, &scene.far, AT, LONG, access));
    let completion = pair.server.sent(&scene.server);
    assert_eq!((completion.status, completion.opcode), (Status::Success, CompletionOpcode::Bind));
    assert_eq!(pair.server.ask(Command::WindowKey { window: window.number }), [u64::from(key.0)]);
    key
}

/// A second connection in the zones of a scene's.
#[track_caller]
fn connection_beside(pair: &mut Pair, scene: &Scene) -> (End, End) {
    let client = pair.client.end_in(scene.client.zone, &RELIABLE, None);
    let server = pair.server.end_in(scene.server.zone, &RELIABLE, None);
    pair.join(&client, &RELIABLE, &server, &RELIABLE);
    (client, server)
}

fn moved(remote: RemoteRange, by: u64) -> RemoteRange {
    RemoteRange { address: remote.address.wrapping_add(by), ..remote }
}

const KINDS: [WindowKind; 2] = [WindowKind::Type1, WindowKind::Type2];

pub(crate) fn a_window_leads_to_its_part_of_the_region(pair: &mut Pair) {
    for kind in KINDS {
        let scene = stage(pair, &RELIABLE);
        let (_, remote) = bound(pair, &scene, kind, EVERYTHING & Access::REMOTE);
        let bytes = Scene::bytes();
        let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, LONG)], remote));
        assert_eq!(status, Status::Success);
        let mut expected = vec![UNTOUCHED; AT as usize];
        expected.extend(&bytes[..LONG as usize]);
        pair.server.assert_holds(&scene.far, &expected);
        let last = moved(remote, LONG - 8);
        let status = pair.client.carry_out(&scene.client, read(&[scene.near.piece(200, 8)], last));
        assert_eq!(status, Status::Success);
        assert_eq!(pair.client.read(&scene.near, 200, 8), expected[expected.len() - 8..]);
        let before = pair.server.word(&scene.far, AT);
        let status = pair.client.carry_out(&scene.client, fetch_add(scene.near.piece(208, 8), remote, 5));
        assert_eq!(status, Status::Success);
        assert_eq!(pair.client.word(&scene.near, 208), before);
        assert_eq!(pair.server.word(&scene.far, AT), before.wrapping_add(5));
        pair.reset();
    }
}

pub(crate) fn a_byte_beside_the_window_is_refused_though_its_region_has_it(pair: &mut Pair) {
    for kind in KINDS {
        for (by, length) in [(0, LONG + 8), (LONG, 8), (LONG - 4, 8), (8u64.wrapping_neg(), 16)] {
            for operation in 0..2 {
                let scene = stage(pair, &RELIABLE);
                let (_, remote) = bound(pair, &scene, kind, EVERYTHING & Access::REMOTE);
                let near = scene.near.piece(0, length);
                let request =
                    [write(&[near], moved(remote, by)), read(&[near], moved(remote, by))][operation].clone();
                pair.assert_refused_there(
                    &scene,
                    request,
                    Status::RemoteAccess,
                    AsyncEventKind::QpAccessError,
                );
                pair.reset();
            }
        }
    }
}

pub(crate) fn a_window_gives_the_rights_it_was_bound_with_and_no_others(pair: &mut Pair) {
    let rights = [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC];
    for kind in KINDS {
        for given in 0..4 {
            for (operation, right) in rights.into_iter().enumerate() {
                let scene = stage(pair, &RELIABLE);
                let access = rights.get(given).copied().unwrap_or(Access::LOCAL_READ);
                let (_, remote) = bound(pair, &scene, kind, access);
                let near = scene.near.piece(0, 8);
                let request = [write(&[near], remote), read(&[near], remote), fetch_add(near, remote, 1)]
                    [operation]
                    .clone();
                if access == right {
                    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
                } else {
                    let event = AsyncEventKind::QpAccessError;
                    pair.assert_refused_there(&scene, request, Status::RemoteAccess, event);
                }
                pair.reset();
            }
        }
    }
}

pub(crate) fn a_region_without_remote_rights_is_reached_through_a_window(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let access = Access::LOCAL_WRITE | Access::WINDOW_BIND;
    let far = pair.server.register_again(scene.far, scene.server.zone, access);
    let scene = Scene { far, ..scene };
    let (_, remote) = bound(pair, &scene, WindowKind::Type1, Access::REMOTE_WRITE);
    let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
    assert_eq!(status, Status::Success);
    assert_eq!(pair.server.read(&far, AT, 8), Scene::bytes()[..8]);
    pair.server.write(&far, AT, &[UNTOUCHED; 8]);
    let request = write(&[scene.near.piece(0, 8)], far.remote(0));
    pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
}

pub(crate) fn each_bind_gives_another_key_and_the_old_one_is_dead(pair: &mut Pair) {
    for then in 0..3 {
        let scene = stage(pair, &RELIABLE);
        let (window, remote) = bound(pair, &scene, WindowKind::Type1, EVERYTHING & Access::REMOTE);
        let allocated = window.key;
        // A second write finds whatever the first may have left behind in the client.
        for _ in 0..2 {
            let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
            assert_eq!(status, Status::Success);
        }
        pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
        let new = match then {
            0 | 1 => bind_again(pair, &scene, &window, EVERYTHING & Access::REMOTE),
            _ => {
                let key = window.next_key(&mut pair.server);
                assert_eq!(pair.server.carry_out(&scene.server, window.unbind(key)), Status::Success);
                key
            }
        };
        assert_ne!(remote.key, new);
        assert_eq!(remote.key.index(), new.index());
        if then == 1 {
            let status = pair.client.carry_out(
                &scene.client,
                write(&[scene.near.piece(8, 8)], RemoteRange { key: new, ..remote }),
            );
            assert_eq!(status, Status::Success);
            assert_eq!(pair.server.read(&scene.far, AT, 8), Scene::bytes()[8..16]);
            pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
        }
        for dead in [remote.key, allocated, new].into_iter().take(if then == 2 { 3 } else { 2 }) {
            let (client, server) = connection_beside(pair, &scene);
            let scene = Scene { client, server, ..scene };
            let request = write(&[scene.near.piece(0, 8)], RemoteRange { key: dead, ..remote });
            pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        }
        pair.reset();
    }
}

pub(crate) fn a_window_never_bound_or_given_back_leads_nowhere(pair: &mut Pair) {
    for kind in KINDS {
        for given_back in [false, true] {
            let scene = stage(pair, &RELIABLE);
            let (window, remote) = if given_back {
                bound(pair, &scene, kind, EVERYTHING & Access::REMOTE)
            } else {
                let window = Window::allocate(&mut pair.server, scene.server.zone, kind);
                (window, RemoteRange { address: scene.far.base + AT, key: window.key })
            };
            if given_back {
                pair.server.must(Command::ReleaseWindow { window: window.number });
                // Its place in the table may be used again, under another key.
                Window::allocate(&mut pair.server, scene.server.zone, kind);
            }
            let request = write(&[scene.near.piece(0, 8)], remote);
            pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
            pair.reset();
        }
    }
}

/// The server posts a request about a window that fails: nothing moves, the queue pair is in error, what follows is
/// flushed.
#[track_caller]
fn fails_there(pair: &mut Pair, scene: &Scene, end: &End, request: Send) {
    let said = format!("{request:?}");
    let after = write(&[scene.far.piece(0, 8)], scene.near.remote(0)).id(9);
    pair.server.post_all(end, vec![request, after]);
    let ended = pair.server.completions(end.send_queue, 2);
    assert_eq!((ended[0].status, ended[1].status), (Status::WindowBind, Status::Flushed), "{said}");
    assert_eq!(ended[1].id, 9);
    assert_eq!(pair.server.state(end), QpState::Error, "{said}");
    pair.assert_nothing_moved(scene);
}

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

pub(crate) fn a_type_2_window_is_bound_once_until_its_key_is_taken_out_of_use(pair: &mut Pair) {
    for again in 0..3 {
        let scene = stage(pair, &RELIABLE);
        let (window, remote) = bound(pair, &scene, WindowKind::Type2, Access::REMOTE_WRITE);
        let key = window.next_key(&mut pair.server);
        let (client, server) = connection_beside(pair, &scene);
        let request = match again {
            0 | 1 => window.bind(key, &scene.far, 0, 8, Access::REMOTE_READ),
            _ => window.unbind(key),
        };
        // Through another queue pair, and, the second time, through its own.
        let end = if again == 1 { scene.server } else { server };
        fails_there(pair, &scene, &end, request);
        pair.client.must(Command::DestroyPair { pair: client.pair });
        if again != 1 {
            let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
            assert_eq!(status, Status::Success);
        }
        pair.reset();
    }
    let scene = stage(pair, &RELIABLE);
    let window = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type2);
    let key = window.next_key(&mut pair.server);
    fails_there(pair, &scene, &scene.server, window.bind(key, &scene.far, AT, 0, Access::REMOTE_READ));
}

pub(crate) fn a_type_2_window_serves_the_queue_pair_that_bound_it_and_no_other(pair: &mut Pair) {
    for operation in 0..3 {
        let scene = stage(pair, &RELIABLE);
        let (_, remote) = bound(pair, &scene, WindowKind::Type2, EVERYTHING & Access::REMOTE);
        let (client, server) = connection_beside(pair, &scene);
        let beside = Scene { client, server, ..scene };
        let near = scene.near.piece(0, 8);
        let request =
            [write(&[near], remote), read(&[near], remote), fetch_add(near, remote, 1)][operation].clone();
        pair.assert_refused_there(
            &beside,
            request.clone(),
            Status::RemoteAccess,
            AsyncEventKind::QpAccessError,
        );
        assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
        pair.reset();
    }
}

pub(crate) fn a_type_1_window_serves_every_queue_pair_of_its_zone_and_no_other(pair: &mut Pair) {
    let scene = stage(pair, &RELIABLE);
    let (_, remote) = bound(pair, &scene, WindowKind::Type1, Access::REMOTE_WRITE);
    let (client, _) = connection_beside(pair, &scene);
    let status = pair.client.carry_out(&client, write(&[scene.near.piece(0, 8)], remote));
    assert_eq!(status, Status::Success);
    pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
    let server = pair.server.end(&RELIABLE);
    let client = pair.client.end_in(scene.client.zone, &RELIABLE, None);
    pair.join(&client, &RELIABLE, &server, &RELIABLE);
    let other = Scene { client, server, ..scene };
    let request = write(&[scene.near.piece(0, 8)], remote);
    pair.assert_refused_there(&other, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
}

pub(crate) fn what_is_posted_behind_a_bind_finds_it_done(pair: &mut Pair) {
    let scene = stage(pair, &RELIABLE);
    let window = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type1);
    for round in 0..8u64 {
        let key = window.next_key(&mut pair.server);
        pair.client.receive(&scene.client, round, &[scene.near.piece(0, 8)]);
        // A write and a read before it, and the key itself behind it in a message.
        pair.server.post_all(
            &scene.server,
            vec![
                write(&[scene.far.piece(0, 8)], scene.near.remote(240)).id(1),
                read(&[scene.far.piece(8, 8)], scene.near.remote(248)).id(2),
                send(&[]).id(3),
                window.bind(key, &scene.far, AT, LONG, Access::REMOTE_WRITE).id(4),
                send(&[scene.far.piece(0, 8)]).id(5),
            ],
        );
        pair.client.receive(&scene.client, round, &[scene.near.piece(0, 8)]);
        for _ in 0..2 {
            assert_eq!(pair.client.received(&scene.client).status, Status::Success);
        }
        let remote = RemoteRange { address: scene.far.base + AT, key };
        let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(16, 8)], remote));
        assert_eq!(status, Status::Success);
        let ended = pair.server.completions(scene.server.send_queue, 5);
        assert!(ended.iter().all(|completion| completion.status == Status::Success), "{ended:?}");
        assert_eq!(ended.iter().map(|completion| completion.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(ended[3].opcode, CompletionOpcode::Bind);
    }
}

pub(crate) fn an_unsignalled_bind_completes_in_silence(pair: &mut Pair) {
    let options = Options { signal_all: false, ..RELIABLE };
    let scene = stage(pair, &options);
    let window = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type1);
    let key = window.next_key(&mut pair.server);
    pair.server.post(&scene.server, window.bind(key, &scene.far, AT, LONG, Access::REMOTE_WRITE));
    let remote = RemoteRange { address: scene.far.base + AT, key };
    pair.client.post(&scene.client, write(&[scene.near.piece(0, 8)], remote).signaled());
    assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
    pair.server.assert_quiet(scene.server.send_queue);
    // One that fails is told of all the same.
    let key = window.next_key(&mut pair.server);
    pair.server.post(&scene.server, window.bind(key, &scene.far, u64::MAX, LONG, Access::REMOTE_WRITE));
    assert_eq!(pair.server.sent(&scene.server).status, Status::WindowBind);
}

pub(crate) fn a_bind_in_error_is_flushed_and_the_old_key_goes_on(pair: &mut Pair) {
    let scene = stage(pair, &RELIABLE);
    let (window, remote) = bound(pair, &scene, WindowKind::Type1, Access::REMOTE_WRITE);
    let (_, server) = connection_beside(pair, &scene);
    pair.server.move_to(&server, QpState::Error);
    let key = window.next_key(&mut pair.server);
    let request = window.bind(key, &scene.far, AT, LONG, Access::REMOTE_WRITE);
    assert_eq!(pair.server.carry_out(&server, request), Status::Flushed);
    assert_eq!(pair.server.ask(Command::WindowKey { window: window.number }), [u64::from(remote.key.0)]);
    let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
    assert_eq!(status, Status::Success);
}

pub(crate) fn before_rts_a_bind_is_held_and_nothing_is_bound(pair: &mut Pair) {
    let scene = stage(pair, &RELIABLE);
    let window = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type1);
    let end = pair.server.end_in(scene.server.zone, &RELIABLE, None);
    let key = window.next_key(&mut pair.server);
    let request = window.bind(key, &scene.far, AT, LONG, Access::REMOTE_WRITE);
    let refused = Command::PostSend { pair: end.pair, requests: vec![request.clone()] };
    pair.server.refuses(refused, "WrongState");
    pair.server.modify(end.pair, to_init(&RELIABLE));
    pair.server.post(&end, request);
    pair.server.assert_quiet(end.send_queue);
    assert_eq!(pair.server.ask(Command::WindowKey { window: window.number }), [u64::from(window.key.0)]);
    pair.server.move_to(&end, QpState::Error);
    assert_eq!(pair.server.sent(&end).status, Status::Flushed);
    let remote = RemoteRange { address: scene.far.base + AT, key };
    let request = write(&[scene.near.piece(0, 8)], remote);
    pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
}

pub(crate) fn datagrams_know_no_windows_and_unreliable_connections_do(pair: &mut Pair) {
    let end = pair.server.end(&DATAGRAM);
    let window = Window::allocate(&mut pair.server, end.zone, WindowKind::Type2);
    let invalidate = [
        of(Operation::Invalidate { key: window.key }),
        of(Operation::SendInvalidate { key: window.key }),
        window.unbind(window.key),
    ];
    for request in invalidate {
        pair.server.modify(end.pair, to_init(&DATAGRAM));
        let refused = Command::PostSend { pair: end.pair, requests: vec![request] };
        pair.server.refuses(refused, "WrongOperation");
    }
    let scene = stage(pair, &UNRELIABLE);
    let (_, remote) = bound(pair, &scene, WindowKind::Type2, Access::REMOTE_WRITE);
    let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
    assert_eq!(status, Status::Success);
    let invalidate = of(Operation::Invalidate { key: remote.key });
    pair.settle();
    assert_eq!(pair.server.read(&scene.far, AT, 8), Scene::bytes()[..8]);
    assert_eq!(pair.server.carry_out(&scene.server, invalidate), Status::Success);
    pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
    let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
    assert_eq!(status, Status::Success);
    pair.settle();
    pair.server.assert_untouched(&scene.far);
}

pub(crate) fn a_key_taken_out_of_use_by_its_owner_is_dead_and_the_window_free(pair: &mut Pair) {
    for fence in [false, true] {
        let scene = stage(pair, &RELIABLE);
        let (window, remote) = bound(pair, &scene, WindowKind::Type2, EVERYTHING & Access::REMOTE);
        let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
        assert_eq!(status, Status::Success);
        pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
        let request = of(Operation::Invalidate { key: remote.key });
        pair.server.post(&scene.server, if fence { request.fence() } else { request });
        let completion = pair.server.sent(&scene.server);
        assert_eq!((completion.status, completion.opcode), (Status::Success, CompletionOpcode::Invalidate));
        let key = bind_again(pair, &scene, &window, Access::REMOTE_WRITE);
        assert_ne!(key, remote.key);
        let fresh = RemoteRange { key, ..remote };
        let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], fresh));
        assert_eq!(status, Status::Success);
        pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
        let request = write(&[scene.near.piece(0, 8)], remote);
        pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        pair.reset();
    }
}

/// Keys that cannot be taken out of use through the scene's queue pair.
fn keys_of_others(pair: &mut Pair, scene: &Scene, other: &End) -> [Key; 7] {
    let beside = Scene { server: *other, ..*scene };
    let (_, type_1) = bound(pair, scene, WindowKind::Type1, Access::REMOTE_WRITE);
    let (_, others) = bound(pair, &beside, WindowKind::Type2, Access::REMOTE_WRITE);
    let (_, own) = bound(pair, scene, WindowKind::Type2, Access::REMOTE_WRITE);
    let stale = Key::new(own.key.index(), own.key.tag().wrapping_sub(1));
    let never = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type2).key;
    [type_1.key, others.key, stale, never, scene.far.local_key, scene.far.remote_key, Key(0xdead_be00)]
}

pub(crate) fn a_key_of_others_cannot_be_taken_out_of_use_by_their_owner(pair: &mut Pair) {
    for which in 0..7 {
        let scene = stage(pair, &RELIABLE);
        let (client, server) = connection_beside(pair, &scene);
        let key = keys_of_others(pair, &scene, &server)[which];
        fails_there(pair, &scene, &scene.server, of(Operation::Invalidate { key }));
        // What was bound for the other queue pair still is, and the window of type 1.
        if which < 2 {
            let remote = RemoteRange { address: scene.far.base + AT, key };
            let status = pair.client.carry_out(&client, write(&[scene.near.piece(0, 8)], remote));
            assert_eq!(status, Status::Success);
        }
        pair.reset();
    }
}

fn send_invalidate(pieces: &[ScatterGather], key: Key) -> Send {
    let mut request = of(Operation::SendInvalidate { key });
    request.pieces = pieces.to_vec();
    request
}

pub(crate) fn a_send_takes_a_key_of_the_receiver_out_of_use(pair: &mut Pair) {
    const MOST: u64 = 100_000;
    let scene = stage(pair, &RELIABLE);
    let window = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type2);
    let near = pair.client.memory(scene.client.zone, MOST, EVERYTHING);
    let far = pair.server.memory(scene.server.zone, MOST, EVERYTHING);
    let bytes = pattern(9, MOST);
    pair.client.write(&near, 0, &bytes);
    // None, a few, a fragment, more than one, more than is ever sent in the ring otherwise.
    for length in [0, 8, 8192, 8193, MOST] {
        let key = bind_again(pair, &scene, &window, EVERYTHING & Access::REMOTE);
        let remote = RemoteRange { address: scene.far.base + AT, key };
        let pieces = if length == 0 { vec![] } else { vec![near.piece(0, length)] };
        pair.server.receive(&scene.server, 5, &[far.all()]);
        // What is posted before it still finds the key.
        pair.client.post_all(
            &scene.client,
            vec![
                write(&[scene.near.piece(0, 8)], remote),
                read(&[scene.near.piece(8, 8)], remote),
                send_invalidate(&pieces, key),
            ],
        );
        let ended = pair.client.completions(scene.client.send_queue, 3);
        assert!(ended.iter().all(|completion| completion.status == Status::Success), "{ended:?}");
        assert_eq!(ended[2].opcode, CompletionOpcode::Send);
        let received = pair.server.received(&scene.server);
        assert_eq!((received.id, received.status), (5, Status::Success));
        assert_eq!(received.opcode, CompletionOpcode::ReceiveInvalidate);
        assert_eq!((received.immediate, received.byte_length), (Some(key.0), length as u32));
        pair.server.assert_holds(&far, &bytes[..length as usize]);
        pair.server.write(&far, 0, &vec![UNTOUCHED; MOST as usize]);
        pair.client.write(&scene.near, 0, &Scene::bytes());
        pair.server.write(&scene.far, AT, &[UNTOUCHED; 8]);
        let (client, server) = connection_beside(pair, &scene);
        let request = of(Operation::Invalidate { key });
        let beside = Scene { client, server, ..scene };
        fails_there(pair, &beside, &beside.server, request);
    }
    let key = bind_again(pair, &scene, &window, EVERYTHING & Access::REMOTE);
    pair.server.receive(&scene.server, 5, &[]);
    assert_eq!(pair.client.carry_out(&scene.client, send_invalidate(&[], key)), Status::Success);
    assert_eq!(pair.server.received(&scene.server).status, Status::Success);
    let remote = RemoteRange { address: scene.far.base + AT, key };
    let request = write(&[scene.near.piece(0, 8)], remote);
    pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
}

pub(crate) fn a_send_cannot_take_a_key_of_others_out_of_use_and_places_nothing(pair: &mut Pair) {
    for which in 0..7 {
        for length in [8, 256] {
            let scene = stage(pair, &RELIABLE);
            let (client, server) = connection_beside(pair, &scene);
            let key = keys_of_others(pair, &scene, &server)[which];
            pair.server.receive(&scene.server, 5, &[scene.far.all()]);
            let request = send_invalidate(&[scene.near.piece(0, length)], key);
            pair.assert_refused(&scene, request, Status::RemoteAccess);
            let received = pair.server.received(&scene.server);
            assert_eq!((received.id, received.status), (5, Status::RemoteInvalidRequest));
            assert_eq!(pair.server.state(&scene.server), QpState::Error);
            if which < 2 {
                let remote = RemoteRange { address: scene.far.base + AT, key };
                let status = pair.client.carry_out(&client, write(&[scene.near.piece(0, 8)], remote));
                assert_eq!(status, Status::Success);
            }
            pair.reset();
        }
    }
}

pub(crate) fn an_unreliable_send_takes_a_key_out_of_use_or_fails_its_receive(pair: &mut Pair) {
    let scene = stage(pair, &UNRELIABLE);
    let (_, remote) = bound(pair, &scene, WindowKind::Type2, Access::REMOTE_WRITE);
    for (key, status) in [
        (Key::new(remote.key.index(), remote.key.tag() ^ 1), Status::RemoteInvalidRequest),
        (remote.key, Status::Success),
        (remote.key, Status::RemoteInvalidRequest),
    ] {
        pair.server.receive(&scene.server, 5, &[scene.far.all()]);
        let request = send_invalidate(&[scene.near.piece(0, 8)], key);
        assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
        assert_eq!(pair.server.received(&scene.server).status, status);
        let bytes = if status == Status::Success { &Scene::bytes()[..8] } else { &[] };
        pair.server.assert_holds(&scene.far, bytes);
        pair.server.write(&scene.far, 0, &[UNTOUCHED; 8]);
    }
}

pub(crate) fn without_a_receive_the_key_stays_in_use(pair: &mut Pair) {
    let options = Options { rnr_retry: 0, ..RELIABLE };
    let scene = stage(pair, &options);
    let (_, remote) = bound(pair, &scene, WindowKind::Type2, Access::REMOTE_WRITE);
    let request = send_invalidate(&[scene.near.piece(0, 8)], remote.key);
    pair.assert_refused(&scene, request, Status::RnrRetryExceeded);
    assert_eq!(pair.server.state(&scene.server), QpState::ReadyToSend);
    // Its owner could not take it out of use if it were not in use.
    let request = of(Operation::Invalidate { key: remote.key });
    assert_eq!(pair.server.carry_out(&scene.server, request), Status::Success);
}

pub(crate) fn a_zero_based_window_counts_from_its_own_first_byte(pair: &mut Pair) {
    for kind in KINDS {
        let scene = stage(pair, &RELIABLE);
        let window = Window::allocate(&mut pair.server, scene.server.zone, kind);
        let key = window.next_key(&mut pair.server);
        let mut request = window.bind(key, &scene.far, AT, LONG, EVERYTHING & Access::REMOTE);
        let Operation::Bind { zero_based, .. } = &mut request.operation else { unreachable!() };
        *zero_based = true;
        assert_eq!(pair.server.carry_out(&scene.server, request), Status::Success);
        let at = |address| RemoteRange { address, key };
        let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], at(LONG - 8)));
        assert_eq!(status, Status::Success);
        assert_eq!(pair.server.read(&scene.far, AT + LONG - 8, 8), Scene::bytes()[..8]);
        pair.server.write(&scene.far, AT + LONG - 8, &[UNTOUCHED; 8]);
        let request = write(&[scene.near.piece(0, 8)], at(LONG - 7));
        pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        pair.reset();
    }
}

pub(crate) fn a_windows_key_is_no_local_key(pair: &mut Pair) {
    for kind in KINDS {
        for operation in 0..3 {
            let scene = stage(pair, &RELIABLE);
            let (_, remote) = bound(pair, &scene, kind, EVERYTHING & Access::REMOTE);
            let mixed = ScatterGather { key: remote.key, ..scene.far.piece(AT, 8) };
            let near = scene.near.remote(0);
            let request = [write(&[mixed], near), read(&[mixed], near), send(&[mixed])][operation].clone();
            pair.client.receive(&scene.client, 1, &[scene.near.all()]);
            assert_eq!(pair.server.carry_out(&scene.server, request), Status::LocalProtection);
            pair.assert_nothing_moved(&scene);
            pair.reset();
        }
    }
}

pub(crate) fn a_region_with_a_window_cannot_go_and_loses_nothing(pair: &mut Pair) {
    for kind in KINDS {
        for way in 0..3 {
            let scene = stage(pair, &RELIABLE);
            let (window, remote) = bound(pair, &scene, kind, Access::REMOTE_WRITE);
            let gone = Command::Deregister { region: scene.far.region };
            pair.server.refuses(gone.clone(), "Busy");
            let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
            assert_eq!(status, Status::Success);
            match (way, kind) {
                (0, WindowKind::Type1) => {
                    let key = window.next_key(&mut pair.server);
                    assert_eq!(pair.server.carry_out(&scene.server, window.unbind(key)), Status::Success);
                }
                (0, WindowKind::Type2) => {
                    let request = of(Operation::Invalidate { key: remote.key });
                    assert_eq!(pair.server.carry_out(&scene.server, request), Status::Success);
                }
                (1, _) => pair.server.must(Command::ReleaseWindow { window: window.number }),
                (_, WindowKind::Type1) => {
                    // A window bound elsewhere lets the first region go.
                    let other = pair.server.register_again(scene.far, scene.server.zone, BINDABLE);
                    let scene = Scene { far: other, ..scene };
                    bind_again(pair, &scene, &window, Access::REMOTE_WRITE);
                }
                // Those bound for a queue pair go with it.
                (_, WindowKind::Type2) => pair.server.must(Command::DestroyPair { pair: scene.server.pair }),
            }
            pair.server.must(gone);
            pair.reset();
        }
    }
}

pub(crate) fn a_zone_with_a_window_cannot_go(pair: &mut Pair) {
    let zone = pair.server.zone();
    let window = Window::allocate(&mut pair.server, zone, WindowKind::Type1);
    pair.server.refuses(Command::ReleaseZone { zone }, "Busy");
    pair.server.must(Command::ReleaseWindow { window: window.number });
    pair.server.must(Command::ReleaseZone { zone });
    pair.server.refuses(Command::AllocateWindow { zone, kind: WindowKind::Type1 }, "Closed");
}

pub(crate) fn windows_come_and_go_without_end(pair: &mut Pair) {
    let scene = stage(pair, &RELIABLE);
    for round in 0..600 {
        let kind = KINDS[round % 2];
        let (window, remote) = bound(pair, &scene, kind, EVERYTHING & Access::REMOTE);
        if round % 50 == 0 {
            let status = pair.client.carry_out(&scene.client, write(&[scene.near.piece(0, 8)], remote));
            assert_eq!(status, Status::Success);
        }
        pair.server.must(Command::ReleaseWindow { window: window.number });
    }
    let window = Window::allocate(&mut pair.server, scene.server.zone, WindowKind::Type1);
    let mut last = window.key;
    for _ in 0..600 {
        let key = bind_again(pair, &scene, &window, EVERYTHING & Access::REMOTE);
        assert_ne!(key, last);
        last = key;
    }
    pair.server.must(Command::ReleaseWindow { window: window.number });
}

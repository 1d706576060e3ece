//! Memory windows: section 5.4. The server binds, the client uses the keys.

mod binding;
mod invalidating;
mod wrong_binds;

use nonic_device::{
    Access, AsyncEventKind, CompletionOpcode, Key, Operation, QpState, RemoteRange, ScatterGather, Status,
    WindowId, WindowKind,
};

pub(crate) use self::binding::*;
pub(crate) use self::invalidating::*;
pub(crate) use self::wrong_binds::*;
use crate::command::{Command, Send};
use crate::memory::{EVERYTHING, Memory, UNTOUCHED};
use crate::options::{End, Options, RELIABLE};
use crate::pair::{Pair, Scene};
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

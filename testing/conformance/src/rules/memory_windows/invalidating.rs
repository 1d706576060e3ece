//! Keys taken out of use, by their owner and by its peer.

use nonic_device::{
    Access, AsyncEventKind, CompletionOpcode, Key, Operation, QpState, RemoteRange, ScatterGather, Status,
    WindowKind,
};

use super::{AT, Window, bind_again, bound, connection_beside, fails_there, stage};
use crate::command::Send;
use crate::memory::{EVERYTHING, UNTOUCHED, pattern};
use crate::options::{End, Options, RELIABLE, UNRELIABLE};
use crate::pair::{Pair, Scene};
use crate::request::{of, read, write};

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

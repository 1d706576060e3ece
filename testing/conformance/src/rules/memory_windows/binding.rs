//! Whom a bound window serves, and what a bind waits for.

use nonic_device::{
    Access, AsyncEventKind, CompletionOpcode, Operation, QpState, RemoteRange, Status, WindowKind,
};

use super::{AT, LONG, Window, bound, connection_beside, fails_there, stage};
use crate::command::Command;
use crate::memory::{EVERYTHING, UNTOUCHED};
use crate::options::{DATAGRAM, Options, RELIABLE, UNRELIABLE};
use crate::pair::{Pair, Scene, to_init};
use crate::request::{fetch_add, of, read, send, write};

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

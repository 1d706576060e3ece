//! Creating queue pairs and posting to them: sections 7.1 and 7.3.

use nonic_device::{Capabilities, Key, QpState, RemoteRange, ScatterGather, Status};

use crate::command::{Command, Receive, Send};
use crate::memory::{EVERYTHING, pattern};
use crate::options::{DATAGRAM, End, Options, RELIABLE, UNRELIABLE};
use crate::pair::{Pair, Scene, to_init, to_receive, to_send};
use crate::request::{fetch_add, read, send, write};
use crate::side::Side;

fn pair_command(end: &End, options: &Options) -> Command {
    Command::Pair {
        zone: end.zone,
        transport: options.transport,
        send_queue: end.send_queue,
        receive_queue: end.receive_queue,
        shared: end.shared,
        capabilities: options.capabilities,
        signal_all: true,
    }
}

pub(crate) fn sizes_above_the_limits_are_refused_and_sizes_given_are_at_least_those_asked_for(
    pair: &mut Pair,
) {
    let limits = pair.client.ask(Command::Limits {});
    let (inline, requests, pieces) = (limits[2] as u32, limits[4] as u32, limits[5] as u32);
    let most = Capabilities {
        send_requests: requests,
        receive_requests: requests,
        send_pieces: pieces,
        receive_pieces: pieces,
        inline_bytes: inline,
    };
    let end = pair.client.end(&RELIABLE);
    let beyond = [
        Capabilities { send_requests: requests + 1, ..most },
        Capabilities { receive_requests: requests + 1, ..most },
        Capabilities { send_pieces: pieces + 1, ..most },
        Capabilities { receive_pieces: pieces + 1, ..most },
        Capabilities { inline_bytes: inline + 1, ..most },
        Capabilities { send_requests: u32::MAX, ..most },
    ];
    for capabilities in beyond {
        pair.client.refuses(pair_command(&end, &Options { capabilities, ..RELIABLE }), "Limit");
    }
    for capabilities in [most, RELIABLE.capabilities, Capabilities::default()] {
        let made = pair.client.ask(pair_command(&end, &Options { capabilities, ..RELIABLE }));
        let sizes = pair.client.ask(Command::Sizes { pair: made[0] as u32 });
        let asked = [
            capabilities.send_requests,
            capabilities.receive_requests,
            capabilities.send_pieces,
            capabilities.receive_pieces,
            capabilities.inline_bytes,
        ];
        assert!(
            sizes.iter().zip(asked).all(|(real, asked)| *real >= u64::from(asked)),
            "{sizes:?} for {asked:?}"
        );
        assert!((2..1 << 24).contains(&made[1]), "queue-pair number {}", made[1]);
    }
}

pub(crate) fn a_queue_pair_number_is_not_used_again_at_once(pair: &mut Pair) {
    let first = pair.client.end(&RELIABLE);
    pair.client.must(Command::DestroyPair { pair: first.pair });
    for _ in 0..20 {
        let next = pair.client.end(&RELIABLE);
        assert_ne!(next.number, first.number);
        pair.client.must(Command::DestroyPair { pair: next.pair });
    }
}

const SMALL: Options = Options {
    capabilities: Capabilities {
        send_requests: 5,
        receive_requests: 5,
        send_pieces: 2,
        receive_pieces: 2,
        inline_bytes: 32,
    },
    ..RELIABLE
};

fn sizes(side: &mut Side, end: &End) -> (u64, u64) {
    let sizes = side.ask(Command::Sizes { pair: end.pair });
    (sizes[0], sizes[1])
}

pub(crate) fn a_full_queue_takes_no_more_until_completions_are_polled(pair: &mut Pair) {
    let scene = pair.scene(&SMALL);
    let (sends, _) = sizes(&mut pair.client, &scene.client);
    let (_, receives) = sizes(&mut pair.server, &scene.server);
    let one = Receive { id: 9, pieces: vec![] };
    for _ in 0..receives {
        pair.server.receive(&scene.server, 9, &[]);
    }
    let more = Command::PostReceive { pair: scene.server.pair, receives: vec![one] };
    pair.server.refuses(more.clone(), "QueueFull");
    for id in 0..sends {
        pair.client.post(&scene.client, send(&[]).id(id));
    }
    let too_many = Command::PostSend { pair: scene.client.pair, requests: vec![send(&[])] };
    pair.client.refuses(too_many.clone(), "QueueFull");
    assert_eq!(pair.server.completions(scene.server.receive_queue, sends as u32).len() as u64, sends);
    // All have been done, but the program has not been told: the slots are still its own.
    pair.client.refuses(too_many.clone(), "QueueFull");
    let first = pair.client.sent(&scene.client);
    assert_eq!((first.id, first.status), (0, Status::Success));
    pair.server.must(more);
    pair.client.must(too_many.clone());
    pair.client.refuses(too_many, "QueueFull");
    for id in 1..sends {
        assert_eq!(pair.client.sent(&scene.client).id, id);
    }
}

pub(crate) fn a_signalled_request_vouches_for_the_unsignalled_ones_before_it(pair: &mut Pair) {
    let options = Options { signal_all: false, ..SMALL };
    let scene = pair.scene(&options);
    let (sends, _) = sizes(&mut pair.client, &scene.client);
    let one = write(&[scene.near.piece(0, 8)], scene.far.remote(0));
    for round in 0..10 {
        let mut requests: Vec<Send> = (1..sends).map(|id| one.clone().id(id)).collect();
        requests.push(one.clone().signaled().id(100 + round));
        pair.client.post_all(&scene.client, requests);
        let too_many = Command::PostSend { pair: scene.client.pair, requests: vec![one.clone()] };
        pair.client.refuses(too_many, "QueueFull");
        let completion = pair.client.sent(&scene.client);
        assert_eq!((completion.id, completion.status), (100 + round, Status::Success));
    }
    pair.client.assert_quiet(scene.client.send_queue);
}

pub(crate) fn too_many_pieces_and_too_many_inline_bytes_are_refused(pair: &mut Pair) {
    let scene = pair.scene(&SMALL);
    let piece = scene.near.piece(0, 8);
    let refuses = |pair: &mut Pair, request: Send, error| {
        pair.client.refuses(Command::PostSend { pair: scene.client.pair, requests: vec![request] }, error);
    };
    refuses(pair, write(&[piece; 3], scene.far.remote(0)), "TooManyPieces");
    pair.server.refuses(
        Command::PostReceive {
            pair: scene.server.pair,
            receives: vec![Receive { id: 1, pieces: vec![scene.far.piece(0, 1); 3] }],
        },
        "TooManyPieces",
    );
    let (buffer, address) = pair.client.buffer(crate::command::MemoryKind::Private, 64);
    pair.client.must(Command::Poke { buffer, offset: 0, bytes: pattern(1, 64) });
    let inline = |length| ScatterGather { address, length, key: Key(0) };
    refuses(pair, write(&[inline(33)], scene.far.remote(0)).inline(), "InlineTooLong");
    refuses(pair, write(&[inline(17), inline(16)], scene.far.remote(0)).inline(), "InlineTooLong");
    refuses(pair, write(&[inline(0); 3], scene.far.remote(0)).inline(), "TooManyPieces");
    pair.assert_nothing_moved(&scene);
    pair.client.assert_quiet(scene.client.send_queue);
    let fits = write(&[inline(17), inline(15)], scene.far.remote(0)).inline();
    assert_eq!(pair.client.carry_out(&scene.client, fits), Status::Success);
    pair.server.assert_holds(&scene.far, &[&pattern(1, 17)[..], &pattern(1, 15)[..]].concat());
}

pub(crate) fn of_a_list_everything_before_the_first_request_not_taken_is_posted(pair: &mut Pair) {
    let scene = pair.scene(&SMALL);
    let good = |offset| write(&[scene.near.piece(offset, 8)], scene.far.remote(offset)).id(offset);
    let bad = write(&[scene.near.piece(0, 1); 3], scene.far.remote(64));
    let list = vec![good(0), good(8), bad, good(16)];
    pair.client.refuses(Command::PostSend { pair: scene.client.pair, requests: list }, "TooManyPieces");
    let ids: Vec<u64> = pair.client.completions(scene.client.send_queue, 2).iter().map(|c| c.id).collect();
    assert_eq!(ids, [0, 8]);
    pair.client.assert_quiet(scene.client.send_queue);
    pair.server.assert_holds(&scene.far, &Scene::bytes()[..16]);
}

pub(crate) fn an_operation_the_service_does_not_have_is_refused(pair: &mut Pair) {
    let scene = pair.scene(&UNRELIABLE);
    let (piece, far) = (scene.near.piece(0, 8), scene.far.remote(0));
    for request in [read(&[piece], far), fetch_add(piece, far, 1)] {
        let wrong = Command::PostSend { pair: scene.client.pair, requests: vec![request] };
        pair.client.refuses(wrong, "WrongOperation");
    }
    pair.client.assert_quiet(scene.client.send_queue);
    pair.assert_nothing_moved(&scene);
    assert_eq!(pair.client.state(&scene.client), QpState::ReadyToSend);
}

pub(crate) fn a_one_sided_request_of_datagrams_is_taken_and_fails(pair: &mut Pair) {
    let scene = pair.scene(&DATAGRAM);
    let (piece, far) = (scene.near.piece(0, 8), scene.far.remote(0));
    let nowhere = Command::PostSend { pair: scene.client.pair, requests: vec![send(&[piece])] };
    pair.client.refuses(nowhere, "NoDestination");
    for request in [read(&[piece], far), fetch_add(piece, far, 1), write(&[piece], far)] {
        assert_eq!(pair.client.carry_out(&scene.client, request), Status::LocalQpOperation);
        assert_eq!(pair.client.state(&scene.client), QpState::SendQueueError);
        pair.client.move_to(&scene.client, QpState::ReadyToSend);
    }
    pair.assert_nothing_moved(&scene);
}

pub(crate) fn in_reset_nothing_is_taken(pair: &mut Pair) {
    let end = pair.client.end(&RELIABLE);
    pair.client.refuses(Command::PostSend { pair: end.pair, requests: vec![send(&[])] }, "WrongState");
    let receives = vec![Receive { id: 1, pieces: vec![] }];
    pair.client.refuses(Command::PostReceive { pair: end.pair, receives }, "WrongState");
    pair.client.assert_quiet(end.send_queue);
}

pub(crate) fn requests_of_init_and_rtr_are_held_until_their_time(pair: &mut Pair) {
    let (client, server) = (pair.client.end(&RELIABLE), pair.server.end(&RELIABLE));
    let near = pair.client.memory(client.zone, 64, EVERYTHING);
    let far = pair.server.memory(server.zone, 64, EVERYTHING);
    let bytes = pattern(5, 64);
    pair.client.write(&near, 0, &bytes);
    pair.client.modify(client.pair, to_init(&RELIABLE));
    pair.server.modify(server.pair, to_init(&RELIABLE));
    pair.client.post(&client, send(&[near.piece(0, 32)]).id(1));
    pair.server.receive(&server, 11, &[far.piece(0, 32)]);
    let (to_client, to_server) = (pair.client.path(), pair.server.path());
    pair.client.modify(client.pair, to_receive(&RELIABLE, server.number, to_server));
    pair.server.modify(server.pair, to_receive(&RELIABLE, client.number, to_client));
    pair.client.post(&client, send(&[near.piece(32, 32)]).id(2));
    pair.server.receive(&server, 12, &[far.piece(32, 32)]);
    pair.client.assert_quiet(client.send_queue);
    pair.server.assert_untouched(&far);
    pair.client.modify(client.pair, to_send(&RELIABLE));
    for id in [1, 2] {
        let sent = pair.client.sent(&client);
        assert_eq!((sent.id, sent.status), (id, Status::Success));
        let received = pair.server.received(&server);
        assert_eq!((received.id, received.status), (id + 10, Status::Success));
    }
    pair.server.assert_holds(&far, &bytes);
}

pub(crate) fn in_error_requests_are_taken_and_flushed(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    pair.client.move_to(&scene.client, QpState::Error);
    for id in 0..3 {
        pair.client.post(&scene.client, write(&[scene.near.all()], scene.far.remote(0)).id(id));
        pair.client.receive(&scene.client, id, &[scene.near.all()]);
    }
    for queue in [scene.client.send_queue, scene.client.receive_queue] {
        let flushed = pair.client.completions(queue, 3);
        let seen: Vec<_> = flushed.iter().map(|completion| (completion.id, completion.status)).collect();
        assert_eq!(seen, [(0, Status::Flushed), (1, Status::Flushed), (2, Status::Flushed)]);
    }
    pair.assert_nothing_moved(&scene);
}

pub(crate) fn inline_bytes_are_taken_during_the_call_and_need_no_key(pair: &mut Pair) {
    let (client, server) = (pair.client.end(&RELIABLE), pair.server.end(&RELIABLE));
    let far = pair.server.memory(server.zone, 64, EVERYTHING);
    let (buffer, address) = pair.client.buffer(crate::command::MemoryKind::Private, 64);
    let bytes = pattern(6, 64);
    pair.client.must(Command::Poke { buffer, offset: 0, bytes: bytes.clone() });
    pair.client.modify(client.pair, to_init(&RELIABLE));
    let piece = |offset, length| ScatterGather { address: address + offset, length, key: Key(0xbad) };
    pair.client.post(&client, write(&[piece(0, 20), piece(20, 12)], far.remote(0)).inline());
    pair.client.post(&client, send(&[piece(32, 32)]).inline());
    pair.client.must(Command::Poke { buffer, offset: 0, bytes: vec![0; 64] });
    pair.client.must(Command::PostReceive { pair: client.pair, receives: vec![] });
    let (to_client, to_server) = (pair.client.path(), pair.server.path());
    pair.server.modify(server.pair, to_init(&RELIABLE));
    pair.server.receive(&server, 1, &[far.piece(32, 32)]);
    pair.server.modify(server.pair, to_receive(&RELIABLE, client.number, to_client));
    pair.client.modify(client.pair, to_receive(&RELIABLE, server.number, to_server));
    pair.client.modify(client.pair, to_send(&RELIABLE));
    assert!(pair.client.completions(client.send_queue, 2).iter().all(|sent| sent.status == Status::Success));
    pair.server.received(&server);
    pair.server.assert_holds(&far, &bytes);
}

pub(crate) fn completions_come_in_the_order_of_posting(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let (near, far) = (scene.near, scene.far);
    let word = RemoteRange { address: far.base.next_multiple_of(8), key: far.remote_key };
    for round in 0..5 {
        let mut requests = Vec::new();
        for id in 0..48 {
            let piece = near.piece(id * 5, 8);
            requests.push(match (id + round) % 5 {
                0 => send(&[piece]),
                1 => read(&[piece], far.remote(id)),
                2 => fetch_add(piece, word, 1),
                3 => write(&[piece], far.remote(id)).immediate(1),
                _ => write(&[piece], far.remote(id)),
            });
            pair.server.receive(&scene.server, id, &[far.piece(id * 5, 8)]);
        }
        let requests = requests.into_iter().zip(0..).map(|(request, id)| request.id(id)).collect();
        pair.client.post_all(&scene.client, requests);
        let completions = pair.client.completions(scene.client.send_queue, 48);
        let ids: Vec<u64> = completions.iter().map(|completion| completion.id).collect();
        assert_eq!(ids, (0..48).collect::<Vec<u64>>());
        assert!(completions.iter().all(|completion| completion.status == Status::Success));
        let used = (0..48).filter(|id| matches!((id + round) % 5, 0 | 3)).count() as u32;
        let received = pair.server.completions(scene.server.receive_queue, used);
        let ids: Vec<u64> = received.iter().map(|completion| completion.id).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        // The receives left over go, so that the queue never fills.
        pair.server.move_to(&scene.server, QpState::Reset);
        pair.client.move_to(&scene.client, QpState::Reset);
        pair.join(&scene.client, &RELIABLE, &scene.server, &RELIABLE);
    }
}

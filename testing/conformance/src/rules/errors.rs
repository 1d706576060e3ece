//! What goes wrong on a reliable connection: section 7.4.

use std::time::{Duration, Instant};

use nonic_device::{Access, AsyncEventKind, Key, QpState, RemoteRange, ScatterGather, Status};

use crate::command::{Command, Send};
use crate::memory::{EVERYTHING, pattern};
use crate::options::{Options, RELIABLE};
use crate::pair::{Pair, Scene};
use crate::request::{compare_swap, fetch_add, read, send, write};
use crate::side::{NEVER, SOON};

const BAD: Key = Key(0x00ba_d000);

fn nowhere() -> RemoteRange {
    RemoteRange { address: 0x1000, key: BAD }
}

pub(crate) fn a_message_longer_than_the_port_takes_is_refused_locally(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let huge = ScatterGather { length: u32::MAX, ..scene.near.piece(0, 0) };
    pair.assert_refused_here(&scene, send(&[huge, huge]), Status::LocalLength);
}

pub(crate) fn where_both_keys_are_wrong_a_read_or_atomic_blames_the_target_and_a_write_or_send_itself(
    pair: &mut Pair,
) {
    for operation in 0..5 {
        let scene = pair.scene(&RELIABLE);
        let piece = ScatterGather { key: BAD, ..scene.near.piece(0, 8) };
        let requests = [
            read(&[piece], nowhere()),
            fetch_add(piece, nowhere(), 1),
            compare_swap(piece, nowhere(), 1, 1),
            write(&[piece], nowhere()),
            send(&[piece]),
        ];
        let request = requests[operation].clone();
        if operation < 3 {
            pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        } else {
            pair.assert_refused_here(&scene, request, Status::LocalProtection);
        }
        pair.reset();
    }
}

pub(crate) fn a_write_with_immediate_to_a_bad_key_ends_the_due_receive_and_moves_nothing(pair: &mut Pair) {
    for bad_range in [false, true] {
        let scene = pair.scene(&RELIABLE);
        pair.server.receive(&scene.server, 21, &[scene.far.all()]);
        pair.server.receive(&scene.server, 22, &[scene.far.all()]);
        let remote = if bad_range { scene.far.remote(scene.far.registered - 7) } else { nowhere() };
        let request = write(&[scene.near.piece(0, 8)], remote).immediate(5);
        pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
        let first = pair.server.received(&scene.server);
        assert!(matches!(first.status, Status::LocalAccess | Status::LocalProtection), "{first:?}");
        let second = pair.server.received(&scene.server);
        assert_eq!((first.id, second.id, second.status), (21, 22, Status::Flushed));
        pair.reset();
    }
}

pub(crate) fn a_receive_too_small_fails_both_sides_and_takes_no_byte(pair: &mut Pair) {
    for (length, room) in [(8, 7), (1, 0), (9000, 8999), (200_000, 199_999)] {
        let scene = pair.scene(&RELIABLE);
        let near = pair.client.memory(scene.client.zone, length, EVERYTHING);
        let far = pair.server.memory(scene.server.zone, length, EVERYTHING);
        pair.server.receive(&scene.server, 3, &[far.piece(0, room)]);
        pair.server.receive(&scene.server, 4, &[far.all()]);
        pair.assert_refused(&scene, send(&[near.all()]), Status::RemoteInvalidRequest);
        let ended = pair.server.completions(scene.server.receive_queue, 2);
        let seen: Vec<_> = ended.iter().map(|completion| (completion.id, completion.status)).collect();
        assert_eq!(seen, [(3, Status::LocalLength), (4, Status::Flushed)]);
        assert_eq!(pair.server.state(&scene.server), QpState::Error);
        pair.server.assert_untouched(&far);
        pair.reset();
    }
}

pub(crate) fn a_receive_with_a_bad_piece_fails_both_sides(pair: &mut Pair) {
    for length in [100, 20_000] {
        let scene = pair.scene(&RELIABLE);
        let near = pair.client.memory(scene.client.zone, length, EVERYTHING);
        let far = pair.server.memory(scene.server.zone, length, EVERYTHING);
        let bad = ScatterGather { key: far.remote_key, ..far.piece(50, length - 50) };
        pair.server.receive(&scene.server, 3, &[far.piece(0, 50), bad]);
        pair.assert_refused(&scene, send(&[near.all()]), Status::RemoteOperation);
        let received = pair.server.received(&scene.server);
        assert_eq!((received.id, received.status), (3, Status::LocalProtection));
        assert_eq!(pair.server.state(&scene.server), QpState::Error);
        if length == 100 {
            pair.server.assert_untouched(&far);
        }
        pair.reset();
    }
}

fn without(right: Access) -> Access {
    Access::from_bits(EVERYTHING.bits() & !right.bits()).expect("a part of the rights")
}

pub(crate) fn an_operation_the_queue_pair_does_not_enable_is_an_invalid_request(pair: &mut Pair) {
    let rights = [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC, Access::REMOTE_ATOMIC];
    for (operation, right) in rights.into_iter().enumerate() {
        let options = Options { access: without(right), ..RELIABLE };
        let scene = pair.scene(&options);
        let (piece, far) = (scene.near.piece(0, 8), scene.far.remote(0));
        let requests = [
            write(&[piece], far),
            read(&[piece], far),
            fetch_add(piece, far, 1),
            compare_swap(piece, far, 0, 1),
        ];
        let request = requests[operation].clone();
        pair.assert_refused_there(
            &scene,
            request,
            Status::RemoteInvalidRequest,
            AsyncEventKind::QpAccessError,
        );
        pair.reset();
    }
}

pub(crate) fn a_misaligned_atomic_is_an_invalid_request_before_any_key_is_looked_at(pair: &mut Pair) {
    for offset in 1..8 {
        for keys in 0..4 {
            let scene = pair.scene(&RELIABLE);
            let base = scene.far.base.next_multiple_of(8);
            let key = if keys & 1 == 0 { scene.far.remote_key } else { BAD };
            let mut piece = scene.near.piece(0, 8);
            if keys & 2 != 0 {
                piece.key = BAD;
            }
            let remote = RemoteRange { address: base + offset, key };
            let request =
                if offset % 2 == 0 { fetch_add(piece, remote, 1) } else { compare_swap(piece, remote, 0, 1) };
            pair.assert_refused_there(
                &scene,
                request,
                Status::RemoteInvalidRequest,
                AsyncEventKind::QpRequestError,
            );
            pair.reset();
        }
    }
}

pub(crate) fn an_atomic_whose_local_buffer_has_not_8_bytes_is_refused_locally(pair: &mut Pair) {
    for length in [0, 4, 7, 9, 16] {
        let scene = pair.scene(&RELIABLE);
        let request = fetch_add(scene.near.piece(0, length), scene.far.remote(0), 1);
        pair.assert_refused_here(&scene, request, Status::LocalLength);
        pair.reset();
    }
}

pub(crate) fn a_target_that_answers_no_reads_refuses_them(pair: &mut Pair) {
    let options = Options { max_dest_rd_atomic: 0, ..RELIABLE };
    for operation in 0..2 {
        let scene = pair.scene(&options);
        let (piece, far) = (scene.near.piece(0, 8), scene.far.remote(0));
        let request = [read(&[piece], far), fetch_add(piece, far, 1)][operation].clone();
        pair.assert_refused_there(
            &scene,
            request,
            Status::RemoteInvalidRequest,
            AsyncEventKind::QpRequestError,
        );
        pair.reset();
    }
    let scene = pair.scene(&options);
    let request = write(&[scene.near.all()], scene.far.remote(0));
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
}

/// Has a request end with a status and says how long that took.
fn time_to(pair: &mut Pair, scene: &Scene, request: Send, status: Status) -> Duration {
    let began = Instant::now();
    assert_eq!(pair.client.carry_out(&scene.client, request), status);
    began.elapsed()
}

/// Within what a loaded machine may add.
const SLACK: Duration = Duration::from_secs(3);

pub(crate) fn without_a_receive_the_sender_tries_again_as_often_as_it_was_told_and_waits_each_time(
    pair: &mut Pair,
) {
    // Timer 20 is 10.24 ms, timer 16 is 2.56 ms.
    for (min_rnr_timer, wait_us, rnr_retry) in [(20, 10_240, 3), (16, 2_560, 6), (16, 2_560, 0)] {
        for with_immediate in [false, true] {
            let scene = pair.scene(&Options { min_rnr_timer, rnr_retry, ..RELIABLE });
            let piece = scene.near.piece(0, 8);
            let request = if with_immediate {
                write(&[piece], scene.far.remote(0)).immediate(1)
            } else {
                send(&[piece])
            };
            let took = time_to(pair, &scene, request, Status::RnrRetryExceeded);
            let least = Duration::from_micros(wait_us) * u32::from(rnr_retry);
            assert!(
                took >= least && took < least + SLACK,
                "{took:?} for {rnr_retry} retries of {wait_us} us"
            );
            assert_eq!(pair.client.state(&scene.client), QpState::Error);
            // The target learns nothing of it.
            assert_eq!(pair.server.state(&scene.server), QpState::ReadyToSend);
            pair.server.assert_no_async_event();
            pair.reset();
        }
    }
}

pub(crate) fn rnr_retry_7_tries_for_ever_until_a_receive_is_posted(pair: &mut Pair) {
    let scene = pair.scene(&Options { min_rnr_timer: 12, rnr_retry: 7, ..RELIABLE });
    pair.client.post_all(
        &scene.client,
        vec![
            send(&[scene.near.piece(0, 64)]).id(1),
            write(&[scene.near.piece(64, 64)], scene.far.remote(64)).id(2),
        ],
    );
    // Far longer than seven times 0.64 ms.
    assert!(pair.client.wait(scene.client.send_queue, 1, 2 * NEVER).is_empty());
    pair.server.assert_untouched(&scene.far);
    pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 64)]);
    let sent = pair.client.completions(scene.client.send_queue, 2);
    assert!(sent.iter().all(|completion| completion.status == Status::Success), "{sent:?}");
    assert_eq!(pair.server.received(&scene.server).byte_length, 64);
    pair.server.assert_holds(&scene.far, &Scene::bytes()[..128]);
}

pub(crate) fn without_an_answer_the_sender_gives_up_after_its_retries_and_timeouts(pair: &mut Pair) {
    for (timeout, retry_count) in [(12, 2), (13, 0), (10, 7)] {
        let scene = pair.scene(&Options { timeout, retry_count, ..RELIABLE });
        pair.server.must(Command::DestroyPair { pair: scene.server.pair });
        let request = write(&[scene.near.piece(0, 8)], scene.far.remote(0));
        let took = time_to(pair, &scene, request, Status::RetryExceeded);
        // IBTA vol. 1, 9.9.2.1: a timeout lasts up to four times as long as was said.
        let waits = (0..=retry_count).map(|in_vain| 1 << in_vain.min(2)).sum::<u32>();
        let least = Duration::from_nanos(4096 << timeout) * waits;
        assert!(
            took >= least && took < least + SLACK,
            "{took:?} for {retry_count} retries, at least {least:?}"
        );
        pair.assert_nothing_moved(&scene);
        assert_eq!(pair.client.state(&scene.client), QpState::Error);
        pair.reset();
    }
}

pub(crate) fn a_peer_in_reset_init_or_error_does_not_answer(pair: &mut Pair) {
    for state in [QpState::Reset, QpState::Init, QpState::Error] {
        let scene = pair.scene(&Options { timeout: 11, retry_count: 1, ..RELIABLE });
        pair.server.receive(&scene.server, 1, &[scene.far.all()]);
        if state == QpState::Error {
            pair.server.move_to(&scene.server, state);
            assert_eq!(pair.server.received(&scene.server).status, Status::Flushed);
        } else {
            pair.server.move_to(&scene.server, QpState::Reset);
        }
        if state == QpState::Init {
            pair.server.modify(scene.server.pair, crate::pair::to_init(&RELIABLE));
            pair.server.receive(&scene.server, 1, &[scene.far.all()]);
        }
        let remote = scene.far.remote(0);
        let request = [send(&[scene.near.all()]), write(&[scene.near.all()], remote)]
            [usize::from(state == QpState::Init)]
        .clone();
        let took = time_to(pair, &scene, request, Status::RetryExceeded);
        assert!(took >= Duration::from_nanos(4096 << 11) * 2, "{state:?}: {took:?}");
        pair.assert_nothing_moved(&scene);
        pair.server.assert_quiet(scene.server.receive_queue);
        pair.reset();
    }
}

pub(crate) fn a_peer_that_fails_in_the_middle_of_a_message_is_noticed(pair: &mut Pair) {
    // Longer than a ring, so that it is under way for a while; and the peer fails sooner or later.
    const LONG: u64 = 4 << 20;
    for looks in 0..12 {
        let (client, server) = pair.connect(&Options { timeout: 10, retry_count: 1, ..RELIABLE });
        let near = pair.client.memory(client.zone, LONG, EVERYTHING);
        let far = pair.server.memory(server.zone, LONG, EVERYTHING);
        pair.client.post(&client, write(&[near.all()], far.remote(0)));
        for _ in 0..looks {
            assert!(pair.server.wait(server.receive_queue, 1, 0).is_empty());
        }
        pair.server.move_to(&server, QpState::Error);
        let status = pair.client.sent(&client).status;
        assert!(matches!(status, Status::Success | Status::RetryExceeded), "{status:?}");
        pair.reset();
    }
}

pub(crate) fn a_peer_that_becomes_ready_in_time_is_reached_by_a_retry(pair: &mut Pair) {
    let options = Options { timeout: 15, retry_count: 7, ..RELIABLE };
    let scene = pair.scene(&options);
    pair.server.move_to(&scene.server, QpState::Reset);
    pair.client.post(&scene.client, write(&[scene.near.all()], scene.far.remote(0)));
    assert!(pair.client.wait(scene.client.send_queue, 1, NEVER).is_empty());
    let path = pair.client.path();
    pair.server.modify(scene.server.pair, crate::pair::to_init(&options));
    pair.server.modify(scene.server.pair, crate::pair::to_receive(&options, scene.client.number, path));
    assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
    pair.server.assert_holds(&scene.far, &Scene::bytes());
}

pub(crate) fn one_request_fails_with_its_cause_and_those_after_it_are_flushed_in_order(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let good = |id: u64| write(&[scene.near.piece(id * 8, 8)], scene.far.remote(id * 8)).id(id);
    let bad = read(&[scene.near.piece(0, 8)], nowhere()).id(4);
    let requests = vec![good(0), good(1), good(2), good(3), bad, good(5), send(&[]).id(6), good(7)];
    for id in 0..3 {
        pair.client.receive(&scene.client, 50 + id, &[scene.near.all()]);
    }
    pair.client.post_all(&scene.client, requests);
    let completions = pair.client.completions(scene.client.send_queue, 8);
    let seen: Vec<_> = completions.iter().map(|completion| (completion.id, completion.status)).collect();
    let expected: Vec<_> = (0..8)
        .map(|id| match id {
            0..4 => (id, Status::Success),
            4 => (id, Status::RemoteAccess),
            _ => (id, Status::Flushed),
        })
        .collect();
    assert_eq!(seen, expected);
    let receives = pair.client.completions(scene.client.receive_queue, 3);
    let seen: Vec<_> = receives.iter().map(|completion| (completion.id, completion.status)).collect();
    assert_eq!(seen, [(50, Status::Flushed), (51, Status::Flushed), (52, Status::Flushed)]);
    pair.server.assert_holds(&scene.far, &Scene::bytes()[..32]);
}

pub(crate) fn moving_to_error_flushes_what_was_posted(pair: &mut Pair) {
    let scene = pair.scene(&Options { min_rnr_timer: 31, ..RELIABLE });
    // Held back by a receive that never comes.
    let requests = (0..5).map(|id| send(&[scene.near.piece(0, 8)]).id(id)).collect();
    pair.client.post_all(&scene.client, requests);
    pair.client.receive(&scene.client, 9, &[scene.near.all()]);
    pair.client.assert_quiet(scene.client.send_queue);
    pair.client.move_to(&scene.client, QpState::Error);
    let flushed = pair.client.completions(scene.client.send_queue, 5);
    assert!(
        flushed
            .iter()
            .zip(0..)
            .all(|(completion, id)| (completion.id, completion.status) == (id, Status::Flushed))
    );
    assert_eq!(pair.client.received(&scene.client).status, Status::Flushed);
    pair.assert_nothing_moved(&scene);
}

pub(crate) fn a_message_of_another_queue_pair_than_the_peer_is_not_taken(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    pair.server.receive(&scene.server, 1, &[scene.far.all()]);
    // A queue pair of the client that is connected to the server's, which is connected to another.
    let options = Options { timeout: 10, retry_count: 1, ..RELIABLE };
    let stranger = pair.client.end_in(scene.client.zone, &options, None);
    let path = pair.server.path();
    pair.client.modify(stranger.pair, crate::pair::to_init(&options));
    pair.client.modify(stranger.pair, crate::pair::to_receive(&options, scene.server.number, path));
    pair.client.modify(stranger.pair, crate::pair::to_send(&options));
    pair.client.post(&stranger, send(&[scene.near.piece(0, 8)]));
    let ended = pair.client.wait(stranger.send_queue, 1, SOON);
    assert_eq!(ended[0].status, Status::RetryExceeded);
    pair.assert_nothing_moved(&scene);
    let bytes = pattern(1, 8);
    let honest = send(&[scene.near.piece(0, 8)]);
    assert_eq!(pair.client.carry_out(&scene.client, honest), Status::Success);
    pair.server.assert_holds(&scene.far, &bytes);
}

//! Completion queues and channels: section 6.

use nonic_device::{AsyncEventKind, Key, QpState, RemoteRange, Status};

use crate::command::{Answer, Command, Job};
use crate::options::{End, Options, RELIABLE};
use crate::pair::{Pair, Scene};
use crate::request::{send, write};
use crate::side::{NEVER, SOON, Side};

const WITH_CHANNEL: Options = Options { channel: true, ..RELIABLE };

pub(crate) fn a_queue_of_no_entries_too_many_or_an_unknown_vector_is_refused(pair: &mut Pair) {
    let most = pair.client.ask(Command::Limits {})[3] as u32;
    for entries in [0, most + 1, u32::MAX] {
        pair.client.refuses(Command::Queue { entries, vector: 0, channel: None }, "Limit");
    }
    for vector in [1, u32::MAX] {
        pair.client.refuses(Command::Queue { entries: 1, vector, channel: None }, "Invalid");
    }
    for entries in [1, 3, 100, most] {
        assert!(
            pair.client.ask(Command::Queue { entries, vector: 0, channel: None })[1] >= u64::from(entries)
        );
    }
}

fn writes(pair: &mut Pair, scene: &Scene, count: u64) {
    let requests =
        (0..count).map(|id| write(&[scene.near.piece(0, 8)], scene.far.remote(0)).id(id)).collect();
    pair.client.post_all(&scene.client, requests);
}

/// Waits until the server has done what the client posted, without polling the client's queue.
fn settle(pair: &mut Pair) {
    pair.settle();
}

pub(crate) fn a_queue_shrinks_no_further_than_to_what_it_holds_and_keeps_its_entries(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let queue = scene.client.send_queue;
    writes(pair, &scene, 6);
    settle(pair);
    pair.client.refuses(Command::Resize { queue, entries: 5 }, "StillHolds");
    pair.client.refuses(Command::Resize { queue, entries: 0 }, "Limit");
    pair.client.must(Command::Resize { queue, entries: 6 });
    pair.client.must(Command::Resize { queue, entries: 600 });
    let ids: Vec<u64> = pair.client.completions(queue, 6).iter().map(|completion| completion.id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
}

pub(crate) fn polling_returns_no_more_than_asked_for(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    writes(pair, &scene, 5);
    settle(pair);
    let queue = scene.client.send_queue;
    for (most, expected) in [(0, 0), (2, 2), (2, 2), (9, 1), (9, 0)] {
        let answer = pair.client.run(Command::Poll { queue, most });
        let Ok(Answer::Completions { completions }) = answer else { panic!("{answer:?}") };
        assert_eq!(completions.len(), expected);
    }
}

fn wait_for_error(side: &mut Side, end: &End) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_millis(SOON);
    while side.state(end) != QpState::Error {
        assert!(std::time::Instant::now() < deadline, "the queue pair never went to error");
        std::thread::yield_now();
    }
}

pub(crate) fn an_overrun_raises_an_event_ends_the_queue_and_its_queue_pairs(pair: &mut Pair) {
    let scene = pair.scene(&Options { entries: 4, ..RELIABLE });
    let queue = scene.client.send_queue;
    writes(pair, &scene, 4);
    settle(pair);
    pair.client.assert_no_async_event();
    writes(pair, &scene, 2);
    pair.client.async_event(AsyncEventKind::CqError, queue);
    wait_for_error(&mut pair.client, &scene.client);
    // What it held is still delivered.
    let held = pair.client.wait(queue, 4, NEVER);
    assert!(held.len() == 4 && held.iter().all(|completion| completion.status == Status::Success));
    pair.client.refuses(Command::Poll { queue, most: 1 }, "CqOverrun");
    pair.client.refuses(Command::Poll { queue, most: 1 }, "CqOverrun");
    pair.client.assert_no_async_event();
}

fn has_event(side: &mut Side, end: &End, within_ms: u64) -> bool {
    let channel = end.channel.expect("the end has a channel");
    matches!(side.run(Command::NextEvent { channel, within_ms }), Ok(Answer::Numbers { .. }))
}

#[track_caller]
fn expect_event(side: &mut Side, end: &End, queue: u32) {
    let channel = end.channel.expect("the end has a channel");
    assert_eq!(side.ask(Command::NextEvent { channel, within_ms: SOON }), [u64::from(queue)]);
    side.must(Command::AcknowledgeEvents { queue, count: 1 });
}

pub(crate) fn one_event_comes_each_time_a_queue_is_armed(pair: &mut Pair) {
    let scene = pair.scene(&WITH_CHANNEL);
    let queue = scene.server.receive_queue;
    let message = send(&[scene.near.piece(0, 4)]);
    let exchange = |pair: &mut Pair| {
        pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 4)]);
        assert_eq!(pair.client.carry_out(&scene.client, message.clone()), Status::Success);
    };
    exchange(pair);
    assert!(!has_event(&mut pair.server, &scene.server, 0), "an event of a queue that was never armed");
    for _ in 0..3 {
        pair.server.must(Command::Arm { queue, solicited: false });
        exchange(pair);
        exchange(pair);
        expect_event(&mut pair.server, &scene.server, queue);
        assert!(!has_event(&mut pair.server, &scene.server, NEVER), "a second event of one arming");
    }
    pair.server.completions(queue, 7);
}

pub(crate) fn a_queue_armed_for_solicited_events_ignores_others(pair: &mut Pair) {
    let scene = pair.scene(&WITH_CHANNEL);
    let queue = scene.server.receive_queue;
    let message = send(&[scene.near.piece(0, 4)]);
    let exchange = |pair: &mut Pair, message: crate::command::Send| {
        pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 4)]);
        assert_eq!(pair.client.carry_out(&scene.client, message), Status::Success);
    };
    pair.server.must(Command::Arm { queue, solicited: true });
    exchange(pair, message.clone());
    assert!(!has_event(&mut pair.server, &scene.server, NEVER), "an event of an unsolicited message");
    exchange(pair, message.clone().solicited());
    expect_event(&mut pair.server, &scene.server, queue);
    exchange(pair, message.clone().solicited());
    assert!(!has_event(&mut pair.server, &scene.server, NEVER), "an event without arming");
    pair.server.must(Command::Arm { queue, solicited: true });
    let notice = write(&[scene.near.piece(0, 4)], scene.far.remote(0)).immediate(7).solicited();
    exchange(pair, notice);
    expect_event(&mut pair.server, &scene.server, queue);
    for (first, second) in [(true, false), (false, true)] {
        pair.server.must(Command::Arm { queue, solicited: first });
        pair.server.must(Command::Arm { queue, solicited: second });
        exchange(pair, message.clone());
        expect_event(&mut pair.server, &scene.server, queue);
    }
}

pub(crate) fn a_failure_counts_as_solicited(pair: &mut Pair) {
    let scene = pair.scene(&WITH_CHANNEL);
    pair.server.must(Command::Arm { queue: scene.server.receive_queue, solicited: true });
    pair.client.must(Command::Arm { queue: scene.client.send_queue, solicited: true });
    pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 4)]);
    pair.client.post(&scene.client, send(&[scene.near.piece(0, 5)]));
    expect_event(&mut pair.server, &scene.server, scene.server.receive_queue);
    expect_event(&mut pair.client, &scene.client, scene.client.send_queue);
    assert_eq!(pair.server.received(&scene.server).status, Status::LocalLength);
}

pub(crate) fn what_is_in_use_cannot_be_destroyed(pair: &mut Pair) {
    let end = pair.client.end(&WITH_CHANNEL);
    let channel = end.channel.expect("it was asked for");
    for queue in [end.send_queue, end.receive_queue] {
        pair.client.refuses(Command::DestroyQueue { queue }, "Busy");
    }
    pair.client.refuses(Command::DestroyChannel { channel }, "Busy");
    pair.client.must(Command::DestroyPair { pair: end.pair });
    pair.client.must(Command::DestroyQueue { queue: end.send_queue });
    pair.client.refuses(Command::DestroyChannel { channel }, "Busy");
    pair.client.must(Command::DestroyQueue { queue: end.receive_queue });
    pair.client.must(Command::DestroyChannel { channel });
}

pub(crate) fn destroying_a_queue_waits_until_its_events_are_acknowledged(pair: &mut Pair) {
    let scene = pair.scene(&WITH_CHANNEL);
    let queue = scene.client.send_queue;
    let channel = scene.client.channel.expect("it was asked for");
    for _ in 0..2 {
        pair.client.must(Command::Arm { queue, solicited: false });
        writes(pair, &scene, 1);
        pair.client.ask(Command::NextEvent { channel, within_ms: SOON });
    }
    pair.client.must(Command::DestroyPair { pair: scene.client.pair });
    pair.client.background(Job::DestroyQueue { queue });
    pair.client.must(Command::AcknowledgeEvents { queue, count: 1 });
    pair.client.refuses(Command::Join { within_ms: NEVER }, "the job has not ended");
    pair.client.must(Command::AcknowledgeEvents { queue, count: 1 });
    pair.client.join();
    pair.client.must(Command::DestroyQueue { queue: scene.client.receive_queue });
    pair.client.must(Command::DestroyChannel { channel });
}

pub(crate) fn the_completions_of_a_destroyed_queue_pair_vanish(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let queue = scene.client.send_queue;
    writes(pair, &scene, 3);
    settle(pair);
    pair.client.must(Command::DestroyPair { pair: scene.client.pair });
    pair.client.assert_quiet(queue);
    pair.client.must(Command::DestroyQueue { queue });
}

pub(crate) fn a_failed_request_is_reported_though_it_was_not_signalled(pair: &mut Pair) {
    let scene = pair.scene(&Options { signal_all: false, ..RELIABLE });
    let nowhere = RemoteRange { address: 0, key: Key(0x33) };
    let good = write(&[scene.near.piece(0, 8)], scene.far.remote(0));
    let bad = write(&[scene.near.piece(0, 8)], nowhere).id(2);
    pair.client.post_all(&scene.client, vec![good.clone().id(1), bad, good.clone().id(3), good.id(4)]);
    let completions = pair.client.completions(scene.client.send_queue, 3);
    let seen: Vec<_> = completions.iter().map(|completion| (completion.id, completion.status)).collect();
    assert_eq!(seen, [(2, Status::RemoteAccess), (3, Status::Flushed), (4, Status::Flushed)]);
    pair.client.assert_quiet(scene.client.send_queue);
}

fn batch(side: &mut Side, queue: u32, ahead: u32, reads: u32) -> Vec<u64> {
    match side.run(Command::Batch { queue, ahead, reads }) {
        Ok(Answer::Completions { completions }) => {
            completions.iter().map(|completion| completion.id).collect()
        }
        other => panic!("no completions: {other:?}"),
    }
}

pub(crate) fn what_a_batch_takes_and_does_not_read_is_there_again_in_order(pair: &mut Pair) {
    let (client, server) = pair.connect(&RELIABLE);
    for id in 0..20 {
        pair.server.receive(&server, id, &[]);
        assert_eq!(pair.client.carry_out(&client, send(&[])), Status::Success);
    }
    let queue = server.receive_queue;
    assert_eq!(batch(&mut pair.server, queue, 8, 3), [0, 1, 2]);
    assert_eq!(batch(&mut pair.server, queue, 1, 4), [3, 4, 5, 6]);
    let polled: Vec<u64> = pair.server.completions(queue, 2).iter().map(|completion| completion.id).collect();
    assert_eq!(polled, [7, 8]);
    assert_eq!(batch(&mut pair.server, queue, 16, 16), (9..20).collect::<Vec<_>>());
    assert_eq!(batch(&mut pair.server, queue, 16, 1), []);
    pair.server.assert_quiet(queue);
}

pub(crate) fn a_batch_gives_send_slots_back_and_a_second_one_goes_on_where_it_ended(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let slots = pair.client.ask(Command::Sizes { pair: scene.client.pair })[0];
    let request = |id| write(&[scene.near.piece(0, 8)], scene.far.remote(0)).id(id);
    let full = |pair: &mut Pair| {
        let requests = vec![request(99)];
        pair.client.refuses(Command::PostSend { pair: scene.client.pair, requests }, "QueueFull");
    };
    (0..slots).for_each(|id| pair.client.post(&scene.client, request(id)));
    full(pair);
    pair.settle();
    let queue = scene.client.send_queue;
    assert_eq!(batch(&mut pair.client, queue, 4, 4), [0, 1, 2, 3]);
    (slots..slots + 4).for_each(|id| pair.client.post(&scene.client, request(id)));
    full(pair);
    pair.settle();
    assert_eq!(batch(&mut pair.client, queue, 16, slots as u32 + 4), (4..slots + 4).collect::<Vec<_>>());
    pair.client.assert_quiet(queue);
}

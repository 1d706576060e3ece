//! Progress without the program, and which way bytes take: what a tier promises beyond moving bytes.

use std::time::Duration;

use nonic_device::Status;
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};

use crate::arrangement::Place;
use crate::background::now_ns;
use crate::command::{Command, Job, MemoryKind, Send};
use crate::memory::{EVERYTHING, Memory};
use crate::options::{End, Options, RELIABLE};
use crate::pair::{Pair, Scene};
use crate::program_memory::kernel_reaches;
use crate::request::{fetch_add, read, send, write};
use crate::side::{NEVER, SOON};

/// The promise is 1 ms; a loaded machine may take longer to run the agent at all.
const TOO_LATE: Duration = Duration::from_millis(100);
const ROUNDS: usize = 20;

/// Median and worst of some durations, as text; the median must be in time.
#[track_caller]
fn judge(pair: &Pair, what: &str, mut took: Vec<u64>) {
    took.sort_unstable();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    pair.note(&format!("{what}: median {} us, worst {} us", median / 1000, worst / 1000));
    assert!(Duration::from_nanos(median) < TOO_LATE, "{what} only after {} us", median / 1000);
}

pub(crate) fn a_target_that_only_computes_is_written_read_and_counted_on(pair: &mut Pair) {
    pair.only_concurrent();
    let scene = pair.scene(&RELIABLE);
    let last = pair.server.memory(scene.server.zone, 8, EVERYTHING);
    pair.server.background(Job::Watch { buffer: last.buffer, offset: last.offset, value: 0x77 });
    let (client, near, far) = (scene.client, scene.near, scene.far);
    assert_eq!(pair.client.carry_out(&client, write(&[near.piece(0, 128)], far.remote(0))), Status::Success);
    assert_eq!(pair.client.carry_out(&client, read(&[near.piece(128, 128)], far.remote(0))), Status::Success);
    assert_eq!(pair.client.read(&near, 128, 128), &Scene::bytes()[..128]);
    assert_eq!(
        pair.client.carry_out(&client, fetch_add(near.piece(0, 8), far.remote(128), 1)),
        Status::Success
    );
    pair.client.write(&near, 0, &[0x77]);
    assert_eq!(pair.client.carry_out(&client, write(&[near.piece(0, 1)], last.remote(0))), Status::Success);
    pair.server.join();
    assert_eq!(pair.server.read(&far, 0, 128), &Scene::bytes()[..128]);
    assert_eq!(pair.server.read(&far, 128, 1), [crate::memory::UNTOUCHED + 1]);
}

pub(crate) fn a_receive_is_filled_while_its_program_computes(pair: &mut Pair) {
    pair.only_concurrent();
    let scene = pair.scene(&RELIABLE);
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let value = 0x10 + round as u8;
        pair.client.write(&scene.near, 0, &[value; 64]);
        pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 64)]);
        pair.server.background(Job::Watch { buffer: scene.far.buffer, offset: scene.far.offset + 63, value });
        let posted = now_ns();
        pair.client.post(&scene.client, send(&[scene.near.piece(0, 64)]));
        took.push(pair.server.join() - posted);
        assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
        pair.server.received(&scene.server);
    }
    judge(pair, "a receive of a computing program is filled", took);
}

pub(crate) fn a_program_asleep_on_its_channel_is_woken(pair: &mut Pair) {
    pair.only_concurrent();
    let scene = pair.scene(&Options { channel: true, ..RELIABLE });
    let (channel, queue) = (scene.server.channel.expect("it was asked for"), scene.server.receive_queue);
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 64)]);
        pair.server.must(Command::Arm { queue, solicited: false });
        pair.server.background(Job::SleepOnChannel { channel });
        let posted = now_ns();
        pair.client.post(&scene.client, send(&[scene.near.piece(0, 64)]));
        took.push(pair.server.join() - posted);
        pair.server.must(Command::AcknowledgeEvents { queue, count: 1 });
        assert_eq!(pair.server.received(&scene.server).status, Status::Success);
        assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
    }
    judge(pair, "a sleeping program is woken", took);
}

pub(crate) fn a_sender_asleep_on_its_channel_is_woken_by_the_answer(pair: &mut Pair) {
    pair.only_concurrent();
    let scene = pair.scene(&Options { channel: true, ..RELIABLE });
    let (channel, queue) = (scene.client.channel.expect("it was asked for"), scene.client.send_queue);
    for _ in 0..ROUNDS {
        pair.server.receive(&scene.server, 1, &[scene.far.piece(0, 64)]);
        pair.client.must(Command::Arm { queue, solicited: false });
        pair.client.background(Job::SleepOnChannel { channel });
        pair.client.post(&scene.client, send(&[scene.near.piece(0, 64)]));
        pair.client.join();
        pair.client.must(Command::AcknowledgeEvents { queue, count: 1 });
        assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
        pair.server.received(&scene.server);
    }
}

pub(crate) fn retries_go_on_while_nobody_polls(pair: &mut Pair) {
    let scene = pair.scene(&Options { channel: true, timeout: 11, retry_count: 2, ..RELIABLE });
    let (channel, queue) = (scene.client.channel.expect("it was asked for"), scene.client.send_queue);
    pair.server.must(Command::DestroyPair { pair: scene.server.pair });
    pair.client.must(Command::Arm { queue, solicited: true });
    pair.client.post(&scene.client, write(&[scene.near.all()], scene.far.remote(0)));
    assert_eq!(pair.client.ask(Command::NextEvent { channel, within_ms: SOON }), [u64::from(queue)]);
    pair.client.must(Command::AcknowledgeEvents { queue, count: 1 });
    assert_eq!(pair.client.sent(&scene.client).status, Status::RetryExceeded);
}

// With a target that does not run at all.

/// The server's process, for rules that stop it.
fn stoppable(pair: &Pair) -> rustix::process::Pid {
    let reason = "only a process can be stopped";
    pair.only(pair.arrangement.server == Place::OtherProcess, reason);
    pair.server.process().expect("the server is another process")
}

fn stop(process: rustix::process::Pid) {
    kill_process(process, Signal::STOP).expect("the server can be stopped");
    let stopped = waitpid(Some(process), WaitOptions::UNTRACED).expect("the server is a child");
    assert!(stopped.is_some_and(|(_, status)| status.stopped()), "the server did not stop");
}

fn go_on(process: rustix::process::Pid) {
    kill_process(process, Signal::CONT).expect("the server can go on");
}

/// Whether a request can end while the server's process is stopped. The way there may take a few messages to open, so
/// this tries several times and lets the target run for a while in between.
#[track_caller]
fn ends_without_target(pair: &mut Pair, client: &End, request: &Send) -> bool {
    const TRIES: usize = 20;
    let process = stoppable(pair);
    for _ in 0..TRIES {
        stop(process);
        pair.client.post(client, request.clone());
        let ended = pair.client.wait(client.send_queue, 1, 3 * NEVER);
        go_on(process);
        if let Some(completion) = ended.first() {
            assert_eq!(completion.status, Status::Success);
            return true;
        }
        assert_eq!(pair.client.sent(client).status, Status::Success);
        assert!(pair.client.wait(client.send_queue, 1, NEVER / 4).is_empty());
    }
    false
}

/// A request of each kind on memory of the server's.
fn on(near: &Memory, far: &Memory) -> [(&'static str, Send); 3] {
    [
        ("a write", write(&[near.piece(0, 100)], far.remote(0))),
        ("a read", read(&[near.piece(0, 100)], far.remote(0))),
        ("an atomic", fetch_add(near.piece(0, 8), far.remote(128), 1)),
    ]
}

#[track_caller]
fn reached_without_target(pair: &mut Pair, kind: MemoryKind, kinds: usize) {
    let scene = pair.scene(&RELIABLE);
    let far = pair.server.memory_of(kind, scene.server.zone, 256, None, EVERYTHING);
    for (name, request) in on(&scene.near, &far).into_iter().take(kinds) {
        assert!(ends_without_target(pair, &scene.client, &request), "{name} needs the target to run");
    }
    assert_eq!(pair.server.read(&far, 0, 100), &Scene::bytes()[..100]);
}

pub(crate) fn device_memory_is_reached_without_the_target(pair: &mut Pair) {
    stoppable(pair);
    pair.only(pair.arrangement.tier() == "mapped", "the tier maps nothing");
    reached_without_target(pair, MemoryKind::Device, 3);
}

pub(crate) fn memory_the_program_shares_already_is_reached_without_the_target(pair: &mut Pair) {
    stoppable(pair);
    pair.only(pair.arrangement.tier() == "mapped", "the tier maps nothing");
    reached_without_target(pair, MemoryKind::Shared, 3);
}

pub(crate) fn adopted_memory_is_reached_without_the_target(pair: &mut Pair) {
    stoppable(pair);
    pair.only(pair.arrangement.memory == MemoryKind::Pages, "no memory is adopted");
    // An atomic among them: no kernel copy does that.
    reached_without_target(pair, MemoryKind::Pages, 3);
}

pub(crate) fn private_memory_is_written_and_read_by_the_kernel_without_the_target(pair: &mut Pair) {
    let process = stoppable(pair);
    pair.only(pair.arrangement.tier() != "ring", "the tier asks the kernel for nothing");
    let (_, address) = pair.server.buffer(MemoryKind::Private, 8);
    pair.only(
        kernel_reaches(process, address),
        "the kernel of this machine copies nothing between processes",
    );
    reached_without_target(pair, MemoryKind::Private, 2);
}

pub(crate) fn what_the_tier_cannot_reach_waits_for_the_target(pair: &mut Pair) {
    let process = stoppable(pair);
    let scene = pair.scene(&RELIABLE);
    let far = pair.server.memory_of(MemoryKind::Private, scene.server.zone, 256, None, EVERYTHING);
    let ring = pair.arrangement.tier() == "ring";
    for (name, request) in on(&scene.near, &far).into_iter().skip(if ring { 0 } else { 2 }) {
        stop(process);
        pair.client.post(&scene.client, request);
        let early = pair.client.wait(scene.client.send_queue, 1, NEVER);
        go_on(process);
        assert!(early.is_empty(), "{name} ended without the target: {early:?}");
        assert_eq!(pair.client.sent(&scene.client).status, Status::Success);
    }
}

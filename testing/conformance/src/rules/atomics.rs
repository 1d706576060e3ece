//! Atomics: section 7.4.

use nonic_device::{Access, CompletionOpcode, Status};

use crate::command::{Job, MemoryKind};
use crate::memory::{EVERYTHING, Memory};
use crate::options::RELIABLE;
use crate::pair::Pair;
use crate::request::{compare_swap, fetch_add};

fn set(pair: &mut Pair, memory: &Memory, offset: u64, value: u64) {
    pair.server.write(memory, offset, &value.to_ne_bytes());
}

pub(crate) fn fetch_and_add_returns_the_old_value_and_wraps(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = scene.far;
    for (before, add) in [(0, 1), (5, 0), (u64::MAX, 1), (1 << 63, 1 << 63), (7, 3u64.wrapping_neg())] {
        set(pair, &far, 8, before);
        pair.client.post(&scene.client, fetch_add(scene.near.piece(16, 8), far.remote(8), add));
        let completion = pair.client.sent(&scene.client);
        assert_eq!((completion.status, completion.opcode), (Status::Success, CompletionOpcode::FetchAdd));
        assert_eq!(pair.client.word(&scene.near, 16), before);
        assert_eq!(pair.server.word(&far, 8), before.wrapping_add(add));
    }
}

pub(crate) fn compare_and_swap_swaps_only_what_it_expects(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let far = scene.far;
    for (before, compare, swap) in [(5, 5, 9), (5, 4, 9), (0, 0, u64::MAX), (u64::MAX, 0, 1)] {
        set(pair, &far, 8, before);
        pair.client.post(&scene.client, compare_swap(scene.near.piece(16, 8), far.remote(8), compare, swap));
        let completion = pair.client.sent(&scene.client);
        assert_eq!((completion.status, completion.opcode), (Status::Success, CompletionOpcode::CompareSwap));
        assert_eq!(pair.client.word(&scene.near, 16), before);
        assert_eq!(pair.server.word(&far, 8), if before == compare { swap } else { before });
    }
}

pub(crate) fn the_result_of_an_atomic_may_go_into_several_pieces(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    set(pair, &scene.far, 0, 0x1122_3344_5566_7788);
    let mut request = fetch_add(scene.near.piece(1, 3), scene.far.remote(0), 1);
    request.pieces.push(scene.near.piece(21, 5));
    assert_eq!(pair.client.carry_out(&scene.client, request), Status::Success);
    let seen = [pair.client.read(&scene.near, 1, 3), pair.client.read(&scene.near, 21, 5)].concat();
    assert_eq!(seen, 0x1122_3344_5566_7788u64.to_ne_bytes());
}

pub(crate) fn an_atomic_touches_its_eight_bytes_only(pair: &mut Pair) {
    let scene = pair.scene(&RELIABLE);
    let (client, far) = (scene.client, scene.far);
    let result = pair.client.memory(client.zone, 8, Access::LOCAL_WRITE);
    assert_eq!(pair.client.carry_out(&client, fetch_add(result.all(), far.remote(64), 1)), Status::Success);
    let mut expected = vec![crate::memory::UNTOUCHED; 72];
    expected[64] += 1;
    pair.server.assert_holds(&far, &expected);
    pair.client.assert_holds(&result, &[crate::memory::UNTOUCHED; 8]);
}

/// How often each party adds.
const COUNT: u64 = 1500;

/// The client, a queue pair of the server's own and, if the memory allows, the server's CPU add to one word.
fn contend(pair: &mut Pair, kind: MemoryKind) {
    pair.only_concurrent();
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory(client.zone, 8, EVERYTHING);
    let (own, other) = (pair.server.end(&RELIABLE), pair.server.end_in(server.zone, &RELIABLE, None));
    pair.server.connect_to_itself(&own, &other, &RELIABLE);
    let own_result = pair.server.memory(own.zone, 8, EVERYTHING);
    let word = pair.server.memory_of(kind, server.zone, 8, None, EVERYTHING);
    set(pair, &word, 0, 0);
    let request = fetch_add(own_result.all(), word.remote(0), 1);
    pair.server.background(Job::Repeat { pair: own.pair, queue: own.send_queue, request, count: COUNT });
    let cpu = kind != MemoryKind::Device;
    if cpu {
        pair.server.background(Job::CpuAdd { buffer: word.buffer, offset: word.offset, count: 50 * COUNT });
    }
    let request = fetch_add(near.all(), word.remote(0), 1);
    pair.client.background(Job::Repeat {
        pair: client.pair,
        queue: client.send_queue,
        request,
        count: COUNT,
    });
    pair.client.join();
    pair.server.join();
    assert_eq!(pair.server.word(&word, 0), 2 * COUNT + if cpu { 50 * COUNT } else { 0 });
}

pub(crate) fn atomics_of_both_sides_and_of_the_owners_cpu_lose_nothing(pair: &mut Pair) {
    let kind = pair.arrangement.memory;
    contend(pair, if kind == MemoryKind::Device { MemoryKind::Private } else { kind });
}

pub(crate) fn atomics_of_both_sides_on_device_memory_lose_nothing(pair: &mut Pair) {
    contend(pair, MemoryKind::Device);
}

//! Many threads on one device at once: traffic, registration, creation and destruction, none waiting for another for
//! ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common;
use nonic_device::{
    Access, Capabilities, Operation, QpType, QueuePairRequest, RegionMemory, RegionRequest, RemoteRange,
    Status,
};

const ROUNDS: u64 = 2_000;

/// Sends, writes, reads and adds between two ends, each round checked.
fn traffic(seed: u64) {
    let (mut one, other) = common::connected();
    let word = RemoteRange { address: other.buffer.as_ptr() as u64 + 2048, key: other.region.remote_key() };
    let bytes = RemoteRange { address: other.buffer.as_ptr() as u64 + 1024, key: other.region.remote_key() };
    for round in 0..ROUNDS {
        let mark = (seed * ROUNDS + round).to_ne_bytes();
        one.buffer[..8].copy_from_slice(&mark);
        other.post_receive(round);
        one.post(1, Operation::Send { immediate: None }, &[one.piece(0, 8)]);
        one.post(2, Operation::Write { remote: bytes, immediate: None }, &[one.piece(0, 8)]);
        one.post(3, Operation::FetchAdd { remote: word, add: 1 }, &[one.piece(64, 8)]);
        one.post(4, Operation::Read { remote: bytes }, &[one.piece(128, 8)]);
        for id in 1..=4 {
            let completion = one.completion();
            assert_eq!((completion.id, completion.status), (id, Status::Success), "round {round}");
        }
        let received = other.completion();
        assert_eq!((received.id, received.status), (round, Status::Success));
        assert_eq!(&one.buffer[64..72], &round.to_ne_bytes(), "what the word held before");
        assert_eq!(&one.buffer[128..136], &mark, "what was written just before");
    }
}

fn registration(stop: &AtomicBool) {
    let end = common::End::new();
    let mut memory = vec![0u8; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let program = RegionMemory::Program {
            address: common::program(memory.as_mut_ptr() as usize),
            length: memory.len(),
        };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let region = end.zone.register(RegionRequest { memory: program, base: 0, access }).unwrap();
        region.deregister().unwrap();
    }
}

fn creation(stop: &AtomicBool) {
    let end = common::End::new();
    while !stop.load(Ordering::Relaxed) {
        let pair = end
            .zone
            .create_queue_pair(QueuePairRequest {
                transport: QpType::ReliableConnection,
                send_queue: Arc::clone(&end.completions),
                receive_queue: Arc::clone(&end.completions),
                shared_receive_queue: None,
                capabilities: Capabilities { send_requests: 4, send_pieces: 1, ..Capabilities::default() },
                signal_all: true,
                cookie: 0,
                observer: None,
            })
            .unwrap();
        pair.destroy().unwrap();
    }
}

#[test]
fn traffic_registration_and_creation_go_on_side_by_side() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| registration(&stop));
        scope.spawn(|| creation(&stop));
        let workers: Vec<_> = (0..4).map(|seed| scope.spawn(move || traffic(seed))).collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
}

//! Messages and requests for a shared receive queue of one process that come to a queue pair of another, in an XRC domain that both have
//! open.

use std::time::{Duration, Instant};

use nonic_device::{
    CompletionOpcode, Config, Counter, Destination, DomainError, EngineHandle, Key, Operation, QpState,
    ReceiveRequest, RemoteRange, SendFlags, SendRequest, SrqNumber, Status,
};

use crate::common::eventually;
use crate::common::pair::{LENGTH, Side};
use crate::domain_scene::{SEND, Scene, file_of, open, pattern, sender};

#[test]
fn a_message_for_a_queue_of_another_process_is_received_there() {
    let scene = Scene::new(&file_of("messages"));
    for (turn, length) in [1, 64, 4096, 9000, 70_000].into_iter().enumerate() {
        let bytes = pattern(turn as u8, length);
        scene.peer.memory.set(0, &bytes);
        scene.post_receive(turn as u64, 100, LENGTH - 100);
        let immediate = (turn % 2 == 0).then_some(77);
        assert_eq!(scene.run(Operation::Send { immediate }, 0, length), Status::Success, "{length} bytes");
        let received = scene.received();
        assert_eq!((received.id, received.status), (turn as u64, Status::Success));
        assert_eq!((received.byte_length, received.immediate), (length as u32, immediate));
        assert_eq!(received.opcode, CompletionOpcode::Receive);
        assert_eq!(received.qp_number, scene.near.end.pair.number(), "where it came in");
        assert_eq!(received.source_qp, scene.peer.end.pair.number());
        assert_eq!(scene.far.memory.get(100, length), bytes, "{length} bytes");
        assert_eq!(scene.near.memory.get(0, 64), [0; 64]);
    }
    assert_eq!(scene.queue.unfinished(), 0);
}

#[test]
fn memory_of_the_zone_of_a_queue_of_another_process_is_written_read_and_changed() {
    let scene = Scene::new(&file_of("memory"));
    let remote = |offset| scene.far.remote(offset);
    for length in [8, 9000, 70_000] {
        let bytes = pattern(length as u8, length);
        scene.peer.memory.set(0, &bytes);
        let write = Operation::Write { remote: remote(4096), immediate: None };
        assert_eq!(scene.run(write, 0, length), Status::Success);
        assert_eq!(scene.far.memory.get(4096, length), bytes);
        scene.peer.memory.set(0, &vec![0; length]);
        assert_eq!(scene.run(Operation::Read { remote: remote(4096) }, 0, length), Status::Success);
        assert_eq!(scene.peer.memory.get(0, length), bytes);
    }
    scene.far.memory.set(0, &5_u64.to_ne_bytes());
    assert_eq!(scene.run(Operation::FetchAdd { remote: remote(0), add: 3 }, 64, 8), Status::Success);
    assert_eq!(scene.peer.memory.get(64, 8), 5_u64.to_ne_bytes());
    let exchange = Operation::CompareSwap { remote: remote(0), compare: 8, swap: 11 };
    assert_eq!(scene.run(exchange, 64, 8), Status::Success);
    assert_eq!(scene.peer.memory.get(64, 8), 8_u64.to_ne_bytes());
    assert_eq!(scene.far.memory.get(0, 8), 11_u64.to_ne_bytes());
    scene.received_nothing();
}

#[test]
fn a_write_with_immediate_data_takes_a_receive_of_the_queue_it_names() {
    let scene = Scene::new(&file_of("immediate"));
    let bytes = pattern(3, 20_000);
    scene.peer.memory.set(0, &bytes);
    scene.post_receive(9, 0, 0);
    let write = Operation::Write { remote: scene.far.remote(4096), immediate: Some(5) };
    assert_eq!(scene.run(write, 0, bytes.len()), Status::Success);
    let received = scene.received();
    assert_eq!((received.id, received.immediate, received.byte_length), (9, Some(5), 20_000));
    assert_eq!(received.opcode, CompletionOpcode::ReceiveWriteWithImmediate);
    assert_eq!(scene.far.memory.get(4096, bytes.len()), bytes);
}

#[test]
fn the_zone_of_the_queue_judges_and_what_it_refuses_changes_nothing() {
    type Refused = fn(&Scene) -> Operation;
    let refused: [(&str, Refused, Status); 4] = [
        (
            "memory of the process that has the queue pair",
            |scene| Operation::Write { remote: scene.near.remote(0), immediate: None },
            Status::RemoteAccess,
        ),
        (
            "beyond the end",
            |scene| Operation::Write { remote: scene.far.remote(LENGTH - 4), immediate: None },
            Status::RemoteAccess,
        ),
        (
            "a key that nobody has",
            |scene| {
                let RemoteRange { address, key } = scene.far.remote(0);
                Operation::Read { remote: RemoteRange { address, key: Key(key.0 ^ 0x80) } }
            },
            Status::RemoteAccess,
        ),
        (
            "a word that is none",
            |scene| Operation::FetchAdd { remote: scene.far.remote(4), add: 1 },
            Status::RemoteInvalidRequest,
        ),
    ];
    for (what, operation, status) in refused {
        let scene = Scene::new(&file_of("refusals"));
        scene.peer.memory.set(0, &[7; 64]);
        scene.post_receive(1, 0, 64);
        assert_eq!(scene.run(operation(&scene), 0, 8), status, "{what}");
        assert_eq!(scene.far.memory.get(0, LENGTH), vec![0; LENGTH], "{what}");
        assert_eq!(scene.near.memory.get(0, 64), [0; 64], "{what}");
        assert_eq!(scene.queue.waiting(), 1, "{what}");
        scene.received_nothing();
    }
}

#[test]
fn a_message_that_is_too_long_ends_its_receive_and_the_connection() {
    let scene = Scene::new(&file_of("too-long"));
    scene.post_receive(4, 0, 10);
    assert_eq!(scene.run(SEND, 0, 11), Status::RemoteInvalidRequest);
    let received = scene.received();
    assert_eq!((received.id, received.status), (4, Status::LocalLength));
    assert_eq!(scene.far.memory.get(0, 64), [0; 64]);
    assert_eq!(scene.near.end.pair.state(), QpState::Error);
}

#[test]
fn a_message_waits_for_a_receive_of_another_process() {
    let scene = Scene::new(&file_of("not-ready"));
    scene.peer.memory.set(0, &[9; 64]);
    scene.post(SEND, scene.peer.piece(0, 64)).unwrap();
    let is_refused = || scene.near.count(Counter::Refused) > 0;
    eventually("it was not refused for want of a receive", is_refused);
    scene.post_receive(1, 0, 64);
    assert_eq!(scene.peer.end.completion().status, Status::Success);
    assert_eq!(scene.received().id, 1);
    assert_eq!(scene.far.memory.get(0, 64), [9; 64]);
}

#[test]
fn a_queue_of_another_process_that_is_gone_is_refused() {
    let mut scene = Scene::new(&file_of("gone"));
    scene.post_receive(1, 0, 64);
    assert_eq!(scene.run(SEND, 0, 8), Status::Success);
    assert_eq!(scene.received().id, 1);
    let number = scene.queue.number();
    scene.queue.destroy().unwrap();
    let write = Operation::Write { remote: scene.far.remote(0), immediate: None };
    scene.peer.memory.set(0, &[7; 8]);
    assert_eq!(scene.run(write, 0, 8), Status::RemoteAccess, "{number:?}");
    assert_eq!(scene.far.memory.get(0, 8), [0; 8]);
    // And so is one whose process is gone.
    let scene = {
        scene.far_domain.close().unwrap();
        scene.far.end.context().close();
        scene.peer.end.pair = sender(&scene.peer);
        scene.near.end.pair = scene.near_domain.create_queue_pair(0).unwrap();
        scene.peer.connect(&scene.near);
        scene
    };
    assert_eq!(scene.run(write, 0, 8), Status::RemoteAccess);
    assert_eq!(scene.far.memory.get(0, 8), [0; 8]);
}

#[test]
fn numbers_of_queues_lead_to_one_process() {
    let file = file_of("numbers");
    let scene = Scene::new(&file);
    let near = &scene.near.end;
    let completions = near.context().create_completion_queue(16, 0, None, 0).unwrap();
    let make = || near.zone.create_extended_receive_queue(&scene.near_domain, &completions, (1, 1), 0);
    let queues: Vec<_> = (0..4096).map(|_| make().unwrap()).collect();
    let mut numbers: Vec<_> = queues.iter().filter_map(|queue| queue.number()).collect();
    numbers.push(scene.queue.number().unwrap());
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 4097);
    make().expect_err("every number of the process is given out");
    queues[7].destroy().unwrap();
    assert_eq!(make().unwrap().number(), queues[7].number());
    // A number of nobody's is nobody's.
    let wrong = SrqNumber(scene.queue.number().unwrap().0 ^ 0x800);
    let request = SendRequest {
        id: 1,
        operation: SEND,
        flags: SendFlags::default(),
        pieces: &[scene.peer.piece(0, 8)],
        destination: Some(Destination::Queue(wrong)),
    };
    // SAFETY: the piece lies in the side's own memory.
    unsafe { scene.peer.end.pair.post_send(&request).unwrap() };
    scene.peer.end.pair.ring_doorbell();
    assert_eq!(scene.peer.end.completion().status, Status::RemoteAccess);
}

#[test]
fn a_domain_that_another_process_has_open_is_there_and_can_be_had_by_nobody_alone() {
    let file = file_of("alone");
    let engines = [0; 2].map(|_| EngineHandle::create(Config::default()).unwrap());
    let [one, other] = engines.each_ref().map(Side::on);
    assert!(matches!(open(&other, &file, false, false), Err(DomainError::NoneThere)));
    let first = open(&one, &file, true, true).unwrap();
    assert!(matches!(open(&other, &file, true, true), Err(DomainError::Exists)));
    let second = open(&other, &file, false, false).unwrap();
    first.close().unwrap();
    assert!(matches!(open(&one, &file, true, true), Err(DomainError::Exists)));
    second.close().unwrap();
    assert!(matches!(open(&one, &file, false, false), Err(DomainError::NoneThere)));
    open(&one, &file, true, true).unwrap().close().unwrap();
}

#[test]
fn of_two_that_want_a_domain_alone_one_gets_it() {
    let file = file_of("race");
    let engines = [0; 2].map(|_| EngineHandle::create(Config::default()).unwrap());
    let sides = engines.each_ref().map(Side::on);
    for round in 0..50 {
        let opened = std::thread::scope(|scope| {
            let both = sides.each_ref().map(|side| scope.spawn(|| open(side, &file, true, true)));
            both.map(|thread| thread.join().unwrap().ok())
        });
        let got: Vec<_> = opened.into_iter().flatten().collect();
        assert_eq!(got.len(), 1, "round {round}");
        got[0].close().unwrap();
    }
}

#[test]
fn two_processes_that_have_queues_for_each_other_do_not_wait_for_each_other() {
    let file = file_of("crosswise");
    let engines = [0; 4].map(|_| EngineHandle::create(Config::default()).unwrap());
    // Each of the middle two has the queue pair of a peer and the queue that the other's peer names.
    let mut sides = engines.each_ref().map(Side::on);
    let domains = [1, 2].map(|middle| open(&sides[middle], &file, true, false).unwrap());
    for (peer, middle, domain) in [(0, 1, &domains[0]), (3, 2, &domains[1])] {
        sides[peer].end.pair = sender(&sides[peer]);
        sides[middle].end.pair = domain.create_queue_pair(0).unwrap();
        sides[peer].connect(&sides[middle]);
    }
    let queues: [_; 2] = std::array::from_fn(|place| {
        let end = &sides[1 + place].end;
        let queue = end.zone.create_extended_receive_queue(&domains[place], &end.completions, (256, 1), 0);
        let queue = queue.unwrap();
        for id in 0..256 {
            let pieces = [sides[1 + place].piece(0, 4096)];
            queue.post_receive(&ReceiveRequest { id, pieces: &pieces }).unwrap();
        }
        queue
    });
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (peer, queue) in [(&sides[0], &queues[1]), (&sides[3], &queues[0])] {
            scope.spawn(move || {
                for _ in 0..200 {
                    let request = SendRequest {
                        id: 1,
                        operation: SEND,
                        flags: SendFlags::default(),
                        pieces: &[peer.piece(0, 4096)],
                        destination: queue.number().map(Destination::Queue),
                    };
                    // SAFETY: the piece lies in the side's own memory.
                    unsafe { peer.end.pair.post_send(&request).unwrap() };
                    peer.end.pair.ring_doorbell();
                    assert_eq!(peer.end.completion().status, Status::Success);
                }
            });
        }
    });
    // Had they waited, then for two seconds each time.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for side in &sides[1..3] {
        let mut count = 0;
        while side.end.completions.poll(|_| count += 1, 1) == Ok(1) {}
        assert_eq!(count, 200);
    }
}

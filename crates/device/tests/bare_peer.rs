//! A peer that is no device but the bare ring: what the requester says on it, word for word.

mod bare;
mod common;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use bare::{BarePeer, next_message};
use nonic_device::{
    Access, AsyncElement, AsyncEventKind, Operation, QpNumber, QpState, RegionMemory, RegionRequest, Status,
};
use nonic_protocol::{
    Answer, BaseHeader, Body, Extent, Message, Psn, ReadRequest, Refusal, RemoteRange, Request, SendFragment,
    SendPull,
};
use nonic_transport::{Link, Tier, connect_owner};

#[test]
fn a_message_begun_in_fragments_ends_in_fragments_though_the_peer_could_pull_by_then() {
    let end = common::End::new();
    let peer = BarePeer::new(Tier::Kernel);
    end.connect(peer.number());
    // Far more than the ring holds, and the peer has not even accepted yet.
    let pieces = [end.piece(0, 4096); 4];
    const MESSAGES: usize = 40;
    for id in 0..MESSAGES {
        end.post(id as u64, Operation::Send { immediate: None }, &pieces);
    }
    let link = peer.accept();
    // Each has to prove that it may before the other shows its memory; that the peer can pull stands behind that.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !link.peer_can_reach() {
        assert!(Instant::now() < deadline, "the device does not answer");
        link.handle_socket();
    }
    assert!(link.can_reach(), "a process reaches its own memory");
    let (mut posted, mut whole, mut pulled) = (MESSAGES, 0, 0);
    // When the device hears that the peer can pull is chance.
    while whole < posted || pulled == 0 {
        if whole == posted {
            assert!(Instant::now() < deadline, "the device does not learn that the peer can pull");
            end.post(posted as u64, Operation::Send { immediate: None }, &pieces);
            posted += 1;
        }
        let (message, length) = next_message(&link);
        assert_eq!(message.base.source, end.pair.number());
        match message.body {
            Body::Request(Request::Pull(SendPull { total: 16384, .. })) => {
                pulled += 1;
                whole += 1;
            }
            Body::Request(Request::Send(SendFragment {
                extent: Extent { total: 16384, offset }, ..
            })) => {
                assert_eq!(offset % 8192, 0);
                assert_eq!(length, 8192);
                if offset > 0 {
                    whole += 1;
                }
            }
            other => panic!("{other:?}"),
        }
        if whole == posted && pulled == 0 {
            let base = message.base.answer();
            link.push(&Message { base, body: Body::Answer(Answer::Acknowledge) }, &[]).unwrap();
            link.ring_bell_now();
            assert_eq!(end.completion().status, Status::Success);
        }
    }
}

#[test]
fn a_peer_that_crashes_between_the_two_steps_of_connecting_fails_what_is_sent_and_not_the_second_step() {
    let end = common::End::new();
    let peer = BarePeer::new(Tier::Ring);
    end.receive_from(peer.number());
    peer.accept().close();
    let deadline = Instant::now() + Duration::from_secs(20);
    while end.pair.state() != QpState::Error {
        assert!(Instant::now() < deadline, "the device does not see that the peer has gone");
        std::thread::yield_now();
    }
    end.start_sending().unwrap();
    end.post(7, Operation::Send { immediate: None }, &[end.piece(0, 64)]);
    let completion = end.completion();
    assert_eq!((completion.id, completion.status), (7, Status::Flushed));
    assert_eq!(end.pair.state(), QpState::Error);
}

#[test]
fn what_a_peer_said_last_counts_though_it_made_the_connection_for_it_just_before_its_end() {
    // Which of the peer's doings the device sees first is chance.
    for round in 0..200 {
        let end = common::End::new();
        let peer = BarePeer::new(Tier::Kernel);
        end.connect(peer.number());
        end.post(round, Operation::Send { immediate: None }, &[end.piece(0, 64)]);
        let first = peer.accept();
        let (sent, _) = next_message(&first);
        // Its own connection, made at the same time, is the one it answers on.
        let socket = connect_owner(end.pair.number()).unwrap();
        let second = Link::connect(&peer.party, socket, &[peer.block.number]).unwrap();
        let answer = Message { base: sent.base.answer(), body: Body::Answer(Answer::Acknowledge) };
        second.push(&answer, &[]).unwrap();
        for link in [first, second] {
            link.say_goodbye();
            link.close();
        }
        let completion = end.completion();
        assert_eq!((completion.id, completion.status), (round, Status::Success));
    }
}

#[test]
fn a_number_of_a_process_that_has_just_ended_leads_to_the_one_that_has_it_now() {
    let mut peer = BarePeer::new(Tier::Ring);
    let keeps_the_engine = common::End::new();
    // Whether the end of the first is noticed before the second is asked for is chance.
    for round in 0..200 {
        let end = common::End::new();
        end.connect(peer.number());
        let link = peer.accept();
        link.close();
        peer = peer.succeed();
        let end = common::End::new();
        end.connect(peer.number());
        end.post(round, Operation::Send { immediate: None }, &[end.piece(0, 64)]);
        let link = peer.accept();
        let (sent, _) = next_message(&link);
        assert_eq!(sent.base.source, end.pair.number());
        link.close();
        peer = peer.succeed();
    }
    drop(keeps_the_engine);
}

#[test]
fn a_region_that_goes_while_it_is_read_ends_the_connection_as_every_refusal_does() {
    let end = common::End::new();
    let peer = BarePeer::new(Tier::Ring);
    end.connect(peer.number());
    let link = peer.accept();
    // Far more than the ring holds.
    let mut memory = vec![7u8; 1 << 21];
    let program = RegionMemory::Program {
        address: common::program(memory.as_mut_ptr() as usize),
        length: memory.len(),
    };
    let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
    let region = end.zone.register(RegionRequest { memory: program, base: 0, access }).unwrap();
    let base = BaseHeader::new(end.pair.number(), peer.number(), Psn(0), 0);
    let remote = RemoteRange { address: 0, key: region.remote_key() };
    let total = memory.len() as u32;
    let read = Message { base, body: Body::Request(Request::Read(ReadRequest { remote, total })) };
    end.post_receive(1);
    link.push(&read, &[]).unwrap();
    link.ring_bell_now();
    let (first, length) = next_message(&link);
    assert_eq!(first, response(base, total, 0));
    region.deregister().unwrap();
    let mut received = length as u32;
    let refused = loop {
        let (message, length) = next_message(&link);
        if !matches!(message.body, Body::Answer(Answer::ReadResponse(_))) {
            break message;
        }
        assert_eq!(message, response(base, total, received), "what was read before comes in order");
        received += length as u32;
    };
    assert!(received < total, "bytes of a region that is gone were sent");
    let body = Body::Answer(Answer::Refuse(Refusal::Access));
    assert_eq!(refused, Message { base: base.answer(), body });
    assert_eq!((end.completion().status, end.pair.state()), (Status::Flushed, QpState::Error));
    let event = end.context().next_async_event().unwrap();
    assert_eq!(event.kind, AsyncEventKind::QpAccessError);
    assert!(matches!(event.element, AsyncElement::QueuePair(pair) if pair.number() == end.pair.number()));
    end.pair.acknowledge_async_event();
}

/// A part of the answer to a read.
fn response(request: BaseHeader, total: u32, offset: u32) -> Message {
    Message { base: request.answer(), body: Body::Answer(Answer::ReadResponse(Extent { total, offset })) }
}

#[test]
fn a_request_that_nobody_takes_is_refused_once_there_is_room_to_say_so() {
    let end = common::End::new();
    let peer = BarePeer::new(Tier::Kernel);
    end.connect(peer.number());
    // Far more than the ring holds.
    for id in 0..40 {
        end.post(id, Operation::Send { immediate: None }, &[end.piece(0, 4096); 4]);
    }
    let link = peer.accept();
    let deadline = Instant::now() + Duration::from_secs(20);
    while link.is_stranger() || !link.peer_can_reach() {
        assert!(Instant::now() < deadline, "the device does not answer");
        link.handle_socket();
    }
    // To a queue pair that is not there: of one so many that the last room is used up, then of two, of which one tries again
    // before it hears of it.
    let nobody = QpNumber(end.pair.number().0 ^ 0x20);
    let asks = |source, psn, attempt| BaseHeader::new(nobody, source, Psn(psn), attempt);
    let [one, other] = [peer.number(), QpNumber(peer.number().0 + 1)];
    let extent = Extent::whole(0);
    let send = SendFragment { extent, immediate: None, solicited: false, acknowledges: None };
    let many = (0..400).map(|psn| asks(QpNumber(one.0 + 2), psn, 0));
    for base in many.chain([asks(one, 3, 0), asks(one, 4, 0), asks(other, 9, 0), asks(one, 3, 1)]) {
        link.push(&Message { base, body: Body::Request(Request::Send(send)) }, &[]).unwrap();
    }
    link.ring_bell_now();
    while !link.everything_was_read() {
        assert!(Instant::now() < deadline, "the device does not read");
        std::thread::yield_now();
    }
    let mut refused = Vec::new();
    while refused.len() < 2 {
        let (message, _) = next_message(&link);
        if let Body::Answer(answer) = message.body {
            assert_eq!(answer, Answer::Refuse(Refusal::NoAnswer));
            refused.extend([one, other].contains(&message.base.destination).then_some(message.base));
        }
    }
    assert_eq!(refused, [asks(one, 3, 1).answer(), asks(other, 9, 0).answer()]);
}

#[test]
fn threads_that_connect_to_one_process_at_once_make_one_link() {
    for round in 0..20 {
        let peer = BarePeer::new(Tier::Ring);
        let ends: Vec<_> = (0..8).map(|_| common::End::new()).collect();
        let start = Barrier::new(ends.len());
        std::thread::scope(|scope| {
            for end in &ends {
                scope.spawn(|| {
                    start.wait();
                    end.connect(peer.number());
                });
            }
        });
        // Who has connected has connected: the kernel has all of them.
        let first = peer.accept();
        assert!(peer.block.socket.accept().is_err(), "another link in round {round}");
        drop(first);
    }
}

//! What answers, refusals and time do to requests under way.

use core::time::Duration;

use super::answers::{Refused, ResponseStep};
use super::waiting::AfterWait;
use super::*;
use crate::completion::Status;
use crate::key::Key;
use crate::message::{BaseHeader, Extent};
use crate::number::{QpNumber, RemoteRange};
use crate::refusal::Refusal;
use crate::requester::WaitReason;
use crate::work_request::{ScatterGather, SendFlags, SendRequest};

type Pair = Connection<(), Duration>;

const FIRST: Psn = Psn(0xff_ffff);
const CAPABILITIES: Capabilities = Capabilities {
    send_requests: 16,
    receive_requests: 0,
    send_pieces: 1,
    receive_pieces: 0,
    inline_bytes: 0,
};
const SEND: Operation = Operation::Send { immediate: None };
const READ: Operation = Operation::Read { remote: RemoteRange { address: 0, key: Key(1) } };

/// A queue pair in RTS.
fn pair() -> Pair {
    let mut pair = Pair::new(&CAPABILITIES);
    pair.attributes = QpAttributes {
        state: QpState::ReadyToSend,
        send_psn: FIRST.0,
        timeout: 1,
        retry_count: 2,
        rnr_retry: 1,
        max_rd_atomic: 4,
        ..pair.attributes
    };
    let attributes = pair.attributes;
    pair.requester.begin(&attributes);
    pair
}

/// Posts requests of 100 bytes, without starting them.
fn post(pair: &mut Pair, operations: &[Operation]) {
    let pieces = [ScatterGather { address: 0, length: 100, key: Key(2) }];
    for operation in operations {
        let request = SendRequest {
            id: 0,
            operation: *operation,
            flags: SendFlags::default(),
            pieces: &pieces,
            destination: None,
        };
        pair.send
            .post(&request, &CAPABILITIES, QpType::ReliableConnection, pair.send.finished, |_| ())
            .expect("there is room");
    }
}

/// A queue pair that has sent these.
fn sent(operations: &[Operation]) -> Pair {
    let mut pair = pair();
    post(&mut pair, operations);
    while pair.has_next() {
        pair.has_sent();
    }
    pair
}

fn number(index: u32) -> Psn {
    (0..index).fold(FIRST, |psn, _| psn.next())
}

fn base(psn: Psn, attempt: u8) -> BaseHeader {
    BaseHeader::new(QpNumber(2), QpNumber(3), psn, attempt)
}

/// Finishes what an answer to this number says is done before it.
fn finish_before(pair: &mut Pair, psn: Psn) -> u32 {
    let mut finished = 0;
    while pair.passes_oldest(psn) {
        pair.send.finished += 1;
        finished += 1;
    }
    finished
}

#[test]
fn an_acknowledgement_is_one_of_everything_before_but_not_of_reads() {
    let mut pair = sent(&[SEND, SEND, READ, SEND]);
    assert_eq!((pair.requester.next, pair.requester.reads), (number(4), 1));
    assert!(
        pair.is_under_way(number(3)) && !pair.is_under_way(number(4)) && !pair.is_under_way(FIRST.before())
    );
    assert_eq!(finish_before(&mut pair, number(1)), 1);
    assert!(!pair.is_under_way(FIRST), "it was answered");
    // The read waits for its data, and what is behind it for the read.
    assert_eq!(finish_before(&mut pair, number(4)), 1);
    assert_eq!((pair.send.finished, pair.requester.unanswered), (2, number(2)));
    assert!(pair.answers_oldest(number(2)) && !pair.answers_oldest(number(3)));
    let first = pair.take_read_response(Extent { total: 100, offset: 0 }, 60);
    assert_eq!(first, ResponseStep::Place { last: false });
    let last = pair.take_read_response(Extent { total: 100, offset: 60 }, 40);
    assert_eq!(last, ResponseStep::Place { last: true });
    pair.has_its_data(number(2));
    pair.send.finished += 1;
    assert_eq!((pair.requester.reads, pair.requester.read_received), (0, 0));
    assert_eq!(finish_before(&mut pair, number(4)), 1);
    assert!(pair.send.is_empty());
}

#[test]
fn data_that_were_not_asked_for_are_not_placed() {
    let wrong = [(99, 0, 10), (101, 0, 10), (100, 1, 10), (100, 0, 101), (100, 0, u32::MAX)];
    for (total, offset, length) in wrong {
        let mut pair = sent(&[READ]);
        assert_eq!(pair.take_read_response(Extent { total, offset }, length), ResponseStep::Bad);
        assert_eq!(pair.requester.read_received, 0, "nothing has come");
    }
    let mut pair = sent(&[READ]);
    assert_eq!(
        pair.take_read_response(Extent { total: 100, offset: 0 }, 60),
        ResponseStep::Place { last: false }
    );
    for length in [41, u32::MAX] {
        assert_eq!(pair.take_read_response(Extent { total: 100, offset: 60 }, length), ResponseStep::Bad);
    }
    let mut pair = sent(&[SEND]);
    assert_eq!(pair.take_read_response(Extent { total: 100, offset: 0 }, 10), ResponseStep::Nonsense);
    assert_eq!(pair.take_atomic_response(), ResponseStep::Nonsense);
    assert_eq!(sent(&[READ]).take_atomic_response(), ResponseStep::Nonsense);
}

#[test]
fn a_refusal_of_an_attempt_that_was_given_up_says_nothing() {
    let mut pair = sent(&[SEND]);
    assert!(pair.is_refused(base(FIRST, 0)));
    assert!(!pair.is_refused(base(FIRST, 1)) && !pair.is_refused(base(number(1), 0)));
    pair.take_back();
    pair.requester.restart();
    pair.has_sent();
    assert!(!pair.is_refused(base(FIRST, 0)) && pair.is_refused(base(FIRST, 1)));
    assert!(pair.is_outdated(base(FIRST, 0)) && !pair.is_outdated(base(FIRST, 1)));
    // Nor does one that comes when the queue pair has failed.
    pair.attributes.state = QpState::Error;
    assert!(!pair.is_refused(base(FIRST, 1)));
}

#[test]
fn a_peer_without_receives_is_waited_for_as_often_as_was_agreed_on() {
    let mut pair = sent(&[SEND, SEND]);
    let not_ready = Refusal::NotReady { timer: 12 };
    let wait = Duration::from_micros(640);
    assert_eq!(pair.take_refusal(FIRST, not_ready), Refused::WaitForReceive(wait));
    assert_eq!((pair.send.started, pair.begun()), (0, 2), "all of it is repeated");
    let until = pair.requester.wait(Duration::ZERO, wait, WaitReason::NotReady);
    assert_eq!((pair.poll_timeout(), until), (Some(wait), wait));
    assert_eq!(pair.take_refusal(FIRST, not_ready), Refused::Nothing, "it waits already");
    assert!(!pair.has_next());
    assert_eq!(pair.take_time(wait - Duration::from_nanos(1)), AfterWait::Nothing);
    assert_eq!(pair.take_time(wait), AfterWait::Repeat);
    assert_eq!((pair.requester.next, pair.requester.attempt, pair.poll_timeout()), (FIRST, 1, None));
    pair.has_sent();
    assert_eq!(pair.take_refusal(FIRST, not_ready), Refused::Fail(Status::RnrRetryExceeded));
}

#[test]
fn seven_rnr_retries_have_no_end() {
    let mut pair = pair();
    pair.attributes.rnr_retry = 7;
    let attributes = pair.attributes;
    pair.requester.refill(&attributes);
    post(&mut pair, &[SEND]);
    for _ in 0..1000 {
        pair.has_sent();
        let refused = pair.take_refusal(FIRST, Refusal::NotReady { timer: 1 });
        assert_eq!(refused, Refused::WaitForReceive(Duration::from_micros(10)));
        pair.requester.restart();
    }
}

#[test]
fn silence_is_waited_out_as_often_as_was_agreed_on_and_answers_give_all_retries_back() {
    let mut pair = sent(&[SEND, SEND]);
    let mut now = Duration::ZERO;
    let mut pass = |pair: &mut Pair, timeouts: u32| {
        if timeouts > 0 {
            assert_eq!(pair.answer_wait(), Duration::from_nanos(4096 << 1) * timeouts);
        }
        now = pair.requester.wait(now, pair.answer_wait(), WaitReason::NoAnswer);
        let after = pair.take_time(now);
        while pair.has_next() {
            pair.has_sent();
        }
        after
    };
    assert_eq!(pair.take_refusal(FIRST, Refusal::NoAnswer), Refused::WaitForAnswer);
    assert_eq!(pass(&mut pair, 1), AfterWait::Repeat);
    assert_eq!(pass(&mut pair, 2), AfterWait::Repeat);
    assert_eq!(finish_before(&mut pair, number(1)), 1);
    assert_eq!(pass(&mut pair, 1), AfterWait::Repeat);
    assert_eq!(pass(&mut pair, 2), AfterWait::Repeat);
    assert_eq!(pass(&mut pair, 4), AfterWait::Fail(Status::RetryExceeded));
    // Without a timeout it is repeated for ever.
    pair.attributes.timeout = 0;
    assert_eq!(pair.answer_wait(), Duration::from_millis(100));
    assert_eq!(pass(&mut pair, 0), AfterWait::Repeat);
}

#[test]
fn a_peer_that_is_ready_is_sent_again_what_it_declined_once_until_it_answers() {
    let mut pair = sent(&[SEND, SEND]);
    assert!(!pair.take_readiness(), "nothing waits");
    let wait = |pair: &mut Pair, reason| {
        pair.requester.wait(Duration::ZERO, Duration::from_secs(1), reason);
    };
    wait(&mut pair, WaitReason::NotReady);
    assert!(!pair.take_readiness(), "a receive is another matter");
    let retries = pair.requester.retries;
    wait(&mut pair, WaitReason::NoAnswer);
    assert!(pair.take_readiness() && pair.has_next() && pair.requester.wait.is_none());
    assert_eq!((pair.requester.next, pair.requester.retries), (FIRST, retries));
    while pair.has_next() {
        pair.has_sent();
    }
    wait(&mut pair, WaitReason::NoAnswer);
    assert!(!pair.take_readiness() && pair.requester.wait.is_some(), "a peer that only says so");
    assert_eq!(finish_before(&mut pair, number(1)), 1);
    wait(&mut pair, WaitReason::NoAnswer);
    assert!(pair.take_readiness());
}

#[test]
fn a_judgement_fails_the_request_it_names_and_only_that() {
    let cases = [
        (Refusal::InvalidRequest, Status::RemoteInvalidRequest),
        (Refusal::Access, Status::RemoteAccess),
        (Refusal::Operation, Status::RemoteOperation),
        (Refusal::RequesterMemory, Status::LocalProtection),
    ];
    for (refusal, status) in cases {
        let mut pair = sent(&[SEND, SEND]);
        assert_eq!(pair.take_refusal(number(1), refusal), Refused::Nonsense, "there is an older one");
        assert_eq!(finish_before(&mut pair, number(1)), 1);
        assert_eq!(pair.take_refusal(number(1), refusal), Refused::Fail(status));
    }
    let mut pair = sent(&[SEND]);
    assert_eq!(pair.take_refusal(FIRST, Refusal::CannotPull), Refused::RepeatWithBytes);
    assert!(pair.has_next() && pair.requester.next == FIRST && pair.requester.attempt == 1);
}

#[test]
fn a_queue_that_is_drained_ends_what_was_begun_and_says_so_once() {
    let mut pair = sent(&[SEND]);
    post(&mut pair, &[SEND]);
    pair.requester.drain_until = pair.begun();
    pair.attributes.state = QpState::SendQueueDrain;
    pair.attributes.drained_notify = true;
    assert!(!pair.has_next() && pair.is_sending() && !pair.has_just_drained());
    // It is repeated even so.
    pair.take_back();
    pair.requester.restart();
    assert!(pair.has_next());
    pair.has_sent();
    assert!(!pair.has_next());
    assert_eq!(finish_before(&mut pair, number(1)), 1);
    assert!(pair.has_just_drained() && !pair.has_just_drained());
    assert!(pair.awaits_answers() && !pair.is_sending());
}

#[test]
fn a_copy_that_finds_nothing_is_tried_20_times_in_a_row() {
    let mut pair = pair();
    for _ in 0..20 {
        assert_eq!(pair.requester.take_fault(), Some(Duration::from_millis(10)));
    }
    assert_eq!(pair.requester.take_fault(), None);
    pair.requester.has_copied();
    assert!(pair.requester.take_fault().is_some());
}

#[test]
fn what_is_owed_waits_for_a_short_send_and_for_nothing_else() {
    let owing = |operations: &[Operation]| {
        let mut pair = pair();
        post(&mut pair, operations);
        pair.responder.has_taken(Psn(5));
        pair
    };
    let says = |pair: &Pair| pair.next_says_what_is_owed(QpType::ReliableConnection, 100);
    assert!(says(&owing(&[SEND])) && !says(&owing(&[])) && !says(&owing(&[READ, SEND])));
    assert!(!owing(&[SEND]).next_says_what_is_owed(QpType::ReliableConnection, 99));
    assert!(!owing(&[SEND]).next_says_what_is_owed(QpType::UnreliableConnection, 100));
    let mut waits = owing(&[SEND]);
    waits.requester.wait(Duration::ZERO, Duration::from_secs(1), WaitReason::NoAnswer);
    assert!(!says(&waits));
}

#[test]
fn what_was_answered_at_once_has_a_number_of_its_own_at_either_end_and_nothing_is_owed_for_it() {
    let mut pair = pair();
    pair.responder = Responder::new(FIRST);
    for index in 0..3 {
        assert!(pair.is_idle() && pair.may_take_at_once(number(index)));
        let (posted, psn) = (pair.send.posted, pair.requester.next);
        pair.has_been_answered_at_once();
        assert_eq!((psn, pair.requester.next), (number(index), number(index + 1)));
        assert_eq!((pair.send.posted, pair.send.finished), (posted + 1, posted + 1));
        pair.responder.has_taken(psn);
        pair.responder.has_acknowledged();
        assert!(!pair.responder.owes() && !pair.may_take_at_once(psn));
    }
    // An answer to one of them says nothing of the next, which goes the ordinary way.
    post(&mut pair, &[SEND]);
    pair.has_sent();
    assert_eq!(finish_before(&mut pair, number(3)), 0);
    assert!(!pair.is_idle() && !pair.is_under_way(number(2)));
    assert_eq!(finish_before(&mut pair, number(4)), 1);
    assert!(pair.is_idle());
}

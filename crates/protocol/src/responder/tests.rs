//! What a responder says to every number, to what it may not do, and in which order it pays what it owes.

use core::time::Duration;

use super::*;
use crate::key::Key;
use crate::message::{Extent, ReadRequest, SendFragment, WriteFragment};
use crate::number::{QpNumber, QueueName, RemoteRange};
use crate::refusal::Refusal;
use QpType::{ReliableConnection as RC, UnreliableConnection as UC};

const FIRST: Psn = Psn(0xff_fffe);
const REMOTE: RemoteRange = RemoteRange { address: 4096, key: Key(7) };
const INVALID: Refusal = Refusal::InvalidRequest;

fn responder() -> Responder<Duration> {
    Responder::new(FIRST)
}

fn base(psn: Psn, attempt: u8) -> BaseHeader {
    BaseHeader::new(QpNumber(2), QpNumber(3), psn, attempt)
}

fn send(total: u32, offset: u32) -> Request {
    let extent = Extent { total, offset };
    Request::Send(SendFragment { extent, immediate: None, solicited: false, acknowledges: None })
}

fn read(total: u32) -> Request {
    Request::Read(ReadRequest { remote: REMOTE, total })
}

fn write(offset: u32) -> Request {
    let extent = Extent { total: 100, offset };
    Request::Write(WriteFragment { extent, remote: REMOTE, immediate: None, solicited: false })
}

fn atomic(address: u64) -> Request {
    let change = crate::message::AtomicChange::FetchAdd { add: 1 };
    Request::Atomic(AtomicRequest { remote: RemoteRange { address, ..REMOTE }, change })
}

/// Takes the message with this number, if it is due.
fn take(responder: &mut Responder<Duration>, psn: Psn, attempt: u8, outcome: Outcome) -> Option<Conclusion> {
    let (base, request) = (base(psn, attempt), send(10, 0));
    responder.check_sequence(RC, base, &request).then(|| responder.conclude(RC, base, &request, outcome))
}

fn agreed(access: Access, reads: u8) -> QpAttributes {
    QpAttributes { access, max_dest_rd_atomic: reads, ..QpAttributes::default() }
}

fn refused(psn: Psn, attempt: u8, refusal: Refusal) -> Option<OwedRefusal> {
    Some(OwedRefusal { psn, attempt, refusal })
}

#[test]
fn messages_are_taken_in_their_order_and_the_last_is_acknowledged_for_all() {
    let mut responder = responder();
    let mut psn = FIRST;
    for _ in 0..4 {
        assert!(responder.is_next(psn));
        assert_eq!(take(&mut responder, psn, 0, Outcome::Done(true)), Some(Conclusion::Filled));
        assert_eq!(responder.acknowledge(), Some(psn));
        psn = psn.next();
    }
    assert_eq!((responder.expected(), psn), (Psn(2), Psn(2)), "numbers wrap");
    responder.has_acknowledged();
    assert!(!responder.owes());
}

#[test]
fn a_repetition_is_acknowledged_again_and_not_taken() {
    let mut responder = responder();
    assert!(take(&mut responder, FIRST, 0, Outcome::Done(false)).is_some());
    responder.has_acknowledged();
    assert_eq!(take(&mut responder, FIRST, 1, Outcome::Done(false)), None);
    assert_eq!(responder.acknowledge(), Some(FIRST));
    assert_eq!((responder.expected(), responder.owed_refusal()), (FIRST.next(), None));
    // Half the space behind is the last number that counts as one of before (9.7.2).
    responder.has_acknowledged();
    assert_eq!(take(&mut responder, Psn(FIRST.next().0 ^ 0x80_0000), 1, Outcome::Done(false)), None);
    assert_eq!((responder.acknowledge(), responder.owed_refusal()), (Some(FIRST), None));
}

#[test]
fn a_number_of_before_the_first_is_no_repetition_and_is_refused() {
    let mut responder = responder();
    let before = FIRST.before();
    assert_eq!(take(&mut responder, before, 3, Outcome::Done(false)), None);
    assert_eq!(
        (responder.acknowledge(), responder.owed_refusal()),
        (None, refused(before, 3, Refusal::OutOfSequence))
    );
    // From the first on it may be one, if the numbers went all the way around.
    responder.has_refused();
    assert!(take(&mut responder, FIRST, 3, Outcome::Done(false)).is_some());
    assert_eq!(take(&mut responder, before, 4, Outcome::Done(false)), None);
    assert_eq!((responder.acknowledge(), responder.owed_refusal()), (Some(FIRST), None));
}

#[test]
fn a_repetition_says_nothing_while_data_are_owed_that_say_it() {
    let mut responder = responder();
    assert!(responder.check_sequence(RC, base(FIRST, 0), &read(10)));
    responder.owe(Response::Read {
        psn: FIRST,
        attempt: 0,
        queue: QueueName::NONE,
        remote: REMOTE,
        total: 10,
        sent: 0,
    });
    assert_eq!(responder.conclude(RC, base(FIRST, 0), &read(10), Outcome::Done(false)), Conclusion::Quiet);
    assert_eq!(responder.acknowledge(), None, "the data say that it is done");
    assert!(!responder.check_sequence(RC, base(FIRST, 0), &read(10)));
    assert_eq!(responder.acknowledge(), None);
}

#[test]
fn a_number_too_far_ahead_is_refused_but_not_what_was_on_its_way_behind_a_refusal() {
    let mut responder = responder();
    let ahead = FIRST.next();
    assert_eq!(take(&mut responder, ahead, 5, Outcome::Done(false)), None);
    assert_eq!(responder.owed_refusal(), refused(ahead, 5, Refusal::OutOfSequence));
    responder.has_refused();
    // Of the same attempt nothing more is said.
    assert_eq!(take(&mut responder, ahead.next(), 5, Outcome::Done(false)), None);
    assert!(!responder.owes());
    // The next attempt is judged anew.
    assert_eq!(take(&mut responder, ahead, 6, Outcome::Done(false)), None);
    assert_eq!(responder.owed_refusal(), refused(ahead, 6, Refusal::OutOfSequence));
    assert_eq!(responder.expected(), FIRST);
}

#[test]
fn a_message_without_a_receive_is_refused_and_taken_when_it_comes_again() {
    let mut responder = responder();
    let outcome = responder.without_receive(RC, 12, || panic!("reliable"), || panic!("reliable"));
    assert_eq!(take(&mut responder, FIRST, 0, outcome), Some(Conclusion::Quiet));
    assert_eq!(responder.owed_refusal(), refused(FIRST, 0, Refusal::NotReady { timer: 12 }));
    assert_eq!(responder.expected(), FIRST);
    responder.has_refused();
    assert_eq!(take(&mut responder, FIRST.next(), 0, Outcome::Done(true)), None);
    assert!(!responder.owes(), "it was on its way already");
    assert_eq!(take(&mut responder, FIRST, 1, Outcome::Done(true)), Some(Conclusion::Filled));
}

#[test]
fn an_unreliable_message_waits_20_ms_for_a_program_that_is_about_to_post_and_is_dropped_then() {
    let mut responder = responder();
    let mut at = |millis, owes_poll: bool| {
        let now = Duration::from_millis(millis);
        responder.without_receive(UC, 12, || owes_poll, || now)
    };
    assert!(matches!(at(100, false), Outcome::Dropped));
    assert!(matches!(at(105, true), Outcome::Hold));
    assert!(matches!(at(119, true), Outcome::Hold));
    assert!(matches!(at(120, true), Outcome::Dropped));
    responder.found_receive();
    let now = Duration::from_millis(130);
    assert!(matches!(responder.without_receive(UC, 12, || true, || now), Outcome::Hold), "counted anew");
}

#[test]
fn fragments_follow_each_other_without_a_gap_and_keep_their_receive() {
    let mut responder = responder();
    assert!(responder.check_sequence(RC, base(FIRST, 0), &send(100, 0)));
    let receive = Receive { id: 9, ..Receive::default() };
    let more = Outcome::More(40, Some(receive));
    assert_eq!(responder.conclude(RC, base(FIRST, 0), &send(100, 0), more), Conclusion::Quiet);
    assert!(responder.is_receiving() && !responder.is_next(FIRST) && !responder.owes());
    let wrong = [
        (base(FIRST, 0), send(100, 39)),
        (base(FIRST, 0), send(100, 41)),
        (base(FIRST, 1), send(100, 40)),
        (base(FIRST.next(), 0), send(100, 40)),
        (base(FIRST, 0), write(40)),
    ];
    for (base, request) in wrong {
        assert!(!responder.check_sequence(RC, base, &request), "{request:?}");
    }
    assert!(responder.check_sequence(RC, base(FIRST, 0), &send(100, 40)));
    assert_eq!(responder.break_off().map(|receive| receive.id), Some(9));
    assert!(responder.break_off().is_none());
    assert!(!responder.check_sequence(RC, base(FIRST, 0), &send(100, 40)), "nothing is under way");
}

#[test]
fn what_was_not_agreed_on_is_refused_before_memory_is_looked_at() {
    use AffiliatedError::{AccessViolation, InvalidRequest};
    let everything = agreed(Access::REMOTE, 1);
    let cases = [
        (agreed(Access::LOCAL_READ, 1), write(0), Some(AccessViolation)),
        (agreed(Access::REMOTE_WRITE, 1), read(1), Some(AccessViolation)),
        (agreed(Access::REMOTE_READ, 1), atomic(8), Some(AccessViolation)),
        (agreed(Access::REMOTE, 0), read(1), Some(InvalidRequest)),
        (agreed(Access::REMOTE, 0), atomic(8), Some(InvalidRequest)),
        (everything, atomic(12), Some(InvalidRequest)),
        (everything, send(MESSAGE_MAX + 1, 0), Some(InvalidRequest)),
        (everything, send(MESSAGE_MAX, 0), None),
        (everything, write(0), None),
        (everything, read(1), None),
        (everything, atomic(16), None),
        // The rights were judged with the first fragment.
        (agreed(Access::LOCAL_READ, 0), write(50), None),
    ];
    for (attributes, request, error) in cases {
        let judged = responder().check_resources(RC, &attributes, &request);
        match (judged, error) {
            (Ok(()), None) => {}
            (Err(Outcome::Fatal(INVALID, told)), Some(_)) => assert_eq!(told, error, "{request:?}"),
            (judged, _) => panic!("{request:?}: {judged:?}"),
        }
    }
    let judged = responder().check_resources(UC, &everything, &read(1));
    assert!(matches!(judged, Err(Outcome::Dropped)), "unreliable service has no reads");
}

#[test]
fn no_more_reads_are_taken_on_than_were_agreed_on_until_one_is_answered() {
    let mut responder = responder();
    let two = agreed(Access::REMOTE, 2);
    for sent in 0..2 {
        assert!(responder.check_resources(RC, &two, &read(1)).is_ok());
        responder.owe(Response::Read {
            psn: FIRST,
            attempt: 0,
            queue: QueueName::NONE,
            remote: REMOTE,
            total: 1,
            sent,
        });
    }
    assert!(responder.check_resources(RC, &two, &read(1)).is_err());
    assert!(responder.check_resources(RC, &two, &atomic(8)).is_err());
    responder.has_responded();
    assert!(responder.check_resources(RC, &two, &read(1)).is_ok());
}

#[test]
fn a_failed_request_ends_a_reliable_connection_and_is_dropped_by_an_unreliable_one() {
    let error = Some(AffiliatedError::AccessViolation);
    let mut responder = responder();
    let outcome = || Outcome::Fatal(Refusal::Access, error);
    assert_eq!(take(&mut responder, FIRST, 3, outcome()), Some(Conclusion::End(error)));
    assert_eq!(responder.owed_refusal(), refused(FIRST, 3, Refusal::Access));
    assert_eq!(responder.expected(), FIRST);
    let mut responder = self::responder();
    let concluded = responder.conclude(UC, base(FIRST, 3), &send(10, 0), outcome());
    assert_eq!((concluded, responder.owes()), (Conclusion::BreakOff, false));
}

#[test]
fn an_answer_that_can_no_longer_be_given_refuses_its_request_and_drops_those_behind() {
    let mut responder = responder();
    let second = FIRST.next();
    responder.owe(Response::Atomic { psn: FIRST, attempt: 2, old: 5 });
    responder.owe(Response::Read {
        psn: second,
        attempt: 2,
        queue: QueueName::NONE,
        remote: REMOTE,
        total: 8,
        sent: 0,
    });
    assert!(matches!(responder.first_response(), Some(Response::Atomic { old: 5, .. })));
    responder.has_responded();
    responder.cannot_respond();
    assert_eq!(responder.owed_refusal(), refused(second, 2, Refusal::Access));
    assert_eq!(responder.first_response(), None);
}

#[test]
fn what_is_owed_survives_the_end_data_before_the_refusal_that_ended_it() {
    let mut responder = responder();
    responder.owe(Response::Atomic { psn: FIRST, attempt: 0, old: 5 });
    let concluded = responder.conclude(RC, base(FIRST, 0), &atomic(8), Outcome::Done(false));
    assert_eq!(concluded, Conclusion::Quiet);
    let fatal = Outcome::Fatal(Refusal::Operation, None);
    assert_eq!(take(&mut responder, FIRST.next(), 0, fatal), Some(Conclusion::End(None)));
    assert!(responder.stop().is_none());
    assert!(matches!(responder.first_response(), Some(Response::Atomic { psn: FIRST, .. })));
    assert_eq!(responder.owed_refusal(), refused(FIRST.next(), 0, Refusal::Operation));
}

#[test]
fn a_request_that_comes_behind_the_end_is_declined_behind_what_is_owed() {
    let mut responder = responder();
    assert!(take(&mut responder, FIRST, 0, Outcome::Done(false)).is_some());
    let fatal = Outcome::Fatal(Refusal::Access, None);
    assert!(take(&mut responder, FIRST.next(), 0, fatal).is_some());
    responder.decline(base(FIRST.next().next(), 0));
    assert_eq!(responder.acknowledge(), Some(FIRST));
    assert_eq!(responder.owed_refusal(), refused(FIRST.next(), 0, Refusal::Access), "the first cause stays");
    // Until it is tried again.
    responder.decline(base(FIRST.next(), 1));
    assert_eq!(responder.owed_refusal(), refused(FIRST.next(), 1, Refusal::NoAnswer));
}

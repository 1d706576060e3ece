//! Flushes (IBTA vol. 1, annex A19.4.1), as asked for and as answered: as a read of nothing.

use nonic_protocol::{
    Access, AffiliatedError, Event, FlushRequest, Key, Placement, QpState, RemoteRange, Selectivity, Status,
};
use nonic_roce::{Answer, Flush, FlushCheck, Nak, Part, ReadPart, Request, Reth};

use crate::pair::{Pair, acknowledged, done, ours, refused, remote, reth, theirs};
use crate::requester::read;
use crate::responder::write;

pub(crate) fn flush(remote: RemoteRange, length: u32) -> FlushRequest {
    FlushRequest { remote, length, placement: Placement::GLOBAL, selectivity: Selectivity::Range }
}

fn asked(reth: Reth, placement: u8, selectivity: u8) -> Request {
    Request::Flush(Flush { reth, placement, selectivity, check: FlushCheck::Once })
}

fn sent(offset: u64, length: u32, check: FlushCheck) -> Request {
    Request::Flush(Flush { reth: reth(offset, length), placement: 1, selectivity: 0, check })
}

fn nothing(msn: u32) -> Answer {
    Answer::Read(ReadPart::Only(acknowledged(msn)))
}

#[test]
fn a_flush_behind_a_write_is_answered_as_a_read_of_nothing_and_again_when_it_comes_again() {
    let mut pair = Pair::reliable();
    pair.connection.attributes.max_dest_rd_atomic = 1;
    assert_eq!(pair.take(theirs(0), write(0, 4), &[7; 4]), [(theirs(0), done(1))]);
    let requests = [asked(reth(0, 4), 1, 0), asked(reth(9 << 20, 4), 1, 1), asked(reth(4, 0), 1, 0)];
    for (request, index) in requests.into_iter().zip(1..) {
        for msn in [index + 1; 2] {
            assert_eq!(
                pair.take(theirs(index), request, &[]),
                [(theirs(index), nothing(msn))],
                "{request:?}"
            );
        }
    }
    assert_eq!(pair.take(theirs(1), requests[0], &[]), [], "of one that may be under way one is kept");
    assert_eq!(pair.take(theirs(3), Request::Read(reth(4, 0)), &[]), [], "it was no read");
    assert_eq!(pair.host.memory[..5], [7, 7, 7, 7, 0]);
    assert_eq!(pair.state(), QpState::ReadyToSend);
}

#[test]
fn a_flush_of_what_is_nowhere_or_not_given_is_refused_and_ends_the_connection() {
    let other = Reth { remote: RemoteRange { key: Key(1), ..remote(0) }, length: 4 };
    let cases = [
        (asked(other, 1, 0), Nak::RemoteAccess, AffiliatedError::AccessViolation),
        (asked(Reth { length: 0, ..other }, 1, 0), Nak::RemoteAccess, AffiliatedError::AccessViolation),
        (asked(other, 1, 1), Nak::RemoteAccess, AffiliatedError::AccessViolation),
        (asked(reth(1 << 20, 1), 1, 0), Nak::RemoteAccess, AffiliatedError::AccessViolation),
        // The queue pair does not give the right to persistence.
        (asked(reth(0, 4), 2, 0), Nak::InvalidRequest, AffiliatedError::AccessViolation),
        (asked(reth(0, 4), 3, 1), Nak::InvalidRequest, AffiliatedError::AccessViolation),
        // What is reserved.
        (asked(reth(0, 4), 0, 0), Nak::InvalidRequest, AffiliatedError::InvalidRequest),
        (asked(reth(0, 4), 4, 0), Nak::InvalidRequest, AffiliatedError::InvalidRequest),
        (asked(reth(0, 4), 1, 2), Nak::InvalidRequest, AffiliatedError::InvalidRequest),
    ];
    for (request, nak, error) in cases {
        let mut pair = Pair::reliable();
        assert_eq!(pair.take(theirs(0), request, &[]), [(theirs(0), refused(nak, 0))], "{request:?}");
        assert_eq!(
            (pair.state(), pair.host.events.as_slice()),
            (QpState::Error, &[Event::Affiliated(error)][..])
        );
    }
    let mut pair = Pair::reliable();
    pair.connection.attributes.access = Access::REMOTE | Access::LOCAL_WRITE;
    let said = pair.take(theirs(0), asked(reth(0, 4), 1, 0), &[]);
    assert_eq!(said, [(theirs(0), refused(Nak::InvalidRequest, 0))], "nor that to visibility");
    // In the middle of a message.
    let mut pair = Pair::reliable();
    pair.take(theirs(0), Request::Write(Part::First(reth(0, 300))), &[1; 256]);
    let said = pair.take(theirs(1), asked(reth(0, 4), 1, 0), &[]);
    assert_eq!(said, [(theirs(1), refused(Nak::InvalidRequest, 0))]);
}

#[test]
fn a_flush_is_done_when_it_is_answered_and_counts_as_a_read_until_then() {
    let mut pair = Pair::reliable();
    pair.post_flush(flush(remote(64), 32));
    pair.post(read(0), 4);
    pair.post(read(0), 4);
    let first = [(ours(0), sent(64, 32, FlushCheck::Once)), (ours(1), Request::Read(reth(0, 4)))];
    assert_eq!(pair.requests(), first, "two that are answered with data are under way at most");
    // An acknowledgement does not do for an answer.
    assert_eq!(pair.statuses(), []);
    assert_eq!(pair.hear(ours(0), nothing(1), &[]), [(ours(2), Request::Read(reth(0, 4)))]);
    assert_eq!(pair.statuses(), [Status::Success]);
}

#[test]
fn bytes_that_answer_a_flush_end_the_connection_and_go_nowhere() {
    let mut pair = Pair::reliable();
    pair.post_flush(flush(remote(64), 32));
    pair.sent();
    pair.hear(ours(0), nothing(1), &[9; 4]);
    assert_eq!(pair.statuses(), [Status::BadResponse]);
    assert!(pair.host.memory.iter().all(|byte| *byte == 0));
}

#[test]
fn a_flush_that_is_not_answered_is_sent_with_the_other_check_and_the_next_begins_with_what_was_answered() {
    let mut pair = Pair::reliable();
    pair.post_flush(flush(remote(0), 8));
    assert_eq!(pair.requests(), [(ours(0), sent(0, 8, FlushCheck::Once))]);
    pair.pass_time();
    assert_eq!(pair.requests(), [(ours(0), sent(0, 8, FlushCheck::Twice))]);
    pair.hear(ours(0), nothing(1), &[]);
    // The peer drops those that count once.
    pair.post_flush(flush(remote(0), 8));
    assert_eq!(pair.requests(), [(ours(1), sent(0, 8, FlushCheck::Twice))]);
    pair.hear(ours(1), nothing(2), &[]);
    // A gap behind it says the same as time does.
    pair.post_flush(flush(remote(0), 8));
    pair.post(crate::requester::SEND, 0);
    pair.sent();
    let again = pair.hear(ours(2), refused(Nak::Sequence, 2), &[]);
    assert_eq!(again[0], (ours(2), sent(0, 8, FlushCheck::Once)));
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    // What is older than a flush says nothing of it.
    let mut pair = Pair::reliable();
    pair.post(crate::requester::SEND, 0);
    pair.post_flush(flush(remote(0), 8));
    pair.sent();
    pair.pass_time();
    pair.sent();
    assert_eq!(pair.hear(ours(0), done(1), &[]), [(ours(1), sent(0, 8, FlushCheck::Once))]);
}

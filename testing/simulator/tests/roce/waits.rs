//! What a requester repeats, when, and how often (IBTA vol. 1, 9.7.5.2, 9.9.2.1), and how its queue is drained.

use std::time::Duration;

use nonic_protocol::{Event, Key, Operation, Psn, QpState, Status};
use nonic_roce::{Aeth, Answer, FiveBits, Msn, Nak, Part, Request, Syndrome, Tail};

use crate::pair::{Pair, done, ours, refused, remote, reth};
use crate::requester::{SEND, read};

fn not_ready(msn: u32) -> Answer {
    Answer::Acknowledge(Aeth { syndrome: Syndrome::NotReady(FiveBits::masked(12)), msn: Msn::masked(msn) })
}

/// The time of code 14.
const TIMEOUT: Duration = Duration::from_nanos(4096 << 14);
/// After this much of it the oldest packet is sent once more, alone.
const PROBE: Duration = Duration::from_nanos((4096 << 14) / 16);
/// The RNR timer of code 12.
const RNR: Duration = Duration::from_micros(640);

/// The oldest packet is sent once more, alone, and again after twice, four and eight times as long; then all of the time is over but a part
/// as long as the first.
fn is_asked_for(pair: &mut Pair, psn: Psn) {
    for parts in [1, 2, 4, 8] {
        let since = pair.now;
        assert_eq!(pair.wait(), [psn]);
        assert_eq!(pair.now - since, PROBE * parts);
    }
}

#[test]
fn silence_is_waited_out_as_often_as_was_agreed_on_and_longer_each_time() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 600);
    pair.post(SEND, 0);
    let all = [0, 1, 2, 3].map(ours);
    assert_eq!(pair.sent(), all);
    is_asked_for(&mut pair, ours(0));
    for passed in [1, 1 + 2] {
        assert_eq!(pair.wait(), all);
        assert_eq!(pair.now, TIMEOUT * passed);
    }
    assert_eq!(pair.wait(), []);
    assert_eq!(pair.now, TIMEOUT * (1 + 2 + 4));
    assert_eq!(pair.statuses(), [Status::RetryExceeded, Status::Flushed]);
    assert_eq!((pair.state(), pair.connection.poll_timeout()), (QpState::Error, None));
}

#[test]
fn an_answer_gives_all_retries_back_and_what_it_names_is_not_sent_again() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 1000);
    pair.sent();
    for answered in 0..3 {
        is_asked_for(&mut pair, ours(answered));
        for _ in 0..2 {
            let again: Vec<_> = (answered..4).map(ours).collect();
            assert_eq!(pair.wait(), again);
        }
        pair.now += TIMEOUT / 2;
        assert_eq!(pair.hear(ours(answered), done(0), &[]), []);
        assert_eq!(pair.connection.poll_timeout(), Some(pair.now + PROBE), "waiting begins anew");
    }
    pair.hear(ours(3), done(1), &[]);
    assert_eq!(pair.statuses(), [Status::Success]);
}

#[test]
fn one_packet_shows_early_what_was_lost_and_costs_no_retry() {
    let mut pair = Pair::reliable();
    for _ in 0..4 {
        pair.post(SEND, 0);
    }
    assert_eq!(pair.sent().len(), 4);
    // The peer has not even the first: from there on all is sent again, at once.
    assert_eq!(pair.wait(), [ours(0)]);
    let sent: Vec<_> = pair.hear(ours(0), done(1), &[]).into_iter().map(|(psn, _)| psn).collect();
    assert_eq!(sent, [1, 2, 3].map(ours));
    // It has all, and what it had said was lost: nothing is sent again.
    assert_eq!(pair.wait(), [ours(1)]);
    assert_eq!(pair.hear(ours(3), done(4), &[]), []);
    assert_eq!((pair.statuses(), pair.connection.poll_timeout()), (vec![Status::Success; 4], None));
    // As often as that happens.
    pair.connection.attributes.retry_count = 0;
    pair.connection.begin_to_send();
    pair.post(SEND, 0);
    pair.sent();
    assert_eq!(pair.wait().len(), 1);
    assert_eq!(pair.statuses().len(), 4, "nothing has failed");
}

#[test]
fn a_queue_pair_without_a_timeout_repeats_and_does_not_give_up() {
    let mut pair = Pair::reliable();
    pair.connection.attributes.timeout = 0;
    pair.post(SEND, 0);
    pair.sent();
    for _ in 0..100 {
        assert_eq!(pair.wait(), [ours(0)]);
    }
    pair.hear(ours(0), done(1), &[]);
    assert_eq!(pair.statuses(), [Status::Success]);
}

#[test]
fn of_a_gap_everything_behind_is_sent_again_at_once_as_often_as_was_agreed_on() {
    let mut pair = Pair::reliable();
    for _ in 0..4 {
        pair.post(SEND, 0);
    }
    pair.sent();
    let gap = |at| refused(Nak::Sequence, at);
    for _ in 0..2 {
        let sent: Vec<_> = pair.hear(ours(1), gap(1), &[]).into_iter().map(|(psn, _)| psn).collect();
        assert_eq!(sent, [1, 2, 3].map(ours));
    }
    assert_eq!(pair.statuses(), [Status::Success], "those before are done");
    // Another one, further on: there was an answer between.
    assert_eq!(pair.hear(ours(2), gap(2), &[]).len(), 2);
    assert_eq!(pair.hear(ours(2), gap(2), &[]).len(), 2);
    assert_eq!(pair.hear(ours(2), gap(2), &[]), []);
    let over = [Status::Success, Status::Success, Status::RetryExceeded, Status::Flushed];
    assert_eq!(pair.statuses(), over);
}

#[test]
fn a_peer_without_a_receive_is_waited_for_as_often_as_was_agreed_on() {
    let mut pair = Pair::reliable();
    pair.post(SEND, 0);
    pair.post(SEND, 0);
    for attempt in 1..=4 {
        assert_eq!(pair.sent().len(), 2, "four times in all, the first included");
        assert_eq!(pair.hear(ours(0), not_ready(0), &[]), []);
        if attempt == 4 {
            break;
        }
        // Nothing is sent meanwhile, whatever comes.
        pair.post(Operation::Write { remote: remote(0), immediate: None }, 0);
        pair.connection.send.posted -= 1;
        assert_eq!(pair.hear(ours(0), not_ready(0), &[]), []);
        assert_eq!(pair.hear(ours(0), refused(Nak::Sequence, 0), &[]), []);
        assert_eq!(pair.connection.poll_timeout(), Some(RNR * attempt));
        pair.now = RNR * attempt;
        pair.connection.handle_timeout(pair.now, &mut pair.host);
    }
    assert_eq!(pair.statuses(), [Status::RnrRetryExceeded, Status::Flushed]);
}

#[test]
fn seven_rnr_retries_have_no_end() {
    let mut pair = Pair::reliable();
    pair.connection.attributes.rnr_retry = 7;
    pair.connection.begin_to_send();
    pair.post(SEND, 0);
    pair.sent();
    for _ in 0..100 {
        pair.hear(ours(0), not_ready(0), &[]);
        assert_eq!(pair.wait(), [ours(0)]);
    }
}

#[test]
fn a_write_whose_last_packet_met_no_receive_goes_on_there() {
    let mut pair = Pair::reliable();
    pair.post(Operation::Write { remote: remote(0), immediate: Some(1) }, 300);
    pair.sent();
    assert_eq!(pair.hear(ours(1), not_ready(0), &[]), []);
    pair.now += RNR;
    pair.connection.handle_timeout(pair.now, &mut pair.host);
    assert_eq!(pair.requests(), [(ours(1), Request::Write(Part::Last(Some(1))))]);
}

#[test]
fn what_is_sent_again_after_a_gap_may_be_lost_as_well_and_is_asked_for_as_early() {
    let mut pair = Pair::reliable();
    for _ in 0..3 {
        pair.post(SEND, 0);
    }
    pair.sent();
    let again: Vec<_> =
        pair.hear(ours(0), refused(Nak::Sequence, 0), &[]).into_iter().map(|(psn, _)| psn).collect();
    assert_eq!((again, pair.connection.retries_left()), ([0, 1, 2].map(ours).to_vec(), 1));
    is_asked_for(&mut pair, ours(0));
    assert_eq!(pair.connection.retries_left(), 1, "that costs none");
    pair.hear(ours(2), done(3), &[]);
    assert_eq!(pair.statuses(), [Status::Success; 3]);
}

#[test]
fn what_answers_overtake_is_not_sent_again() {
    let mut pair = Pair::reliable();
    pair.host.room = 10;
    for _ in 0..4 {
        pair.post(SEND, 0);
    }
    pair.sent();
    // Time is up, but there is room for one only; then the answers come after all.
    pair.host.room = 1;
    assert_eq!(pair.wait(), [ours(0)]);
    pair.host.room = 10;
    let base = nonic_roce::Base::new(nonic_protocol::QpNumber(8), ours(2));
    let packet = nonic_roce::Packet { base, body: nonic_roce::Body::Answer(done(3)) };
    pair.take_packet(packet, &[]);
    assert_eq!(pair.sent(), [ours(3)]);
    pair.hear(ours(3), done(4), &[]);
    assert_eq!(pair.statuses(), [Status::Success; 4]);
}

#[test]
fn a_lost_answer_is_asked_for_once_at_once_and_then_by_time() {
    let mut pair = Pair::reliable();
    pair.post(read(0), 4);
    pair.post(SEND, 0);
    pair.post(SEND, 0);
    pair.sent();
    let again = [(ours(0), Request::Read(reth(0, 4))), (ours(1), send()), (ours(2), send())];
    assert_eq!(pair.hear(ours(1), done(2), &[]), again);
    assert_eq!(pair.hear(ours(2), done(3), &[]), [], "it was on its way already");
    is_asked_for(&mut pair, ours(0));
    assert_eq!(pair.wait().len(), 3);
    assert_eq!(pair.hear(ours(2), done(3), &[]), [], "no retries are left");
    assert_eq!((pair.wait(), pair.statuses()[0]), (vec![], Status::RetryExceeded));
}

fn send() -> Request {
    Request::Send(Part::Only((), Tail::Plain))
}

#[test]
fn without_room_nothing_is_lost_and_nothing_is_waited_for() {
    let mut pair = Pair::reliable();
    pair.host.room = 0;
    pair.post(SEND, 300);
    assert_eq!((pair.host.awaits_room, pair.connection.poll_timeout()), (true, None));
    pair.host.room = 1;
    pair.connection.pump(pair.now, &mut pair.host);
    assert_eq!(pair.sent(), [ours(0)]);
    pair.connection.pump(pair.now, &mut pair.host);
    assert_eq!(pair.sent(), [ours(1)]);
}

#[test]
fn a_queue_that_is_drained_ends_what_was_begun_and_nothing_else() {
    let mut pair = Pair::reliable();
    pair.host.room = 1;
    pair.post(SEND, 300);
    pair.connection.begin_to_drain();
    pair.host.room = 10;
    pair.post(SEND, 0);
    assert_eq!(pair.sent(), [ours(0), ours(1)]);
    is_asked_for(&mut pair, ours(0));
    assert_eq!(pair.wait(), [ours(0), ours(1)], "it is repeated, too");
    assert_eq!(pair.host.events, []);
    pair.hear(ours(1), done(1), &[]);
    assert_eq!((pair.requests(), pair.host.events.clone()), (vec![], vec![Event::SendQueueDrained]));
    pair.connection.go_on_sending();
    pair.connection.pump(pair.now, &mut pair.host);
    assert_eq!((pair.sent(), pair.host.events.len()), (vec![ours(2)], 1));
}

#[test]
fn a_local_request_waits_for_those_before_and_those_inside() {
    let mut pair = Pair::reliable();
    let invalidate = Operation::Invalidate { key: Key(1) };
    pair.post(SEND, 0);
    pair.post(invalidate, 0);
    pair.post(SEND, 0);
    assert_eq!(pair.sent(), [ours(0)]);
    pair.host.turns_to_wait = 1;
    pair.hear(ours(0), done(1), &[]);
    assert_eq!((pair.requests(), pair.statuses().len()), (vec![], 1));
    assert_eq!(pair.wait(), [ours(1)]);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
    // The connection ends while one waits: those inside have left, so it is done.
    let mut pair = Pair::reliable();
    pair.host.turns_to_wait = 1;
    pair.post(invalidate, 0);
    pair.post(SEND, 0);
    pair.connection.stop(&mut pair.host);
    assert_eq!(pair.statuses(), [Status::Success, Status::Flushed]);
    assert_eq!(pair.host.flushed, Some(false));
}

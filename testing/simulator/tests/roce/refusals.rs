//! Requests that a responder refuses for good (IBTA vol. 1, 9.7.4, 9.9.3): the peer is told which and why, nothing was done, and the
//! connection is over.

use nonic_protocol::{Access, AtomicChange, AtomicRequest, Key, Psn, QpState, RemoteRange, Status};
use nonic_roce::{Nak, Part, Request, Reth, Tail};
use nonic_simulator::wire::{KEY, WINDOW};

use crate::pair::{Pair, done, refused, remote, reth, send_only, theirs};
use crate::responder::{FULL, add, read, write};

/// The request is refused with this, the queue pair fails, its receives are flushed, its memory is as it was, and it is mute
/// from then on.
fn is_fatal(pair: &mut Pair, psn: Psn, request: Request, payload: &[u8], nak: Nak) {
    let before = pair.host.memory.clone();
    pair.post_receive(99, 0x8000, 64);
    assert_eq!(pair.take(psn, request, payload), [(psn, refused(nak, 0))], "{request:?}");
    assert_eq!((pair.state(), pair.host.flushed), (QpState::Error, Some(true)), "{request:?}");
    assert_eq!(pair.host.failed.last(), Some(&(99, Status::Flushed)));
    assert!(pair.host.memory == before, "bytes were placed: {request:?}");
    assert_eq!(pair.take(psn, write(0, 4), &[1; 4]), []);
    assert!(pair.host.memory == before);
}

#[test]
fn an_opcode_out_of_its_sequence_ends_the_connection() {
    let first = Request::Send(Part::First(()));
    let orphans = [
        (Request::Send(Part::Middle), FULL.as_slice()),
        (Request::Send(Part::Last(Tail::Plain)), &[1; 4]),
        (Request::Write(Part::Middle), &FULL),
        (Request::Write(Part::Last(None)), &[1; 4]),
    ];
    for (request, payload) in orphans {
        is_fatal(&mut Pair::reliable(), theirs(0), request, payload, Nak::InvalidRequest);
    }
    for (request, payload) in [
        (first, FULL.as_slice()),
        (send_only(), &[]),
        (write(0, 4), &[1; 4]),
        (Request::Write(Part::Middle), &FULL),
        (read(0, 4), &[]),
        (add(0, 1), &[]),
    ] {
        let mut pair = Pair::reliable();
        pair.post_receive(1, 0x4000, 1000);
        assert_eq!(pair.take(theirs(0), first, &FULL), [(theirs(0), done(0))]);
        is_fatal(&mut pair, theirs(1), request, payload, Nak::InvalidRequest);
        assert_eq!(pair.host.failed[0], (1, Status::RemoteInvalidRequest));
    }
}

#[test]
fn what_the_queue_pair_does_not_take_is_an_invalid_request() {
    for request in [write(0, 4), read(0, 4), add(0, 1)] {
        let mut pair = Pair::reliable();
        pair.connection.attributes.access = Access::LOCAL_WRITE;
        let payload: &[u8] = if request == write(0, 4) { &[1; 4] } else { &[] };
        is_fatal(&mut pair, theirs(0), request, payload, Nak::InvalidRequest);
    }
    for request in [read(0, 4), add(0, 1)] {
        let mut pair = Pair::reliable();
        pair.connection.attributes.max_dest_rd_atomic = 0;
        is_fatal(&mut pair, theirs(0), request, &[], Nak::InvalidRequest);
    }
    is_fatal(&mut Pair::reliable(), theirs(0), add(4, 1), &[], Nak::InvalidRequest);
    is_fatal(&mut Pair::reliable(), theirs(0), read(0, (1 << 31) + 1), &[], Nak::InvalidRequest);
}

#[test]
fn more_reads_than_were_agreed_on_end_the_connection() {
    let mut pair = Pair::reliable();
    pair.host.room = 0;
    for index in 0..2 {
        pair.take(theirs(index), read(0, 4), &[]);
    }
    pair.take(theirs(2), read(0, 4), &[]);
    assert_eq!(pair.state(), QpState::Error);
    pair.host.room = 10;
    pair.connection.pump(pair.now, &mut pair.host);
    let answered: Vec<_> = pair.answers().into_iter().map(|(psn, _)| psn).collect();
    assert_eq!(answered, [theirs(0), theirs(1), theirs(2)]);
}

#[test]
fn lengths_that_do_not_add_up_end_the_connection() {
    let first = Request::Write(Part::First(reth(0, 300)));
    let wrong = [
        (Request::Write(Part::First(reth(0, 300))), &FULL[..255]),
        (Request::Write(Part::First(reth(0, 256))), &FULL),
        (write(0, 5), &FULL[..4]),
        (write(0, 3), &FULL[..4]),
        (Request::Send(Part::First(())), &FULL[..255]),
        (send_only(), &[7; 257]),
    ];
    for (request, payload) in wrong {
        let mut pair = Pair::reliable();
        is_fatal(&mut pair, theirs(0), request, payload, Nak::InvalidRequest);
    }
    for (request, payload) in [
        (Request::Write(Part::Last(None)), &FULL[..43]),
        (Request::Write(Part::Last(None)), &FULL[..45]),
        (Request::Write(Part::Last(None)), &[]),
        (Request::Write(Part::Middle), &FULL),
        (Request::Write(Part::Middle), &FULL[..4]),
    ] {
        let mut pair = Pair::reliable();
        assert_eq!(pair.take(theirs(0), first, &FULL), [(theirs(0), done(0))]);
        is_fatal(&mut pair, theirs(1), request, payload, Nak::InvalidRequest);
    }
    let mut pair = Pair::reliable();
    pair.take(theirs(0), first, &FULL);
    assert_eq!(pair.take(theirs(1), Request::Write(Part::Last(None)), &FULL[..44]), [(theirs(1), done(1))]);
    assert!(pair.host.memory[..300] == [7; 300] && pair.host.memory[300] == 0);
}

#[test]
fn a_wrong_key_or_range_is_refused_as_an_access() {
    let bad = |key, offset: u64, length| Reth { remote: RemoteRange { key, ..remote(offset) }, length };
    for reth in [bad(Key(1), 0, 4), bad(KEY, 1 << 20, 4)] {
        let requests: [(Request, &[u8]); 2] =
            [(Request::Write(Part::Only(reth, None)), &[1; 4]), (Request::Read(reth), &[])];
        for (request, payload) in requests {
            is_fatal(&mut Pair::reliable(), theirs(0), request, payload, Nak::RemoteAccess);
        }
        let change = AtomicChange::FetchAdd { add: 1 };
        let atomic = Request::Atomic(AtomicRequest { remote: reth.remote, change });
        is_fatal(&mut Pair::reliable(), theirs(0), atomic, &[], Nak::RemoteAccess);
    }
    // Of a write with immediate data the receive says so, too.
    let mut pair = Pair::reliable();
    pair.post_receive(1, 0x4000, 4);
    let request = Request::Write(Part::Only(bad(Key(1), 0, 4), Some(5)));
    is_fatal(&mut pair, theirs(0), request, &[1; 4], Nak::RemoteAccess);
    assert_eq!(pair.host.failed[0], (1, Status::LocalAccess));
}

#[test]
fn a_receive_that_is_too_short_fails_with_its_connection() {
    let mut pair = Pair::reliable();
    pair.post_receive(1, 0x4000, 3);
    is_fatal(&mut pair, theirs(0), send_only(), &[1; 4], Nak::InvalidRequest);
    assert_eq!(pair.host.failed[0], (1, Status::LocalLength));
    let mut pair = Pair::reliable();
    pair.post_receive(1, 0x4000, 300);
    pair.take(theirs(0), Request::Send(Part::First(())), &FULL);
    is_fatal(&mut pair, theirs(1), Request::Send(Part::Last(Tail::Plain)), &[1; 45], Nak::InvalidRequest);
    assert_eq!(pair.host.failed[0], (1, Status::LocalLength));
}

#[test]
fn a_key_is_taken_out_of_use_behind_the_last_byte_if_the_peer_may() {
    let invalidate = |key| Request::Send(Part::Only((), Tail::Invalidate(key)));
    let mut pair = Pair::reliable();
    pair.post_receive(1, 0x4000, 4);
    assert_eq!(pair.take(theirs(0), invalidate(WINDOW), &[1; 4]), [(theirs(0), done(1))]);
    assert_eq!((pair.host.filled[0].1.immediate, pair.host.has_window), (Some(WINDOW.0), false));
    pair.post_receive(2, 0x4000, 4);
    let answer = pair.take(theirs(1), invalidate(WINDOW), &[2; 4]);
    assert_eq!(answer, [(theirs(1), refused(Nak::RemoteAccess, 1))]);
    assert_eq!(pair.host.failed[0], (2, Status::RemoteInvalidRequest));
    assert_eq!((pair.host.memory[0x4000], pair.state()), (1, QpState::Error));
}

#[test]
fn memory_that_goes_while_it_is_read_ends_the_connection_at_the_packet() {
    let mut pair = Pair::reliable();
    pair.host.room = 1;
    pair.take(theirs(0), read(0, 600), &[]);
    assert!(pair.connection.owes() && pair.host.awaits_room);
    pair.host.is_registered = false;
    pair.connection.pump(pair.now, &mut pair.host);
    assert_eq!(pair.answers(), [(theirs(1), refused(Nak::RemoteAccess, 1))]);
    assert_eq!(pair.state(), QpState::Error);
}

#[test]
fn a_read_that_comes_again_when_its_memory_has_gone_is_refused_and_ends_no_connection() {
    let mut pair = Pair::reliable();
    assert_eq!(pair.take(theirs(0), read(0, 600), &[]).len(), 3);
    pair.host.is_registered = false;
    // Who still waits for it hears so; who does not goes on.
    assert_eq!(pair.take(theirs(1), read(256, 344), &[]), [(theirs(1), refused(Nak::RemoteAccess, 1))]);
    assert_eq!(pair.state(), QpState::ReadyToSend);
    assert!(pair.host.events.is_empty());
    pair.host.is_registered = true;
    assert_eq!(pair.take(theirs(3), read(0, 1), &[]).len(), 1);
}

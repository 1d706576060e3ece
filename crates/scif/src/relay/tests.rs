//! A relay whose other one is the test, which says what it may and what it may not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nonic_rsocket::{PortSpace, SharedSlice, Stream};
use nonic_sys::{POLL_HANG_UP, PollEntry, SharedMapping, give_other_end};

use super::{Line, Local, start};
use crate::connection::Connection;
use crate::kept_descriptor::KeptDescriptor;
use crate::segment::Segment;
use crate::side::Side;
use crate::wire::{ASKS, FIRST, Frame, HEADER, Header, Kind, LAST, PAYLOAD_MOST, REQUESTS_MOST};
use crate::{Endpoint, Protection, ScifError, poll, registry};

const PAGE: usize = nonic_sys::PAGE;
/// Where the program has its window, of two pages.
const WINDOW: i64 = 0x10000;
const PATIENCE: Duration = Duration::from_secs(20);

/// A program's endpoint whose relay talks to `peer`.
struct Bench {
    program: Endpoint,
    peer: Arc<Stream>,
    relay: JoinHandle<()>,
    memory: SharedMapping,
}

impl Bench {
    fn new() -> Self {
        let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = Stream::in_space(PortSpace::Scif, here).unwrap();
        listener.bind(here).unwrap();
        listener.listen(4).unwrap();
        let peer = Stream::in_space(PortSpace::Scif, here).unwrap();
        peer.connect(listener.name()).unwrap();
        let since = Instant::now();
        let stream = loop {
            if let Some(stream) = listener.try_accept().unwrap() {
                break stream;
            }
            assert!(since.elapsed() < PATIENCE, "the stream is never accepted");
            std::thread::yield_now();
        };
        let program = Endpoint::open().unwrap();
        let socket = KeptDescriptor::new(give_other_end(program.number()).unwrap());
        let (segment, _) = Segment::create().unwrap();
        let (mut line, link) = Line::new(stream).unwrap();
        line.is_connected();
        segment.set_relay(link.number());
        let record = registry::find(program.number()).unwrap();
        let identity = Arc::clone(&record.identity);
        record.connection.set(Connection::new(segment.clone(), Side::Connector, identity)).unwrap();
        let local = Local { socket, segment, side: Side::Acceptor };
        let relay = std::thread::spawn(move || start(line, link, local));
        let memory = SharedMapping::anonymous(2 * PAGE).unwrap();
        let bench = Self { program, peer, relay, memory };
        bench.fill(7);
        let address = bench.memory.as_ptr() as usize;
        let both = Protection { read: true, write: true };
        assert_eq!(bench.program.register(address, 2 * PAGE, WINDOW, both, true), Ok(WINDOW));
        bench
    }

    fn bytes(&self) -> SharedSlice<'_> {
        SharedSlice::of_mapping(&self.memory, 0, 2 * PAGE).unwrap()
    }

    fn fill(&self, byte: u8) {
        self.bytes().write(&[byte; 2 * PAGE]);
    }

    /// The byte that all of the window has.
    fn has_only(&self, byte: u8) -> bool {
        let mut bytes = [0; 2 * PAGE];
        self.bytes().read(&mut bytes);
        bytes == [byte; 2 * PAGE]
    }

    fn say(&self, Frame(mut bytes): Frame) {
        let length = bytes.len();
        // Of a relay that has ended already the rest is not taken.
        let sent = self.peer.send(&[SharedSlice::of_private(&mut bytes)], 0);
        assert!(sent.is_err() || sent == Ok(length));
    }

    fn hear(&self) -> (Header, Vec<u8>) {
        let read = |length: usize| {
            let (mut bytes, mut done) = (vec![0; length], 0);
            while done < length {
                let count = self.peer.receive(SharedSlice::of_private(&mut bytes[done..]), 0).unwrap();
                assert!(count > 0, "the relay has ended");
                done += count;
            }
            bytes
        };
        let header = Header::parse(read(HEADER).first_chunk().unwrap()).unwrap();
        (header, read(header.length as usize))
    }

    /// The answer to a request.
    fn answer(&self, number: u64) -> u64 {
        let (header, _) = self.hear();
        assert_eq!((header.kind, header.number), (Kind::Done, number));
        header.value
    }

    /// The program sees that the connection has ended.
    fn has_ended(&self) -> bool {
        let mut entries = [PollEntry { number: self.program.number(), events: 0, revents: 0 }];
        poll(&mut entries, PATIENCE.as_millis() as i64).unwrap();
        entries[0].revents & POLL_HANG_UP != 0
    }

    fn close(self) {
        let Self { program, peer, relay, .. } = self;
        drop(program);
        peer.close();
        relay.join().unwrap();
    }
}

fn write(number: u64, flags: u8, offset: i64, value: u64) -> Header {
    Header { flags, number, offset, value, ..Header::new(Kind::Write) }
}

fn asks(kind: Kind, number: u64) -> Header {
    Header { number, offset: WINDOW, value: 8, ..Header::new(kind) }
}

#[test]
fn what_another_host_may_not_say_ends_the_connection_and_moves_nothing() {
    let at = |number| Header { number, ..Header::new(Kind::Bytes) };
    let mut no_kind = Header::new(Kind::Close).emit();
    no_kind[0] = 99;
    let mut too_long = Header::new(Kind::Bytes).emit();
    too_long[4..8].copy_from_slice(&(PAYLOAD_MOST as u32 + 1).to_le_bytes());
    let cases: Vec<(&str, Vec<Frame>)> = vec![
        ("a kind that there is not", vec![Frame(no_kind.to_vec())]),
        ("more than a frame carries", vec![Frame(too_long.to_vec())]),
        ("a greeting in the middle", vec![Header::new(Kind::Hello).with(b"0")]),
        ("a welcome in the middle", vec![Header::new(Kind::Welcome).alone()]),
        ("more bytes than there is room for", vec![at(0).with(&[1; 4096])]),
        ("bytes from another position", vec![at(5).with(b"late")]),
        ("bytes taken that were not sent", vec![Header { number: 1, ..Header::new(Kind::Taken) }.alone()]),
        ("an answer to nothing", vec![Header { number: 1, ..Header::new(Kind::Done) }.alone()]),
        ("bytes that nobody asked for", vec![Header { number: 9, ..Header::new(Kind::Piece) }.with(b"x")]),
        ("the middle of no write", vec![write(1, 0, WINDOW, 8).with(b"12345678")]),
        ("a write begun twice", (0..2).map(|_| write(1, FIRST, WINDOW, 8).alone()).collect()),
        ("more bytes than a write has", vec![write(1, FIRST, WINDOW, 4).with(b"12345678")]),
        (
            "a piece that is elsewhere",
            vec![write(1, FIRST, WINDOW, 16).alone(), write(1, 0, WINDOW + 8, 16).with(b"12345678")],
        ),
        ("a read that says no length", vec![asks(Kind::Read, 1).alone()]),
        (
            "more writes than may be under way",
            (0..=REQUESTS_MOST as u64).map(|number| write(number, FIRST, WINDOW, 8).alone()).collect(),
        ),
        ("the end", vec![Header::new(Kind::Close).alone()]),
    ];
    for (case, frames) in cases {
        let bench = Bench::new();
        frames.into_iter().for_each(|frame| bench.say(frame));
        assert!(bench.has_ended(), "{case}");
        assert!(bench.has_only(7), "{case} moved something");
        let room = bench.memory.as_ptr() as usize;
        assert_eq!(bench.program.receive(room, 8, false), Err(ScifError::Reset), "{case} brought bytes");
        assert_eq!(
            bench.program.send(bench.memory.as_ptr() as usize, 8, true),
            Err(ScifError::Reset),
            "{case}"
        );
        bench.close();
    }
}

#[test]
fn requests_that_are_refused_are_answered_and_the_connection_goes_on() {
    let bench = Bench::new();
    let behind = WINDOW + 2 * PAGE as i64;
    bench.say(write(1, FIRST | LAST, behind - 4, 8).with(&[9; 8]));
    assert_eq!(bench.answer(1), 1, "half behind the window");
    bench.say(write(2, FIRST, WINDOW, 3 * PAGE as u64).with(&[9; 8]));
    assert_eq!(bench.answer(2), 1, "a long write is judged before its first byte");
    bench.say(write(2, LAST, WINDOW + 8, 3 * PAGE as u64).with(&[9; 8]));
    bench.say(write(3, FIRST | LAST, i64::MIN, u64::MAX).alone());
    assert_eq!(bench.answer(3), 1, "a range that cannot be");
    bench.say(Header { offset: behind, ..asks(Kind::Read, 4) }.with(&8u64.to_le_bytes()));
    assert_eq!(bench.answer(4), 1);
    bench.say(Header { value: u64::MAX, ..asks(Kind::Read, 5) }.with(&u64::MAX.to_le_bytes()));
    assert_eq!(bench.answer(5), 1);
    bench.say(Header { offset: behind - 4, ..asks(Kind::Store, 6) }.alone());
    assert_eq!(bench.answer(6), 1);
    bench.say(Header { value: 99, ..asks(Kind::Wait, 7) }.alone());
    assert_eq!(bench.answer(7), 8, "a mark that was never given");
    assert!(bench.has_only(7));
    bench.program.unregister(WINDOW, 2 * PAGE).unwrap();
    bench.say(write(8, FIRST | LAST, WINDOW, 8).with(&[9; 8]));
    assert_eq!(bench.answer(8), 1, "a window that was closed");
    assert!(bench.has_only(7));
    bench.say(Header { flags: ASKS, ..Header::new(Kind::Alive) }.alone());
    assert_eq!(bench.hear().0.kind, Kind::Alive);
    bench.close();
}

#[test]
fn a_window_that_closes_in_the_middle_of_a_write_takes_no_more_of_it() {
    let bench = Bench::new();
    bench.say(write(1, FIRST, WINDOW, 2 * PAGE as u64).with(&[9; PAGE]));
    // What was said before this has been done.
    bench.say(Header { flags: ASKS, ..Header::new(Kind::Alive) }.alone());
    assert_eq!(bench.hear().0.kind, Kind::Alive);
    bench.program.unregister(WINDOW, 2 * PAGE).unwrap();
    bench.fill(5);
    bench.say(write(1, LAST, WINDOW + PAGE as i64, 2 * PAGE as u64).with(&[9; PAGE]));
    assert_eq!(bench.answer(1), 1);
    assert!(bench.has_only(5));
    bench.close();
}

#[test]
fn bytes_stay_with_who_sends_until_the_other_program_has_taken_them() {
    let bench = Bench::new();
    let from = bench.memory.as_ptr() as usize;
    assert_eq!(bench.program.send(from, 2 * PAGE, false), Ok(4095));
    let mut came = 0;
    while came < 4095 {
        let (header, bytes) = bench.hear();
        assert_eq!((header.kind, header.number), (Kind::Bytes, came));
        assert!(bytes.iter().all(|byte| *byte == 7));
        came += bytes.len() as u64;
    }
    assert_eq!(bench.program.send(from, 1, false), Ok(0), "nothing was taken yet");
    bench.say(Header { number: 100, ..Header::new(Kind::Taken) }.alone());
    assert_eq!(bench.program.send(from, 100, true), Ok(100));
    assert_eq!(bench.program.send(from, 1, false), Ok(0));
    bench.close();
}

#[test]
fn a_read_is_answered_piece_by_piece_and_a_copy_asks_for_no_more_than_it_has_room_for() {
    let bench = Bench::new();
    bench
        .say(Header { value: 2 * PAGE as u64, ..asks(Kind::Read, 1) }.with(&(2 * PAGE as u64).to_le_bytes()));
    let (piece, bytes) = bench.hear();
    assert_eq!((piece.kind, piece.number, bytes), (Kind::Piece, 1, vec![7; 2 * PAGE]));
    assert_eq!(bench.answer(1), 0);
    // The program reads: whoever answers with more than was asked for is not believed.
    let program = *bench.program;
    let target = SharedMapping::anonymous(PAGE).unwrap();
    let address = target.as_ptr() as usize;
    let copy = std::thread::spawn(move || program.read_into(address, 64, WINDOW, Default::default()));
    let (asked, _) = bench.hear();
    assert_eq!((asked.kind, asked.value), (Kind::Read, 64));
    bench.say(Header { number: asked.number, ..Header::new(Kind::Piece) }.with(&[1; 65]));
    assert_eq!(copy.join().unwrap(), Err(ScifError::Reset));
    let mut first = [9];
    SharedSlice::of_mapping(&target, 0, 1).unwrap().read(&mut first);
    assert_eq!(first, [0], "nothing of it was copied");
    bench.close();
}

#[test]
fn a_host_that_asks_and_takes_no_answers_costs_bounded_memory() {
    let bench = Bench::new();
    bench.peer.set_nonblocking(true);
    // Questions that are answered at once; the answers are left where they are, and at last nothing more is taken.
    let Frame(question) = asks(Kind::Check, 1).alone();
    let mut many = question.repeat(1 << 10);
    let (mut said, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(300) {
        let begun = said % many.len();
        if let Ok(count) = bench.peer.send(&[SharedSlice::of_private(&mut many[begun..])], 0) {
            (said, since) = (said + count, Instant::now());
        }
        assert!(said < 64 << 20, "it takes whatever comes");
    }
    // And the program's endpoint is as usable as before.
    assert_eq!(bench.program.send(bench.memory.as_ptr() as usize, 8, false), Ok(8));
    bench.close();
}

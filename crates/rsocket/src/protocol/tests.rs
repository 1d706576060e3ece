//! A sender and a receiver against each other.

use proptest::prelude::*;

use super::receiver::{Announcement, Violation};
use super::*;

const HALF: u32 = 100;
const DEPTH: u16 = 8;
const SLOTS: u32 = 6 + CONTROLS;
const SEND_BUFFER: u32 = 64;
const BASE: u64 = 0x1000;

/// Both ends of one direction, and what is between them.
struct Direction {
    sender: Sender,
    receiver: Receiver,
    /// The receiver's buffer, and the sender's list.
    memory: Vec<u8>,
    list: [Option<Target>; TARGETS],
    /// Under way: to the receiver, and to the sender.
    messages: std::collections::VecDeque<u32>,
    credits: std::collections::VecDeque<Announcement>,
    ended: Vec<Sent>,
    sent: u64,
    read: u64,
}

fn byte(position: u64) -> u8 {
    (position % 251) as u8
}

/// A receive buffer of two halves that may become so many times as long.
fn buffer(times: u32) -> ReceiveBuffer {
    ReceiveBuffer { first: 2 * HALF, most: 2 * HALF * times }
}

impl Direction {
    fn new(times: u32) -> Self {
        let first = Target { address: BASE, key: 1, length: HALF };
        Self {
            sender: Sender::new(DEPTH, first, SLOTS, SEND_BUFFER),
            receiver: Receiver::new(buffer(times), DEPTH, TARGETS as u32),
            memory: vec![0; (2 * HALF * times) as usize],
            list: [None; TARGETS],
            messages: Default::default(),
            credits: Default::default(),
            ended: Vec::new(),
            sent: 0,
            read: 0,
        }
    }

    fn send(&mut self, wanted: u32) -> u32 {
        let length = wanted.min(self.sender.room());
        if length == 0 {
            return 0;
        }
        let parts = self.sender.take_buffer(length);
        assert_eq!(parts[0].1 + parts[1].1, length);
        let target = self.sender.send_data(length);
        let start = (target.address - BASE) as usize;
        for place in &mut self.memory[start..start + length as usize] {
            *place = byte(self.sent);
            self.sent += 1;
        }
        self.messages.push_back(length);
        self.ended.push(Sent::of_mark(Sent::Bytes(length).mark()));
        length
    }

    /// The bytes are put where they go before anything is sent, and take no room of the buffer.
    fn place(&mut self, wanted: u32) -> u32 {
        let open = self.sender.open();
        let length = wanted.min(open.length);
        if length == 0 {
            return 0;
        }
        let start = (open.address - BASE) as usize;
        for place in &mut self.memory[start..start + length as usize] {
            *place = byte(self.sent);
            self.sent += 1;
        }
        self.sender.tell_data(length);
        self.messages.push_back(length);
        self.ended.push(Sent::of_mark(Sent::Bytes(0).mark()));
        length
    }

    fn deliver(&mut self) {
        if let Some(length) = self.messages.pop_front() {
            self.receiver.arrived(length).unwrap();
        }
    }

    fn complete(&mut self) {
        if !self.ended.is_empty() {
            let sent = self.ended.remove(0);
            self.sender.ended(sent);
        }
    }

    fn read(&mut self, most: usize) -> usize {
        let places = self.receiver.oldest(most);
        let mut count = 0;
        for at in places.into_iter().flatten() {
            assert_eq!(self.memory[at], byte(self.read));
            self.read += 1;
            count += 1;
        }
        self.receiver.read(count as u32);
        count
    }

    fn announce(&mut self) {
        if let Some(announcement) = self.receiver.announcement() {
            self.receiver.announced(&announcement);
            if let Some(half) = announcement.half {
                let address = BASE + u64::from(half.offset);
                self.list[half.entry as usize] = Some(Target { address, key: 1, length: half.length });
            }
            self.credits.push_back(announcement);
        }
    }

    fn credit(&mut self) {
        if let Some(announcement) = self.credits.pop_front() {
            let list = &mut self.list;
            self.sender.credit(announcement.limit, |entry| list[entry].take());
        }
    }
}

#[test]
fn bytes_that_were_placed_take_room_of_the_peer_and_none_of_the_buffer() {
    let mut direction = Direction::new(1);
    assert_eq!(direction.send(SEND_BUFFER), SEND_BUFFER);
    assert_eq!((direction.sender.room(), direction.send(1)), (0, 0), "the buffer is full");
    assert_eq!(direction.place(HALF), HALF - SEND_BUFFER, "what is left of the peer's first half");
    assert_eq!(direction.place(1), 0, "the peer has said nothing of another one");
    direction.deliver();
    direction.deliver();
    assert_eq!(direction.read(1000), HALF as usize);
    direction.complete();
    direction.complete();
    assert_eq!(direction.sender.local_room(), SEND_BUFFER, "each gave back what it took");
}

proptest! {
    #[test]
    fn every_byte_arrives_once_in_order_whatever_is_late(
        times in 1u32..9,
        steps in proptest::collection::vec((0u8..7, 1u32..90), 1..600)
    ) {
        let mut direction = Direction::new(times);
        for (step, number) in steps {
            match step {
                0 => drop(direction.send(number)),
                1 => direction.deliver(),
                2 => direction.complete(),
                3 => drop(direction.read(number as usize)),
                4 => direction.announce(),
                5 => direction.credit(),
                _ => drop(direction.place(number)),
            }
        }
        // Then both go on until something more has passed than all buffers hold.
        let goal = direction.sent + 10 * u64::from(HALF);
        let mut turns = 0;
        while direction.read < goal {
            direction.send(30);
            direction.deliver();
            direction.complete();
            direction.read(1000);
            direction.announce();
            direction.credit();
            turns += 1;
            prop_assert!(turns < 10_000, "the stream stands still");
        }
    }

    #[test]
    fn a_sender_that_obeys_is_never_found_at_fault(
        times in 1u32..9,
        lengths in proptest::collection::vec(1u32..40, 1..200)
    ) {
        let mut direction = Direction::new(times);
        for length in lengths {
            // Nothing is read: it stops by itself when all is full.
            direction.send(length);
            direction.complete();
            direction.announce();
            direction.credit();
        }
        while !direction.messages.is_empty() {
            direction.deliver();
        }
        prop_assert!(direction.receiver.waiting() <= 2 * HALF * times);
        prop_assert!(direction.sent <= u64::from(2 * HALF * times));
    }
}

#[test]
fn the_second_half_is_announced_at_once_in_the_second_entry() {
    let receiver = Receiver::new(buffer(1), 384, 2);
    let announcement = receiver.announcement().unwrap();
    assert_eq!(announcement.limit, 384);
    let half = announcement.half.unwrap();
    assert_eq!((half.offset, half.length, half.entry), (HALF, HALF, 1));
}

#[test]
fn a_buffer_that_the_peer_fills_becomes_longer_and_one_that_it_does_not_stays() {
    let all_of = |direction: &mut Direction, length: u32| {
        let mut placed = 0;
        while placed < length {
            placed += direction.place(length - placed);
            direction.deliver();
            direction.complete();
            direction.announce();
            direction.credit();
        }
    };
    let mut direction = Direction::new(5);
    direction.announce();
    direction.credit();
    // Who reads in time is sent through the first part for ever.
    for _ in 0..50 {
        all_of(&mut direction, HALF);
        assert_eq!(direction.read(1000), HALF as usize);
        direction.announce();
        direction.credit();
    }
    assert!(direction.memory[2 * HALF as usize..].iter().all(|byte| *byte == 0));
    // Nothing is read: twice as much goes, twice as much once more, and there it ends, for five times as much is not two steps.
    all_of(&mut direction, 8 * HALF);
    assert_eq!((direction.place(1), direction.receiver.waiting()), (0, 8 * HALF));
    assert!(direction.receiver.is_full());
    assert_eq!(direction.read(10_000), 8 * HALF as usize);
    assert!(direction.memory[8 * HALF as usize..].iter().all(|byte| *byte == 0));
    direction.announce();
    direction.credit();
    all_of(&mut direction, 8 * HALF);
    assert_eq!(direction.read(10_000), 8 * HALF as usize);
}

#[test]
fn more_than_was_announced_is_a_violation() {
    let mut receiver = Receiver::new(buffer(1), DEPTH, 2);
    assert_eq!(receiver.arrived(HALF + 1), Err(Violation));
    assert_eq!(receiver.arrived(HALF), Ok(()));
    assert_eq!(receiver.arrived(1), Err(Violation));
    // That there is more of the buffer by now is nothing that the peer was told.
    let mut receiver = Receiver::new(buffer(4), DEPTH, 2);
    receiver.announced(&receiver.announcement().unwrap());
    assert_eq!((receiver.arrived(2 * HALF), receiver.arrived(1)), (Ok(()), Err(Violation)));
    receiver.announced(&receiver.announcement().unwrap());
    assert_eq!((receiver.arrived(2 * HALF), receiver.arrived(1)), (Ok(()), Err(Violation)));
    let mut receiver = Receiver::new(buffer(1), DEPTH, 2);
    for _ in 0..DEPTH {
        assert_eq!(receiver.arrived(1), Ok(()));
    }
    assert_eq!(receiver.arrived(1), Err(Violation));
}

#[test]
fn empty_messages_give_their_receive_back_and_are_not_read() {
    let mut receiver = Receiver::new(buffer(1), DEPTH, 2);
    receiver.announced(&receiver.announcement().unwrap());
    for _ in 0..DEPTH / 2 {
        assert_eq!(receiver.announcement(), None);
        receiver.arrived(0).unwrap();
    }
    assert_eq!(receiver.waiting(), 0);
    assert_eq!(receiver.announcement(), Some(Announcement { limit: DEPTH + DEPTH / 2, half: None }));
}

#[test]
fn a_message_never_crosses_the_end_of_a_target() {
    let mut direction = Direction::new(1);
    direction.announce();
    direction.credit();
    let mut left = HALF;
    while left > 0 {
        assert!(direction.sender.room() <= left);
        left -= direction.send(left.min(60));
        direction.complete();
    }
    assert_eq!(direction.sender.send_data(1).address, BASE + u64::from(HALF));
}

#[test]
fn four_words_about_the_stream_are_under_way_at_most() {
    let mut sender = Sender::new(DEPTH, Target { address: 0, key: 0, length: 10 }, SLOTS, SEND_BUFFER);
    for _ in 0..CONTROLS {
        assert!(sender.can_control());
        sender.send_control();
    }
    assert!(!sender.can_control() && !sender.is_idle());
    // They take none of the room of data.
    assert_eq!(sender.room(), 10);
    sender.ended(Sent::of_mark(Sent::Control { ends: true }.mark()));
    assert!(sender.can_control());
}

#[test]
fn entries_of_the_table_take_a_receive_and_room() {
    let mut sender = Sender::new(1, Target { address: 0, key: 0, length: 10 }, SLOTS, SEND_BUFFER);
    assert!(sender.can_map(24));
    sender.send_mapping(24);
    assert!(!sender.can_map(24));
    assert_eq!((sender.room(), sender.local_room()), (0, SEND_BUFFER - 24));
    sender.credit(2, |_| None);
    assert_eq!(sender.room(), 10);
}

#[test]
fn a_buffer_with_nothing_under_way_begins_anew_and_any_other_goes_on() {
    let target = Target { address: 0, key: 0, length: 10_000 };
    let mut sender = Sender::new(100, target, 100, 1000);
    let send = |sender: &mut Sender, length| {
        sender.send_data(length);
        sender.take_buffer(length)
    };
    assert_eq!(send(&mut sender, 100), [(0, 100), (0, 0)]);
    assert_eq!(send(&mut sender, 300), [(100, 300), (0, 0)]);
    sender.ended(Sent::Bytes(100));
    assert_eq!(send(&mut sender, 650), [(400, 600), (0, 50)]);
    [300, 650].into_iter().for_each(|length| sender.ended(Sent::Bytes(length)));
    assert_eq!(send(&mut sender, 1000), [(0, 1000), (0, 0)]);
}

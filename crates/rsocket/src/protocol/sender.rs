//! Sending: what the peer takes, and what this side has room for.

use super::{CONTROLS, TARGETS, Target};

/// The sending half of a stream.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Messages sent that take a receive of the peer's, and how many it takes.
    sequence: u16,
    limit: u16,
    /// Where the bytes go. The peer writes the entries in turn, and each is used up before the next.
    targets: [Target; TARGETS],
    current: usize,
    /// The entry that the peer writes next.
    expected: usize,
    /// Requests of data that the send queue takes now, and in all.
    slots: u32,
    slots_all: u32,
    /// Messages about the stream itself that may be sent now.
    controls: u32,
    buffer: SendBuffer,
}

/// The send buffer: a ring, given back in the order in which it was taken.
#[derive(Debug)]
struct SendBuffer {
    size: u32,
    /// Bytes under way, those that were not copied included.
    used: u32,
    /// Where the next bytes are copied to.
    position: u32,
}

/// What was sent, for its end to be told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// So many bytes of the stream, or of a mapping.
    Bytes(u32),
    /// Something about the stream itself; whether it ends the stream.
    Control { ends: bool },
}

const BYTES: u64 = 0;
const CONTROL: u64 = 1 << 32;
const END: u64 = 2 << 32;

impl Sent {
    /// The mark of a request.
    pub(crate) fn mark(self) -> u64 {
        match self {
            Self::Bytes(length) => BYTES | u64::from(length),
            Self::Control { ends: false } => CONTROL,
            Self::Control { ends: true } => END,
        }
    }

    /// What a mark stands for.
    pub(crate) fn of_mark(mark: u64) -> Self {
        match mark & !u64::from(u32::MAX) {
            CONTROL => Self::Control { ends: false },
            END => Self::Control { ends: true },
            _ => Self::Bytes(mark as u32),
        }
    }
}

impl Sender {
    /// With a peer that takes `credits` messages, the first of them to `first`; with a send queue of `slots` requests and a
    /// buffer of `size` bytes.
    pub(crate) fn new(credits: u16, first: Target, slots: u32, size: u32) -> Self {
        let slots = slots - CONTROLS;
        Self {
            sequence: 0,
            limit: credits,
            targets: [first, Target::default()],
            current: 0,
            expected: 1,
            slots,
            slots_all: slots,
            controls: CONTROLS,
            buffer: SendBuffer { size, used: 0, position: 0 },
        }
    }

    /// Bytes that one message can carry now.
    pub(crate) fn room(&self) -> u32 {
        self.local_room().min(self.open().length)
    }

    /// Where the bytes of the next message go, and how many it can tell of now if they take no room in the buffer.
    pub(crate) fn open(&self) -> Target {
        let may = self.slots > 0 && self.sequence != self.limit;
        if may { self.targets[self.current] } else { Target::default() }
    }

    /// Bytes that one request can carry that the peer is not told of.
    pub(crate) fn local_room(&self) -> u32 {
        if self.slots == 0 { 0 } else { self.buffer.size - self.buffer.used }
    }

    /// Whether a message of data can be sent that is worth the effort: the buffer has room for `least` bytes, and the peer for some.
    pub(crate) fn can_send(&self, least: u32) -> bool {
        self.local_room() >= least && self.room() > 0
    }

    /// Whether an entry of the peer's table can be written.
    pub(crate) fn can_map(&self, length: u32) -> bool {
        self.sequence != self.limit && self.local_room() >= length
    }

    /// Whether something about the stream itself can be sent.
    pub(crate) fn can_control(&self) -> bool {
        self.controls > 0
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.controls == CONTROLS && self.slots == self.slots_all
    }

    /// Takes room of the buffer for bytes that are copied there, those of the message that was sent last: up to its end, and from
    /// its beginning on.
    pub(crate) fn take_buffer(&mut self, length: u32) -> [(u32, u32); 2] {
        if self.buffer.used == length {
            // Nothing else is under way: who sends little at a time needs few pages, and finds them in the cache.
            self.buffer.position = 0;
        }
        let SendBuffer { size, position, .. } = self.buffer;
        let first = length.min(size - position);
        self.buffer.position = (position + length) % size;
        [(position, first), (0, length - first)]
    }

    /// A message of data is sent, [`Sender::room`] bytes long at most: where its bytes go.
    pub(crate) fn send_data(&mut self, length: u32) -> Target {
        assert!(length <= self.room(), "{length} bytes in one message, {} go", self.room());
        self.send_silently(length);
        self.advance(length)
    }

    /// A message tells of bytes that were written where [`Sender::open`] says: its end is that of a message of none.
    pub(crate) fn tell_data(&mut self, length: u32) {
        assert!(length <= self.open().length, "{length} bytes told, {} go", self.open().length);
        self.send_silently(0);
        self.advance(length);
    }

    fn advance(&mut self, length: u32) -> Target {
        self.sequence = self.sequence.wrapping_add(1);
        let target = &mut self.targets[self.current];
        let place = Target { length, ..*target };
        target.address = target.address.wrapping_add(length.into());
        target.length -= length;
        if target.length == 0 {
            self.current = (self.current + 1) % TARGETS;
        }
        place
    }

    /// Bytes are sent that the peer is not told of.
    pub(crate) fn send_silently(&mut self, length: u32) {
        assert!(length <= self.local_room(), "{length} bytes sent without room");
        self.slots -= 1;
        self.buffer.used += length;
    }

    /// An entry of the peer's table is written.
    pub(crate) fn send_mapping(&mut self, length: u32) {
        self.sequence = self.sequence.wrapping_add(1);
        self.send_silently(length);
    }

    /// Something about the stream itself is sent.
    pub(crate) fn send_control(&mut self) {
        assert!(self.can_control(), "too much about the stream itself is under way");
        self.controls -= 1;
    }

    /// A request has ended.
    pub(crate) fn ended(&mut self, sent: Sent) {
        match sent {
            Sent::Bytes(length) => {
                self.slots += 1;
                self.buffer.used -= length;
            }
            Sent::Control { .. } => self.controls += 1,
        }
    }

    /// The peer takes messages up to `limit`. `take` looks whether it has written an entry of the list, and takes it out.
    pub(crate) fn credit(&mut self, limit: u16, take: impl FnOnce(usize) -> Option<Target>) {
        self.limit = limit;
        // One that is not used up cannot be written over: the peer has not read what stands there.
        if self.targets[self.expected].length == 0
            && let Some(target) = take(self.expected)
        {
            self.targets[self.expected] = target;
            self.expected = (self.expected + 1) % TARGETS;
        }
    }
}

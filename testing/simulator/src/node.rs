//! One end of a connection beside its queue pair: its memory, and what is wrong with its process.

use std::collections::VecDeque;
use std::time::Duration;

use nonic_protocol::{
    Access, BaseHeader, Capabilities, Connection, Key, Psn, QpAttributes, QpNumber, QpState, ReceiveQueue,
    Responder, SrqNumber,
};

use crate::chance::Chance;

/// A queue pair. It has a way to its peer as long as it does not know that the peer is gone.
pub(crate) type QueuePair = Connection<(), Duration>;

/// The key of a node's memory.
pub(crate) const KEY: Key = Key(0x77);
/// The key that a peer may take out of use.
pub(crate) const LOOSE_KEY: Key = Key(0x78);
/// Bytes a peer may write, from address 0 on; so many behind them it may read, and a word behind those.
pub(crate) const AREA: u64 = 512;
/// Where the word for atomics is.
pub(crate) const WORD: u64 = 2 * AREA;
/// Bytes of each receive.
pub(crate) const RECEIVE_LENGTH: u32 = 256;

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    send_requests: 8,
    receive_requests: 16,
    send_pieces: 1,
    receive_pieces: 1,
    inline_bytes: 0,
};

/// One end.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: QpNumber,
    /// The queue pair it is connected to.
    pub(crate) peer: QpNumber,
    /// What peers may write.
    pub(crate) memory: Vec<u8>,
    /// The word that atomics change.
    pub(crate) word: u64,
    /// Whether the key of its memory leads nowhere.
    pub(crate) withheld: bool,
    /// Whether the key that a peer may take out of use was taken.
    pub(crate) loosened: bool,
    /// Bytes of the read that is under way which have come.
    pub(crate) fetched: u64,
    /// The request that is being ended was carried out by this end itself.
    pub(crate) moved: bool,
    /// What came of the message that goes to a receive.
    pub(crate) received: Vec<u8>,
    /// Receives that were posted and not used, the oldest first.
    pub(crate) receives: VecDeque<u64>,
    /// What peers name on an extended connection: receives, and those that were posted there and not used.
    pub(crate) shared: [(ReceiveQueue, VecDeque<u64>); 2],
    /// What the last message named.
    pub(crate) turned_to: Option<SrqNumber>,
    /// The requests whose answers with data are owed, in the order of the responder.
    pub(crate) owed: VecDeque<u64>,
    /// It does nothing for a while.
    pub(crate) stopped: bool,
    /// Its process was killed; or it left.
    pub(crate) gone: Option<Gone>,
    /// It knows that its peer is gone.
    pub(crate) alone: bool,
    /// A fragment of its was lost, and it may wait for ever: the carrier loses some.
    pub(crate) unheard: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Killed,
    Left,
}

/// What both ends agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    pub(crate) timeout: u8,
    pub(crate) rnr_timer: u8,
    pub(crate) reads: u8,
}

impl Terms {
    pub(crate) fn by(chance: &mut Chance) -> Self {
        Self {
            retries: chance.below(4) as u8,
            rnr_retries: [7, 0, 1, 3][chance.below(4) as usize],
            timeout: 1 + chance.below(8) as u8,
            rnr_timer: 1 + chance.below(12) as u8,
            reads: 1 + chance.below(4) as u8,
        }
    }
}

/// How an end is set up next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetUp {
    pub(crate) number: QpNumber,
    pub(crate) peer: QpNumber,
    /// What it sends first, and what it expects first.
    pub(crate) psns: (Psn, Psn),
    pub(crate) terms: Terms,
}

impl SetUp {
    /// The queue pair, in RTR (IBTA vol. 1, 10.3.1).
    pub(crate) fn queue_pair(&self) -> QueuePair {
        let Self { peer, psns: (sends, expects), terms, .. } = *self;
        let mut pair = QueuePair::new(&CAPABILITIES);
        pair.attributes = QpAttributes {
            state: QpState::ReadyToReceive,
            destination_qp: peer,
            send_psn: sends.0,
            receive_psn: expects.0,
            access: Access::REMOTE | Access::FLUSH_GLOBAL,
            drained_notify: true,
            max_rd_atomic: terms.reads,
            max_dest_rd_atomic: terms.reads,
            min_rnr_timer: terms.rnr_timer,
            timeout: terms.timeout,
            retry_count: terms.retries,
            rnr_retry: terms.rnr_retries,
            ..pair.attributes
        };
        pair.responder = Responder::new(expects);
        pair
    }
}

impl Node {
    /// A process that has just started, or whose queue pair was reset.
    pub(crate) fn new(number: QpNumber, peer: QpNumber) -> Self {
        Self {
            number,
            peer,
            memory: vec![0; AREA as usize],
            word: 0,
            withheld: false,
            loosened: false,
            fetched: 0,
            moved: false,
            received: Vec::new(),
            receives: VecDeque::new(),
            shared: [1, 2].map(|_| (ReceiveQueue::new(CAPABILITIES.receive_requests, 1), VecDeque::new())),
            turned_to: None,
            owed: VecDeque::new(),
            stopped: false,
            gone: None,
            alone: false,
            unheard: false,
        }
    }

    /// Whether a message comes from the queue pair that this one is connected to, and is for this one.
    pub(crate) fn is_from_peer(&self, base: BaseHeader) -> bool {
        self.number == base.destination && self.peer == base.source
    }

    /// Whether it can do anything at all.
    pub(crate) fn acts(&self) -> bool {
        !self.stopped && self.gone.is_none()
    }

    /// A receive was used or flushed: the oldest.
    pub(crate) fn receive_ended(&mut self, id: u64) {
        let receives = match self.turned_to {
            None => &mut self.receives,
            Some(queue) => &mut self.shared[queue.0 as usize - 1].1,
        };
        assert_eq!(receives.pop_front(), Some(id), "a receive ended before an older one did");
    }

    /// The receives of the shared receive queue that the last message named.
    pub(crate) fn turned(&mut self) -> Option<&mut ReceiveQueue> {
        Some(&mut self.shared[self.turned_to?.0 as usize - 1].0)
    }

    /// The shared receive queue with fewer receives, and how many it has.
    pub(crate) fn shorter(&self) -> (usize, usize) {
        let [first, second] = [0, 1].map(|queue| self.shared[queue].0.length());
        if first <= second { (0, first) } else { (1, second) }
    }

    /// Whether a peer may use these bytes under this key.
    pub(crate) fn allows(&self, key: Key, address: u64, length: u64, end: u64) -> bool {
        !self.withheld && key == KEY && address.checked_add(length).is_some_and(|last| last <= end)
    }
}

/// From RTR to RTS.
pub(crate) fn begin_to_send(pair: &mut QueuePair) {
    if pair.state() == QpState::ReadyToReceive {
        pair.attributes.state = QpState::ReadyToSend;
        let attributes = pair.attributes;
        pair.requester.begin(&attributes);
    }
}

/// Byte `index` of the bytes of a request.
pub(crate) fn content(serial: u64, index: u64) -> u8 {
    (serial.wrapping_mul(31).wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Bytes `range` of a request.
pub(crate) fn contents(serial: u64, range: std::ops::Range<u64>) -> Vec<u8> {
    range.map(|index| content(serial, index)).collect()
}

//! The responder of a connected queue pair: which packet is the next, what is kept for packets that come again, and what is owed
//! (IBTA vol. 1, 9.7.4, 9.7.5).

use alloc::collections::VecDeque;

use nonic_protocol::{Key, Psn, Receive, RemoteRange, SrqNumber};

use crate::packet::{Aeth, Credits, Msn, Nak, Part, Reth, Syndrome, Tail};

/// Answers that are owed at most because requests came again. A peer that asks for more before it takes these gets no answer, and
/// asks again.
const REPEATED_MAX: usize = 16;

/// A message of which packets are still to come.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) kind: InboundKind,
    /// Bytes that came.
    pub(super) received: u32,
    /// The shared receive queue that it is for, on an extended connection.
    pub(super) queue: Option<SrqNumber>,
}

/// Where it goes.
#[derive(Debug)]
pub(super) enum InboundKind {
    /// A send, into this receive.
    Send(Receive),
    /// An RDMA Write, there.
    Write(Reth),
}

/// What was done for a request that is answered with data, in case that it comes again (9.7.5.1.5).
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Place of its first packet among all that were ever taken.
    pub(super) start: u64,
    /// Numbers that its answer takes.
    pub(super) packets: u32,
    pub(super) what: KeptAnswer,
}

/// What it is answered with.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeptAnswer {
    /// Memory, which is read again.
    Read { queue: Option<SrqNumber>, remote: RemoteRange, length: u32 },
    /// What the word held before.
    Atomic { old: u64 },
    /// Nothing, as a read of no bytes.
    Flush,
}

/// Something owed to the peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owed {
    /// An acknowledgement of either kind.
    Acknowledge { psn: Psn, aeth: Aeth },
    /// Bytes of a read, of which so many packets are sent; or said again.
    Read { psn: Psn, msn: Msn, read: OwedRead, sent: u32, again: bool },
    /// The result of an atomic; or said again.
    Atomic { psn: Psn, msn: Msn, old: u64, again: bool },
}

/// Memory that the peer reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwedRead {
    /// In whose zone it is, on an extended connection.
    pub(super) queue: Option<SrqNumber>,
    pub(super) remote: RemoteRange,
    pub(super) length: u32,
}

impl OwedRead {
    /// The answer to a flush: no memory is read for it.
    pub(super) const NOTHING: Self =
        Self { queue: None, remote: RemoteRange { address: 0, key: Key(0) }, length: 0 };
}

/// State of a queue pair as responder.
#[derive(Debug)]
pub(super) struct Responder {
    /// Number of the packet that is due.
    pub(super) expected: Psn,
    /// Packets taken since the beginning: the place of the one that is due.
    taken: u64,
    /// Messages completed since the beginning.
    msn: Msn,
    /// The peer was told that a packet is missing, or that there is no receive: nothing more is said until that packet comes.
    pub(super) complained: bool,
    /// How far the last packet was ahead of the one that is due, since the peer was told.
    pub(super) ahead: u32,
    /// The message under way.
    pub(super) inbound: Option<Inbound>,
    kept: VecDeque<Kept>,
    owed: VecDeque<Owed>,
}

impl Responder {
    /// The queue pair goes to RTR; `expected` is the first number it takes (10.3.1).
    pub(super) fn new(expected: Psn) -> Self {
        Self {
            expected,
            taken: 0,
            msn: Msn::default(),
            complained: false,
            ahead: 0,
            inbound: None,
            kept: VecDeque::new(),
            owed: VecDeque::new(),
        }
    }

    // What was taken.

    /// The packet that was due was carried out, and took so many numbers; whether a message ended with it.
    pub(super) fn has_taken(&mut self, packets: u32, ends: bool) {
        self.expected = self.expected.plus(packets);
        self.taken += u64::from(packets);
        if ends {
            self.msn = self.msn.next();
        }
    }

    /// A message of which packets were still to come is over; the receive that was being filled.
    pub(super) fn break_off(&mut self) -> Option<Receive> {
        match self.inbound.take()?.kind {
            InboundKind::Send(receive) => Some(receive),
            InboundKind::Write(_) => None,
        }
    }

    /// Whether a receive is being filled.
    pub(super) fn is_filling(&self) -> bool {
        matches!(&self.inbound, Some(Inbound { kind: InboundKind::Send(_), .. }))
    }

    /// Keeps what a request that is due is answered with: of so many requests the last ones.
    pub(super) fn keep(&mut self, packets: u32, what: KeptAnswer, most: u8) {
        while self.kept.len() >= usize::from(most).max(1) {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept { start: self.taken, packets, what });
    }

    /// What is kept for a packet that comes again, if it is that far behind the one that is due; and which packet of the request's
    /// numbers it is.
    pub(super) fn find_kept(&self, behind: u32) -> Option<(Kept, u32)> {
        let place = self.taken.checked_sub(behind.into())?;
        let holds = |kept: &&Kept| (kept.start..kept.start + u64::from(kept.packets)).contains(&place);
        self.kept.iter().find(holds).map(|kept| (*kept, (place - kept.start) as u32))
    }

    // What is owed.

    fn aeth(&self, syndrome: Syndrome) -> Aeth {
        Aeth { syndrome, msn: self.msn }
    }

    /// An acknowledgement of everything up to `psn`. It stands for those before it (9.7.5.1.2).
    pub(super) fn acknowledge(&mut self, psn: Psn) {
        self.forget_acknowledgement();
        let aeth = self.aeth(Syndrome::Acknowledge(Credits::UNKNOWN));
        self.owed.push_back(Owed::Acknowledge { psn, aeth });
    }

    /// A refusal of packet `psn`, which acknowledges everything before it. It stands for one that was not sent yet and asked for the
    /// same: what a peer sends in vain takes no more room the more of it comes.
    pub(super) fn refuse(&mut self, psn: Psn, syndrome: Syndrome) {
        self.forget_acknowledgement();
        if let Some(Owed::Acknowledge { aeth, .. }) = self.owed.back()
            && matches!(aeth.syndrome, Syndrome::NotReady(_) | Syndrome::Refuse(Nak::Sequence))
        {
            self.owed.pop_back();
        }
        let aeth = self.aeth(syndrome);
        self.owed.push_back(Owed::Acknowledge { psn, aeth });
    }

    /// What is said next says it, too.
    fn forget_acknowledgement(&mut self) {
        if let Some(Owed::Acknowledge { aeth: Aeth { syndrome: Syndrome::Acknowledge(_), .. }, .. }) =
            self.owed.back()
        {
            self.owed.pop_back();
        }
    }

    /// Bytes that the peer reads.
    pub(super) fn owe_read(&mut self, psn: Psn, read: OwedRead, again: bool) {
        self.forget_acknowledgement();
        self.owed.push_back(Owed::Read { psn, msn: self.msn, read, sent: 0, again });
    }

    /// What a word held.
    pub(super) fn owe_old(&mut self, psn: Psn, old: u64, again: bool) {
        self.forget_acknowledgement();
        self.owed.push_back(Owed::Atomic { psn, msn: self.msn, old, again });
    }

    /// Answers with data that are owed: for the first time, or again.
    fn count_owed(&self, wanted: bool) -> usize {
        let counts = |owed: &&Owed| match owed {
            Owed::Read { again, .. } | Owed::Atomic { again, .. } => *again == wanted,
            Owed::Acknowledge { .. } => false,
        };
        self.owed.iter().filter(counts).count()
    }

    /// Answers with data that are owed for the first time: the peer waits for each of them.
    pub(super) fn answers_owed(&self) -> usize {
        self.count_owed(false)
    }

    /// Whether a request that came again can be answered again: not if the same answer is owed already, or too many are.
    pub(super) fn may_answer_again(&self, psn: Psn) -> bool {
        let same = |owed: &Owed| match *owed {
            Owed::Read { psn: owed, sent: 0, .. } | Owed::Atomic { psn: owed, .. } => owed == psn,
            _ => false,
        };
        !self.owed.iter().any(same) && self.count_owed(true) < REPEATED_MAX
    }

    /// Whether an acknowledgement is owed, and nothing else.
    pub(super) fn owes_acknowledgement_alone(&self) -> bool {
        self.owed.len() == 1 && matches!(self.owed.front(), Some(Owed::Acknowledge { .. }))
    }

    /// Whether something is owed.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The first of what is owed.
    pub(super) fn first_owed(&mut self) -> Option<&mut Owed> {
        self.owed.front_mut()
    }

    /// It was sent.
    pub(super) fn has_sent_first(&mut self) {
        self.owed.pop_front();
    }

    /// Data that are owed are there no more: packet `psn` of the answer is refused instead, and what is owed behind it will not
    /// be said.
    pub(super) fn cannot_answer(&mut self, psn: Psn) {
        self.owed.clear();
        self.refuse(psn, Syndrome::Refuse(Nak::RemoteAccess));
    }

    /// The same of what is the first that is owed, and was answered before: the rest is still owed.
    pub(super) fn cannot_answer_again(&mut self, psn: Psn) {
        let aeth = self.aeth(Syndrome::Refuse(Nak::RemoteAccess));
        if let Some(first) = self.owed.front_mut() {
            *first = Owed::Acknowledge { psn, aeth };
        }
    }
}

/// A packet of a send or a write, of either service.
#[derive(Clone, Copy, Debug)]
pub(super) enum Portion {
    /// Of a send.
    Send(Part<(), Tail>),
    /// Of an RDMA Write.
    Write(Part<Reth, Option<u32>>),
}

impl Portion {
    /// Whether a message begins with it.
    pub(super) fn begins(&self) -> bool {
        match self {
            Self::Send(part) => part.begins(),
            Self::Write(part) => part.begins(),
        }
    }

    /// Whether a message ends with it.
    pub(super) fn ends(&self) -> bool {
        match self {
            Self::Send(part) => part.ends(),
            Self::Write(part) => part.ends(),
        }
    }
}

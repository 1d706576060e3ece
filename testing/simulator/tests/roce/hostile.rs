//! A peer that says whatever it likes, in well-formed packets: nothing of it may make the queue pair fail by a panic, place bytes
//! where nobody let it, or end a request twice.

use std::time::Duration;

use nonic_protocol::{
    AtomicChange, AtomicRequest, Key, Operation, QpNumber, QpState, QpType, RemoteRange, SrqNumber,
};
use nonic_roce::{
    Aeth, Answer, Base, Body, Credits, FiveBits, Flush, FlushCheck, Msn, Nak, Packet, Part, ReadPart,
    Request, Reth, Syndrome, Tail, UnreliableRequest,
};
use nonic_simulator::Chance;
use nonic_simulator::wire::{ADDRESS, KEY, WINDOW};

use crate::flushes::flush;
use crate::pair::{Pair, ours, remote, theirs};

/// Where the program's own bytes stand, which it sends from and reads into.
const OWN: usize = 4096;
/// Where the peer may write.
const OPEN: std::ops::Range<usize> = 0x8000..0xa000;

struct Peer {
    chance: Chance,
}

impl Peer {
    fn key(&mut self) -> Key {
        [KEY, KEY, KEY, WINDOW, Key(1)][self.chance.below(5) as usize]
    }

    fn reth(&mut self) -> Reth {
        let key = self.key();
        let offset = OPEN.start as u64 + u64::from(self.chance.below(16)) * 8;
        let address = if self.chance.once_in(20) { u64::MAX - offset } else { ADDRESS + offset };
        let lengths = [0, 1, 4, 256, 257, 300, 512, 1000, u32::MAX, 1 << 31];
        let count = if self.chance.once_in(20) { 10 } else { 8 };
        Reth { remote: RemoteRange { address, key }, length: lengths[self.chance.below(count) as usize] }
    }

    fn part<F, L>(&mut self, first: F, last: L) -> Part<F, L> {
        match self.chance.below(4) {
            0 => Part::First(first),
            1 => Part::Middle,
            2 => Part::Last(last),
            _ => Part::Only(first, last),
        }
    }

    fn request(&mut self) -> Request {
        match self.chance.below(9) {
            0..=2 => {
                let tail = match self.chance.below(4) {
                    0 => Tail::Immediate(7),
                    1 => Tail::Invalidate(self.key()),
                    _ => Tail::Plain,
                };
                Request::Send(self.part((), tail))
            }
            3..=5 => {
                let (reth, immediate) = (self.reth(), self.chance.once_in(3).then_some(9));
                Request::Write(self.part(reth, immediate))
            }
            6 => Request::Read(self.reth()),
            7 => {
                let (placement, selectivity) = (self.chance.below(5) as u8, self.chance.below(4) as u8);
                Request::Flush(Flush { reth: self.reth(), placement, selectivity, check: FlushCheck::Once })
            }
            _ => {
                let remote = self.reth().remote;
                Request::Atomic(AtomicRequest { remote, change: AtomicChange::FetchAdd { add: 1 } })
            }
        }
    }

    fn answer(&mut self) -> Answer {
        let naks = [Nak::Sequence, Nak::InvalidRequest, Nak::RemoteAccess, Nak::RemoteOperation, Nak::Other];
        let syndrome = match self.chance.below(12) {
            0 => Syndrome::NotReady(FiveBits::masked(self.chance.below(32) as u8)),
            1 => Syndrome::Refuse(Nak::Sequence),
            2 if self.chance.once_in(4) => Syndrome::Refuse(naks[self.chance.below(5) as usize]),
            _ => Syndrome::Acknowledge(Credits::from_code(FiveBits::masked(self.chance.below(32) as u8))),
        };
        let aeth = Aeth { syndrome, msn: Msn::masked(self.chance.below(8)) };
        match self.chance.below(6) {
            0 => Answer::Read(ReadPart::First(aeth)),
            1 => Answer::Read(ReadPart::Middle),
            2 => Answer::Read(ReadPart::Last(aeth)),
            3 => Answer::Read(ReadPart::Only(aeth)),
            4 => Answer::Atomic(aeth, 5),
            _ => Answer::Acknowledge(aeth),
        }
    }

    fn packet(&mut self) -> (Packet, Vec<u8>) {
        let near =
            |chance: &mut Chance| if chance.once_in(20) { chance.below(1 << 24) } else { chance.below(12) };
        let (request, psn) = (self.chance.once_in(2), near(&mut self.chance));
        let base = Base {
            ack_request: self.chance.once_in(2),
            solicited: self.chance.once_in(2),
            ..Base::new(QpNumber(8), if request { theirs(psn) } else { ours(psn) })
        };
        let queue = SrqNumber(self.chance.below(2));
        let body = match (request, self.chance.below(8)) {
            (true, 0) => Body::ExtendedRequest(queue, self.request()),
            (true, 1) => {
                let part = self.part((), Some(3));
                Body::Unreliable(UnreliableRequest::Send(part))
            }
            (true, 2) => {
                let reth = self.reth();
                let part = self.part(reth, None);
                Body::Unreliable(UnreliableRequest::Write(part))
            }
            (true, _) => Body::Request(self.request()),
            (false, 0) => Body::Congestion,
            (false, 1) => Body::ExtendedAnswer(self.answer()),
            (false, _) => Body::Answer(self.answer()),
        };
        let length = [0, 1, 4, 44, 88, 255, 256, 257, 300][self.chance.below(9) as usize];
        (Packet { base, body }, vec![0xee; length])
    }
}

/// Posts something, and makes room for its answer.
fn post(pair: &mut Pair, chance: &mut Chance) {
    if !matches!(pair.state(), QpState::ReadyToSend | QpState::SendQueueDrain) {
        return;
    }
    let operation = match chance.below(6) {
        0 => Operation::Send { immediate: None },
        1 => Operation::Write { remote: remote(0), immediate: Some(1) },
        2 => Operation::Read { remote: remote(0) },
        3 => Operation::FetchAdd { remote: remote(0), add: 1 },
        4 => return pair.post_flush(flush(remote(0), 8)),
        _ => Operation::Invalidate { key: Key(1) },
    };
    let length = if let Operation::FetchAdd { .. } = operation { 8 } else { chance.below(1000) };
    pair.post(operation, length);
}

fn run(seed: u64) {
    let mut peer = Peer { chance: Chance::of_seed(seed) };
    let kinds = [
        QpType::ReliableConnection,
        QpType::ReliableConnection,
        QpType::UnreliableConnection,
        QpType::ExtendedSend,
        QpType::ExtendedReceive,
    ];
    let kind = kinds[peer.chance.below(5) as usize];
    let mut pair = Pair::new(kind);
    pair.host.queues = vec![SrqNumber(1)];
    pair.host.room = if peer.chance.once_in(4) { peer.chance.below(3) as usize } else { 1 << 20 };
    pair.connection.attributes.rnr_retry = 7;
    pair.connection.attributes.retry_count = 7;
    let mut posted_receives = 0;
    for _ in 0..200 {
        match peer.chance.below(12) {
            0 if kind.requests() && kind != QpType::ExtendedSend => post(&mut pair, &mut peer.chance),
            1 if pair.state() != QpState::Error && posted_receives < 32 => {
                pair.post_receive(posted_receives, 0xc000 + posted_receives * 1024, peer.chance.below(1024));
                posted_receives += 1;
            }
            2 => {
                pair.now += Duration::from_micros(peer.chance.below(100_000).into());
                pair.connection.handle_timeout(pair.now, &mut pair.host);
            }
            3 => pair.connection.handle_congestion(pair.now),
            4 => pair.host.sent.clear(),
            _ => {
                let (packet, payload) = peer.packet();
                pair.take_packet(packet, &payload);
            }
        }
    }
    check(&pair, posted_receives);
}

fn check(pair: &Pair, posted_receives: u64) {
    let ids = |list: Vec<u64>| list.windows(2).all(|two| two[0] < two[1]);
    assert!(
        ids(pair.host.ended.iter().map(|(id, _)| *id).collect()),
        "a request ended twice, or out of order"
    );
    let mut receives: Vec<u64> = pair
        .host
        .filled
        .iter()
        .map(|(id, _)| *id)
        .chain(pair.host.failed.iter().map(|(id, _)| *id))
        .collect();
    receives.sort_unstable();
    assert!(ids(receives) && pair.host.filled.iter().all(|(id, _)| *id < posted_receives));
    // What the peer sends is 0xee everywhere, and an atomic's result is 5.
    let outside = [OWN..OPEN.start, OPEN.end + 4096..0xc000, 0xc000 + 32 * 1024..pair.host.memory.len()];
    for range in outside {
        assert!(pair.host.memory[range.clone()].iter().all(|byte| *byte == 0), "bytes landed in {range:x?}");
    }
    if pair.state() == QpState::Error {
        assert_eq!((pair.host.flushed.is_some(), pair.connection.poll_timeout()), (true, None));
    }
}

#[test]
fn whatever_a_peer_says_nothing_lands_where_it_may_not_and_nothing_ends_twice() {
    for seed in 0..2_000 {
        run(seed);
    }
}

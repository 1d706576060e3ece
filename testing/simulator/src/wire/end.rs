//! One end of a connection, with what it asked for, and whether what came of it may be.

use std::collections::VecDeque;
use std::time::Duration;

use nonic_protocol::{
    Access, Capabilities, Operation, QpAttributes, QpNumber, QpState, QpType, ReceiveRequest, ScatterGather,
    SrqNumber, Status, ZoneId,
};
use nonic_roce::Connection;

use super::host::{ADDRESS, FOREIGN, Host, KEY};
use super::places::{
    LENGTH_MAX, LOCAL, MEMORY, READABLE, RECEIVES, REQUESTS, SLOT, WORD, WRITABLE, address, byte, bytes,
};
use super::windows::{BEFORE, Windows, shown};
use crate::chance::Chance;

pub(super) const CAPABILITIES: Capabilities = Capabilities {
    send_requests: REQUESTS,
    receive_requests: REQUESTS,
    send_pieces: 1,
    receive_pieces: 1,
    inline_bytes: 0,
};
/// The shared receive queue that requests on an extended connection are for.
pub(super) const QUEUE: SrqNumber = SrqNumber(5);

/// A request that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) serial: u64,
    pub(super) operation: Operation,
    pub(super) length: u32,
    /// It names a key that there is not.
    pub(super) is_bad: bool,
    /// The key that it names was taken back meanwhile; and then not all of its bytes had been moved.
    pub(super) taken_back: bool,
    pub(super) cannot_succeed: bool,
    /// Datagrams that had been harmed then, and how often the oldest request could still go unanswered.
    pub(super) harms_then: u64,
    pub(super) retries_then: u8,
}

/// A message that takes a receive of the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) serial: u64,
    pub(super) length: u32,
    pub(super) immediate: Option<u32>,
    pub(super) has_bytes: bool,
}

/// One end.
#[derive(Debug)]
pub(super) struct End {
    pub(super) connection: Connection<Duration>,
    pub(super) host: Host,
    pub(super) kind: QpType,
    pub(super) asked: VecDeque<Asked>,
    /// Messages that the other end has not taken yet.
    pub(super) messages: VecDeque<Message>,
    /// Serial of the last message that the other end took, and one.
    taken: u64,
    pub(super) serial: u64,
    receives: u64,
    /// Atomics that were posted, and those that ended well.
    pub(super) atomics: (u64, u64),
    /// What the peer's memory has to hold where requests of this end wrote: serial and length.
    pub(super) written: [Option<(u64, u32)>; REQUESTS as usize],
    ended: usize,
    filled: usize,
    /// Datagrams that had been harmed when each of the last requests ended well: one may be harmed long before it is missed.
    harms: [u64; REQUESTS as usize + 1],
    /// Something happened that ends a connection.
    pub(super) may_fail: bool,
    /// The keys by which the peer may use one place each.
    pub(super) windows: Windows,
}

impl End {
    pub(super) fn new(kind: QpType, number: usize, mtu: u32, chance: &mut Chance) -> Self {
        let mut connection = Connection::new(kind, &CAPABILITIES);
        let psns = [0xff_fff0, 0x7f_fff8];
        connection.attributes = QpAttributes {
            path_mtu: mtu,
            destination_qp: QpNumber(10 + (1 - number as u32)),
            send_psn: psns[number],
            receive_psn: psns[1 - number],
            access: Access::REMOTE | Access::LOCAL_WRITE | Access::FLUSH_GLOBAL,
            max_rd_atomic: 1 + chance.below(4) as u8,
            min_rnr_timer: 1 + chance.below(12) as u8,
            timeout: 6 + chance.below(3) as u8,
            retry_count: if chance.once_in(4) { chance.below(8) as u8 } else { 7 },
            rnr_retry: if chance.once_in(6) { chance.below(7) as u8 } else { 7 },
            drained_notify: true,
            ..QpAttributes::default()
        };
        connection.begin_to_receive();
        connection.begin_to_send();
        let mut host = Host::new(MEMORY);
        host.queues = vec![QUEUE];
        host.room = if chance.once_in(3) { 1 + chance.below(6) as usize } else { 1 << 20 };
        for (at, place) in host.memory[..READABLE].iter_mut().enumerate() {
            *place = byte(77, at);
        }
        let windows = Windows::new(&mut host);
        Self {
            connection,
            host,
            kind,
            asked: VecDeque::new(),
            messages: VecDeque::new(),
            taken: 0,
            serial: 0,
            receives: 0,
            atomics: (0, 0),
            written: [None; REQUESTS as usize],
            ended: 0,
            filled: 0,
            harms: [0; REQUESTS as usize + 1],
            may_fail: false,
            windows,
        }
    }

    pub(super) fn is_reliable(&self) -> bool {
        self.kind.service() == QpType::ReliableConnection
    }

    /// Posts a receive.
    pub(super) fn post_receive(&mut self) {
        if self.connection.state() == QpState::Error {
            return;
        }
        let place = RECEIVES + self.receives as usize % (2 * REQUESTS as usize) * SLOT;
        let pieces = [ScatterGather { address: address(place), length: LENGTH_MAX, key: KEY }];
        let request = ReceiveRequest { id: self.receives, pieces: &pieces };
        if self.connection.receives.post(&request, ZoneId(1)).is_ok() {
            self.receives += 1;
        }
    }

    /// Its program takes the queue pair to ERR.
    pub(super) fn give_up(&mut self) {
        self.may_fail = true;
        self.connection.stop(&mut self.host);
    }

    /// Requests that have not ended.
    pub(super) fn open(&self) -> usize {
        self.asked.len()
    }

    /// Looks at what was told since it last did.
    pub(super) fn check(&mut self, peer: &mut Self, harms: u64) {
        self.check_filled(peer);
        peer.check_filled(self);
        while let Some((id, status)) = self.host.ended.get(self.ended).copied() {
            self.ended += 1;
            let asked = self.asked.pop_front().expect("a request ended, and none was open");
            assert_eq!(asked.serial, id, "a request ended before an older one did");
            self.check_end(peer, asked, status, harms);
        }
        let state = self.connection.state();
        assert!(
            state != QpState::Error || self.may_fail || peer.may_fail,
            "a connection failed for no reason"
        );
        self.may_fail |= state == QpState::Error;
    }

    fn check_end(&mut self, peer: &mut Self, asked: Asked, status: Status, harms: u64) {
        let Asked { serial, operation, length, is_bad, taken_back, cannot_succeed, .. } = asked;
        self.check_arrived(&asked);
        match status {
            Status::Success => {
                assert!(!is_bad && !cannot_succeed, "a success that may not be: {asked:?}");
            }
            Status::RemoteAccess => return assert!(is_bad || taken_back, "nobody refused it: {asked:?}"),
            Status::RetryExceeded => {
                self.may_fail = true;
                // Each attempt was in vain for a reason; what comes late may be one for two.
                // A peer that took the key back is there and says so: for the attempts since then what was harmed before is no reason,
                // but for what was under way.
                let (before, attempts) = match taken_back {
                    true => (asked.harms_then.saturating_sub(2), asked.retries_then),
                    false => (self.harms[0], self.connection.attributes.retry_count),
                };
                let enough = 2 * (harms - before) > attempts.into();
                return assert!(enough || peer.may_fail, "somebody was there, {harms} harms: {asked:?}");
            }
            Status::RnrRetryExceeded => {
                self.may_fail = true;
                let limited = self.connection.attributes.rnr_retry < 7;
                return assert!(limited, "the peer was to be waited for: {asked:?}");
            }
            Status::Flushed => {
                let over = self.connection.state() == QpState::Error;
                return assert!(over, "a request was flushed for no reason: {asked:?}");
            }
            _ => panic!("a status without a cause: {asked:?} ended with {status:?}"),
        }
        self.harms.rotate_left(1);
        self.harms[REQUESTS as usize] = harms;
        if !self.is_reliable() {
            return;
        }
        let slot = serial as usize % REQUESTS as usize;
        let local = LOCAL + slot * SLOT;
        let result = &self.host.memory[local..][..length as usize];
        match operation {
            Operation::SendInvalidate { key } => {
                assert!(self.taken > serial, "a success that nobody brought about: {asked:?}");
                peer.windows.was_invalidated(&peer.host, key);
            }
            Operation::Send { .. } => {
                assert!(self.taken > serial, "a success that nobody brought about: {asked:?}")
            }
            Operation::Write { immediate, .. } => {
                if !taken_back {
                    self.written[slot] = Some((serial, length));
                }
                let taken = immediate.is_none() || self.taken > serial;
                assert!(taken, "a success that nobody brought about: {asked:?}");
                self.check_written(peer, slot);
            }
            Operation::Flush { .. } => {
                let is_open =
                    |slot| self.asked.iter().any(|asked| asked.serial as usize % REQUESTS as usize == slot);
                let settled = (0..REQUESTS as usize).filter(|slot| !is_open(*slot));
                settled.for_each(|slot| self.check_written(peer, slot));
            }
            Operation::Read { .. } if shown(&operation).is_some() => {
                let shown = shown(&operation).expect("just asked");
                let right = result.iter().enumerate().all(|(at, found)| *found == shown(at));
                assert!(right, "a read brought other bytes than there were: {asked:?}");
            }
            Operation::Read { remote } => {
                let from = (remote.address - ADDRESS) as usize;
                let right = result.iter().enumerate().all(|(at, found)| *found == byte(77, from + at));
                assert!(right, "a read brought other bytes than there were: {asked:?}");
            }
            _ => {
                let old = u64::from_ne_bytes(result.try_into().expect("a word has eight bytes"));
                assert_eq!(old, self.atomics.1, "an atomic was carried out twice, or not: {asked:?}");
                self.atomics.1 += 1;
            }
        }
    }

    /// However a read ended: its bytes are those that its key led to while it did, or none came.
    fn check_arrived(&self, asked: &Asked) {
        let Some(shown) = shown(&asked.operation) else { return };
        let local = LOCAL + asked.serial as usize % REQUESTS as usize * SLOT;
        for (at, found) in self.host.memory[local..][..asked.length as usize].iter().enumerate() {
            let (old, new) = (shown(at) ^ BEFORE, shown(at));
            let may = *found == old || *found == new && !asked.is_bad;
            assert!(may, "byte {at} came from behind a key that was taken back ({found:#x}): {asked:?}");
        }
    }

    /// What was written stays what it is: no packet that comes again writes again.
    fn check_written(&self, peer: &Self, slot: usize) {
        let Some((serial, length)) = self.written[slot] else { return };
        let place = &peer.host.memory[WRITABLE + slot * SLOT..][..length as usize];
        let right = place.iter().copied().eq(bytes(serial, length));
        assert!(right, "other bytes than were written: request {serial}");
    }

    /// Looks at what this end received: the messages of the peer, each once, in order.
    fn check_filled(&mut self, peer: &mut Self) {
        while let Some((id, arrived)) = self.host.filled.get(self.filled).copied() {
            self.filled += 1;
            let message = loop {
                let message = peer.messages.pop_front().expect("a message came that nobody sent, or twice");
                if self.is_reliable() || arrived.immediate == message.immediate {
                    break message;
                }
            };
            peer.taken = message.serial + 1;
            assert_eq!(arrived.immediate, message.immediate, "immediate data of another message");
            assert_eq!(arrived.total, message.length, "the length of another message");
            if message.has_bytes {
                let place = RECEIVES + id as usize % (2 * REQUESTS as usize) * SLOT;
                let found = &self.host.memory[place..][..message.length as usize];
                let right = found.iter().copied().eq(bytes(message.serial, message.length));
                assert!(right, "other bytes than were sent: {message:?}");
            }
        }
    }

    /// Nothing happens any more: everything that was done is still as it was.
    pub(super) fn check_all(&self, peer: &Self) {
        self.host.grants.check(&self.host.memory);
        if !self.is_reliable() {
            return;
        }
        let newer =
            |slot: usize| self.asked.iter().any(|asked| asked.serial as usize % REQUESTS as usize == slot);
        let failed = self.connection.state() == QpState::Error;
        for slot in (0..REQUESTS as usize).filter(|slot| !failed && !newer(*slot)) {
            self.check_written(peer, slot);
        }
        let word = u64::from_ne_bytes(peer.host.memory[WORD..][..8].try_into().expect("eight bytes"));
        let (posted, done) = self.atomics;
        assert!(word >= done && word <= posted, "{word} atomics were carried out of {posted}, {done} told");
        assert!(failed || word == done, "{word} atomics were carried out, {done} told");
        assert!(self.host.grants.has(FOREIGN), "a peer took a key out of use that was not given to it");
        let readable =
            self.host.memory[..READABLE].iter().enumerate().all(|(at, found)| *found == byte(77, at));
        assert!(readable, "bytes changed that nobody wrote to");
    }
}

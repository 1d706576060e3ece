//! What an end asks for, as chance has it.

use nonic_protocol::{
    Destination, FlushRequest, Key, Operation, Placement, QpState, QpType, RemoteRange, ScatterGather,
    Selectivity, SendFlags, SendRequest,
};

use super::end::{Asked, CAPABILITIES, End, Message, QUEUE};
use super::host::{FOREIGN, KEY};
use super::places::{LENGTH_MAX, LOCAL, OTHERS, READABLE, REQUESTS, SLOT, WORD, address, bytes};
use super::windows::{BEFORE, Use, shown};
use crate::chance::Chance;

impl End {
    /// Posts a request by chance, if it may.
    pub(super) fn post(&mut self, peer: &mut Self, chance: &mut Chance) {
        let ready = matches!(self.connection.state(), QpState::ReadyToSend | QpState::SendQueueDrain);
        if !ready || !self.kind.requests() || self.asked.len() >= REQUESTS as usize {
            return;
        }
        let serial = self.serial;
        let slot = serial as usize % REQUESTS as usize;
        let mut length = match chance.below(4) {
            0 => chance.below(9),
            1 => 256 << chance.below(3),
            _ => chance.below(LENGTH_MAX),
        };
        let is_bad = self.is_reliable() && chance.once_in(150);
        let operation =
            if is_bad { self.choose_bad(peer, chance, slot) } else { self.choose(peer, chance, slot) };
        let is_atomic = matches!(operation, Operation::FetchAdd { .. } | Operation::CompareSwap { .. });
        if is_atomic {
            length = 8;
            self.atomics.0 += 1;
        }
        let is_flush = matches!(operation, Operation::Flush { .. });
        if is_flush {
            length = 0;
        }
        // Of a message without bytes no key is looked at, but of a flush.
        let names_key = length > 0 && operation.remote().is_some();
        let is_bad =
            is_bad && (names_key || is_flush || matches!(operation, Operation::SendInvalidate { .. }));
        let place = LOCAL + slot * SLOT;
        for (to, from) in self.host.memory[place..].iter_mut().zip(bytes(serial, length)) {
            *to = from;
        }
        if let Some(shown) = shown(&operation) {
            for (at, to) in self.host.memory[place..][..length as usize].iter_mut().enumerate() {
                *to = shown(at) ^ BEFORE;
            }
        }
        let flags =
            SendFlags { fence: chance.once_in(8), solicited: chance.once_in(4), ..SendFlags::default() };
        let destination = (self.kind == QpType::ExtendedSend).then_some(Destination::Queue(QUEUE));
        let one = [ScatterGather { address: address(place), length, key: KEY }];
        let pieces: &[_] = if operation.has_bytes() { &one } else { &[] };
        let request = SendRequest { id: serial, operation, flags, pieces, destination };
        let freed = self.connection.send.finished;
        self.connection
            .send
            .post(&request, &CAPABILITIES, self.kind, freed, |_| ())
            .expect("there is room for a request");
        self.serial += 1;
        self.may_fail |= is_bad;
        let (taken_back, cannot_succeed) = (false, false);
        self.asked.push_back(Asked {
            serial,
            operation,
            length,
            is_bad,
            taken_back,
            cannot_succeed,
            harms_then: 0,
            retries_then: 0,
        });
        if takes_receive(&operation) && !is_bad {
            let has_bytes = !matches!(operation, Operation::Write { .. });
            let immediate = match operation {
                Operation::SendInvalidate { key } => Some(key.0),
                Operation::Send { immediate } | Operation::Write { immediate, .. } => immediate,
                _ => None,
            };
            self.messages.push_back(Message { serial, length, immediate, has_bytes });
        }
    }

    /// What a peer takes. What it wants a key of its own for that is not to be had is a send.
    fn choose(&self, peer: &mut Self, chance: &mut Chance, slot: usize) -> Operation {
        let mark = Some(self.serial as u32);
        let immediate = if !self.is_reliable() || chance.once_in(2) { mark } else { None };
        let region = |place| RemoteRange { address: address(place), key: KEY };
        let own = |key, place| RemoteRange { address: address(place), key };
        let special = match chance.below(if self.is_reliable() { 10 } else { 3 }) {
            0 | 1 => None,
            2 => {
                let key = peer.windows.key(&mut peer.host, Use::Write, slot);
                key.map(|key| Operation::Write { remote: own(key, Use::Write.start(slot)), immediate })
            }
            3 => {
                let place = Use::Read.start(slot) + chance.below(SLOT as u32 - LENGTH_MAX) as usize;
                let key = peer.windows.key_to_read(&mut peer.host, slot);
                key.map(|key| Operation::Read { remote: own(key, place) })
            }
            4 => {
                let place = chance.below(READABLE as u32 - LENGTH_MAX) as usize;
                Some(Operation::Read { remote: region(place) })
            }
            5 => Some(Operation::FetchAdd { remote: region(WORD), add: 1 }),
            7 => Some(flush(region(chance.below(READABLE as u32) as usize), chance)),
            6 => peer.windows.name_one(chance).map(|key| Operation::SendInvalidate { key }),
            _ => {
                let compare = self.atomics.0;
                Some(Operation::CompareSwap { remote: region(WORD), compare, swap: compare + 1 })
            }
        };
        special.unwrap_or(Operation::Send { immediate })
    }

    /// What it refuses, unless there are no bytes: it names nothing, what was given to somebody else, or what a send before it has
    /// taken out of use.
    fn choose_bad(&self, peer: &Self, chance: &mut Chance, slot: usize) -> Operation {
        let nothing = RemoteRange { address: address(Use::Write.start(slot)), key: Key(1) };
        let others = RemoteRange { address: address(OTHERS), key: FOREIGN };
        let named = peer.windows.last_named.unwrap_or(nothing);
        let remote = [nothing, others, named][chance.below(3) as usize];
        let immediate = if chance.once_in(2) { Some(self.serial as u32) } else { None };
        match chance.below(5) {
            0 => Operation::Write { remote, immediate },
            4 => flush(remote, chance),
            1 => Operation::Read { remote },
            2 => Operation::FetchAdd { remote, add: 1 },
            _ => Operation::SendInvalidate { key: remote.key },
        }
    }
}

/// A flush of a byte, of none, or of all of the region.
fn flush(remote: RemoteRange, chance: &mut Chance) -> Operation {
    let selectivity = if chance.once_in(2) { Selectivity::Region } else { Selectivity::Range };
    let (length, placement) = (chance.below(2), Placement::GLOBAL);
    Operation::Flush { flush: FlushRequest { remote, length, placement, selectivity } }
}

fn takes_receive(operation: &Operation) -> bool {
    use Operation::{Send, SendInvalidate, Write};
    matches!(operation, Send { .. } | SendInvalidate { .. } | Write { immediate: Some(_), .. })
}

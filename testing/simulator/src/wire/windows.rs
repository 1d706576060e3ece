//! Keys for one place of an end's memory each, that its peer uses: given, taken back by its program, or taken out of use by a send
//! of the peer's.

use nonic_protocol::{Key, Operation, RemoteRange};

use super::end::End;
use super::host::{FOREIGN, Host, KEY};
use super::places::{OTHERS, REQUESTS, SHOWN, SLOT, WRITABLE, address, byte, bytes};
use crate::chance::Chance;

/// What the byte of a place for reading is xored with when its key is no longer any.
pub(super) const AFTER: u8 = 0xff;
/// The same of the place that a read brings its bytes to, before it is posted.
pub(super) const BEFORE: u8 = 0x0f;

/// The bytes that a read finds while its key may be used, by their offset in it; of one by a key of its own.
pub(super) fn shown(operation: &Operation) -> Option<impl Fn(usize) -> u8> {
    let Operation::Read { remote } = operation else { return None };
    let (key, first) = (u64::from(remote.key.0), (remote.address - address(0)) as usize);
    let offset = first.checked_sub(SHOWN)? % SLOT;
    Some(move |at| byte(key, offset + at))
}

/// What a peer does at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Write,
    Read,
}

impl Use {
    /// Where a place begins.
    pub(super) fn start(self, slot: usize) -> usize {
        let first = match self {
            Self::Write => WRITABLE,
            Self::Read => SHOWN,
        };
        first + slot * SLOT
    }
}

/// A place with a key that leads to it.
#[derive(Clone, Copy, Debug)]
struct Window {
    key: Key,
    what: Use,
    slot: usize,
    /// The peer has posted a send that takes it out of use.
    is_named: bool,
}

/// The keys of one end that its peer may use now.
#[derive(Debug)]
pub(super) struct Windows {
    open: Vec<Window>,
    last_key: u32,
    /// What the last one led to that the peer named in a send; it knows that it may use it no more.
    pub(super) last_named: Option<RemoteRange>,
}

impl Windows {
    pub(super) fn new(host: &mut Host) -> Self {
        host.grants.give_to_others(FOREIGN, OTHERS..OTHERS + SLOT);
        Self { open: Vec::new(), last_key: KEY.0, last_named: None }
    }

    /// The key for a place, given now if there is none. None: the peer has asked to take it out of use, which has not ended.
    pub(super) fn key(&mut self, host: &mut Host, what: Use, slot: usize) -> Option<Key> {
        if let Some(open) = self.open.iter().find(|open| (open.what, open.slot) == (what, slot)) {
            return (!open.is_named).then_some(open.key);
        }
        self.last_key += 1;
        let (key, place) = (Key(self.last_key), what.start(slot)..what.start(slot) + SLOT);
        if what == Use::Read {
            for (at, place) in host.memory[place.clone()].iter_mut().enumerate() {
                *place = byte(key.0.into(), at);
            }
        }
        host.grants.give(key, place);
        self.open.push(Window { key, what, slot, is_named: false });
        Some(key)
    }

    /// A key of a read's own: what its bytes say is that they were there when it could be used. None: as above.
    pub(super) fn key_to_read(&mut self, host: &mut Host, slot: usize) -> Option<Key> {
        let old = self.key(host, Use::Read, slot)?;
        if host.grants.was_read_to(old) > 0 {
            self.forget(old);
            host.grants.take_back(old, &host.memory);
        }
        self.key(host, Use::Read, slot)
    }

    /// A key that a send is to take out of use, if there is one.
    pub(super) fn name_one(&mut self, chance: &mut Chance) -> Option<Key> {
        let count = self.open.len() as u32;
        let window = self.open.get_mut(chance.below(count.max(1)) as usize)?;
        if window.is_named {
            return None;
        }
        window.is_named = true;
        let place = window.what.start(window.slot);
        self.last_named = Some(RemoteRange { address: address(place), key: window.key });
        Some(window.key)
    }

    /// A key is none any more.
    fn forget(&mut self, key: Key) {
        self.open.retain(|open| open.key != key);
    }

    /// The same of one that a send of the peer's took out of use.
    pub(super) fn was_invalidated(&mut self, host: &Host, key: Key) {
        assert!(!host.grants.has(key), "{key:?} is in use behind a success of the send that names it");
        self.forget(key);
    }
}

impl End {
    /// Its program takes a key back, and uses the memory for something else: as a rule when the peer has no request for it, and now
    /// and then when it has one, which is refused then if its bytes have not all been moved.
    pub(super) fn take_back(&mut self, peer: &mut Self, chance: &mut Chance, harms: u64) {
        let (what, slot) =
            (if chance.once_in(2) { Use::Read } else { Use::Write }, chance.below(REQUESTS) as usize);
        let open = self.windows.open.iter().find(|open| (open.what, open.slot) == (what, slot));
        let Some(&Window { key, .. }) = open else { return };
        let names = |operation: &Operation| operation.remote().is_some_and(|remote| remote.key == key);
        let is_open = |operation: &Operation, length: u32| match operation {
            Operation::SendInvalidate { key: named } => *named == key,
            _ => names(operation) && length > 0,
        };
        let is_used = peer.asked.iter().any(|asked| is_open(&asked.operation, asked.length));
        if is_used && !chance.once_in(if what == Use::Read { 8 } else { 20 }) {
            return;
        }
        self.windows.forget(key);
        if !self.host.grants.has(key) {
            // A send of the peer's was before it.
            return;
        }
        let is_reliable = self.is_reliable();
        let retries = peer.connection.retries_left();
        for asked in peer.asked.iter_mut().filter(|asked| is_open(&asked.operation, asked.length)) {
            let length = asked.length as usize;
            let is_done = match asked.operation {
                Operation::Write { .. } => {
                    let place = &self.host.memory[what.start(slot)..][..length];
                    place.iter().copied().eq(bytes(asked.serial, asked.length))
                }
                Operation::Read { remote } => {
                    self.host.grants.was_read_to(key) >= (remote.address - address(0)) as usize + length
                }
                _ => false,
            };
            (asked.taken_back, asked.cannot_succeed) = (true, !is_done && is_reliable);
            (asked.harms_then, asked.retries_then) = (harms, retries);
            peer.may_fail = true;
        }
        // Of what was written there nothing is to be seen any more, and nobody is to see what stands there from now on.
        let place = what.start(slot)..what.start(slot) + SLOT;
        match what {
            Use::Write => {
                peer.written[slot] = None;
                self.host.memory[place].fill(0xee);
            }
            Use::Read => self.host.memory[place].iter_mut().for_each(|byte| *byte ^= AFTER),
        }
        assert!(self.host.grants.take_back(key, &self.host.memory), "a key led nowhere that was given");
    }
}

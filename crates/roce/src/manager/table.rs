//! All communications, found by their own number, by the peer's, by either queue pair, and by time.

use alloc::collections::{BTreeMap, BTreeSet};

use nonic_protocol::{Moment, QpNumber};

use super::communication::{Communication, PairKey, RemoteKey, State};
use super::event::{CallError, CommunicationId};
use super::listeners::HalfOpen;

/// The communications.
#[derive(Debug)]
pub(super) struct Table<T> {
    by_number: BTreeMap<u32, Communication<T>>,
    by_remote: BTreeMap<RemoteKey, u32>,
    by_pair: BTreeMap<PairKey, u32>,
    /// By this side's queue pair. Of two that name the same one it is the later.
    by_local_pair: BTreeMap<u32, u32>,
    deadlines: BTreeSet<(T, u32)>,
    /// Those that the program does not know any more, the oldest first.
    left_behind: BTreeMap<u64, u32>,
    half_open: HalfOpen,
    serial: u64,
}

impl<T: Moment> Table<T> {
    pub(super) fn new(half_open: HalfOpen) -> Self {
        Self {
            by_number: BTreeMap::new(),
            by_remote: BTreeMap::new(),
            by_pair: BTreeMap::new(),
            by_local_pair: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            left_behind: BTreeMap::new(),
            half_open,
            serial: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// A name that no communication has; of the numbers that are offered the first that is free, and not 0.
    pub(super) fn new_id(&mut self, mut numbers: impl FnMut() -> u32) -> CommunicationId {
        self.serial += 1;
        loop {
            let number = numbers();
            if number != 0 && !self.by_number.contains_key(&number) {
                return CommunicationId { number, serial: self.serial };
            }
        }
    }

    pub(super) fn insert(&mut self, communication: Communication<T>) {
        self.by_number.insert(communication.id.number, communication);
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut Communication<T>> {
        self.by_number.get_mut(&number)
    }

    /// The one of this number, which its caller has just found.
    pub(super) fn known(&mut self, number: u32) -> &mut Communication<T> {
        self.by_number.get_mut(&number).expect("the communication is in the table")
    }

    /// The one that a program calls so, and still knows.
    pub(super) fn of_program(&mut self, id: CommunicationId) -> Result<&mut Communication<T>, CallError> {
        let found = self.by_number.get_mut(&id.number);
        found.filter(|found| found.id == id && !found.is_released).ok_or(CallError::Unknown)
    }

    /// The one that a peer's message is for which names both numbers, if it comes from its peer.
    pub(super) fn of_both(&mut self, key: RemoteKey, own: u32) -> Option<&mut Communication<T>> {
        let found = self.by_number.get_mut(&own)?;
        let is_right = found.remote_number == key.number && found.ends.remote == key.remote;
        is_right.then_some(found)
    }

    pub(super) fn of_remote(&self, key: &RemoteKey) -> Option<u32> {
        self.by_remote.get(key).copied()
    }

    pub(super) fn of_pair(&self, key: &PairKey) -> Option<u32> {
        self.by_pair.get(key).copied()
    }

    pub(super) fn of_local_pair(&self, pair: QpNumber) -> Option<u32> {
        self.by_local_pair.get(&pair.0).copied()
    }

    /// From now on it is found by this side's queue pair.
    pub(super) fn has_local_pair(&mut self, number: u32, pair: QpNumber) {
        if let Some(found) = self.by_number.get_mut(&number) {
            found.local_pair = pair;
            self.by_local_pair.insert(pair.0, number);
        }
    }

    /// From now on it is found by what its peer says.
    pub(super) fn learn(&mut self, number: u32, remote: RemoteKey, pair: Option<PairKey>) {
        self.forget_peer(number);
        let Some(found) = self.by_number.get_mut(&number) else { return };
        found.remote_number = remote.number;
        found.remote_key = Some(remote);
        self.by_remote.insert(remote, number);
        if let Some(pair) = pair {
            found.remote_pair = pair.number;
            found.pair_key = Some(pair);
            self.by_pair.insert(pair, number);
        }
    }

    fn forget_peer(&mut self, number: u32) {
        let Some(found) = self.by_number.get_mut(&number) else { return };
        if let Some(key) = found.remote_key.take() {
            self.by_remote.remove(&key);
        }
        self.forget_pair(number);
    }

    fn forget_pair(&mut self, number: u32) {
        let Some(found) = self.by_number.get_mut(&number) else { return };
        if let Some(key) = found.pair_key.take() {
            self.by_pair.remove(&key);
        }
    }

    /// It takes a place among those that are half open; `false`: there is none.
    pub(super) fn open_half(&mut self, number: u32) -> bool {
        let Some(found) = self.by_number.get_mut(&number) else { return false };
        found.is_half_open = self.half_open.take(found.ends.remote);
        found.is_half_open
    }

    /// It goes on to another state.
    pub(super) fn enter(&mut self, number: u32, state: State, deadline: Option<T>) {
        self.wait_until(number, deadline);
        let Some(found) = self.by_number.get_mut(&number) else { return };
        found.state = state;
        let is_half = matches!(state, State::RequestReceived | State::ReplySent | State::ServiceReceived);
        if found.is_half_open && !is_half {
            found.is_half_open = false;
            self.half_open.give_back(found.ends.remote);
        }
        // A queue pair that was refused is not connected: it may ask again at once.
        if state == State::Rejected {
            self.forget_pair(number);
        }
    }

    pub(super) fn wait_until(&mut self, number: u32, deadline: Option<T>) {
        let Some(found) = self.by_number.get_mut(&number) else { return };
        if let Some(old) = found.deadline.take() {
            self.deadlines.remove(&(old, number));
        }
        found.deadline = deadline;
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, number));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<T> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The next one that is to do something now.
    pub(super) fn take_due(&mut self, now: T) -> Option<u32> {
        let (deadline, number) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        self.wait_until(number, None);
        Some(number)
    }

    /// The program does not know it any more. Of those there are so many at most: the oldest is forgotten.
    pub(super) fn release(&mut self, number: u32, most: usize) {
        let Some(found) = self.by_number.get_mut(&number) else { return };
        found.is_released = true;
        self.left_behind.insert(found.id.serial, number);
        if self.left_behind.len() > most
            && let Some((_, oldest)) = self.left_behind.pop_first()
        {
            self.remove(oldest);
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.wait_until(number, None);
        self.forget_peer(number);
        let Some(gone) = self.by_number.remove(&number) else { return };
        self.left_behind.remove(&gone.id.serial);
        if self.of_local_pair(gone.local_pair) == Some(number) {
            self.by_local_pair.remove(&gone.local_pair.0);
        }
        if gone.is_half_open {
            self.half_open.give_back(gone.ends.remote);
        }
    }
}

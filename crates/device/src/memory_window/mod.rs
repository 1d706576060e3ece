//! Memory windows: keys of their own for parts of regions, bound and unbound by requests of a queue pair.
//!
//! A window has a place in the key table as a region has one. Binding publishes an entry there that leads where the region
//! leads; unbinding kills it and waits until whoever was inside an operation through it has left. A bind is a request
//! among others: it may not block whoever posts, so what has to be waited for is looked at again later, and the bind
//! completes then.
//!
//! A key is a place and a tag of 8 bits. A window of type 1 takes one tag after the other, and another place when they are used up,
//! so that no key comes back soon.

mod keys;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_memory::{Access, Entry, Key, ZoneId};
use nonic_protocol::{QpNumber, WindowId};

use self::keys::Place;
use crate::engine::{Engine, Leaving};
use crate::error::{Busy, CreateError, WindowError};
use crate::region::Region;
use crate::zone::Zone;

/// Whom a window serves, and who chooses its keys (`ibv_alloc_mw(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// Every queue pair of its zone. It may be bound again at any time; its keys follow one another.
    Type1,
    /// The one queue pair through which it was bound (type 2B). It is bound only while it is not; the program chooses the
    /// low 8 bits of its keys.
    Type2,
}

/// A memory window.
#[derive(Debug)]
pub struct MemoryWindow {
    id: WindowId,
    zone: Arc<Zone>,
    kind: WindowKind,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The key that holds, or held last.
    key: Key,
    /// Where keys are offered.
    place: Place,
    /// Places of keys that were offered before, of which some may still be asked for.
    older: Vec<Place>,
    /// Binds and unbinds that were carried out.
    binds: u64,
    bound: Option<Bound>,
    /// The queue pair it was last bound for alone, which the engine's table says: most windows are bound again for the same.
    noted: Option<QpNumber>,
    /// Who may still be inside an operation through the last key.
    leaving: Leaving,
    /// The queue pair that took the last key out of use.
    unbound_by: Option<QpNumber>,
    released: bool,
}

#[derive(Debug)]
struct Bound {
    region: Arc<Region>,
    /// The queue pair it serves, if it serves only one.
    pair: Option<QpNumber>,
}

/// What a request wants of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) key: Key,
    pub(crate) region: Option<Key>,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) access: Access,
    pub(crate) zero_based: bool,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is done.
    Done,
    /// The old key is dead, but somebody is still inside: the same again a little later.
    Wait,
}

/// How often it is looked whether those inside have left before the request is put off.
const LOOKS: u32 = 200;
/// How long giving a window back waits for peers that are inside.
const PEER_PATIENCE: Duration = Duration::from_secs(2);

impl Zone {
    /// Makes a memory window in this zone, bound to nothing.
    pub fn allocate_window(self: &Arc<Self>, kind: WindowKind) -> Result<Arc<MemoryWindow>, CreateError> {
        if !self.context().is_usable() {
            return Err(CreateError::Gone);
        }
        if !self.users.acquire() {
            return Err(CreateError::Closed);
        }
        let engine = self.context().engine();
        let keys = engine.party().segment.keys();
        let Some(key) = keys.insert_window() else {
            self.users.release();
            let limit = self.context().limits().windows.into();
            return Err(CreateError::TooMany { what: "memory windows and regions", limit });
        };
        let window = Arc::new(MemoryWindow {
            id: engine.windows.next_id(),
            zone: Arc::clone(self),
            kind,
            state: Mutex::new(State {
                key,
                place: Place::at(keys, key),
                older: Vec::new(),
                binds: 0,
                bound: None,
                noted: None,
                leaving: Leaving::Nobody,
                unbound_by: None,
                released: false,
            }),
        });
        engine.windows.add(key.index(), &window);
        Ok(window)
    }
}

impl MemoryWindow {
    /// Which window it is, for requests.
    pub fn id(&self) -> WindowId {
        self.id
    }

    /// Its zone.
    pub fn zone(&self) -> &Arc<Zone> {
        &self.zone
    }

    /// Whom it serves.
    pub fn kind(&self) -> WindowKind {
        self.kind
    }

    /// The key that holds, or held last: every bind that has completed changed it.
    pub fn key(&self) -> Key {
        self.lock().key
    }

    /// How many requests have bound it or unbound it since it was made.
    pub fn binds(&self) -> u64 {
        self.lock().binds
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self) -> &Engine {
        self.zone.context().engine()
    }

    /// Binds it to `region`, if there is one as `wanted` names it, for the queue pair `pair` of `zone`. A refusal changes nothing: the
    /// old key goes on to hold. When it is done nobody is inside an operation through the old key, and nobody can begin one.
    pub(crate) fn bind(
        &self,
        pair: QpNumber,
        zone: ZoneId,
        wanted: &Binding,
        region: Option<Arc<Region>>,
    ) -> Result<Turn, WindowError> {
        if self.zone.id() != zone {
            return Err(WindowError::OtherZone);
        }
        if wanted.region.is_some() && region.is_none() {
            return Err(WindowError::NoRegion);
        }
        let mut state = self.lock();
        let new = self.judge(&state, pair, region, wanted)?;
        // It is used from here on, so that it cannot go meanwhile.
        if new.as_ref().is_some_and(|(region, _)| !region.users.acquire()) {
            return Err(WindowError::NoRegion);
        }
        self.unbind(&mut state, pair);
        if !self.have_left(&mut state) {
            if let Some((region, _)) = new {
                region.users.release();
            }
            return Ok(Turn::Wait);
        }
        state.key = wanted.key;
        state.binds += 1;
        if let Some((region, entry)) = new {
            let pair = (self.kind == WindowKind::Type2).then_some(pair);
            if let Some(pair) = pair
                && state.noted != Some(pair)
            {
                let before = state.noted.replace(pair);
                self.engine().windows.note_pair(before, pair, wanted.key.index());
            }
            self.engine().party().segment.keys().bind_window(wanted.key, &entry);
            state.bound = Some(Bound { region, pair });
        }
        self.close_key(&mut state, wanted.key);
        Ok(Turn::Done)
    }

    /// What is to be published, or nothing if the window is to be unbound.
    fn judge(
        &self,
        state: &State,
        pair: QpNumber,
        region: Option<Arc<Region>>,
        wanted: &Binding,
    ) -> Result<Option<(Arc<Region>, Entry)>, WindowError> {
        if state.released || !state.has_place(wanted.key.index()) {
            return Err(WindowError::Gone);
        }
        if wanted.key == state.key {
            return Err(WindowError::SameKey { key: wanted.key });
        }
        let zone = match self.kind {
            WindowKind::Type1 => self.zone.id(),
            WindowKind::Type2 if state.bound.is_some() => return Err(WindowError::Bound),
            WindowKind::Type2 if wanted.length == 0 => return Err(WindowError::Empty),
            WindowKind::Type2 => ZoneId::of_one_pair(pair.0),
        };
        if wanted.length == 0 {
            return Ok(None);
        }
        let region = region.ok_or(WindowError::NoRegion)?;
        if region.zone().id() != self.zone.id() {
            return Err(WindowError::OtherZone);
        }
        let entry = region.entry_of_part(wanted)?;
        Ok(Some((region, Entry { zone, ..entry })))
    }

    /// Takes `key` out of use for the queue pair through which it was bound.
    pub(crate) fn invalidate(&self, pair: QpNumber, key: Key) -> Result<Turn, WindowError> {
        let mut state = self.lock();
        let begun = state.bound.is_none() && state.unbound_by == Some(pair) && !state.leaving.is_nobody();
        if key != state.key || !(begun || state.serves(pair)) {
            return Err(WindowError::NotBoundHere { key });
        }
        self.unbind(&mut state, pair);
        Ok(if self.have_left(&mut state) { Turn::Done } else { Turn::Wait })
    }

    /// Whether `key` is the one bound for this queue pair.
    pub(crate) fn is_bound_for(&self, pair: QpNumber, key: Key) -> bool {
        let state = self.lock();
        key == state.key && state.serves(pair)
    }

    /// The peer of the queue pair takes `key` out of use. Nothing has to be waited for: only that peer can use the key, and
    /// what it asked for before its message has been done.
    pub(crate) fn invalidate_for_peer(&self, pair: QpNumber, key: Key) -> bool {
        let mut state = self.lock();
        let serves = key == state.key && state.serves(pair);
        if serves {
            self.unbind(&mut state, pair);
        }
        serves
    }

    /// Whether it is bound for this queue pair alone.
    pub(crate) fn serves(&self, pair: QpNumber) -> bool {
        self.lock().serves(pair)
    }

    /// The queue pair it serves goes.
    pub(crate) fn lose_pair(&self, pair: QpNumber) {
        let mut state = self.lock();
        if state.serves(pair) {
            self.unbind(&mut state, pair);
        }
        if state.noted == Some(pair) {
            self.forget_pair(&mut state);
        }
    }

    fn forget_pair(&self, state: &mut State) {
        if let Some(pair) = state.noted.take() {
            self.engine().windows.forget_pair(pair, state.place.index);
        }
    }

    /// Kills the key. The region is used no longer; its deregistration waits for operations itself.
    fn unbind(&self, state: &mut State, by: QpNumber) {
        let Some(bound) = state.bound.take() else { return };
        let engine = self.engine();
        engine.party().segment.keys().unbind_window(state.key);
        state.leaving = Leaving::NotLooked;
        state.unbound_by = Some(by);
        bound.region.users.release();
    }

    fn have_left(&self, state: &mut State) -> bool {
        (0..LOOKS).any(|look| {
            if look > 0 {
                nonic_sys::cpu_relax();
            }
            self.engine().have_left(&mut state.leaving)
        })
    }

    /// Gives the window back, bound or not: its key is dead, and nobody is inside an operation through it any more. Refused
    /// while a stopped peer is inside; the key is dead all the same.
    pub fn release(&self) -> Result<(), Busy> {
        let deadline = Instant::now() + PEER_PATIENCE;
        loop {
            let mut state = self.lock();
            if state.released {
                return Ok(());
            }
            if !self.zone.context().is_current() {
                // A child must not touch its parent's table.
                if let Some(bound) = state.bound.take() {
                    bound.region.users.release();
                }
            } else {
                self.unbind(&mut state, QpNumber(0));
                if !self.have_left(&mut state) {
                    drop(state);
                    if Instant::now() > deadline {
                        return Err(Busy { what: "memory window", users: 1 });
                    }
                    nonic_sys::yield_now();
                    continue;
                }
                let (windows, keys) = (&self.engine().windows, self.engine().party().segment.keys());
                self.forget_pair(&mut state);
                windows.remove(state.place.index);
                let last = match self.kind {
                    WindowKind::Type1 => keys.key(state.place.index, state.place.nth),
                    WindowKind::Type2 => Key::new(state.place.index, state.key.tag()),
                };
                keys.remove_window(last);
                for place in state.older.drain(..) {
                    windows.remove(place.index);
                    keys.remove_used_up(place.index);
                }
            }
            state.released = true;
            self.zone.users.release();
            return Ok(());
        }
    }
}

impl State {
    fn serves(&self, pair: QpNumber) -> bool {
        self.bound.as_ref().is_some_and(|bound| bound.pair == Some(pair))
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

#[cfg(test)]
mod tests;

//! The keys of a window: which come next, which may still be asked for, and when a place of the key table is left.

use nonic_memory::{Key, KeyTable};

use super::{MemoryWindow, State};

/// A place in the key table, and the keys of it that were offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) index: u32,
    /// Number of the last.
    pub(super) nth: u8,
    /// How many of them have not been used, nor given up.
    pub(super) open: u32,
}

impl Place {
    pub(super) fn at(keys: &KeyTable, key: Key) -> Self {
        Self { index: key.index(), nth: keys.number(key), open: 0 }
    }
}

impl MemoryWindow {
    /// The key for the next bind: another each time, for more than 2^24 times unless the key table is full. A caller that
    /// then does not post the bind gives the key back with [`MemoryWindow::take_back`].
    pub fn next_key(&self) -> Key {
        let mut state = self.lock();
        loop {
            if state.place.nth == u8::MAX {
                self.move_on(&mut state);
            }
            let place = &mut state.place;
            place.nth = place.nth.wrapping_add(1);
            let key = self.engine().party().segment.keys().key(place.index, place.nth);
            if key != state.key {
                state.place.open += 1;
                return key;
            }
        }
    }

    /// Takes another place in the table, the keys of this one being used up. If there is none they are used again.
    #[cold]
    pub(super) fn move_on(&self, state: &mut State) {
        let engine = self.engine();
        let keys = engine.party().segment.keys();
        let Some(key) = keys.insert_window_again() else { return };
        engine.windows.add_place(state.place.index, key.index());
        let new = Place::at(keys, key);
        let new = Place { nth: new.nth - 1, ..new };
        let old = std::mem::replace(&mut state.place, new);
        state.older.push(old);
        self.leave_places(state);
    }

    /// The bind for which this key was offered was not posted.
    pub fn take_back(&self, key: Key) {
        let mut state = self.lock();
        let last = &mut state.place;
        let is_last = key == self.engine().party().segment.keys().key(last.index, last.nth);
        if is_last && last.open > 0 && last.nth > 0 {
            last.nth -= 1;
        }
        self.close_key(&mut state, key);
    }

    /// The bind for which this key was offered ended without having been carried out.
    pub(crate) fn give_up(&self, key: Key) {
        self.close_key(&mut self.lock(), key);
    }

    pub(super) fn close_key(&self, state: &mut State, key: Key) {
        let State { place, older, .. } = state;
        if let Some(place) = std::iter::once(place).chain(older).find(|place| place.index == key.index()) {
            place.open = place.open.saturating_sub(1);
        }
        if !state.older.is_empty() {
            self.leave_places(state);
        }
    }

    /// Gives places back of which no key is bound or can still be asked for.
    #[cold]
    pub(super) fn leave_places(&self, state: &mut State) {
        let (engine, current) = (self.engine(), state.key.index());
        state.older.retain(|place| {
            let used = place.open > 0 || place.index == current;
            if !used {
                engine.windows.remove(place.index);
                engine.party().segment.keys().remove_used_up(place.index);
            }
            used
        });
    }

    /// The key with these low 8 bits.
    pub fn key_with_tag(&self, tag: u8) -> Key {
        Key::new(self.lock().place.index, tag)
    }
}

impl State {
    /// Whether keys of a place are the window's.
    pub(super) fn has_place(&self, index: u32) -> bool {
        self.place.index == index || self.older.iter().any(|place| place.index == index)
    }
}

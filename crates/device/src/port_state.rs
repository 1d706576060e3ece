//! The tables of a port, and what is not as it was made, because somebody changed it from outside. All contexts of an engine that have a
//! device open see the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use nonic_sys::InterfaceAddress;
use nonic_transport::Change;

use crate::async_event::AsyncEventKind;
use crate::config::Config;
use crate::gid_table::{GIDS, GidEntry, GidTable};

/// Entries of the P_Key table.
pub(crate) const PKEYS: u16 = 1;
/// What somebody changed of a port. Of most nothing, and a look at one word says so.
#[derive(Debug, Default)]
pub(crate) struct PortState {
    is_changed: AtomicBool,
    changed: RwLock<Changed>,
    /// The GID table, as nobody changed it, from the first port on: an index means the same to all.
    gids: OnceLock<GidTable>,
}

/// Everything that differs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    pub(crate) is_down: bool,
    pub(crate) lid: Option<u16>,
    pub(crate) subnet_manager_lid: Option<u16>,
    /// Keys by index; 0: the entry is empty.
    pkeys: BTreeMap<u16, u16>,
    /// GIDs by index; `None`: the entry is empty.
    gids: BTreeMap<u32, Option<[u8; 16]>>,
}

impl Changed {
    /// The key of an entry of which the port was made with `made`; 0 for one that is empty.
    pub(crate) fn pkey(&self, index: u16, made: u16) -> u16 {
        self.pkeys.get(&index).copied().unwrap_or(made)
    }

    /// The valid entries of the table that the port was made with as `made`. Those that were changed belong to no interface.
    pub(crate) fn gids(&self, made: &[GidEntry]) -> Vec<GidEntry> {
        let Some(kind) = made.first().map(|entry| entry.kind) else { return Vec::new() };
        let mut entries: BTreeMap<_, _> = made.iter().map(|entry| (entry.index, *entry)).collect();
        for (index, gid) in &self.gids {
            match gid {
                Some(gid) => {
                    entries.insert(*index, GidEntry { index: *index, gid: *gid, kind, interface_index: 0 })
                }
                None => entries.remove(index),
            };
        }
        entries.into_values().collect()
    }
}

impl PortState {
    /// The GID table, as nobody changed it. The first who asks makes it.
    pub(crate) fn gid_table(&self, make: impl FnOnce() -> GidTable) -> &GidTable {
        self.gids.get_or_init(make)
    }

    /// Takes addresses into it that came since; whether there are any.
    pub(crate) fn take_addresses(&self, config: &Config, addresses: &[InterfaceAddress]) -> bool {
        self.gids.get().is_some_and(|table| table.take_addresses(config, addresses))
    }

    /// Its entries.
    pub(crate) fn made_gids(&self) -> Cow<'_, [GidEntry]> {
        self.gids.get().map(GidTable::entries).unwrap_or_default()
    }

    /// What differs from how the port was made, if anything does.
    #[inline]
    pub(crate) fn changed(&self) -> Option<Changed> {
        self.is_changed.load(Ordering::Acquire).then(|| self.read())
    }

    #[cold]
    fn read(&self) -> Changed {
        self.changed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes it. `made` is the GID table that the port was made with. Tells which event says so, `None` if it is so already; an error
    /// is why it cannot be changed so, in words for people, and nothing has changed then.
    pub(crate) fn change(
        &self,
        change: Change,
        ethernet: bool,
        made: &[GidEntry],
    ) -> Result<Option<AsyncEventKind>, String> {
        let mut state = self.changed.write().unwrap_or_else(PoisonError::into_inner);
        let mut new = state.clone();
        let kind = new.make(change, ethernet, made)?;
        if kind.is_some() {
            *state = new;
            self.is_changed.store(true, Ordering::Release);
        }
        Ok(kind)
    }
}

impl Changed {
    fn make(
        &mut self,
        change: Change,
        ethernet: bool,
        made: &[GidEntry],
    ) -> Result<Option<AsyncEventKind>, String> {
        let managed = |what: &str| {
            if ethernet { Err(format!("an Ethernet port has no {what}")) } else { Ok(()) }
        };
        let (differs, kind) = match change {
            Change::PortDown => (!std::mem::replace(&mut self.is_down, true), AsyncEventKind::PortError),
            Change::PortUp => (std::mem::replace(&mut self.is_down, false), AsyncEventKind::PortActive),
            Change::GidAdd(gid) => {
                let entries = self.gids(made);
                if entries.iter().any(|entry| entry.gid == gid) {
                    return Err("the GID table has this address already".to_owned());
                }
                let is_free = |index: &u32| !entries.iter().any(|entry| entry.index == *index);
                let free = (0..GIDS as u32).find(is_free).ok_or("every entry of the GID table is in use")?;
                (true, self.set_gid(free, Some(gid), made)?)
            }
            Change::GidSet(index, gid) => {
                let entries = self.gids(made);
                if entries.iter().any(|entry| entry.gid == gid && entry.index != index) {
                    return Err("another entry of the GID table has this address".to_owned());
                }
                let differs = !entries.iter().any(|entry| entry.gid == gid && entry.index == index);
                (differs, self.set_gid(index, Some(gid), made)?)
            }
            Change::GidRemove(index) => {
                let differs = self.gids(made).iter().any(|entry| entry.index == index);
                (differs, self.set_gid(index, None, made)?)
            }
            Change::Lid(lid) => {
                managed("LID")?;
                (self.lid.replace(lid) != Some(lid), AsyncEventKind::LidChange)
            }
            Change::PkeySet(index, key) => (true, self.set_pkey(index, key)?),
            Change::PkeyRemove(index) => (self.pkeys.get(&index) != Some(&0), self.set_pkey(index, 0)?),
            Change::ClientReregister => {
                managed("subnet manager, with which nothing is registered")?;
                (true, AsyncEventKind::ClientReregister)
            }
            Change::SubnetManager(lid) => {
                managed("subnet manager")?;
                self.subnet_manager_lid = lid.or(self.subnet_manager_lid);
                (true, AsyncEventKind::SubnetManagerChange)
            }
            Change::Loss(_) => return Ok(None), // The wire's.
            Change::Fatal => (true, AsyncEventKind::DeviceFatal),
        };
        Ok(differs.then_some(kind))
    }

    fn set_gid(
        &mut self,
        index: u32,
        gid: Option<[u8; 16]>,
        made: &[GidEntry],
    ) -> Result<AsyncEventKind, String> {
        if index as usize >= GIDS {
            return Err(format!("the GID table has entries 0 to {}, and none of index {index}", GIDS - 1));
        }
        if made.iter().any(|entry| entry.index == index && Some(entry.gid) == gid) {
            // As it was made, on its interface again.
            self.gids.remove(&index);
        } else {
            self.gids.insert(index, gid);
        }
        Ok(AsyncEventKind::GidChange)
    }

    fn set_pkey(&mut self, index: u16, key: u16) -> Result<AsyncEventKind, String> {
        if index >= PKEYS {
            return Err(format!("the P_Key table has entry 0 alone, and none of index {index}"));
        }
        self.pkeys.insert(index, key);
        Ok(AsyncEventKind::PkeyChange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gid_table::GidKind;

    fn made() -> Vec<GidEntry> {
        let entry = |index, last| GidEntry {
            index,
            gid: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last],
            kind: GidKind::InfiniBand,
            interface_index: 3,
        };
        vec![entry(0, 1), entry(1, 2)]
    }

    fn change(state: &PortState, words: &str) -> Result<Option<AsyncEventKind>, String> {
        state.change(words.parse().unwrap(), false, &made())
    }

    #[test]
    fn what_is_so_already_is_no_change_and_has_no_event() {
        let state = PortState::default();
        assert!(state.changed().is_none());
        assert_eq!(change(&state, "port up"), Ok(None));
        assert!(state.changed().is_none());
        assert_eq!(change(&state, "port down"), Ok(Some(AsyncEventKind::PortError)));
        assert_eq!(change(&state, "port down"), Ok(None));
        assert!(state.changed().unwrap().is_down);
        assert_eq!(change(&state, "port up"), Ok(Some(AsyncEventKind::PortActive)));
        assert!(!state.changed().unwrap().is_down);
    }

    #[test]
    fn gids_come_and_go_and_one_that_comes_back_is_on_its_interface() {
        let state = PortState::default();
        let shown = |state: &PortState| {
            let entries = state.changed().unwrap().gids(&made());
            entries
                .iter()
                .map(|entry| (entry.index, entry.gid[15], entry.interface_index))
                .collect::<Vec<_>>()
        };
        assert_eq!(change(&state, "gid remove 0"), Ok(Some(AsyncEventKind::GidChange)));
        assert_eq!(shown(&state), [(1, 2, 3)]);
        assert_eq!(change(&state, "gid remove 0"), Ok(None));
        change(&state, "gid add fe80::9").unwrap();
        change(&state, "gid add fe80::a").unwrap();
        assert_eq!(shown(&state), [(0, 9, 0), (1, 2, 3), (2, 10, 0)]);
        assert_eq!(change(&state, "gid set 2 fe80::a"), Ok(None));
        change(&state, "gid set 0 fe80::1").unwrap();
        assert_eq!(shown(&state)[0], (0, 1, 3));
    }

    #[test]
    fn what_the_tables_have_no_room_for_is_refused_and_changes_nothing() {
        let state = PortState::default();
        for words in [
            "gid set 64 fe80::9",
            "gid remove 64",
            "gid add fe80::1",
            "gid set 1 fe80::1",
            "pkey set 1 0x8001",
        ] {
            assert!(change(&state, words).is_err(), "{words}");
            assert!(state.changed().is_none(), "{words}");
        }
        for words in ["lid 7", "sm-change", "client-reregister"] {
            assert!(state.change(words.parse().unwrap(), true, &made()).is_err(), "{words}");
        }
        assert!(state.changed().is_none());
        for last in 3..65 {
            change(&state, &format!("gid add fe80::{last:x}")).unwrap();
        }
        assert!(change(&state, "gid add fe80::ffff").is_err());
    }
}

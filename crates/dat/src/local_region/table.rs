//! The regions of an adapter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::Key;

use super::LocalRegion;

/// The regions of an adapter, by the places of their contexts in the engine's table, which are small numbers.
#[derive(Default)]
pub(crate) struct RegionTable(Mutex<Vec<Place>>);

type Place = Option<(Key, Weak<LocalRegion>)>;

impl RegionTable {
    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, region: &Arc<LocalRegion>) {
        let key = region.region.local_key();
        let place = key.index() as usize;
        let mut places = self.lock();
        if places.len() <= place {
            places.resize(place + 1, None);
        }
        places[place] = Some((key, Arc::downgrade(region)));
    }

    pub(super) fn remove(&self, region: &LocalRegion) {
        let key = region.region.local_key();
        if let Some(place) = self.lock().get_mut(key.index() as usize)
            && place.as_ref().is_some_and(|(found, _)| *found == key)
        {
            *place = None;
        }
    }

    /// The region with this LMR context.
    pub(crate) fn find(&self, context: u32) -> Option<Arc<LocalRegion>> {
        let key = Key(context);
        match self.lock().get(key.index() as usize)? {
            Some((found, region)) if *found == key => region.upgrade(),
            _ => None,
        }
    }
}

impl std::fmt::Debug for RegionTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RegionTable({})", self.lock().iter().flatten().count())
    }
}

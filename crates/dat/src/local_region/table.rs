//! The regions of an adapter.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_device::Key;

use super::LocalRegion;

/// The regions of an adapter, by the places of their contexts in the engine's table, which lie anywhere there.
#[derive(Default)]
pub(crate) struct RegionTable(Mutex<Places>);

/// Blocks of places, made when the first of a block is used.
type Places = Vec<Option<Box<[Place; BLOCK]>>>;

type Place = Option<(Key, Weak<LocalRegion>)>;

/// Places of a block, as many as are in a page of the engine's table.
const BLOCK: usize = 64;

/// Where a context's place is.
fn place_of(key: Key) -> (usize, usize) {
    let place = key.index() as usize;
    (place / BLOCK, place % BLOCK)
}

impl RegionTable {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, region: &Arc<LocalRegion>) {
        let key = region.region.local_key();
        let (block, place) = place_of(key);
        let mut blocks = self.lock();
        if blocks.len() <= block {
            blocks.resize(block + 1, None);
        }
        let places = blocks[block].get_or_insert_with(|| Box::new([const { None }; BLOCK]));
        places[place] = Some((key, Arc::downgrade(region)));
    }

    pub(super) fn remove(&self, region: &LocalRegion) {
        let key = region.region.local_key();
        let (block, place) = place_of(key);
        if let Some(Some(places)) = self.lock().get_mut(block)
            && places[place].as_ref().is_some_and(|(found, _)| *found == key)
        {
            places[place] = None;
        }
    }

    /// The region with this LMR context.
    pub(crate) fn find(&self, context: u32) -> Option<Arc<LocalRegion>> {
        let key = Key(context);
        let (block, place) = place_of(key);
        match &self.lock().get(block)?.as_ref()?[place] {
            Some((found, region)) if *found == key => region.upgrade(),
            _ => None,
        }
    }
}

impl std::fmt::Debug for RegionTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "RegionTable({})",
            self.lock().iter().flatten().flat_map(|places| places.iter().flatten()).count()
        )
    }
}

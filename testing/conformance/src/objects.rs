//! Objects that commands name by number.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbered objects.
#[derive(Debug)]
pub(crate) struct Objects<T> {
    pub(crate) objects: BTreeMap<u32, T>,
    next: u32,
}

impl<T> Objects<T> {
    pub(crate) const fn new() -> Self {
        Self { objects: BTreeMap::new(), next: 1 }
    }

    pub(crate) fn add(&mut self, object: T) -> u64 {
        self.next += 1;
        self.objects.insert(self.next, object);
        u64::from(self.next)
    }

    /// The object with a number.
    pub(crate) fn at(&self, number: u32) -> &T {
        self.objects.get(&number).expect("a rule names objects it has created")
    }
}

impl<T> Objects<Arc<T>> {
    pub(crate) fn number_of(&self, object: &Arc<T>) -> u64 {
        self.objects
            .iter()
            .find(|(_, own)| Arc::ptr_eq(own, object))
            .map_or(0, |(number, _)| u64::from(*number))
    }
}

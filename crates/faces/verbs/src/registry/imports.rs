//! Structures that are another name of an object, and are found by its handle.

use core::sync::atomic::Ordering;

use super::{Claim, Entry, Face, Registry, Reservation};
use crate::errno::NoSuchObject;

impl<F: Face, E: Clone> Registry<F, E> {
    /// The engine's part of an object that has this handle and that `wanted` accepts. Looks at each object there is.
    pub fn by_handle(&self, handle: u32, wanted: impl Fn(&E) -> bool) -> Result<E, NoSuchObject> {
        let table = self.lock();
        let named =
            table.living.values().filter(|entry| entry.object.handle.load(Ordering::Relaxed) == handle);
        // SAFETY: as in `find`: the entries are living.
        let mut engines = named.map(|entry| unsafe { (*entry.object.engine.get()).assume_init_ref() });
        engines.find(|engine| wanted(engine)).cloned().ok_or(NoSuchObject)
    }

    /// Whether the structure at `pointer` is another name of an object.
    pub fn is_import(&self, pointer: *const F::C) -> bool {
        self.lock().living.get(&pointer.addr()).is_some_and(|entry| entry.imported)
    }

    /// Drops another name of an object, which stays. Any other structure stays as it is.
    pub fn unimport(&self, pointer: *const F::C) {
        if self.is_import(pointer)
            && let Ok(claim) = self.claim(pointer)
        {
            Claim::retire(claim);
        }
    }
}

impl<F: Face, E: Clone> Reservation<'_, F, E> {
    /// Makes another name of the object that has this handle.
    pub fn fill_import(self, engine: E, handle: u32, face: impl FnOnce(u32) -> F) -> *mut F::C {
        self.enter(engine, handle, true, face)
    }

    pub(super) fn enter(
        self,
        engine: E,
        handle: u32,
        imported: bool,
        face: impl FnOnce(u32) -> F,
    ) -> *mut F::C {
        let pointer = self.pointer();
        // SAFETY: nobody else knows this memory yet; both parts are plain memory of the right size.
        unsafe {
            (*self.object.face.get()).write(face(handle));
            (*self.object.engine.get()).write(engine);
        }
        self.object.handle.store(handle, Ordering::Release);
        let entry = Entry { object: self.object, leaving: false, imported };
        self.registry.lock().living.insert(pointer.addr(), entry);
        pointer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::abi::ibv_pd;

    fn face(handle: u32) -> ibv_pd {
        ibv_pd { context: core::ptr::null_mut(), handle }
    }

    #[test]
    fn another_name_is_found_by_the_handle_and_goes_without_the_object() {
        let registry = Registry::<ibv_pd, Arc<u32>>::new();
        let object = registry.reserve().fill(Arc::new(7), face);
        registry.reserve().fill(Arc::new(8), face);
        // SAFETY: the object is alive and only this thread knows it.
        let handle = unsafe { (*object).handle };
        let engine = registry.by_handle(handle, |_| true).expect("it is there");
        assert_eq!(registry.by_handle(handle, |engine| **engine == 8), Err(NoSuchObject));
        assert_eq!(registry.by_handle(handle + 9, |_| true), Err(NoSuchObject));
        let name = registry.reserve().fill_import(engine, handle, face);
        assert!(registry.is_import(name) && !registry.is_import(object));
        assert_eq!(registry.find(name).map(|found| *found), Ok(7));
        registry.unimport(object);
        registry.unimport(name);
        registry.unimport(name);
        assert!(registry.find(name).is_err() && registry.find(object).is_ok());
    }
}

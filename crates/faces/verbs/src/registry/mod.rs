//! Public structures with a private part behind them, and the tables that know which of them exist.
//!
//! A program holds a pointer to the public part. Before a call that creates, changes or destroys follows such
//! a pointer, the table of its kind is asked whether an object lives there and whether the structure still
//! carries the handle it was given: a stale pointer or an overwritten handle is refused, not followed.
//! Posting and polling cannot afford the table; they look at a word in the private part, and memory of
//! destroyed objects is kept for a while so that this word stays readable for the likely mistake, the use
//! right after the destruction.

mod imports;

use core::cell::UnsafeCell;
use core::hash::BuildHasherDefault;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::{HashMap, VecDeque};
use std::hash::DefaultHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::errno::{Errno, NoSuchObject};

/// Destroyed objects of one kind whose memory is kept.
const KEPT: usize = 256;

/// A public structure of the C interface.
///
/// # Safety
/// [`Face::C`] stands at byte [`Face::OFFSET`] of the structure, and `handle` reads nothing but a field of
/// it.
pub unsafe trait Face: Sized {
    /// What the program's pointer points to.
    type C;
    /// Where that is within the structure.
    const OFFSET: usize;

    /// The handle as it stands in the structure; `None` if the structure has no such field.
    ///
    /// # Safety
    /// `this` points to a live structure.
    unsafe fn handle(this: *const Self::C) -> Option<u32>;
}

/// Public part, then what the engine knows. The handle is 0 once the object is destroyed.
#[repr(C)]
struct Object<F, E> {
    face: UnsafeCell<MaybeUninit<F>>,
    handle: AtomicU32,
    engine: UnsafeCell<MaybeUninit<E>>,
}

impl<F: Face, E> Object<F, E> {
    /// The object whose public part the program points to.
    ///
    /// # Safety
    /// `pointer` came from a [`Registry`] of this kind and the memory was not given back since.
    unsafe fn of(pointer: *const F::C) -> *const Self {
        // SAFETY: by the caller's promise this is the public part of an `Object`, `OFFSET` bytes from its
        // start.
        unsafe { pointer.byte_sub(F::OFFSET).cast() }
    }
}

/// The memory of an object. Not a `Box`, which claims to be the only way to its contents: the program has
/// another.
struct Memory<F, E>(NonNull<Object<F, E>>);

impl<F, E> Memory<F, E> {
    fn new() -> Self {
        let object = Box::new(Object {
            face: UnsafeCell::new(MaybeUninit::uninit()),
            handle: AtomicU32::new(0),
            engine: UnsafeCell::new(MaybeUninit::uninit()),
        });
        Self(NonNull::from(Box::leak(object)))
    }
}

impl<F, E> Deref for Memory<F, E> {
    type Target = Object<F, E>;
    fn deref(&self) -> &Self::Target {
        // SAFETY: the memory is freed by `drop` alone, and everything others change in it is a cell or an
        // atomic.
        unsafe { self.0.as_ref() }
    }
}

impl<F, E> Drop for Memory<F, E> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `new` and this is its one owner. The engine part is not
        // dropped here: it was never written, or `Claim::retire` took it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// All living objects of one kind.
pub struct Registry<F: Face, E> {
    table: Mutex<Table<F, E>>,
    next_handle: AtomicU32,
}

struct Table<F, E> {
    living: HashMap<usize, Entry<F, E>, BuildHasherDefault<DefaultHasher>>,
    kept: VecDeque<Memory<F, E>>,
}

struct Entry<F, E> {
    object: Memory<F, E>,
    /// A call is destroying it; a second one must not.
    leaving: bool,
    /// It is another name of an object, and has the handle of that.
    imported: bool,
}

// SAFETY: the table owns its objects, and behind the lock hands out only clones of the engine's part, which
// may go to any thread. The public part is raw memory of the program, touched through raw pointers only.
unsafe impl<F: Face, E: Send + Sync> Sync for Registry<F, E> {}

impl<F: Face, E: Clone> Registry<F, E> {
    /// No objects yet.
    pub const fn new() -> Self {
        let living = HashMap::with_hasher(BuildHasherDefault::new());
        Self { table: Mutex::new(Table { living, kept: VecDeque::new() }), next_handle: AtomicU32::new(1) }
    }

    /// Memory for a new object; its address is known before the engine's part exists.
    pub fn reserve(&self) -> Reservation<'_, F, E> {
        Reservation { registry: self, object: Memory::new() }
    }

    /// The engine's part of the object at `pointer`. Follows the pointer only if an object lives there.
    pub fn find(&self, pointer: *const F::C) -> Result<E, NoSuchObject> {
        let table = self.lock();
        let entry = table.living.get(&pointer.addr()).ok_or(NoSuchObject)?;
        check_handle(entry, pointer)?;
        // SAFETY: a living entry's engine part was written by `Reservation::fill` and is taken out only after
        // the entry left the table.
        Ok(unsafe { (*entry.object.engine.get()).assume_init_ref() }.clone())
    }

    /// Whether an object was at `pointer` that was destroyed lately, and none is there now.
    pub fn was_destroyed(&self, pointer: *const F::C) -> bool {
        let table = self.lock();
        let is_at = |object: &Memory<F, E>| {
            object.face.get().cast::<F::C>().wrapping_byte_add(F::OFFSET).addr() == pointer.addr()
        };
        !table.living.contains_key(&pointer.addr()) && table.kept.iter().any(is_at)
    }

    /// As [`Registry::find`], for an object another one is made from: its absence is a wrong argument.
    pub fn parent(&self, pointer: *const F::C) -> Result<E, Errno> {
        self.find(pointer).map_err(|NoSuchObject| Errno::EINVAL)
    }

    /// The engine's parts of those objects whose public part `wanted` accepts. It is called under the table's lock, so that they
    /// are alive, and asks for no other object.
    pub fn living(&self, wanted: impl Fn(*const F::C) -> bool) -> Vec<E> {
        let table = self.lock();
        let accepted = |entry: &&Entry<F, E>| {
            wanted(entry.object.face.get().cast::<F::C>().wrapping_byte_add(F::OFFSET).cast_const())
        };
        let engines = table.living.values().filter(accepted);
        // SAFETY: as in `find`.
        engines.map(|entry| unsafe { (*entry.object.engine.get()).assume_init_ref() }.clone()).collect()
    }

    /// Begins to destroy the object at `pointer`. It can still be found, until [`Claim::retire`].
    pub fn claim(&self, pointer: *const F::C) -> Result<Claim<'_, F, E>, NoSuchObject> {
        let engine = self.find(pointer)?;
        let mut table = self.lock();
        let entry = table.living.get_mut(&pointer.addr()).ok_or(NoSuchObject)?;
        if entry.leaving {
            return Err(NoSuchObject);
        }
        entry.leaving = true;
        Ok(Claim { registry: self, address: pointer.addr(), engine })
    }

    fn lock(&self) -> MutexGuard<'_, Table<F, E>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self) -> u32 {
        loop {
            let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
            // 0 marks the dead; after four thousand million objects it comes up once.
            if handle != 0 {
                return handle;
            }
        }
    }
}

impl<F: Face, E: Clone> Default for Registry<F, E> {
    fn default() -> Self {
        Self::new()
    }
}

fn check_handle<F: Face, E>(entry: &Entry<F, E>, pointer: *const F::C) -> Result<(), NoSuchObject> {
    // SAFETY: the entry is in the table, so its object is alive at this address.
    match unsafe { F::handle(pointer) } {
        Some(handle) if handle != entry.object.handle.load(Ordering::Relaxed) => Err(NoSuchObject),
        _ => Ok(()),
    }
}

/// The engine's part without asking the table; `None` if the object was destroyed.
///
/// # Safety
/// `pointer` came from a registry of exactly these types; if its object was destroyed, that was recently. No
/// other thread destroys the object while the reference is in use.
#[inline]
pub(crate) unsafe fn alive<'a, F: Face, E>(pointer: *const F::C) -> Option<&'a E> {
    // SAFETY: by the caller's promise there is an `Object` around the public part.
    let object = unsafe { &*Object::<F, E>::of(pointer) };
    if object.handle.load(Ordering::Acquire) == 0 {
        return None;
    }
    // SAFETY: a handle other than 0 was stored after the engine part was written, and is set to 0 before it
    // is taken.
    Some(unsafe { (*object.engine.get()).assume_init_ref() })
}

/// As [`alive`], and the structure must still carry its handle.
///
/// # Safety
/// As for [`alive`].
pub(crate) unsafe fn checked<'a, F: Face, E>(pointer: *const F::C) -> Result<&'a E, NoSuchObject> {
    // SAFETY: the caller's promise is the same.
    let engine = unsafe { alive::<F, E>(pointer) }.ok_or(NoSuchObject)?;
    // SAFETY: as above; the object is alive.
    let (given, stated) =
        unsafe { ((*Object::<F, E>::of(pointer)).handle.load(Ordering::Relaxed), F::handle(pointer)) };
    if stated.is_some_and(|stated| stated != given) {
        return Err(NoSuchObject);
    }
    Ok(engine)
}

/// Memory of an object that does not exist yet.
pub struct Reservation<'a, F: Face, E> {
    registry: &'a Registry<F, E>,
    object: Memory<F, E>,
}

impl<F: Face, E: Clone> Reservation<'_, F, E> {
    /// The pointer the program will get.
    pub fn pointer(&self) -> *mut F::C {
        self.object.face.get().cast::<F::C>().wrapping_byte_add(F::OFFSET)
    }

    /// That pointer as the engine keeps it to name the object in events.
    pub fn cookie(&self) -> usize {
        self.pointer().expose_provenance()
    }

    /// Makes the object: `face` writes the public part around its handle.
    pub fn fill(self, engine: E, face: impl FnOnce(u32) -> F) -> *mut F::C {
        let handle = self.registry.handle();
        self.enter(engine, handle, false, face)
    }
}

/// The right to destroy an object. Dropped without [`Claim::retire`], everything is as before.
pub struct Claim<'a, F: Face, E: Clone> {
    registry: &'a Registry<F, E>,
    address: usize,
    engine: E,
}

impl<F: Face, E: Clone> Claim<'_, F, E> {
    /// The engine's part.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Puts another engine's part in the place of the object's; the object stays. Only for kinds whose parts are looked up
    /// ([`Registry::find`]) wherever they are used: who uses `alive` would look at one that changes.
    pub fn replace(self, engine: E) {
        let table = self.registry.lock();
        let Some(entry) = table.living.get(&self.address) else { return };
        // SAFETY: the entry is living, so the part is initialised; all who look at it hold the table's lock.
        let before = unsafe { core::mem::replace((*entry.object.engine.get()).assume_init_mut(), engine) };
        drop(table);
        // Outside the lock, as in `retire`.
        drop(before);
    }

    /// The object is gone: its pointer is refused from here on.
    pub fn retire(self) {
        let mut table = self.registry.lock();
        let Some(entry) = table.living.remove(&self.address) else { return };
        entry.object.handle.store(0, Ordering::Release);
        // SAFETY: the entry was living, so the part is initialised; it left the table and its handle is 0, so
        // nobody reads it again.
        let engine = unsafe { (*entry.object.engine.get()).assume_init_read() };
        table.kept.push_back(entry.object);
        let freed = if table.kept.len() > KEPT { table.kept.pop_front() } else { None };
        drop(table);
        // Last, outside the lock: dropping the engine's part may take a while.
        drop((engine, freed));
    }
}

impl<F: Face, E: Clone> Drop for Claim<'_, F, E> {
    fn drop(&mut self) {
        if let Some(entry) = self.registry.lock().living.get_mut(&self.address) {
            entry.leaving = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::abi::ibv_pd;

    fn registry_of_one() -> (Registry<ibv_pd, Arc<u32>>, *mut ibv_pd) {
        let registry = Registry::new();
        let pointer =
            registry.reserve().fill(Arc::new(7), |handle| ibv_pd { context: core::ptr::null_mut(), handle });
        (registry, pointer)
    }

    #[test]
    fn an_object_is_found_until_it_is_retired() {
        let (registry, pointer) = registry_of_one();
        assert_eq!(registry.find(pointer).map(|found| *found), Ok(7));
        assert!(!registry.was_destroyed(pointer));
        registry.claim(pointer).expect("it is there").retire();
        assert!(registry.was_destroyed(pointer) && !registry.was_destroyed(core::ptr::null()));
        assert_eq!(registry.find(pointer), Err(NoSuchObject));
        // SAFETY: the object was retired just now, its memory is kept.
        assert!(unsafe { alive::<ibv_pd, Arc<u32>>(pointer) }.is_none());
    }

    #[test]
    fn an_overwritten_handle_is_refused_and_a_restored_one_is_not() {
        let (registry, pointer) = registry_of_one();
        // SAFETY: the object is alive and only this thread knows it.
        unsafe {
            (*pointer).handle ^= 0xdead;
            assert!(registry.find(pointer).is_err());
            assert!(registry.claim(pointer).is_err());
            assert!(checked::<ibv_pd, Arc<u32>>(pointer).is_err());
            (*pointer).handle ^= 0xdead;
            assert!(checked::<ibv_pd, Arc<u32>>(pointer).is_ok());
        }
        assert!(registry.find(pointer).is_ok());
    }

    #[test]
    fn objects_are_found_by_what_stands_in_them() {
        let (registry, pointer) = registry_of_one();
        // SAFETY: `living` shows objects that are alive.
        let handle = |object: *const ibv_pd| unsafe { (*object).handle };
        let own = handle(pointer);
        assert_eq!(registry.living(|object| handle(object) == own), [Arc::new(7)]);
        assert!(registry.living(|object| handle(object) != own).is_empty());
    }

    #[test]
    fn a_pointer_that_was_never_an_object_is_refused_without_a_look_at_it() {
        let (registry, _) = registry_of_one();
        assert!(registry.find(core::ptr::null()).is_err());
        assert!(registry.find(core::ptr::without_provenance(8)).is_err());
    }

    #[test]
    fn only_one_call_destroys_and_a_failed_one_leaves_everything() {
        let (registry, pointer) = registry_of_one();
        let claim = registry.claim(pointer).expect("it is there");
        assert!(registry.claim(pointer).is_err());
        assert!(registry.find(pointer).is_ok());
        drop(claim);
        registry.claim(pointer).expect("the first gave up").retire();
    }

    #[test]
    fn retiring_lets_go_of_the_engines_part() {
        let (registry, pointer) = registry_of_one();
        let engine = registry.find(pointer).expect("it is there");
        registry.claim(pointer).expect("it is there").retire();
        assert_eq!(Arc::strong_count(&engine), 1);
    }
}

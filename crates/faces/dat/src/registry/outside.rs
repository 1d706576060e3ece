//! Providers that are not this library's own: loaded because `dat.conf` names them, or linked into the program.
//!
//! A handle that is none of ours may be one of theirs. Whether it is, its first word says, as the interface wants it; but it may
//! also be garbage. So that word is read by the kernel, which refuses where a load would fault, and compared with the tables that
//! are registered.

use std::ffi::CString;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

use nonic_dat::{DatError, DatResult, Kind, Subtype};
use nonic_sys::{Piece, find_area, read_process};

use super::Key;
use crate::calls::{Count, Handle, ProviderCalls, Return};
use crate::handles;
use crate::v1::provider::ProviderTable;

/// A provider's table, which it promised to keep until it is removed.
#[derive(Clone, Copy)]
pub(crate) struct Outside(*const ProviderTable);

// SAFETY: a table is only read, and any thread may call what is in it.
unsafe impl Send for Outside {}
// SAFETY: as above.
unsafe impl Sync for Outside {}

impl Outside {
    /// The functions.
    pub(super) fn calls(self) -> &'static ProviderCalls {
        // SAFETY: registered, so it is a table. It is not removed while an adapter is open, and without one no handle leads to it.
        unsafe { &(*self.0).calls }
    }

    /// `ia_open_func`.
    ///
    /// # Safety
    /// The pointers lead to handles.
    pub(super) unsafe fn open(
        self,
        name: &str,
        async_qlen: Count,
        async_evd: *mut Handle,
        ia: *mut Handle,
    ) -> Return {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: as in `calls`; the arguments are of the function's type, and the name lives until it returns.
        unsafe { ((*self.0).ia_open)(name.as_ptr(), async_qlen, async_evd, ia) }
    }
}

struct Registered {
    key: Key,
    provider: Outside,
    /// Adapters that are open.
    uses: usize,
}

static REGISTERED: RwLock<Vec<Registered>> = RwLock::new(Vec::new());
/// How many there are, so that calls of programs without any find out at once.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn read() -> RwLockReadGuard<'static, Vec<Registered>> {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Vec<Registered>> {
    REGISTERED.write().unwrap_or_else(PoisonError::into_inner)
}

/// `dat_registry_add_provider`.
pub(super) fn add(key: Key, provider: *const ProviderTable) -> DatResult<()> {
    let mut registered = write();
    if registered.iter().any(|other| other.key == key) {
        return Err(DatError::new(Kind::ProviderAlreadyRegistered, Subtype::None));
    }
    registered.push(Registered { key, provider: Outside(provider), uses: 0 });
    COUNT.store(registered.len(), Ordering::Release);
    Ok(())
}

/// `dat_registry_remove_provider`.
pub(super) fn remove(key: &Key, provider: *const ProviderTable) -> DatResult<()> {
    let mut registered = write();
    let place = registered.iter().position(|other| other.key == *key && other.provider.0 == provider);
    let place = place.ok_or(DatError::new(Kind::ProviderNotFound, Subtype::NameNotRegistered))?;
    if registered[place].uses > 0 {
        return Err(DatError::new(Kind::ProviderInUse, Subtype::None));
    }
    registered.remove(place);
    COUNT.store(registered.len(), Ordering::Release);
    Ok(())
}

/// What is registered.
pub(super) fn keys() -> Vec<Key> {
    read().iter().map(|registered| registered.key.clone()).collect()
}

/// Whether a provider is registered under this key.
pub(super) fn is_registered(key: &Key) -> bool {
    read().iter().any(|registered| registered.key == *key)
}

/// The provider of this key; it cannot be removed before it is released.
pub(super) fn hold(key: &Key) -> Option<Outside> {
    let mut registered = write();
    let found = registered.iter_mut().find(|other| other.key == *key)?;
    found.uses += 1;
    Some(found.provider)
}

/// Gives up [`hold`].
pub(super) fn release(key: &Key) {
    if let Some(found) = write().iter_mut().find(|other| other.key == *key) {
        found.uses -= 1;
    }
}

/// The functions for an object of another provider's.
#[inline]
pub(crate) fn of_object(handle: Handle) -> Option<(&'static ProviderCalls, Handle)> {
    if COUNT.load(Ordering::Acquire) == 0 || handles::is_ours(handle) {
        return None;
    }
    behind(handle).map(|calls| (calls, handle))
}

/// The functions for an adapter of another provider's, and what that calls it.
#[inline]
pub(crate) fn of_adapter(handle: Handle) -> Option<(&'static ProviderCalls, Handle)> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    of_object(handles::real_adapter(handle))
}

/// The functions of the registered provider that the word at `handle` leads to.
#[cold]
fn behind(handle: Handle) -> Option<&'static ProviderCalls> {
    let word = word_at(handle)?;
    let registered = read();
    let found = registered.iter().find(|registered| registered.provider.0.addr() == word)?;
    Some(found.provider.calls())
}

/// The word at an address, which may be any.
fn word_at(address: usize) -> Option<usize> {
    const LENGTH: usize = size_of::<usize>();
    if address == 0 || !address.is_multiple_of(LENGTH) {
        return None;
    }
    let mut word = 0_usize;
    let local = [Piece { address: (&raw mut word).expose_provenance(), length: LENGTH }];
    let pid = std::process::id() as i32;
    // SAFETY: the local piece is the variable above.
    match unsafe { read_process(pid, &local, &[Piece { address, length: LENGTH }]) } {
        Ok(LENGTH) => Some(word),
        Err(error) if error.raw_os_error() != Some(libc::EFAULT) => {
            // The kernel does not offer the call here. A word that is aligned lies in one page.
            let area = find_area(address).ok().flatten()?;
            // SAFETY: the page was readable just now; a program that unmaps its own objects is hit as by any load of its own.
            area.readable.then(|| unsafe { core::ptr::with_exposed_provenance::<usize>(address).read() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_wherever_it_is_and_nothing_faults() {
        let word = 0x1234_5678_usize;
        assert_eq!(word_at((&raw const word).expose_provenance()), Some(word));
        for nowhere in [0, 1, 8, 0x1000, usize::MAX - 7, 0xffff_8000_0000_0000, 0x10_0000_0000_0000] {
            assert_eq!(word_at(nowhere), None, "{nowhere:#x}");
        }
    }
}

//! The registry of uDAPL 2.0 (`libdat2.so.2`), which loads the provider and calls it.
//!
//! It is found in the process at run time, by name and version: `libdat.so.1` has functions of the same names.

use core::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::abi::Provider;
use super::entry_points::{PROVIDER_TABLE_VERSION, ProviderTable};
use super::provider::TABLE;
use crate::calls::Handle;
use crate::layouts::ProviderInfo;

/// The one symbol through which `libdaplnonic.so.2` reaches this face.
#[allow(non_upper_case_globals)] // Named as other symbols of libraries are.
#[unsafe(no_mangle)]
pub static nonic_dat_provider_table: ProviderTable =
    ProviderTable { version: PROVIDER_TABLE_VERSION, init, fini };

/// `dat_registry_add_provider` and `dat_registry_remove_provider`.
type Register = unsafe extern "C" fn(*const Provider, *const ProviderInfo) -> u32;
/// `dats_get_ia_handle`.
type GetAdapter = unsafe extern "C" fn(Handle, *mut Handle) -> u32;

/// A provider for each name of an adapter, as the registry keeps them.
static PROVIDERS: Mutex<Vec<&'static Provider>> = Mutex::new(Vec::new());

// SAFETY: the pointers in a provider lead to code and to a name that is never freed.
unsafe impl Send for Provider {}
// SAFETY: as above; a provider is never written to once it is made.
unsafe impl Sync for Provider {}

/// Registers the adapter of this entry of `dat.conf`. Whether it is coherent is said by its name alone.
unsafe extern "C" fn init(info: *const c_void, _ia_params: *const c_char) {
    // SAFETY: the registry passes a `DAT_PROVIDER_INFO`, or a program NULL.
    let Some(info) = (unsafe { info.cast::<ProviderInfo>().as_ref() }) else { return };
    let (Some(provider), Some(register)) = (provider_of(info), function(c"dat_registry_add_provider")) else {
        return;
    };
    // SAFETY: the registry's function of this name has this type; the provider is never freed.
    let register = unsafe { core::mem::transmute::<*mut c_void, Register>(register) };
    // SAFETY: as above; `info` is what the registry has passed.
    let refused = unsafe { register(provider, info) };
    if refused != 0 {
        tracing::warn!(code = refused, "the registry of uDAPL 2.0 does not take an adapter");
    }
}

/// Takes the adapter of this entry back. Its table stays, for objects that a program has not freed.
unsafe extern "C" fn fini(info: *const c_void) {
    // SAFETY: as in `init`.
    let Some(info) = (unsafe { info.cast::<ProviderInfo>().as_ref() }) else { return };
    let (Some(provider), Some(remove)) = (provider_of(info), function(c"dat_registry_remove_provider"))
    else {
        return;
    };
    // SAFETY: the registry's function of this name has this type.
    let remove = unsafe { core::mem::transmute::<*mut c_void, Register>(remove) };
    // SAFETY: as above.
    unsafe { remove(provider, info) };
}

/// The provider of an entry; made once for each name.
fn provider_of(info: &ProviderInfo) -> Option<&'static Provider> {
    let bytes = info.ia_name.map(|byte| byte as u8);
    let name = CStr::from_bytes_until_nul(&bytes).ok()?;
    let mut providers = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(provider) = providers.iter().find(|provider| name_of(provider) == name) {
        return Some(*provider);
    }
    let device_name = Box::leak(name.to_owned().into_boxed_c_str()).as_ptr();
    let provider: &'static Provider = Box::leak(Box::new(Provider { device_name, ..TABLE }));
    providers.push(provider);
    Some(provider)
}

/// The provider that was registered under a name.
pub(super) fn provider_named(name: &CStr) -> Option<&'static Provider> {
    let providers = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    providers.iter().find(|provider| name_of(provider) == name).copied()
}

fn name_of(provider: &Provider) -> &'static CStr {
    // SAFETY: `provider_of` made it from a string that is never freed.
    unsafe { CStr::from_ptr(provider.device_name) }
}

/// What the registry calls the adapter with this handle, if it knows it (by now).
pub(super) fn number_of(handle: Handle) -> Option<Handle> {
    let get = function(c"dats_get_ia_handle")?;
    // SAFETY: the registry's function of this name has this type.
    let get = unsafe { core::mem::transmute::<*mut c_void, GetAdapter>(get) };
    let mut number = 0;
    // SAFETY: as above; the result is stored in a word of ours.
    let refused = unsafe { get(handle, &raw mut number) };
    (refused == 0 && number != 0).then_some(number)
}

/// A function of the registry; `None` if none is in the process.
fn function(name: &CStr) -> Option<*mut c_void> {
    // A host may have loaded the registry for itself only, where the search through all libraries does not find it.
    // SAFETY: the name ends, and nothing is loaded.
    let library = unsafe { libc::dlopen(c"libdat2.so.2".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    let place = if library.is_null() { libc::RTLD_DEFAULT } else { library };
    // SAFETY: a handle of the loader's, and names that end.
    let found = unsafe { libc::dlvsym(place, name.as_ptr(), c"DAT_2.0".as_ptr()) };
    if !library.is_null() {
        // The registry called us, so it does not go away by this.
        // SAFETY: gives back what `dlopen` counted above.
        unsafe { libc::dlclose(library) };
    }
    (!ptr::eq(found, ptr::null_mut())).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts;

    fn entry(name: &str) -> ProviderInfo {
        ProviderInfo {
            ia_name: layouts::name(name),
            dapl_version_major: 2,
            dapl_version_minor: 0,
            is_thread_safe: 0,
        }
    }

    #[test]
    fn a_name_has_one_provider_and_each_its_own() {
        let [one, again, other] = ["one", "one", "other"].map(|name| provider_of(&entry(name)).unwrap());
        assert!(ptr::eq(one, again));
        assert!(!ptr::eq(one, other));
        assert_eq!(name_of(other), c"other");
        assert!(ptr::eq(provider_named(c"one").unwrap(), one));
        assert!(provider_named(c"none").is_none());
    }

    #[test]
    fn without_a_registry_in_the_process_nothing_happens() {
        let alone = entry("alone");
        // SAFETY: an entry as the registry passes it.
        unsafe { init((&raw const alone).cast(), c"".as_ptr()) };
        // SAFETY: as above.
        unsafe { fini((&raw const alone).cast()) };
        // SAFETY: NULL is looked at and not followed.
        unsafe { init(ptr::null(), ptr::null()) };
        assert_eq!(number_of(0x1000), None);
    }
}

//! Libraries of providers that `dat.conf` names: loaded when an adapter of theirs is opened, and unloaded after the last was
//! closed.

use core::ffi::{CStr, c_char, c_void};
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Key, outside};
use crate::layouts::ProviderInfo;

/// `dat_provider_init`.
type Init = unsafe extern "C" fn(*const ProviderInfo, *const c_char);
/// `dat_provider_fini`.
type Fini = unsafe extern "C" fn(*const ProviderInfo);

struct Loaded {
    library: NonNull<c_void>,
    fini: Fini,
    /// Adapters that are open.
    uses: usize,
    /// The provider may keep the pointer.
    info: Box<ProviderInfo>,
    _parameters: CString,
}

// SAFETY: handles of the loader may be used by any thread, and the rest is memory and a function.
unsafe impl Send for Loaded {}

/// Also held while a library is loaded or unloaded: two threads must not initialize one provider.
static LOADED: Mutex<Option<HashMap<Key, Loaded>>> = Mutex::new(None);

fn loaded() -> MutexGuard<'static, Option<HashMap<Key, Loaded>>> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads the library of an entry if it is not loaded, and counts one use.
pub(super) fn load(key: &Key, path: &str, parameters: &str) -> Result<(), String> {
    let mut all = loaded();
    let all = all.get_or_insert_default();
    if let Some(loaded) = all.get_mut(key) {
        loaded.uses += 1;
        return Ok(());
    }
    let text =
        |text: &str| CString::new(text).map_err(|_| "a zero is in its name or its parameters".to_owned());
    let (path, parameters) = (text(path)?, text(parameters)?);
    // SAFETY: a text that ends. Loading runs the library's constructors, which whoever wrote the file answers for.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    let library = NonNull::new(library).ok_or_else(loader_error)?;
    let symbol = |name: &CStr| {
        // SAFETY: the library is loaded, and the name ends.
        let symbol = NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) });
        symbol.ok_or_else(|| format!("it has no {}", name.to_string_lossy()))
    };
    let found = symbol(c"dat_provider_init").and_then(|init| Ok((init, symbol(c"dat_provider_fini")?)));
    let (init, fini) = found.inspect_err(|_| unload(library))?;
    // SAFETY: the interface says that functions of these names have these types.
    let (init, fini) = unsafe {
        (
            core::mem::transmute::<*mut c_void, Init>(init.as_ptr()),
            core::mem::transmute::<*mut c_void, Fini>(fini.as_ptr()),
        )
    };
    let info = Box::new(key.info());
    // SAFETY: as the interface says.
    unsafe { init(&raw const *info, parameters.as_ptr()) };
    let loaded = Loaded { library, fini, uses: 1, info, _parameters: parameters };
    if !outside::is_registered(key) {
        loaded.end();
        return Err(
            "its dat_provider_init registered no provider under the entry's name and version".to_owned()
        );
    }
    all.insert(key.clone(), loaded);
    Ok(())
}

/// Counts one use less; after the last the library is unloaded. Does nothing for a provider that came by itself.
pub(super) fn let_go(key: &Key) {
    let mut all = loaded();
    let Some(all) = all.as_mut() else { return };
    let Some(loaded) = all.get_mut(key) else { return };
    loaded.uses -= 1;
    if loaded.uses == 0
        && let Some(loaded) = all.remove(key)
    {
        loaded.end();
    }
}

impl Loaded {
    fn end(self) {
        // SAFETY: the library's own function, which gets what its `dat_provider_init` got.
        unsafe { (self.fini)(&raw const *self.info) };
        unload(self.library);
    }
}

fn unload(library: NonNull<c_void>) {
    // SAFETY: it was loaded by `dlopen`, and nothing of it is used any more.
    unsafe { libc::dlclose(library.as_ptr()) };
}

/// What the loader says about its last refusal.
fn loader_error() -> String {
    // SAFETY: NULL, or a text that stays until this thread's next such call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

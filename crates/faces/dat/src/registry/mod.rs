//! The registry of 1.2: which names lead to which provider.
//!
//! First what `dat.conf` says (`configuration`), then what providers registered that the program brought itself (`outside`), then
//! the names of this library's own provider (`names`), which are there without any file.

pub(crate) mod calls;
mod configuration;
mod library;
pub(crate) mod outside;
mod report;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nonic_dat::{DatError, DatResult, Kind, Resource, Subtype};

use crate::calls::{Count, Handle};
use crate::error::{CLASS_ERROR, Numbering};
use crate::handles;
use crate::layouts::{ProviderInfo, name};
use crate::names;
use crate::opened::Opened;
use crate::v1::provider;
use configuration::{Leads, configuration};
use outside::Outside;
use report::report;

/// What a provider is registered and opened under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// Major and minor.
    pub(crate) version: (u32, u32),
    pub(crate) thread_safe: bool,
}

/// The version of the provider that is built in.
const OWN_VERSION: (u32, u32) = (1, 2);

impl Key {
    fn own(name: &str) -> Self {
        Self { name: name.to_owned(), version: OWN_VERSION, thread_safe: false }
    }

    /// As `DAT_PROVIDER_INFO`.
    pub(crate) fn info(&self) -> ProviderInfo {
        ProviderInfo {
            ia_name: name(&self.name),
            dapl_version_major: self.version.0,
            dapl_version_minor: self.version.1,
            is_thread_safe: self.thread_safe.into(),
        }
    }
}

/// What was opened through which provider of others, by the program's number.
static OPEN: Mutex<Option<HashMap<usize, Key>>> = Mutex::new(None);

fn open_elsewhere() -> MutexGuard<'static, Option<HashMap<usize, Key>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A refusal of this library's, or what a provider answered.
pub(crate) enum Refusal {
    /// Ours.
    Own(DatError),
    /// A `DAT_RETURN`, as it came.
    Foreign(u32),
}

impl From<DatError> for Refusal {
    fn from(error: DatError) -> Self {
        Self::Own(error)
    }
}

/// Opens an interface adapter; its number is stored in `ia`.
///
/// # Safety
/// The pointers are not NULL and lead to handles.
pub(crate) unsafe fn open(
    key: &Key,
    async_qlen: Count,
    async_evd: *mut Handle,
    ia: *mut Handle,
) -> Result<(), Refusal> {
    let entry = configuration().entries.iter().find(|entry| entry.key == *key);
    match entry.map(|entry| &entry.leads) {
        Some(Leads::Here) => {
            // SAFETY: the caller's promise.
            return unsafe { open_own(&key.name, async_qlen, async_evd, ia) }.map_err(Refusal::Own);
        }
        Some(Leads::Library { library, parameters }) => {
            match library::load(key, library, parameters) {
                Ok(()) => {
                    // SAFETY: the caller's promise.
                    let opened = unsafe { open_outside(key, async_qlen, async_evd, ia) };
                    if opened.is_err() {
                        library::let_go(key);
                    }
                    return opened.unwrap_or(Err(not_found(Subtype::NameNotRegistered).into()));
                }
                Err(reason) => {
                    report(report::STATIC, &format!("{}: {library}: {reason}", key.name));
                    // A name of ours still leads somewhere.
                }
            }
        }
        None => {}
    }
    // SAFETY: the caller's promise.
    if let Ok(opened) = unsafe { open_outside(key, async_qlen, async_evd, ia) } {
        return opened;
    }
    if *key == Key::own(&key.name) && names::is_built_in(&key.name) {
        // SAFETY: the caller's promise.
        return unsafe { open_own(&key.name, async_qlen, async_evd, ia) }.map_err(Refusal::Own);
    }
    Err(why_not_found(key).into())
}

fn not_found(subtype: Subtype) -> DatError {
    DatError::new(Kind::ProviderNotFound, subtype)
}

/// What about the key is wrong, as far as it is known.
fn why_not_found(key: &Key) -> DatError {
    let mut known: Vec<Key> = configuration().entries.iter().map(|entry| entry.key.clone()).collect();
    known.extend(outside::keys());
    if names::is_built_in(&key.name) {
        known.push(Key::own(&key.name));
    }
    known.retain(|other| other.name == key.name);
    let subtype = if known.is_empty() {
        Subtype::NameNotRegistered
    } else if known.iter().all(|other| other.version.0 != key.version.0) {
        Subtype::MajorNotFound
    } else if known.iter().all(|other| other.version != key.version) {
        Subtype::MinorNotFound
    } else if known.iter().all(|other| (other.version, other.thread_safe) != (key.version, key.thread_safe)) {
        Subtype::ThreadSafetyNotFound
    } else {
        // It is in a dat.conf, but the library could not be used.
        Subtype::NameNotRegistered
    };
    not_found(subtype)
}

/// Opens an adapter of the provider that is built in.
///
/// # Safety
/// The pointers are not NULL and lead to handles.
unsafe fn open_own(name: &str, async_qlen: Count, async_evd: *mut Handle, ia: *mut Handle) -> DatResult<()> {
    let mut real: Handle = 0;
    // SAFETY: the caller's promise.
    unsafe { provider::open(name, async_qlen, async_evd, &raw mut real) }?;
    let Some(number) = handles::add_adapter_number(real) else {
        // SAFETY: a handle of ours; the call takes nothing else.
        unsafe { (provider::OWN_CALLS.ia_close)(real, 0) };
        return Err(no_number());
    };
    if let Ok(opened) = handles::find::<Opened>(Numbering::V1_2, real) {
        opened.number.store(number, std::sync::atomic::Ordering::Relaxed);
    }
    // SAFETY: the caller's promise.
    unsafe { ia.write_unaligned(number) };
    Ok(())
}

fn no_number() -> DatError {
    DatError::resources(Subtype::Resource(Resource::Memory))
}

/// Opens an adapter of a provider that registered itself under this key; `Err` if none did.
///
/// # Safety
/// The pointers are not NULL and lead to handles.
unsafe fn open_outside(
    key: &Key,
    async_qlen: Count,
    async_evd: *mut Handle,
    ia: *mut Handle,
) -> Result<Result<(), Refusal>, ()> {
    let provider: Outside = outside::hold(key).ok_or(())?;
    let mut real: Handle = 0;
    // SAFETY: the provider's own function, with the arguments of its type; the pointers are as the caller promises.
    let answer = unsafe { provider.open(&key.name, async_qlen, async_evd, &raw mut real) };
    if answer != 0 {
        outside::release(key);
        if answer & CLASS_ERROR == 0 {
            report(report::DYNAMIC, &format!("{}: ia_open_func answered {answer:#x}", key.name));
        }
        library::let_go(key);
        return Ok(Err(Refusal::Foreign(answer)));
    }
    let Some(number) = handles::add_adapter_number(real) else {
        // SAFETY: the provider gave this handle.
        unsafe { (provider.calls().ia_close)(real, 0) };
        outside::release(key);
        library::let_go(key);
        return Ok(Err(no_number().into()));
    };
    open_elsewhere().get_or_insert_default().insert(number, key.clone());
    // SAFETY: the caller's promise.
    unsafe { ia.write_unaligned(number) };
    Ok(Ok(()))
}

/// An adapter with this number was closed by its provider.
pub(crate) fn closed(number: Handle) {
    let key = open_elsewhere().as_mut().and_then(|open| open.remove(&number));
    handles::forget_adapter_number(number);
    if let Some(key) = key {
        outside::release(&key);
        library::let_go(&key);
    }
}

/// What programs can open, in the order of `dat.conf`; then the built-in provider's own names.
pub(crate) fn listed() -> Vec<Key> {
    let mut keys: Vec<Key> = configuration().entries.iter().map(|entry| entry.key.clone()).collect();
    for name in [names::OWN, names::NON_COHERENT] {
        let own = Key::own(name);
        if !keys.contains(&own) {
            keys.push(own);
        }
    }
    keys
}

//! The calls of the registry.

use core::ffi::{CStr, c_char, c_void};

use nonic_dat::{DatError, DatResult, HandleKind, Subtype};

use super::{Key, Refusal, closed, listed, open, outside};
use crate::calls::{Count, Handle, Return};
use crate::error::Numbering;
use crate::guard::answer;
use crate::handles;
use crate::layouts::ProviderInfo;
use crate::names;
use crate::v1::provider::{OWN_CALLS, ProviderTable};

const V: Numbering = Numbering::V1_2;

const ADAPTER: DatError = DatError::handle(Subtype::Handle(HandleKind::InterfaceAdapter));

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn dat_ia_openv(
    name: *const c_char,
    async_qlen: Count,
    async_evd: *mut Handle,
    ia: *mut Handle,
    major: u32,
    minor: u32,
    thread_safety: u32,
) -> Return {
    let mut foreign = None;
    let own = answer(V, || {
        // SAFETY: the caller's promise.
        let name = unsafe { names::of_program(name) }?;
        if ia.is_null() {
            return Err(ADAPTER);
        }
        if async_evd.is_null() {
            return Err(DatError::argument(3));
        }
        let key = Key { name, version: (major, minor), thread_safe: thread_safety != 0 };
        // SAFETY: not NULL (above), and the caller's promise.
        match unsafe { open(&key, async_qlen, async_evd, ia) } {
            Ok(()) => Ok(()),
            Err(Refusal::Own(error)) => Err(error),
            Err(Refusal::Foreign(answer)) => {
                foreign = Some(answer);
                Ok(())
            }
        }
    });
    foreign.unwrap_or(own)
}

/// `dat_ia_close`: the provider closes, then the registry lets go of the provider.
///
/// # Safety
/// As in C.
pub(crate) unsafe extern "C" fn ia_close(ia: Handle, flags: u32) -> Return {
    match outside::of_adapter(ia) {
        // SAFETY: the call takes numbers.
        None => unsafe { (OWN_CALLS.ia_close)(ia, flags) },
        Some((calls, real)) => {
            let number = if real == ia { handles::number_of_adapter(real) } else { Some(ia) };
            // SAFETY: the provider's function, for a handle of its own.
            let closing = unsafe { (calls.ia_close)(real, flags) };
            match number.filter(|_| closing == 0) {
                None => closing,
                Some(number) => answer(V, || {
                    closed(number);
                    Ok(())
                }),
            }
        }
    }
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn dat_registry_list_providers(
    max: Count,
    count: *mut Count,
    list: *const *mut c_void,
) -> Return {
    answer(V, || {
        if count.is_null() {
            return Err(DatError::argument(2));
        }
        let keys = listed();
        let room = match usize::try_from(max) {
            Ok(room) if room > 0 => room,
            negative_or_none => {
                if negative_or_none.is_ok() {
                    // SAFETY: not NULL, and the caller's promise.
                    unsafe { count.write_unaligned(keys.len() as Count) };
                }
                return Err(DatError::argument(1));
            }
        };
        if list.is_null() {
            return Err(DatError::argument(3));
        }
        let stored = room.min(keys.len());
        // SAFETY: the program says that its list has `max` elements.
        let places: Vec<*mut c_void> =
            (0..stored).map(|index| unsafe { list.add(index).read_unaligned() }).collect();
        if places.iter().any(|place| place.is_null()) {
            return Err(DatError::argument(3));
        }
        for (place, key) in places.into_iter().zip(&keys) {
            // SAFETY: not NULL, and the caller's promise.
            unsafe { place.cast::<ProviderInfo>().write_unaligned(key.info()) };
        }
        // SAFETY: not NULL, and the caller's promise.
        unsafe { count.write_unaligned(stored as Count) };
        Ok(())
    })
}

/// Table and key that a provider passes.
///
/// # Safety
/// The pointers are NULL or lead to such structures.
unsafe fn registration(
    provider: *const c_void,
    info: *const c_void,
) -> DatResult<(*const ProviderTable, Key)> {
    if provider.is_null() {
        return Err(DatError::argument(1));
    }
    if info.is_null() {
        return Err(DatError::argument(2));
    }
    // SAFETY: the caller's promise.
    let info = unsafe { info.cast::<ProviderInfo>().read_unaligned() };
    let name = info.ia_name.map(|byte| byte as u8);
    let name = CStr::from_bytes_until_nul(&name).map_err(|_| DatError::argument(2))?;
    let key = Key {
        name: name.to_string_lossy().into_owned(),
        version: (info.dapl_version_major, info.dapl_version_minor),
        thread_safe: info.is_thread_safe != 0,
    };
    Ok((provider.cast(), key))
}

/// # Safety
/// As in C: a table that stays until it is removed.
pub(crate) unsafe extern "C" fn dat_registry_add_provider(
    provider: *const c_void,
    info: *const c_void,
) -> Return {
    answer(V, || {
        // SAFETY: the caller's promise.
        let (provider, key) = unsafe { registration(provider, info) }?;
        outside::add(key, provider)
    })
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn dat_registry_remove_provider(
    provider: *const c_void,
    info: *const c_void,
) -> Return {
    answer(V, || {
        // SAFETY: the caller's promise.
        let (provider, key) = unsafe { registration(provider, info) }?;
        outside::remove(&key, provider)
    })
}

/// For providers: what an adapter's number stands for, and the other way round.
///
/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn dats_get_ia_handle(handle: Handle, result: *mut Handle) -> Return {
    answer(V, || {
        if result.is_null() {
            return Err(DatError::argument(2));
        }
        let real = handles::real_adapter(handle);
        let number = || handles::number_of_adapter(real).unwrap_or(0);
        let found = if real == handle { number() } else { real };
        if found == 0 {
            return Err(ADAPTER);
        }
        // SAFETY: not NULL, and the caller's promise.
        unsafe { result.write_unaligned(found) };
        Ok(())
    })
}

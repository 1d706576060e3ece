//! Names of interface adapters.

use core::ffi::{CStr, c_char};

use nonic_dat::{DatError, DatResult};

use crate::layouts::NAME_LENGTH;

/// The name of this provider's adapter.
pub(crate) const OWN: &str = "nonic";
/// The name of its adapter whose memory is not coherent.
pub(crate) const NON_COHERENT: &str = "nonic-noncoherent";
/// With the value 1 every adapter is one whose memory is not coherent.
const VARIABLE: &str = "NONIC_NONCOHERENT";
/// In front of a name: the program uses `DAT_MEM_TYPE_SO_VIRTUAL` where order matters. Order always is strong here.
const RELAXED_ORDER_AWARE: &str = "RO_AWARE_";

/// Names with these beginnings are other providers' adapters elsewhere, which programs ask for out of habit. They are ours if
/// no dat.conf says otherwise.
const FAMILIES: [&str; 2] = ["OpenIB-", "ofa-v2-"];
/// The same, with a number behind it.
const NUMBERED_FAMILY: &str = "ibd";

/// Whether memory of an adapter of this name is coherent.
pub(crate) fn is_coherent(name: &str) -> bool {
    name != NON_COHERENT && std::env::var_os(VARIABLE).is_none_or(|value| value != "1")
}

/// Whether an adapter of this name is there without any dat.conf.
pub(crate) fn is_built_in(name: &str) -> bool {
    let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    name == OWN
        || name == NON_COHERENT
        || FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(|rest| !rest.is_empty()))
        || name.strip_prefix(NUMBERED_FAMILY).is_some_and(numbered)
}

/// A name that a program passes, without what is in front of it. `INVALID_PARAMETER|ARG1` for NULL and for one that is too
/// long.
///
/// # Safety
/// The pointer is NULL or leads to a text that ends.
pub(crate) unsafe fn of_program(name: *const c_char) -> DatResult<String> {
    if name.is_null() {
        return Err(DatError::argument(1));
    }
    // SAFETY: the caller's promise. Nothing behind the longest name is looked at.
    let length = unsafe { libc::strnlen(name, NAME_LENGTH) };
    if length == NAME_LENGTH {
        return Err(DatError::argument(1));
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    Ok(without_prefix(&text).to_owned())
}

/// A name without the word about relaxed order.
pub(crate) fn without_prefix(name: &str) -> &str {
    name.strip_prefix(RELAXED_ORDER_AWARE).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_programs_ask_for_out_of_habit_are_there_without_a_dat_conf() {
        for name in
            ["nonic", "nonic-noncoherent", "OpenIB-cma", "OpenIB-mlx4_0-1", "ofa-v2-ib0", "ibd0", "ibd12"]
        {
            assert!(is_built_in(name), "{name}");
        }
        for name in ["", "nonicc", "OpenIB-", "ibd", "ibdx", "ibd0x", "eth0", "openib-cma", "NONIC"] {
            assert!(!is_built_in(name), "{name}");
        }
    }

    #[test]
    fn a_name_may_be_255_bytes_long_and_has_its_prefix_taken_off() {
        let name = |text: &str| {
            let text = std::ffi::CString::new(text).expect("no zero inside");
            // SAFETY: it ends.
            unsafe { of_program(text.as_ptr()) }
        };
        assert_eq!(name("RO_AWARE_ibd0").as_deref(), Ok("ibd0"));
        assert_eq!(name("ibd0").as_deref(), Ok("ibd0"));
        assert_eq!(name(&"x".repeat(255)).map(|name| name.len()), Ok(255));
        assert_eq!(name(&"x".repeat(256)), Err(DatError::argument(1)));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { of_program(core::ptr::null()) }, Err(DatError::argument(1)));
    }
}

//! `dat_strerror`: the names of the numbers in a `DAT_RETURN` of 1.2. All of them have one.

use core::ffi::{CStr, c_char};

use nonic_dat::{DatError, DatResult, Kind};

use crate::calls::Return;
use crate::error::Numbering;
use crate::guard::answer;

/// The types, by their number.
const TYPES: [&CStr; 21] = [
    c"DAT_SUCCESS",
    c"DAT_ABORT",
    c"DAT_CONN_QUAL_IN_USE",
    c"DAT_INSUFFICIENT_RESOURCES",
    c"DAT_INTERNAL_ERROR",
    c"DAT_INVALID_HANDLE",
    c"DAT_INVALID_PARAMETER",
    c"DAT_INVALID_STATE",
    c"DAT_LENGTH_ERROR",
    c"DAT_MODEL_NOT_SUPPORTED",
    c"DAT_PROVIDER_NOT_FOUND",
    c"DAT_PRIVILEGES_VIOLATION",
    c"DAT_PROTECTION_VIOLATION",
    c"DAT_QUEUE_EMPTY",
    c"DAT_QUEUE_FULL",
    c"DAT_TIMEOUT_EXPIRED",
    c"DAT_PROVIDER_ALREADY_REGISTERED",
    c"DAT_PROVIDER_IN_USE",
    c"DAT_INVALID_ADDRESS",
    c"DAT_INTERRUPTED_CALL",
    c"DAT_CONN_QUAL_UNAVAILABLE",
];

/// Types that say that something is not implemented, which libraries number differently. None of ours does.
const NOT_IMPLEMENTED: [u32; 2] = [0x0fff, 0x3fff];

/// The subtypes, by their number.
const SUBTYPES: [&CStr; 103] = [
    c"",
    c"DAT_SUB_INTERRUPTED",
    c"DAT_RESOURCE_MEMORY",
    c"DAT_RESOURCE_DEVICE",
    c"DAT_RESOURCE_TEP",
    c"DAT_RESOURCE_TEVD",
    c"DAT_RESOURCE_PROTECTION_DOMAIN",
    c"DAT_RESOURCE_MEMORY_REGION",
    c"DAT_RESOURCE_ERROR_HANDLER",
    c"DAT_RESOURCE_CREDITS",
    c"DAT_RESOURCE_SRQ",
    c"DAT_INVALID_HANDLE_IA",
    c"DAT_INVALID_HANDLE_EP",
    c"DAT_INVALID_HANDLE_LMR",
    c"DAT_INVALID_HANDLE_RMR",
    c"DAT_INVALID_HANDLE_PZ",
    c"DAT_INVALID_HANDLE_PSP",
    c"DAT_INVALID_HANDLE_RSP",
    c"DAT_INVALID_HANDLE_CR",
    c"DAT_INVALID_HANDLE_CNO",
    c"DAT_INVALID_HANDLE_EVD_CR",
    c"DAT_INVALID_HANDLE_EVD_REQUEST",
    c"DAT_INVALID_HANDLE_EVD_RECV",
    c"DAT_INVALID_HANDLE_EVD_CONN",
    c"DAT_INVALID_HANDLE_EVD_ASYNC",
    c"DAT_INVALID_HANDLE_SRQ",
    c"DAT_INVALID_HANDLE1",
    c"DAT_INVALID_HANDLE2",
    c"DAT_INVALID_HANDLE3",
    c"DAT_INVALID_HANDLE4",
    c"DAT_INVALID_HANDLE5",
    c"DAT_INVALID_HANDLE6",
    c"DAT_INVALID_HANDLE7",
    c"DAT_INVALID_HANDLE8",
    c"DAT_INVALID_HANDLE9",
    c"DAT_INVALID_HANDLE10",
    c"DAT_INVALID_ARG1",
    c"DAT_INVALID_ARG2",
    c"DAT_INVALID_ARG3",
    c"DAT_INVALID_ARG4",
    c"DAT_INVALID_ARG5",
    c"DAT_INVALID_ARG6",
    c"DAT_INVALID_ARG7",
    c"DAT_INVALID_ARG8",
    c"DAT_INVALID_ARG9",
    c"DAT_INVALID_ARG10",
    c"DAT_INVALID_STATE_EP_UNCONNECTED",
    c"DAT_INVALID_STATE_EP_ACTCONNPENDING",
    c"DAT_INVALID_STATE_EP_PASSCONNPENDING",
    c"DAT_INVALID_STATE_EP_TENTCONNPENDING",
    c"DAT_INVALID_STATE_EP_CONNECTED",
    c"DAT_INVALID_STATE_EP_DISCONNECTED",
    c"DAT_INVALID_STATE_EP_RESERVED",
    c"DAT_INVALID_STATE_EP_COMPLPENDING",
    c"DAT_INVALID_STATE_EP_DISCPENDING",
    c"DAT_INVALID_STATE_EP_PROVIDERCONTROL",
    c"DAT_INVALID_STATE_EP_NOTREADY",
    c"DAT_INVALID_STATE_EP_RECV_WATERMARK",
    c"DAT_INVALID_STATE_EP_PZ",
    c"DAT_INVALID_STATE_EP_EVD_REQUEST",
    c"DAT_INVALID_STATE_EP_EVD_RECV",
    c"DAT_INVALID_STATE_EP_EVD_CONNECT",
    c"DAT_INVALID_STATE_EP_UNCONFIGURED",
    c"DAT_INVALID_STATE_EP_UNCONFRESERVED",
    c"DAT_INVALID_STATE_EP_UNCONFPASSIVE",
    c"DAT_INVALID_STATE_EP_UNCONFTENTATIVE",
    c"DAT_INVALID_STATE_CNO_IN_USE",
    c"DAT_INVALID_STATE_CNO_DEAD",
    c"DAT_INVALID_STATE_EVD_OPEN",
    c"DAT_INVALID_STATE_EVD_ENABLED",
    c"DAT_INVALID_STATE_EVD_DISABLED",
    c"DAT_INVALID_STATE_EVD_WAITABLE",
    c"DAT_INVALID_STATE_EVD_UNWAITABLE",
    c"DAT_INVALID_STATE_EVD_IN_USE",
    c"DAT_INVALID_STATE_EVD_CONFIG_NOTIFY",
    c"DAT_INVALID_STATE_EVD_CONFIG_SOLICITED",
    c"DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD",
    c"DAT_INVALID_STATE_EVD_WAITER",
    c"DAT_INVALID_STATE_EVD_ASYNC",
    c"DAT_INVALID_STATE_IA_IN_USE",
    c"DAT_INVALID_STATE_LMR_IN_USE",
    c"DAT_INVALID_STATE_LMR_FREE",
    c"DAT_INVALID_STATE_PZ_IN_USE",
    c"DAT_INVALID_STATE_PZ_FREE",
    c"DAT_INVALID_STATE_SRQ_OPERATIONAL",
    c"DAT_INVALID_STATE_SRQ_ERROR",
    c"DAT_INVALID_STATE_SRQ_IN_USE",
    c"DAT_PRIVILEGES_READ",
    c"DAT_PRIVILEGES_WRITE",
    c"DAT_PRIVILEGES_RDMA_READ",
    c"DAT_PRIVILEGES_RDMA_WRITE",
    c"DAT_PROTECTION_READ",
    c"DAT_PROTECTION_WRITE",
    c"DAT_PROTECTION_RDMA_READ",
    c"DAT_PROTECTION_RDMA_WRITE",
    c"DAT_INVALID_ADDRESS_UNSUPPORTED",
    c"DAT_INVALID_ADDRESS_UNREACHABLE",
    c"DAT_INVALID_ADDRESS_MALFORMED",
    c"DAT_NAME_NOT_REGISTERED",
    c"DAT_MAJOR_NOT_FOUND",
    c"DAT_MINOR_NOT_FOUND",
    c"DAT_THREAD_SAFETY_NOT_FOUND",
    c"DAT_INVALID_RO_COOKIE",
];

/// Names of type and subtype; the class is not looked at. A bare `DAT_INVALID_PARAMETER` for numbers that mean nothing, as in
/// every library.
fn names(value: u32) -> DatResult<(&'static CStr, &'static CStr)> {
    let (kind, subtype) = (value >> 16 & 0x3fff, value & 0xffff);
    let major = match NOT_IMPLEMENTED.contains(&kind) {
        true => Some(c"DAT_NOT_IMPLEMENTED"),
        false => TYPES.get(kind as usize).copied(),
    };
    let minor = SUBTYPES.get(subtype as usize).copied();
    major.zip(minor).ok_or(DatError::bare(Kind::InvalidParameter))
}

/// # Safety
/// As in C: pointers are NULL or lead to what the call expects.
pub(crate) unsafe extern "C" fn dat_strerror(
    value: u32,
    major: *mut *const c_char,
    minor: *mut *const c_char,
) -> Return {
    answer(Numbering::V1_2, || {
        let (first, second) = names(value)?;
        for (place, argument) in [(major, 2), (minor, 3)] {
            if place.is_null() {
                return Err(DatError::argument(argument));
            }
        }
        // SAFETY: not NULL (above), and the caller's promise.
        unsafe {
            major.write_unaligned(first.as_ptr());
            minor.write_unaligned(second.as_ptr());
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use nonic_dat::{AccessKind, HandleKind, Resource, StateKind, Subtype};

    use super::*;
    use crate::error::encode;

    fn told(error: DatError) -> (&'static str, &'static str) {
        let (major, minor) = names(encode(Numbering::V1_2, error)).expect("it means something");
        (major.to_str().expect("it is text"), minor.to_str().expect("it is text"))
    }

    #[test]
    fn the_names_are_those_of_the_numbers_that_calls_answer() {
        assert_eq!(names(0), Ok((c"DAT_SUCCESS", c"")));
        assert_eq!(told(DatError::QUEUE_EMPTY), ("DAT_QUEUE_EMPTY", ""));
        assert_eq!(told(DatError::argument(10)), ("DAT_INVALID_PARAMETER", "DAT_INVALID_ARG10"));
        let handle = DatError::handle(Subtype::Handle(HandleKind::SharedReceiveQueue));
        assert_eq!(told(handle), ("DAT_INVALID_HANDLE", "DAT_INVALID_HANDLE_SRQ"));
        let state = |kind| told(DatError::state(Subtype::State(kind))).1;
        assert_eq!(state(StateKind::EpUnconnected), "DAT_INVALID_STATE_EP_UNCONNECTED");
        assert_eq!(state(StateKind::EpUnconfiguredTentative), "DAT_INVALID_STATE_EP_UNCONFTENTATIVE");
        assert_eq!(state(StateKind::EvdAsync), "DAT_INVALID_STATE_EVD_ASYNC");
        assert_eq!(state(StateKind::SrqInUse), "DAT_INVALID_STATE_SRQ_IN_USE");
        let memory = DatError::resources(Subtype::Resource(Resource::SharedReceiveQueue));
        assert_eq!(told(memory), ("DAT_INSUFFICIENT_RESOURCES", "DAT_RESOURCE_SRQ"));
        let access = DatError::new(Kind::ProtectionViolation, Subtype::Protection(AccessKind::RdmaWrite));
        assert_eq!(told(access), ("DAT_PROTECTION_VIOLATION", "DAT_PROTECTION_RDMA_WRITE"));
        let name = DatError::new(Kind::ProviderNotFound, Subtype::ThreadSafetyNotFound);
        assert_eq!(told(name), ("DAT_PROVIDER_NOT_FOUND", "DAT_THREAD_SAFETY_NOT_FOUND"));
        assert_eq!(told(DatError::bare(Kind::ConnQualUnavailable)), ("DAT_CONN_QUAL_UNAVAILABLE", ""));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused_without_a_class() {
        for value in [0x8015_0000, 0x1234_0000, 0x8006_0067, 0x0000_ffff] {
            assert_eq!(names(value), Err(DatError::bare(Kind::InvalidParameter)), "{value:#x}");
        }
        for value in [0x0fff_0000, 0xffff_0000_u32] {
            assert_eq!(names(value).map(|names| names.0), Ok(c"DAT_NOT_IMPLEMENTED"));
        }
    }
}

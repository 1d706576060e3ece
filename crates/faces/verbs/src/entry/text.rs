//! Numbers in words.

use core::ffi::{CStr, c_char, c_int};

versions! {
    nonic_ibv_wc_status_str => "ibv_wc_status_str@@IBVERBS_1.1";
    nonic_ibv_event_type_str => "ibv_event_type_str@@IBVERBS_1.1";
    nonic_ibv_node_type_str => "ibv_node_type_str@@IBVERBS_1.1";
    nonic_ibv_port_state_str => "ibv_port_state_str@@IBVERBS_1.1";
    nonic_ibv_wr_opcode_str => "ibv_wr_opcode_str@@IBVERBS_PRIVATE_64", "ibv_wr_opcode_str@IBVERBS_PRIVATE_59";
}

/// `enum ibv_wc_status` from 0.
const STATUSES: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local queue pair operation error",
    c"local end-to-end context operation error",
    c"local protection error",
    c"work request flushed",
    c"memory window bind error",
    c"bad response",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry count exceeded",
    c"receiver-not-ready retry count exceeded",
    c"local domain violation",
    c"remote invalid read request",
    c"aborted by remote side",
    c"invalid end-to-end context number",
    c"invalid end-to-end context state",
    c"fatal error",
    c"response timeout",
    c"general error",
    c"tag matching error",
    c"tag matching rendezvous incomplete",
];

/// `enum ibv_event_type` from 0.
const EVENTS: [&CStr; 20] = [
    c"completion queue error",
    c"queue pair fatal error",
    c"queue pair received an invalid request",
    c"queue pair received a request without access",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration failed",
    c"device fatal error",
    c"port active",
    c"port error",
    c"local identifier changed",
    c"P_Key table changed",
    c"subnet manager changed",
    c"shared receive queue error",
    c"shared receive queue limit reached",
    c"last work request of queue pair reached",
    c"client reregistration",
    c"GID table changed",
    c"work queue fatal error",
];

/// `enum ibv_node_type` from 1.
const NODES: [&CStr; 7] = [
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// `enum ibv_port_state` from 0.
const PORTS: [&CStr; 6] = [c"no change", c"down", c"init", c"armed", c"active", c"active defer"];

/// `enum ibv_wr_opcode` from 0.
const OPERATIONS: [&CStr; 11] = [
    c"RDMA write",
    c"RDMA write with immediate",
    c"send",
    c"send with immediate",
    c"RDMA read",
    c"atomic compare and swap",
    c"atomic fetch and add",
    c"local invalidate",
    c"bind memory window",
    c"send with invalidate",
    c"segmented send",
];

fn word(words: &[&'static CStr], position: c_int) -> *const c_char {
    let found = usize::try_from(position).ok().and_then(|position| words.get(position));
    found.copied().unwrap_or(c"unknown").as_ptr()
}

/// `ibv_wc_status_str(3)`: a static text for any number.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_wc_status_str(status: c_int) -> *const c_char {
    word(&STATUSES, status)
}

/// `ibv_event_type_str(3)`: a static text for any number.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_event_type_str(event: c_int) -> *const c_char {
    word(&EVENTS, event)
}

/// `ibv_node_type_str(3)`: a static text for any number.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_node_type_str(node_type: c_int) -> *const c_char {
    word(&NODES, node_type.saturating_sub(1))
}

/// `ibv_port_state_str(3)`: a static text for any number.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_port_state_str(state: c_int) -> *const c_char {
    word(&PORTS, state)
}

/// A static text for any work request opcode; newer providers print it.
#[unsafe(no_mangle)]
pub extern "C" fn nonic_ibv_wr_opcode_str(opcode: c_int) -> *const c_char {
    word(&OPERATIONS, opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: *const c_char) -> &'static str {
        // SAFETY: the functions return static C strings.
        unsafe { CStr::from_ptr(text) }.to_str().expect("the texts are ASCII")
    }

    #[test]
    fn numbers_name_what_the_header_says() {
        assert_eq!(read(nonic_ibv_wc_status_str(12)), "transport retry count exceeded");
        assert_eq!(read(nonic_ibv_event_type_str(15)), "shared receive queue limit reached");
        assert_eq!(read(nonic_ibv_node_type_str(4)), "iWARP NIC");
        assert_eq!(read(nonic_ibv_port_state_str(4)), "active");
    }

    #[test]
    fn any_other_number_is_unknown_and_does_no_harm() {
        for number in [-1, 24, c_int::MAX, c_int::MIN] {
            assert_eq!(read(nonic_ibv_wc_status_str(number)), "unknown");
            assert_eq!(read(nonic_ibv_event_type_str(number)), "unknown");
            assert_eq!(read(nonic_ibv_node_type_str(number)), "unknown");
            assert_eq!(read(nonic_ibv_port_state_str(number)), "unknown");
        }
    }
}

//! `struct rdma_conn_param` and `struct rdma_ud_param`.

use core::ffi::c_void;
use core::ptr;
use std::slice;

use nonic_device::QpNumber;
use nonic_rdma_cm::{ConnectionParameters, Ece, Id, Parameters};
use nonic_verbs::convert;
use nonic_verbs::entry::queue_pair;
use nonic_verbs::errno::Errno;

use crate::abi::{
    RDMA_MAX_INIT_DEPTH, RDMA_MAX_RESP_RES, rdma_cm_event_param, rdma_cm_id, rdma_conn_param, rdma_ud_param,
};
use crate::objects::Identifier;

/// Retries that there can be at most: programs ask for more and mean that.
const RETRIES_MAX: u8 = 7;

/// Bytes that a program gives with their length; none for NULL.
///
/// # Safety
/// `data` is NULL or leads to `length` bytes.
pub(crate) unsafe fn private_data(data: *const c_void, length: u8) -> Box<[u8]> {
    if data.is_null() || length == 0 {
        return Box::default();
    }
    // SAFETY: the caller says so; the bytes are copied at once.
    unsafe { slice::from_raw_parts(data.cast::<u8>(), length.into()) }.into()
}

/// Judges depths as the original library does: of connections only, and only those of which the device cannot hold so many;
/// neither a queue pair nor parameters is too little to connect with.
///
/// # Safety
/// `parameters` is NULL or readable; `id` is alive.
pub(crate) unsafe fn check(
    id: *mut rdma_cm_id,
    engine: &Id,
    parameters: *const rdma_conn_param,
) -> Result<(), Errno> {
    // Datagrams: the device is asked for nothing.
    if engine.is_datagram() {
        return Ok(());
    }
    let most = depth_max(engine)?;
    // SAFETY: the caller says so.
    unsafe {
        if parameters.is_null() {
            return if (*id).qp.is_null() { Err(Errno::EINVAL) } else { Ok(()) };
        }
        let fits = |depth: u8, for_devices: u8| depth == for_devices || depth <= most;
        if fits((*parameters).responder_resources, RDMA_MAX_RESP_RES)
            && fits((*parameters).initiator_depth, RDMA_MAX_INIT_DEPTH)
        {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
}

/// Reads and atomics that the device holds at once; `EINVAL` if the identifier has no device.
pub(crate) fn depth_max(engine: &Id) -> Result<u8, Errno> {
    Ok(engine.context().ok_or(Errno::EINVAL)?.limits().read_atomic_per_queue_pair)
}

/// What to connect or accept with. The depths are those that the identifier keeps.
///
/// # Safety
/// `parameters` is NULL or readable, with its private data; `id` is alive and this identifier's.
pub(crate) unsafe fn from_c(
    id: *mut rdma_cm_id,
    identifier: &Identifier,
    parameters: *const rdma_conn_param,
) -> Result<ConnectionParameters, Errno> {
    let rest = identifier.rest();
    let mut out = ConnectionParameters {
        private_data: rest.connect_data.clone(),
        responder_resources: rest.responder_resources,
        initiator_depth: rest.initiator_depth,
        retry_count: RETRIES_MAX,
        rnr_retry_count: RETRIES_MAX,
        ece: rest.local_ece,
        ..ConnectionParameters::default()
    };
    drop(rest);
    // SAFETY: the caller says so.
    unsafe {
        if !parameters.is_null() {
            let given = &*parameters;
            let own = private_data(given.private_data, given.private_data_len);
            out.private_data = [&out.private_data[..], &own[..]].concat().into();
            out.flow_control = given.flow_control != 0;
            out.retry_count = given.retry_count.min(RETRIES_MAX);
            out.rnr_retry_count = given.rnr_retry_count.min(RETRIES_MAX);
            out.shared_receive_queue = given.srq != 0;
            out.queue_pair = QpNumber(given.qp_num);
        }
        if !(*id).qp.is_null() {
            (out.queue_pair, out.shared_receive_queue) =
                queue_pair::facts((*id).qp).map_err(|_| Errno::EINVAL)?;
            // Its own are asked for, and our queue pairs have none.
            out.ece = Ece::default();
        }
    }
    Ok(out)
}

/// What an event brings, as programs read it. Its private data stay where they are.
pub(crate) fn to_c(parameters: &Parameters) -> rdma_cm_event_param {
    match parameters {
        // SAFETY: the union is made of numbers and pointers, for which zeros are values.
        Parameters::None => unsafe { core::mem::zeroed() },
        Parameters::Connection(connection) => {
            let (private_data, private_data_len) = place(&connection.private_data);
            // SAFETY: as above. The other member is longer, and is to be zeros behind this one.
            let mut out: rdma_cm_event_param = unsafe { core::mem::zeroed() };
            out.conn = rdma_conn_param {
                private_data,
                private_data_len,
                responder_resources: connection.responder_resources,
                initiator_depth: connection.initiator_depth,
                flow_control: connection.flow_control.into(),
                retry_count: connection.retry_count,
                rnr_retry_count: connection.rnr_retry_count,
                srq: connection.shared_receive_queue.into(),
                qp_num: connection.queue_pair.0,
            };
            out
        }
        Parameters::Word(word) => {
            // SAFETY: as above.
            let mut out: rdma_cm_event_param = unsafe { core::mem::zeroed() };
            out.arg = *word;
            out
        }
        Parameters::Datagram(datagram) => {
            let (mut private_data, private_data_len) = place(&datagram.private_data);
            if private_data.is_null() {
                private_data = ptr::with_exposed_provenance(datagram.cookie);
            }
            rdma_cm_event_param {
                ud: rdma_ud_param {
                    private_data,
                    private_data_len,
                    ah_attr: convert::from_vector(Some(&datagram.address)),
                    qp_num: datagram.queue_pair.0,
                    qkey: datagram.queue_key,
                },
            }
        }
    }
}

fn place(bytes: &[u8]) -> (*const c_void, u8) {
    match u8::try_from(bytes.len()) {
        Ok(0) => (ptr::null(), 0),
        Ok(length) => (bytes.as_ptr().cast(), length),
        // A field of 8 bits: what does not fit is not there.
        Err(_) => (bytes.as_ptr().cast(), u8::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_stay_where_they_are_and_none_is_null() {
        let said = ConnectionParameters {
            private_data: [7; 56].into(),
            initiator_depth: 3,
            queue_pair: QpNumber(0x1234),
            ..ConnectionParameters::default()
        };
        let place = said.private_data.as_ptr();
        let parameters = Parameters::Connection(said);
        // SAFETY: it was made of a connection's.
        let shown = unsafe { to_c(&parameters).conn };
        assert_eq!((shown.private_data.cast(), shown.private_data_len), (place, 56));
        assert_eq!((shown.initiator_depth, shown.qp_num), (3, 0x1234));
        // SAFETY: as above.
        let none = unsafe { to_c(&Parameters::Connection(ConnectionParameters::default())).conn };
        assert!(none.private_data.is_null() && none.private_data_len == 0);
    }

    #[test]
    fn bytes_of_a_program_are_copied_and_a_length_without_any_is_none() {
        let said = [1_u8, 2, 3];
        // SAFETY: the bytes are there.
        unsafe {
            assert_eq!(*private_data(said.as_ptr().cast(), 2), [1, 2]);
            assert!(private_data(ptr::null(), 9).is_empty());
            assert!(private_data(said.as_ptr().cast(), 0).is_empty());
        }
    }
}

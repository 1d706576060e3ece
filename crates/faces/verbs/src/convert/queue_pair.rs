//! `struct ibv_qp_attr`, `ibv_qp_cap` and `enum ibv_qp_type`.

use core::ffi::c_int;

use nonic_device::{AttributeMask, Capabilities, QpAttributes, QpNumber, QpState, QpType};

use super::{access_flags, from_vector, int, queue_pair_access, to_vector};
use crate::abi::{
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_WRITE,
    IBV_QP_EX_WITH_BIND_MW, IBV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_LOCAL_INV, IBV_QP_EX_WITH_RDMA_READ,
    IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_SEND,
    IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_QP_EX_WITH_TSO, IBV_QPT_DRIVER,
    IBV_QPT_RAW_PACKET, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, ibv_qp_attr,
    ibv_qp_cap,
};
use crate::errno::Errno;

/// The type of a new queue pair: `EOPNOTSUPP` for one this release lacks, `EINVAL` for one that does not
/// exist.
pub(crate) fn transport_from_c(number: c_int) -> Result<QpType, Errno> {
    match number {
        IBV_QPT_RC => Ok(QpType::ReliableConnection),
        IBV_QPT_UC => Ok(QpType::UnreliableConnection),
        IBV_QPT_UD => Ok(QpType::UnreliableDatagram),
        IBV_QPT_XRC_SEND => Ok(QpType::ExtendedSend),
        IBV_QPT_XRC_RECV => Ok(QpType::ExtendedReceive),
        IBV_QPT_RAW_PACKET | IBV_QPT_DRIVER => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// The operations that a queue pair is created for (`send_ops_flags`): `EINVAL` for a bit nobody knows, `EOPNOTSUPP` for
/// one that this release, or this type, does not have.
pub(crate) fn send_operations(flags: u64, transport: QpType) -> Result<u64, Errno> {
    let datagrams = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    let unreliable = datagrams
        | IBV_QP_EX_WITH_SEND_WITH_INV
        | IBV_QP_EX_WITH_RDMA_WRITE
        | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
        | IBV_QP_EX_WITH_BIND_MW
        | IBV_QP_EX_WITH_LOCAL_INV;
    let all = unreliable
        | IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
        | IBV_QP_EX_WITH_ATOMIC_WRITE
        | IBV_QP_EX_WITH_FLUSH;
    let offered = match transport {
        QpType::ReliableConnection | QpType::ExtendedSend => all,
        QpType::ExtendedReceive => 0,
        QpType::UnreliableConnection => unreliable,
        QpType::UnreliableDatagram => datagrams,
    };
    if flags & !(all | IBV_QP_EX_WITH_TSO) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & !offered != 0 { Err(Errno::EOPNOTSUPP) } else { Ok(flags) }
}

pub(crate) fn capabilities_from_c(cap: &ibv_qp_cap) -> Capabilities {
    Capabilities {
        send_requests: cap.max_send_wr,
        receive_requests: cap.max_recv_wr,
        send_pieces: cap.max_send_sge,
        receive_pieces: cap.max_recv_sge,
        inline_bytes: cap.max_inline_data,
    }
}

pub(crate) fn capabilities_to_c(capabilities: &Capabilities) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: capabilities.send_requests,
        max_recv_wr: capabilities.receive_requests,
        max_send_sge: capabilities.send_pieces,
        max_recv_sge: capabilities.receive_pieces,
        max_inline_data: capabilities.inline_bytes,
    }
}

/// What `ibv_modify_qp(3)` asks for. Members the mask does not name may hold anything and are not judged.
/// Whether the move and its attributes are right is the engine's business; here only numbers that are none
/// are `EINVAL`.
pub(crate) fn modify_request(
    attr: &ibv_qp_attr,
    mask: c_int,
) -> Result<(QpAttributes, AttributeMask), Errno> {
    use AttributeMask as A;
    let mask = A(mask as u32);
    let state_of = |bit: A, number: c_int| -> Result<QpState, Errno> {
        if !mask.has(bit) {
            return Ok(QpState::Reset);
        }
        u32::try_from(number).ok().and_then(QpState::from_number).ok_or(Errno::EINVAL)
    };
    let path_mtu = if mask.has(A::PATH_MTU) {
        u32::try_from(attr.path_mtu).ok().filter(|mtu| (1..=5).contains(mtu)).ok_or(Errno::EINVAL)?
    } else {
        0
    };
    let access =
        if mask.has(A::ACCESS_FLAGS) { queue_pair_access(attr.qp_access_flags)? } else { Default::default() };
    let attributes = QpAttributes {
        state: state_of(A::STATE, attr.qp_state)?,
        current_state: state_of(A::CURRENT_STATE, attr.cur_qp_state)?,
        path_mtu,
        path_migration_state: attr.path_mig_state as u32,
        q_key: attr.qkey,
        receive_psn: attr.rq_psn,
        send_psn: attr.sq_psn,
        destination_qp: QpNumber(attr.dest_qp_num),
        access,
        address_vector: mask.has(A::ADDRESS_VECTOR).then(|| to_vector(&attr.ah_attr)),
        pkey_index: attr.pkey_index,
        drained_notify: attr.en_sqd_async_notify != 0,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port: attr.port_num,
        timeout: attr.timeout,
        retry_count: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
    };
    Ok((attributes, mask))
}

/// What `ibv_query_qp(3)` answers: everything, whatever was asked for, as the manual page allows.
pub fn query_answer(attributes: &QpAttributes, capabilities: &Capabilities) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: attributes.state as c_int,
        cur_qp_state: attributes.state as c_int,
        path_mtu: int(attributes.path_mtu),
        path_mig_state: int(attributes.path_migration_state),
        qkey: attributes.q_key,
        rq_psn: attributes.receive_psn,
        sq_psn: attributes.send_psn,
        dest_qp_num: attributes.destination_qp.0,
        qp_access_flags: access_flags(attributes.access),
        cap: capabilities_to_c(capabilities),
        ah_attr: from_vector(attributes.address_vector.as_ref()),
        alt_ah_attr: from_vector(None),
        pkey_index: attributes.pkey_index,
        alt_pkey_index: 0,
        en_sqd_async_notify: u8::from(attributes.drained_notify),
        sq_draining: 0,
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: attributes.port,
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_count,
        rnr_retry: attributes.rnr_retry,
        alt_port_num: 0,
        alt_timeout: 0,
        rate_limit: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> ibv_qp_attr {
        query_answer(&QpAttributes::default(), &Capabilities::default())
    }

    #[test]
    fn members_outside_the_mask_are_not_judged() {
        let mut attr = blank();
        attr.qp_state = 77;
        attr.path_mtu = -3;
        attr.qp_access_flags = u32::MAX;
        let (attributes, mask) = modify_request(&attr, 0).expect("nothing was asked for");
        assert_eq!(mask, AttributeMask(0));
        assert_eq!(attributes.address_vector, None);
        assert_eq!(modify_request(&attr, AttributeMask::STATE.0 as c_int).err(), Some(Errno::EINVAL));
        assert_eq!(modify_request(&attr, AttributeMask::PATH_MTU.0 as c_int).err(), Some(Errno::EINVAL));
        assert_eq!(modify_request(&attr, AttributeMask::ACCESS_FLAGS.0 as c_int).err(), Some(Errno::EINVAL));
    }

    #[test]
    fn each_type_has_its_operations() {
        use QpType::{ReliableConnection as Rc, UnreliableConnection as Uc, UnreliableDatagram as Ud};
        assert_eq!(send_operations(0, Ud), Ok(0));
        assert_eq!(send_operations(0x1bff, Rc), Ok(0x1bff));
        assert_eq!(send_operations(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_RDMA_WRITE, Uc), Ok(0x101));
        let refused = [
            (IBV_QP_EX_WITH_TSO, Rc),
            (IBV_QP_EX_WITH_FLUSH, Uc),
            (IBV_QP_EX_WITH_FLUSH, Ud),
            (IBV_QP_EX_WITH_ATOMIC_WRITE, Uc),
            (IBV_QP_EX_WITH_RDMA_READ, Uc),
            (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE, Ud),
        ];
        for (flags, transport) in refused {
            assert_eq!(send_operations(flags, transport), Err(Errno::EOPNOTSUPP));
        }
        assert_eq!(send_operations(1 << 40 | IBV_QP_EX_WITH_TSO, Rc), Err(Errno::EINVAL));
    }

    #[test]
    fn a_known_type_that_is_missing_differs_from_an_unknown_one() {
        assert_eq!(transport_from_c(IBV_QPT_RC), Ok(QpType::ReliableConnection));
        assert_eq!(transport_from_c(IBV_QPT_XRC_SEND), Ok(QpType::ExtendedSend));
        assert_eq!(transport_from_c(IBV_QPT_XRC_RECV), Ok(QpType::ExtendedReceive));
        assert_eq!(transport_from_c(IBV_QPT_DRIVER), Err(Errno::EOPNOTSUPP));
        assert_eq!(transport_from_c(IBV_QPT_RAW_PACKET), Err(Errno::EOPNOTSUPP));
        assert_eq!(transport_from_c(0), Err(Errno::EINVAL));
        assert_eq!(transport_from_c(77), Err(Errno::EINVAL));
    }
}

//! Attributes in the kernel's format to the program's and back: the connection manager's library reads them
//! from its own device and asks this library to translate. No object is involved.

use core::ffi::c_int;

use crate::abi::{
    ib_user_path_rec, ib_uverbs_ah_attr, ib_uverbs_qp_attr, ibv_ah_attr, ibv_gid, ibv_global_route,
    ibv_qp_attr, ibv_qp_cap, ibv_sa_path_rec,
};

versions! {
    nonic_ibv_copy_ah_attr_from_kern => "ibv_copy_ah_attr_from_kern@@IBVERBS_1.1";
    nonic_ibv_copy_qp_attr_from_kern => "ibv_copy_qp_attr_from_kern@@IBVERBS_1.0";
    nonic_ibv_copy_path_rec_from_kern => "ibv_copy_path_rec_from_kern@@IBVERBS_1.0";
    nonic_ibv_copy_path_rec_to_kern => "ibv_copy_path_rec_to_kern@@IBVERBS_1.0";
}

fn address_from_kernel(from: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: from.grh.dgid },
            flow_label: from.grh.flow_label,
            sgid_index: from.grh.sgid_index,
            hop_limit: from.grh.hop_limit,
            traffic_class: from.grh.traffic_class,
        },
        dlid: from.dlid,
        sl: from.sl,
        src_path_bits: from.src_path_bits,
        static_rate: from.static_rate,
        is_global: from.is_global,
        port_num: from.port_num,
    }
}

/// A path in the kernel's words to the program's.
///
/// # Safety
/// `to` is writable, `from` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_copy_ah_attr_from_kern(
    to: *mut ibv_ah_attr,
    from: *const ib_uverbs_ah_attr,
) {
    // SAFETY: the caller's promise.
    unsafe { to.write(address_from_kernel(&from.read())) };
}

/// Queue pair attributes in the kernel's words to the program's.
///
/// # Safety
/// `to` is writable, `from` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_copy_qp_attr_from_kern(
    to: *mut ibv_qp_attr,
    from: *const ib_uverbs_qp_attr,
) {
    // SAFETY: the caller's promise.
    let from = unsafe { from.read() };
    let attributes = ibv_qp_attr {
        qp_state: from.qp_state as c_int,
        cur_qp_state: from.cur_qp_state as c_int,
        path_mtu: from.path_mtu as c_int,
        path_mig_state: from.path_mig_state as c_int,
        qkey: from.qkey,
        rq_psn: from.rq_psn,
        sq_psn: from.sq_psn,
        dest_qp_num: from.dest_qp_num,
        qp_access_flags: from.qp_access_flags,
        cap: ibv_qp_cap {
            max_send_wr: from.max_send_wr,
            max_recv_wr: from.max_recv_wr,
            max_send_sge: from.max_send_sge,
            max_recv_sge: from.max_recv_sge,
            max_inline_data: from.max_inline_data,
        },
        ah_attr: address_from_kernel(&from.ah_attr),
        alt_ah_attr: address_from_kernel(&from.alt_ah_attr),
        pkey_index: from.pkey_index,
        alt_pkey_index: from.alt_pkey_index,
        en_sqd_async_notify: from.en_sqd_async_notify,
        sq_draining: from.sq_draining,
        max_rd_atomic: from.max_rd_atomic,
        max_dest_rd_atomic: from.max_dest_rd_atomic,
        min_rnr_timer: from.min_rnr_timer,
        port_num: from.port_num,
        timeout: from.timeout,
        retry_cnt: from.retry_cnt,
        rnr_retry: from.rnr_retry,
        alt_port_num: from.alt_port_num,
        alt_timeout: from.alt_timeout,
        rate_limit: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { to.write(attributes) };
}

/// A path record in the kernel's words to the program's.
///
/// # Safety
/// `to` is writable, `from` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_copy_path_rec_from_kern(
    to: *mut ibv_sa_path_rec,
    from: *const ib_user_path_rec,
) {
    // SAFETY: the caller's promise.
    let from = unsafe { from.read() };
    let record = ibv_sa_path_rec {
        dgid: ibv_gid { raw: from.dgid },
        sgid: ibv_gid { raw: from.sgid },
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic as c_int,
        flow_label: from.flow_label,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        reversible: from.reversible as c_int,
        numb_path: from.numb_path,
        pkey: from.pkey,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        mtu: from.mtu as u8,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    };
    // SAFETY: the caller's promise.
    unsafe { to.write(record) };
}

/// A path record in the program's words to the kernel's.
///
/// # Safety
/// `to` is writable, `from` readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_copy_path_rec_to_kern(
    to: *mut ib_user_path_rec,
    from: *const ibv_sa_path_rec,
) {
    // SAFETY: the caller's promise.
    let from = unsafe { from.read() };
    let record = ib_user_path_rec {
        dgid: from.dgid.raw,
        sgid: from.sgid.raw,
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic as u32,
        flow_label: from.flow_label,
        reversible: from.reversible as u32,
        mtu: from.mtu.into(),
        pkey: from.pkey,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        numb_path: from.numb_path,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    };
    // SAFETY: the caller's promise.
    unsafe { to.write(record) };
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;

    #[test]
    fn a_path_record_survives_the_way_there_and_back() {
        let bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
        // SAFETY: the record is plain numbers of 64 bytes altogether.
        let mut kernel: ib_user_path_rec = unsafe { core::mem::transmute(bytes) };
        kernel.mtu = 5;
        let mut program = MaybeUninit::<ibv_sa_path_rec>::uninit();
        let mut back = kernel;
        back.mtu = 0;
        back.preference = 0;
        // SAFETY: all three are complete and writable.
        unsafe {
            nonic_ibv_copy_path_rec_from_kern(program.as_mut_ptr(), &kernel);
            nonic_ibv_copy_path_rec_to_kern(&mut back, program.as_ptr());
        }
        assert_eq!((back.mtu, back.preference, back.pkey), (5, 63, kernel.pkey));
        assert_eq!((back.dgid, back.flow_label, back.sl), (kernel.dgid, kernel.flow_label, kernel.sl));
    }
}

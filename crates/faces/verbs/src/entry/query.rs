//! What a device and its port are and can.

use core::ffi::c_int;

use nonic_device::{Context, raw_clock_ns};

use super::device::text;
use super::gid::{PORT, copy_sized};
use super::paging;
use crate::abi::{
    IB_UVERBS_DEVICE_ATOMIC_WRITE, IB_UVERBS_DEVICE_FLUSH_GLOBAL, IBV_ATOMIC_GLOB, IBV_DEVICE_BAD_QKEY_CNTR,
    IBV_DEVICE_CURR_QP_STATE_MOD, IBV_DEVICE_MEM_MGT_EXTENSIONS, IBV_DEVICE_MEM_WINDOW,
    IBV_DEVICE_MEM_WINDOW_TYPE_2B, IBV_DEVICE_PORT_ACTIVE_EVENT, IBV_DEVICE_RC_RNR_NAK_GEN,
    IBV_DEVICE_SRQ_RESIZE, IBV_DEVICE_SYS_IMAGE_GUID, IBV_DEVICE_XRC, IBV_VALUES_MASK_RAW_CLOCK, ibv_context,
    ibv_cq_moderation_caps, ibv_device_attr, ibv_device_attr_ex, ibv_packet_pacing_caps, ibv_pci_atomic_caps,
    ibv_port_attr, ibv_port_attr_short, ibv_query_device_ex_input, ibv_rss_caps, ibv_tm_caps, ibv_tso_caps,
    ibv_values_ex,
};
use crate::convert::int;
use crate::errno::Errno;
use crate::guard;
use crate::identity::{FIRMWARE, HARDWARE, PART, VENDOR, port_attributes};
use crate::objects::working;

versions! {
    nonic_ibv_query_device => "ibv_query_device@@IBVERBS_1.1";
    nonic_ibv_query_port => "ibv_query_port@@IBVERBS_1.1";
    nonic_ibv_query_port_speed => "ibv_query_port_speed@@IBVERBS_1.16";
}

/// Any page size from 4 KiB up: nothing depends on one.
const PAGE_SIZES: u64 = 0xffff_f000;

/// Exponent of the longest time an answer takes, 4.096 µs · 2^15: an agent thread of a busy process may sleep
/// that long.
const ACK_DELAY: u8 = 15;

/// Four lanes of 25 Gb/s ([`crate::abi::LINK_WIDTH_4X`], [`crate::abi::LINK_SPEED_EDR`]), in units of 100 Mb/s.
const PORT_SPEED: u64 = 4 * 250;

/// The device's clock counts nanoseconds.
const CLOCK_KHZ: u64 = 1_000_000;

/// The bits of a time by that clock: those that `tv_nsec` of [`query_rt_values`] can show.
const CLOCK_MASK: u64 = i64::MAX as u64;

fn device_attributes(context: &Context) -> ibv_device_attr {
    let limits = context.limits();
    let guid = context.device().guid().to_be();
    let per_queue_pair = int(limits.read_atomic_per_queue_pair);
    ibv_device_attr {
        fw_ver: text(FIRMWARE),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: limits.region_bytes,
        page_size_cap: PAGE_SIZES,
        vendor_id: VENDOR,
        vendor_part_id: PART,
        hw_ver: HARDWARE,
        max_qp: int(limits.queue_pairs),
        max_qp_wr: int(limits.work_requests),
        device_cap_flags: IBV_DEVICE_BAD_QKEY_CNTR
            | IBV_DEVICE_CURR_QP_STATE_MOD
            | IBV_DEVICE_PORT_ACTIVE_EVENT
            | IBV_DEVICE_SYS_IMAGE_GUID
            | IBV_DEVICE_RC_RNR_NAK_GEN
            | IBV_DEVICE_SRQ_RESIZE
            | IBV_DEVICE_MEM_WINDOW
            | IBV_DEVICE_XRC
            | IBV_DEVICE_MEM_MGT_EXTENSIONS
            | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
        max_sge: int(limits.pieces),
        max_sge_rd: int(limits.pieces),
        max_cq: int(limits.completion_queues),
        max_cqe: int(limits.completion_entries),
        max_mr: int(limits.regions),
        max_pd: int(limits.zones),
        max_qp_rd_atom: per_queue_pair,
        max_ee_rd_atom: 0,
        max_res_rd_atom: int(u64::from(limits.read_atomic_per_queue_pair) * u64::from(limits.queue_pairs)),
        max_qp_init_rd_atom: per_queue_pair,
        max_ee_init_rd_atom: 0,
        atomic_cap: IBV_ATOMIC_GLOB,
        max_ee: 0,
        max_rdd: 0,
        max_mw: int(limits.windows),
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: int(limits.groups),
        max_mcast_qp_attach: int(limits.group_members),
        max_total_mcast_qp_attach: int(limits.groups * limits.group_members),
        max_ah: int(limits.address_handles),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: int(limits.shared_receive_queues),
        max_srq_wr: int(limits.shared_receive_requests),
        max_srq_sge: int(limits.pieces),
        max_pkeys: context.port().pkey_count,
        local_ca_ack_delay: ACK_DELAY,
        phys_port_cnt: PORT as u8,
    }
}

fn extended_attributes(context: &Context) -> ibv_device_attr_ex {
    let orig_attr = device_attributes(context);
    let (odp_caps, xrc_odp_caps) = paging::capabilities();
    ibv_device_attr_ex {
        orig_attr,
        comp_mask: 0,
        odp_caps,
        completion_timestamp_mask: CLOCK_MASK,
        hca_core_clock: CLOCK_KHZ,
        device_cap_flags_ex: u64::from(orig_attr.device_cap_flags)
            | IB_UVERBS_DEVICE_ATOMIC_WRITE
            | IB_UVERBS_DEVICE_FLUSH_GLOBAL,
        tso_caps: ibv_tso_caps { max_tso: 0, supported_qpts: 0 },
        rss_caps: ibv_rss_caps {
            supported_qpts: 0,
            max_rwq_indirection_tables: 0,
            max_rwq_indirection_table_size: 0,
            rx_hash_fields_mask: 0,
            rx_hash_function: 0,
        },
        max_wq_type_rq: 0,
        packet_pacing_caps: ibv_packet_pacing_caps {
            qp_rate_limit_min: 0,
            qp_rate_limit_max: 0,
            supported_qpts: 0,
        },
        raw_packet_caps: 0,
        tm_caps: ibv_tm_caps { max_rndv_hdr_size: 0, max_num_tags: 0, flags: 0, max_ops: 0, max_sge: 0 },
        cq_mod_caps: ibv_cq_moderation_caps { max_cq_count: u16::MAX, max_cq_period: u16::MAX },
        max_dm_size: context.limits().device_memory_bytes,
        pci_atomic_caps: ibv_pci_atomic_caps { fetch_add: 0, swap: 0, compare_swap: 0 },
        xrc_odp_caps,
        phys_port_cnt_ex: PORT,
    }
}

fn port_of(context: *mut ibv_context, port: u8) -> Result<ibv_port_attr, Errno> {
    let engine = working(context)?;
    if u32::from(port) == PORT { Ok(port_attributes(&engine.port())) } else { Err(Errno::EINVAL) }
}

/// `ibv_query_device(3)`: 0, `EINVAL` (not an open device).
///
/// # Safety
/// `attr` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { query_device(context, attr) }
}

/// [`nonic_ibv_query_device`] as the oldest programs find it, through the table of operations.
///
/// # Safety
/// `attr` is writable.
pub(crate) unsafe extern "C" fn query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    guard::status(|| {
        let attributes = device_attributes(&*working(context)?);
        // SAFETY: the caller's place is writable.
        unsafe { attr.write(attributes) };
        Ok(())
    })
}

/// `ibv_query_device_ex(3)`: 0, `EINVAL` (not an open device, input bits that have no meaning, or too little
/// room for the plain attributes).
///
/// # Safety
/// `input` is NULL or readable; `attr` is writable for `size` bytes.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    guard::status(|| {
        let engine = working(context)?;
        // SAFETY: not NULL, so readable.
        let asked = if input.is_null() { 0 } else { unsafe { (*input).comp_mask } };
        if asked != 0 || size < core::mem::offset_of!(ibv_device_attr_ex, odp_caps) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller's place has that size.
        unsafe { copy_sized(&extended_attributes(&engine), attr, size) };
        Ok(())
    })
}

/// `ibv_query_rt_values_ex(3)`: 0, `EINVAL` (not an open device, or bits that have no meaning). The clock is the one of completion
/// timestamps, and all of it stands in `tv_nsec`, as with the cards that have one.
///
/// # Safety
/// `values` is readable and writable.
pub(crate) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    guard::status(|| {
        working(context)?;
        // SAFETY: the caller's structure is readable.
        let asked = unsafe { (*values).comp_mask };
        if asked & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno::EINVAL);
        }
        if asked & IBV_VALUES_MASK_RAW_CLOCK != 0 {
            let clock = (raw_clock_ns() & CLOCK_MASK) as libc::c_long;
            // SAFETY: the caller's structure is writable.
            unsafe { (*values).raw_clock = libc::timespec { tv_sec: 0, tv_nsec: clock } };
        }
        Ok(())
    })
}

/// `ibv_query_port_speed(3)`: 0, and the speed that width and speed of the port say, in 100 Mb/s; `EINVAL` (not an open device, or no
/// such port).
///
/// # Safety
/// `speed` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    guard::status(|| {
        port_of(context, u8::try_from(port).map_err(|_| Errno::EINVAL)?)?;
        // SAFETY: the caller's place is writable.
        unsafe { speed.write(PORT_SPEED) };
        Ok(())
    })
}

/// The exported `ibv_query_port`, for programs compiled before the header looked for `query_port` itself: 0,
/// `EINVAL` (not an open device, or no such port).
///
/// # Safety
/// `attr` is writable for the older, shorter structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nonic_ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr_short,
) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { query_port_short(context, port, attr) }
}

/// [`nonic_ibv_query_port`] as the oldest programs find it, through the table of operations.
///
/// # Safety
/// `attr` is writable for the older, shorter structure.
pub(crate) unsafe extern "C" fn query_port_short(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr_short,
) -> c_int {
    // SAFETY: the longer structure begins as the shorter one, and no more than that is written.
    unsafe { query_port(context, port, attr.cast(), size_of::<ibv_port_attr_short>()) }
}

/// `ibv_query_port(3)`: 0, `EINVAL` (not an open device, or no such port).
///
/// # Safety
/// `attr` is writable for `size` bytes.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    guard::status(|| {
        let attributes = port_of(context, port)?;
        // SAFETY: the caller's place has that size.
        unsafe { copy_sized(&attributes, attr, size) };
        Ok(())
    })
}

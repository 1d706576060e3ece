//! The layouts of `abi` against the header of the distribution, by a C program that prints what the compiler
//! says.

use std::fmt::Write as _;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use nonic_verbs::abi::*;

/// The header the face copies.
const HEADER: &str = "/usr/include/infiniband/verbs.h";

/// One structure: its C name, our size, and our offset of each C field.
struct Layout {
    name: &'static str,
    size: usize,
    fields: Vec<(&'static str, usize)>,
}

/// Lists structures for comparison. `field` is called the same in C, `field as "c.name"` is not.
macro_rules! layouts {
    ($($name:ident { $($field:ident $(as $c:literal)?),* $(,)? })+) => {
        vec![$(Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            fields: vec![$((layouts!(@name $field $($c)?), offset_of!($name, $field))),*],
        }),+]
    };
    (@name $field:ident) => { stringify!($field).trim_start_matches("r#") };
    (@name $field:ident $c:literal) => { $c };
}

/// `header` is what the compiler reads: an older one ends `ibv_qp_ex` before the call for FLUSH. Only the library makes those.
fn ours(header: &str) -> Vec<Layout> {
    let mut layouts = every_structure();
    if !header.contains("(*wr_flush)") {
        let extended = layouts.iter_mut().find(|layout| layout.name == "ibv_qp_ex").expect("it is listed");
        extended.size = offset_of!(ibv_qp_ex, wr_flush);
    }
    layouts
}

fn every_structure() -> Vec<Layout> {
    layouts! {
        ibv_device { _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ibv_device_attr {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp,
            max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom,
            max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd,
            max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach,
            max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay,
            phys_port_cnt,
        }
        ibv_device_attr_ex {
            orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock, device_cap_flags_ex, tso_caps,
            rss_caps, max_wq_type_rq, packet_pacing_caps, raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size,
            pci_atomic_caps, xrc_odp_caps, phys_port_cnt_ex,
        }
        ibv_odp_caps {
            general_caps, rc_odp_caps as "per_transport_caps.rc_odp_caps",
            uc_odp_caps as "per_transport_caps.uc_odp_caps", ud_odp_caps as "per_transport_caps.ud_odp_caps",
        }
        ibv_tso_caps { max_tso, supported_qpts }
        ibv_rss_caps {
            supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size, rx_hash_fields_mask,
            rx_hash_function,
        }
        ibv_counters_init_attr { comp_mask }
        ibv_counters { context }
        ibv_counter_attach_attr { counter_desc, index, comp_mask }
        ibv_packet_pacing_caps { qp_rate_limit_min, qp_rate_limit_max, supported_qpts }
        ibv_tm_caps { max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge }
        ibv_cq_moderation_caps { max_cq_count, max_cq_period }
        ibv_pci_atomic_caps { fetch_add, swap, compare_swap }
        ibv_query_device_ex_input { comp_mask }
        ibv_port_attr {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr,
            pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width,
            active_speed, phys_state, link_layer, flags, port_cap_flags2,
        }
        ibv_context_ops {
            _compat_query_device, _compat_query_port, _compat_alloc_pd, _compat_dealloc_pd, _compat_reg_mr,
            _compat_rereg_mr, _compat_dereg_mr, alloc_mw, bind_mw, dealloc_mw, _compat_create_cq, poll_cq,
            req_notify_cq, _compat_cq_event, _compat_resize_cq, _compat_destroy_cq, _compat_create_srq,
            _compat_modify_srq, _compat_query_srq, _compat_destroy_srq, post_srq_recv, _compat_create_qp,
            _compat_query_qp, _compat_modify_qp, _compat_destroy_qp, post_send, post_recv, _compat_create_ah,
            _compat_destroy_ah, _compat_attach_mcast, _compat_detach_mcast, _compat_async_event,
        }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        verbs_context {
            query_port, advise_mr, alloc_null_mr, read_counters, attach_counters_point_flow, create_counters,
            destroy_counters, reg_dm_mr, alloc_dm, free_dm, modify_flow_action_esp, destroy_flow_action,
            create_flow_action_esp, modify_qp_rate_limit, alloc_parent_domain, dealloc_td, alloc_td, modify_cq,
            post_srq_ops, destroy_rwq_ind_table, create_rwq_ind_table, destroy_wq, modify_wq, create_wq,
            query_rt_values, create_cq_ex, r#priv, query_device_ex, ibv_destroy_flow, ABI_placeholder2,
            ibv_create_flow, ABI_placeholder1, open_qp, create_qp_ex, get_srq_num, create_srq_ex, open_xrcd,
            close_xrcd, _ABI_placeholder3, sz, context,
        }
        ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        ibv_ah { context, pd, handle }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_grh { version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid }
        ibv_pd { context, handle }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_td_init_attr { comp_mask }
        ibv_td { context }
        ibv_parent_domain_init_attr { pd, td, comp_mask, alloc, free, pd_context }
        ibv_mw { context, pd, rkey, handle, r#type }
        ibv_mw_bind_info { mr, addr, length, mw_access_flags }
        ibv_mw_bind { wr_id, send_flags, bind_info }
        ibv_alloc_dm_attr { length, log_align_req, comp_mask }
        ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask, handle }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq {
            context, channel, cq_context, handle, cqe, synchronization as "mutex", comp_events_completed,
            async_events_completed,
        }
        ibv_cq_ex {
            base as "context", comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode, read_vendor_err,
            read_byte_len, read_imm_data, read_qp_num, read_src_qp, read_wc_flags, read_slid, read_sl,
            read_dlid_path_bits, read_completion_ts, read_cvlan, read_flow_tag, read_tm_info,
            read_completion_wallclock_ns,
        }
        ibv_cq_init_attr_ex { cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain }
        ibv_poll_cq_attr { comp_mask }
        ibv_moderate_cq { cq_count, cq_period }
        ibv_modify_cq_attr { attr_mask, moderate }
        ibv_values_ex { comp_mask, raw_clock }
        ibv_wc_tm_info { tag, r#priv }
        ibv_wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl,
            dlid_path_bits,
        }
        ibv_async_event { element, event_type }
        ibv_srq { context, srq_context, pd, handle, synchronization as "mutex", events_completed }
        ibv_srq_attr { max_wr, max_sge, srq_limit }
        ibv_srq_init_attr { srq_context, attr }
        ibv_srq_init_attr_ex { srq_context, attr, comp_mask, srq_type, pd, xrcd, cq, tm_cap }
        ibv_xrcd { context }
        ibv_xrcd_init_attr { comp_mask, fd, oflags }
        ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context, qp_type }
        ibv_tm_cap { max_num_tags, max_ops }
        ibv_wq {
            context, wq_context, pd, cq, wq_num, handle, state, wq_type, post_recv, synchronization as "mutex",
            events_completed, comp_mask,
        }
        ibv_qp {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type,
            synchronization as "mutex", events_completed,
        }
        ibv_qp_ex {
            qp_base, comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw, wr_local_inv,
            wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm, wr_send_inv, wr_send_tso,
            wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge,
            wr_set_sge_list, wr_start, wr_complete, wr_abort, wr_atomic_write,
        }
        ibv_data_buf { addr, length }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_qp_init_attr_ex {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags,
            max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags,
        }
        ibv_rx_hash_conf { rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask }
        ibv_qp_attr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap,
            ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
            max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
            rate_limit,
        }
        ibv_ece { vendor_id, options, comp_mask }
        ibv_sge { addr, length, lkey }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_send_wr {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr, remote_srqn as "qp_type.xrc.remote_srqn",
            last as "bind_mw",
        }
        ib_uverbs_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class, reserved }
        ib_uverbs_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num, reserved }
        ib_uverbs_qp_attr {
            qp_attr_mask, qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
            qp_access_flags, ah_attr, alt_ah_attr, max_send_wr, max_recv_wr, max_send_sge, max_recv_sge,
            max_inline_data, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
            max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
            reserved,
        }
        ib_user_path_rec {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, reversible, mtu, pkey, hop_limit, traffic_class, numb_path,
            sl, mtu_selector, rate_selector, rate, packet_life_time_selector, packet_life_time, preference,
        }
        ibv_sa_path_rec {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible, numb_path, pkey, sl,
            mtu_selector, mtu, rate_selector, rate, packet_life_time_selector, packet_life_time, preference,
        }
    }
}

/// A C program that prints `name size` and `name.field offset` for each of them.
fn program(layouts: &[Layout]) -> String {
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n\
         #include <rdma/ib_user_verbs.h>\n#include <rdma/ib_user_sa.h>\nint main(void) {\n",
    );
    for Layout { name, fields, .. } in layouts {
        let _ = writeln!(source, "printf(\"{name} %zu\\n\", sizeof(struct {name}));");
        for (field, _) in fields {
            let _ = writeln!(source, "printf(\"{name}.{field} %zu\\n\", offsetof(struct {name}, {field}));");
        }
    }
    source.push_str("return 0;\n}\n");
    source
}

fn expected(layouts: &[Layout]) -> String {
    let mut lines = String::new();
    for Layout { name, size, fields } in layouts {
        let _ = writeln!(lines, "{name} {size}");
        for (field, offset) in fields {
            let _ = writeln!(lines, "{name}.{field} {offset}");
        }
    }
    lines
}

#[test]
fn every_structure_is_laid_out_as_the_distributions_header_says() {
    if !Path::new(HEADER).exists() {
        println!(
            "SKIPPED: {HEADER} is not installed, there is nothing to compare with (package libibverbs-dev)"
        );
        return;
    }
    let layouts = ours(&fs::read_to_string(HEADER).expect("the header is text"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    fs::write(&source, program(&layouts)).expect("the source can be written");
    let compiled =
        Command::new("cc").arg(&source).arg("-o").arg(&binary).status().expect("there is a C compiler");
    assert!(compiled.success(), "{} does not compile", source.display());
    let output = Command::new(&binary).output().expect("the program runs");
    let theirs = String::from_utf8(output.stdout).expect("it prints text");
    let ours = expected(&layouts);
    let different: Vec<_> =
        ours.lines().zip(theirs.lines()).filter(|(ours, theirs)| ours != theirs).collect();
    assert_eq!(different, [], "(ours, theirs)");
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

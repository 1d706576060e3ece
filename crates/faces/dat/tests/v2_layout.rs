//! The layouts of `v2::abi`, and the numbers that 2.0 has otherwise than 1.2, against the header of the distribution, by a C
//! program that prints what the compiler says.

use std::fmt::Write as _;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use nonic_dat_face::layouts::*;
use nonic_dat_face::v2::abi::*;

/// The header the face copies.
const HEADER: &str = "/usr/include/dat2/udat.h";

/// One structure: its C name, our size, and our offset of each C field.
struct Layout {
    name: &'static str,
    size: usize,
    fields: Vec<(&'static str, usize)>,
}

/// Lists structures for comparison. `field` is called the same in C, `field as "c.name"` is not.
macro_rules! layouts {
    ($($ours:ty, $name:literal { $($field:ident $(as $c:literal)?),* $(,)? })+) => {
        vec![$(Layout {
            name: $name,
            size: size_of::<$ours>(),
            fields: vec![$((layouts!(@name $field $($c)?), offset_of!($ours, $field))),*],
        }),+]
    };
    (@name $field:ident) => { stringify!($field).trim_start_matches("r#") };
    (@name $field:ident $c:literal) => { $c };
}

fn ours() -> Vec<Layout> {
    layouts! {
        LmrTriplet, "DAT_LMR_TRIPLET" { virtual_address, segment_length, lmr_context }
        RmrTriplet, "DAT_RMR_TRIPLET" { virtual_address, segment_length, rmr_context }
        Comm, "DAT_COMM" { domain, r#type, protocol }
        Event, "DAT_EVENT" { event_number, evd_handle, event_data, event_extension_data }
        EventData, "DAT_EVENT_DATA" {}
        DtoCompletion, "DAT_DTO_COMPLETION_EVENT_DATA" {
            ep_handle, user_cookie, status, transfered_length, operation, rmr_context,
        }
        BindEvent, "DAT_RMR_BIND_COMPLETION_EVENT_DATA" { rmr_handle, user_cookie, status }
        RequestArrival, "DAT_CR_ARRIVAL_EVENT_DATA" {
            sp_handle, local_ia_address_ptr, conn_qual, cr_handle, truncate_flag,
        }
        ConnectionEventData, "DAT_CONNECTION_EVENT_DATA" { ep_handle, private_data_size, private_data }
        AsyncEvent, "DAT_ASYNCH_ERROR_EVENT_DATA" { dat_handle, reason }
        SoftwareEvent, "DAT_SOFTWARE_EVENT_DATA" { pointer }
        ExtensionData, "DAT_IB_EXTENSION_EVENT_DATA" { r#type, status, immediate as "val.immed.data", context }
        NamedAttribute, "DAT_NAMED_ATTR" { name, value }
        RegionDescription, "DAT_REGION_DESCRIPTION" { address as "for_shared_memory.virtual_address",
            shared_memory_id as "for_shared_memory.shared_memory_id" }
        ProxyAgent, "DAT_OS_WAIT_PROXY_AGENT" { instance_data, function as "proxy_agent_func" }
        EpAttr, "DAT_EP_ATTR" {
            service_type, max_message_size, max_rdma_size, qos, recv_completion_flags, request_completion_flags,
            max_recv_dtos, max_request_dtos, max_recv_iov, max_request_iov, max_rdma_read_in, max_rdma_read_out,
            srq_soft_hw, max_rdma_read_iov, max_rdma_write_iov, ep_transport_specific_count, ep_transport_specific,
            ep_provider_specific_count, ep_provider_specific,
        }
        EpParam, "DAT_EP_PARAM" {
            ia_handle, ep_state, comm, local_ia_address_ptr, local_port_qual, remote_ia_address_ptr, remote_port_qual,
            pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle, srq_handle, ep_attr,
        }
        LmrParam, "DAT_LMR_PARAM" {
            ia_handle, mem_type, region_desc, length, pz_handle, mem_priv, va_type, lmr_context, rmr_context,
            registered_size, registered_address,
        }
        RmrParam, "DAT_RMR_PARAM" {
            ia_handle, pz_handle, lmr_triplet, mem_priv, rmr_context, rmr_scope, va_type,
        }
        CnoParam, "DAT_CNO_PARAM" { ia_handle, proxy_type, proxy }
        CspParam, "DAT_CSP_PARAM" { ia_handle, comm, address_ptr, evd_handle }
        EvdParam, "DAT_EVD_PARAM" { ia_handle, evd_qlen, evd_state, cno_handle, evd_flags }
        PzParam, "DAT_PZ_PARAM" { ia_handle }
        CrParam, "DAT_CR_PARAM" {
            remote_ia_address_ptr, remote_port_qual, private_data_size, private_data, local_ep_handle,
        }
        PspParam, "DAT_PSP_PARAM" { ia_handle, conn_qual, evd_handle, psp_flags }
        RspParam, "DAT_RSP_PARAM" { ia_handle, conn_qual, evd_handle, ep_handle }
        SrqAttributes, "DAT_SRQ_ATTR" { max_recv_dtos, max_recv_iov, low_watermark }
        SrqParam, "DAT_SRQ_PARAM" {
            ia_handle, srq_state, pz_handle, max_recv_dtos, max_recv_iov, low_watermark, available_dto_count,
            outstanding_dto_count,
        }
        IaAttr, "DAT_IA_ATTR" {
            adapter_name, vendor_name, hardware_version_major, hardware_version_minor, firmware_version_major,
            firmware_version_minor, ia_address_ptr, max_eps, max_dto_per_ep, max_rdma_read_per_ep_in,
            max_rdma_read_per_ep_out, max_evds, max_evd_qlen, max_iov_segments_per_dto, max_lmrs, max_lmr_block_size,
            max_lmr_virtual_address, max_pzs, max_message_size, max_rdma_size, max_rmrs, max_rmr_target_address, max_srqs,
            max_ep_per_srq, max_recv_per_srq, max_iov_segments_per_rdma_read, max_iov_segments_per_rdma_write,
            max_rdma_read_in, max_rdma_read_out, max_rdma_read_per_ep_in_guaranteed,
            max_rdma_read_per_ep_out_guaranteed, zb_supported, extension_supported, extension_version,
            num_transport_attr, transport_attr, num_vendor_attr, vendor_attr,
        }
        ProviderAttr, "DAT_PROVIDER_ATTR" {
            provider_name, provider_version_major, provider_version_minor, dapl_version_major, dapl_version_minor,
            lmr_mem_types_supported, iov_ownership_on_return, dat_qos_supported, completion_flags_supported,
            is_thread_safe, max_private_data_size, supports_multipath, ep_creator, pz_support, optimal_buffer_alignment,
            evd_stream_merging_supported, srq_supported, srq_watermarks_supported, srq_ep_pz_difference_supported,
            srq_info_supported, ep_recv_info_supported, lmr_sync_req, dto_async_return_guaranteed,
            rdma_write_for_rdma_read_req, rdma_read_lmr_rmr_context_exposure, rmr_scope_supported, is_signal_safe,
            ha_supported, ha_loadbalancing, num_provider_specific_attr, provider_specific_attr,
        }
        ProviderInfo, "DAT_PROVIDER_INFO" { ia_name, dapl_version_major, dapl_version_minor, is_thread_safe }
        Provider, "DAT_PROVIDER" {
            device_name, extension, ia_open as "ia_open_func", ia_close as "ia_close_func",
            get_handle_type as "get_handle_type_func", cno_wait as "cno_wait_func", cr_handoff as "cr_handoff_func",
            evd_wait as "evd_wait_func", evd_dequeue as "evd_dequeue_func", ep_connect as "ep_connect_func",
            ep_post_send as "ep_post_send_func", ep_free as "ep_free_func", lmr_create as "lmr_create_func",
            rmr_bind as "rmr_bind_func", psp_free as "psp_free_func", rsp_free as "rsp_free_func",
            pz_free as "pz_free_func", psp_create_any as "psp_create_any_func", ep_reset as "ep_reset_func",
            evd_set_unwaitable as "evd_set_unwaitable_func", lmr_sync_rdma_write as "lmr_sync_rdma_write_func",
            ep_set_watermark as "ep_set_watermark_func", srq_set_lw as "srq_set_lw_func",
            csp_create as "csp_create_func", ep_common_connect as "ep_common_connect_func",
            rmr_create_for_ep as "rmr_create_for_ep_func",
            ep_post_send_with_invalidate as "ep_post_send_with_invalidate_func",
            ep_post_rdma_read_to_rmr as "ep_post_rdma_read_to_rmr_func", cno_fd_create as "cno_fd_create_func",
            cno_trigger as "cno_trigger_func", ia_ha_related as "ia_ha_related_func",
            handle_extendedop as "handle_extendedop_func",
        }
    }
}

/// Numbers that the face has written out, by their C names.
fn numbers() -> Vec<(&'static str, u64)> {
    use nonic_dat_face::v2::numbers::*;
    vec![
        ("DAT_EP_FIELD_COMM", EP_FIELD_COMM),
        ("DAT_EP_FIELD_SRQ_HANDLE", EP_FIELD_SRQ_HANDLE),
        ("DAT_EP_FIELD_ALL", EP_FIELD_ALL),
        ("DAT_LMR_FIELD_ALL", LMR_FIELD_ALL.into()),
        ("DAT_RMR_FIELD_ALL", RMR_FIELD_ALL.into()),
        ("DAT_CNO_FIELD_IA_HANDLE | DAT_CNO_FIELD_PROXY | DAT_CNO_FIELD_ALL", CNO_FIELDS.into()),
        ("DAT_CSP_FIELD_ALL", CSP_FIELD_ALL.into()),
        ("DAT_IA_FIELD_ALL", IA_FIELD_ALL),
        ("DAT_PROVIDER_FIELD_ALL", PROVIDER_FIELD_ALL),
        ("DAT_SRQ_STATE_OPERATIONAL", SRQ_STATE_OPERATIONAL.into()),
        ("DAT_SRQ_STATE_ERROR", SRQ_STATE_ERROR.into()),
        ("DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG", COMPLETION_LMR_INVALIDATE_FENCE.into()),
        ("DAT_CONNECT_MULTIPATH_REQUIRED_FLAG", CONNECT_MULTIPATH_REQUIRED.into()),
        ("DAT_EVD_EXTENSION_BASE", EVD_EXTENSION.into()),
        ("DAT_IB_MEM_PRIV_REMOTE_ATOMIC", PRIVILEGE_REMOTE_ATOMIC.into()),
        ("DAT_VA_TYPE_ZB", VA_TYPE_ZB.into()),
        ("DAT_RMR_SCOPE_PZ", RMR_SCOPE_PZ.into()),
        ("DAT_PROXY_TYPE_AGENT", PROXY_TYPE_AGENT.into()),
        ("DAT_PROXY_TYPE_FD", PROXY_TYPE_FD.into()),
        ("DAT_EXTENSION_IB", EXTENSION_IB.into()),
        ("DAT_IB_EXTENSION_VERSION", EXTENSION_VERSION.into()),
        ("DAT_IB_DTO_EVENT", IB_DTO_EVENT.into()),
        ("DAT_IB_FETCH_AND_ADD_OP", OP_FETCH_AND_ADD.into()),
        ("DAT_IB_CMP_AND_SWAP_OP", OP_CMP_AND_SWAP.into()),
        ("DAT_IB_RDMA_WRITE_IMMED_OP", OP_RDMA_WRITE_IMMED.into()),
        ("DAT_IB_OPEN_QUERY_OP", OP_OPEN_QUERY.into()),
        ("DAT_IB_CLOSE_QUERY_OP", OP_CLOSE_QUERY.into()),
        ("DAT_IB_FETCH_AND_ADD", EXT_FETCH_AND_ADD.into()),
        ("DAT_IB_CMP_AND_SWAP", EXT_CMP_AND_SWAP.into()),
        ("DAT_IB_RDMA_WRITE_IMMED", EXT_RDMA_WRITE_IMMED.into()),
        ("DAT_IB_RDMA_WRITE_IMMED_DATA", EXT_RDMA_WRITE_IMMED_DATA.into()),
        ("DAT_IB_DTO_RDMA_WRITE_IMMED", DTO_RDMA_WRITE_IMMED.into()),
        ("DAT_IB_DTO_RECV_IMMED", DTO_RECV_IMMED.into()),
        ("DAT_IB_DTO_FETCH_ADD", DTO_FETCH_ADD.into()),
        ("DAT_IB_DTO_CMP_SWAP", DTO_CMP_SWAP.into()),
    ]
}

/// A C program that prints `name size` and `name.field offset` for each structure, then each number.
fn program(layouts: &[Layout]) -> String {
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <netinet/in.h>\n#include <dat2/udat.h>\n#include <dat2/dat_registry.h>\n\
         #include <dat2/dat_ib_extensions.h>\nint main(void) {\n",
    );
    for Layout { name, fields, .. } in layouts {
        let _ = writeln!(source, "printf(\"{name} %zu\\n\", sizeof({name}));");
        for (field, _) in fields {
            let _ = writeln!(source, "printf(\"{name}.{field} %zu\\n\", offsetof({name}, {field}));");
        }
    }
    for (name, _) in numbers() {
        let _ = writeln!(source, "printf(\"{name} %llu\\n\", (unsigned long long)({name}));");
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
    for (name, number) in numbers() {
        let _ = writeln!(lines, "{name} {number}");
    }
    lines
}

#[test]
fn every_structure_and_number_of_2_0_is_as_the_distributions_header_says() {
    if !Path::new(HEADER).exists() {
        println!(
            "SKIPPED: {HEADER} is not installed, there is nothing to compare with (package libdapl-dev)"
        );
        return;
    }
    let layouts = ours();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("v2_layout.c"), folder.join("v2_layout"));
    fs::write(&source, program(&layouts)).expect("the source can be written");
    let compiled = Command::new("cc")
        .arg("-DDAT_EXTENSIONS")
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .status()
        .expect("there is a C compiler");
    assert!(compiled.success(), "{} does not compile", source.display());
    let output = Command::new(&binary).output().expect("the program runs");
    let theirs = String::from_utf8(output.stdout).expect("it prints text");
    let ours = expected(&layouts);
    let different: Vec<_> =
        ours.lines().zip(theirs.lines()).filter(|(ours, theirs)| ours != theirs).collect();
    assert_eq!(different, [], "(ours, theirs)");
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

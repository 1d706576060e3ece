//! The headers of uDAPL 1.2: each compiles alone in every C and C++ that programs of its time and of today are written in, and
//! has every public name with its value, every structure with its layout, every call with its type.

mod header;
mod library;

use header::{compile, holds};

const HEADERS: [&str; 10] = [
    "udat.h",
    "dat.h",
    "dat_error.h",
    "dat_platform_specific.h",
    "udat_config.h",
    "dat_registry.h",
    "dat_redirection.h",
    "udat_redirection.h",
    "dat_vendor_specific.h",
    "udat_vendor_specific.h",
];

/// Names with a common beginning whose values are `first`, `first + step`, ...
const SEQUENCES: &[(&str, u64, u64, &str)] = &[
    (
        "DAT_",
        0,
        0x1_0000,
        "SUCCESS ABORT CONN_QUAL_IN_USE INSUFFICIENT_RESOURCES INTERNAL_ERROR INVALID_HANDLE INVALID_PARAMETER \
         INVALID_STATE LENGTH_ERROR MODEL_NOT_SUPPORTED PROVIDER_NOT_FOUND PRIVILEGES_VIOLATION PROTECTION_VIOLATION \
         QUEUE_EMPTY QUEUE_FULL TIMEOUT_EXPIRED PROVIDER_ALREADY_REGISTERED PROVIDER_IN_USE INVALID_ADDRESS \
         INTERRUPTED_CALL CONN_QUAL_UNAVAILABLE",
    ),
    ("DAT_", 0, 1, "NO_SUBTYPE SUB_INTERRUPTED"),
    (
        "DAT_RESOURCE_",
        2,
        1,
        "MEMORY DEVICE TEP TEVD PROTECTION_DOMAIN MEMORY_REGION ERROR_HANDLER CREDITS SRQ",
    ),
    (
        "DAT_INVALID_HANDLE_",
        11,
        1,
        "IA EP LMR RMR PZ PSP RSP CR CNO EVD_CR EVD_REQUEST EVD_RECV EVD_CONN EVD_ASYNC SRQ",
    ),
    ("DAT_INVALID_HANDLE", 26, 1, "1 2 3 4 5 6 7 8 9 10"),
    ("DAT_INVALID_ARG", 36, 1, "1 2 3 4 5 6 7 8 9 10"),
    (
        "DAT_INVALID_STATE_EP_",
        46,
        1,
        "UNCONNECTED ACTCONNPENDING PASSCONNPENDING TENTCONNPENDING CONNECTED DISCONNECTED RESERVED COMPLPENDING \
         DISCPENDING PROVIDERCONTROL NOTREADY RECV_WATERMARK PZ EVD_REQUEST EVD_RECV EVD_CONNECT UNCONFIGURED \
         UNCONFRESERVED UNCONFPASSIVE UNCONFTENTATIVE",
    ),
    ("DAT_INVALID_STATE_CNO_", 66, 1, "IN_USE DEAD"),
    (
        "DAT_INVALID_STATE_EVD_",
        68,
        1,
        "OPEN ENABLED DISABLED WAITABLE UNWAITABLE IN_USE CONFIG_NOTIFY CONFIG_SOLICITED CONFIG_THRESHOLD WAITER ASYNC",
    ),
    (
        "DAT_INVALID_STATE_",
        79,
        1,
        "IA_IN_USE LMR_IN_USE LMR_FREE PZ_IN_USE PZ_FREE SRQ_OPERATIONAL SRQ_ERROR SRQ_IN_USE",
    ),
    ("DAT_PRIVILEGES_", 87, 1, "READ WRITE RDMA_READ RDMA_WRITE"),
    ("DAT_PROTECTION_", 91, 1, "READ WRITE RDMA_READ RDMA_WRITE"),
    ("DAT_INVALID_ADDRESS_", 95, 1, "UNSUPPORTED UNREACHABLE MALFORMED"),
    (
        "DAT_",
        98,
        1,
        "NAME_NOT_REGISTERED MAJOR_NOT_FOUND MINOR_NOT_FOUND THREAD_SAFETY_NOT_FOUND INVALID_RO_COOKIE",
    ),
    ("DAT_", 0, 1, "FALSE TRUE"),
    ("DAT_CONNECT_", 0, 1, "DEFAULT_FLAG MULTIPATH_FLAG"),
    ("DAT_CLOSE_", 0, 1, "ABRUPT_FLAG GRACEFUL_FLAG"),
    ("DAT_PSP_", 0, 1, "CONSUMER_FLAG PROVIDER_FLAG"),
    ("DAT_MEM_TYPE_", 0, 1, "VIRTUAL LMR SHARED_VIRTUAL SO_VIRTUAL"),
    ("DAT_HANDLE_TYPE_", 0, 1, "CR EP EVD IA LMR PSP PZ RMR RSP CNO SRQ"),
    ("DAT_IOV_", 0, 1, "CONSUMER PROVIDER_NOMOD PROVIDER_MOD"),
    ("DAT_PSP_CREATES_EP_", 0, 1, "NEVER IFASKED ALWAYS"),
    ("DAT_PZ_", 0, 1, "UNIQUE SAME SHAREABLE"),
    ("DAT_SRQ_STATE_", 0, 1, "OPERATIONAL ERROR"),
    (
        "DAT_EP_STATE_",
        0,
        1,
        "UNCONNECTED UNCONFIGURED_UNCONNECTED RESERVED UNCONFIGURED_RESERVED PASSIVE_CONNECTION_PENDING \
         UNCONFIGURED_PASSIVE ACTIVE_CONNECTION_PENDING TENTATIVE_CONNECTION_PENDING UNCONFIGURED_TENTATIVE CONNECTED \
         DISCONNECT_PENDING DISCONNECTED COMPLETION_PENDING",
    ),
    (
        "DAT_DTO_",
        0,
        1,
        "SUCCESS ERR_FLUSHED ERR_LOCAL_LENGTH ERR_LOCAL_EP ERR_LOCAL_PROTECTION ERR_BAD_RESPONSE ERR_REMOTE_ACCESS \
         ERR_REMOTE_RESPONDER ERR_TRANSPORT ERR_RECEIVER_NOT_READY ERR_PARTIAL_PACKET",
    ),
    (
        "DAT_CONNECTION_EVENT_",
        0x4001,
        1,
        "ESTABLISHED PEER_REJECTED NON_PEER_REJECTED ACCEPT_COMPLETION_ERROR DISCONNECTED BROKEN TIMED_OUT UNREACHABLE",
    ),
    (
        "DAT_ASYNC_ERROR_",
        0x8001,
        1,
        "EVD_OVERFLOW IA_CATASTROPHIC EP_BROKEN TIMED_OUT PROVIDER_INTERNAL_ERROR",
    ),
    ("DAT_", 0, 1, "EP_TRANSFER_TO_ERROR EP_OTHER_ERROR SRQ_SOFT_HIGH_WATERMARK_EVENT"),
    ("DAT_SRQ_", 0, 1, "TRANSFER_TO_ERROR OTHER_ERROR LOW_WATERMARK_EVENT"),
];

/// Masks: names with a common beginning, of which the n-th (from `bit`) selects the n-th member; and the one of all.
const MASKS: &[(&str, u32, &str, u64)] = &[
    (
        "DAT_IA_FIELD_",
        0,
        "IA_ADAPTER_NAME IA_VENDOR_NAME IA_HARDWARE_MAJOR_VERSION IA_HARDWARE_MINOR_VERSION IA_FIRMWARE_MAJOR_VERSION \
         IA_FIRMWARE_MINOR_VERSION IA_ADDRESS_PTR IA_MAX_EPS IA_MAX_DTO_PER_EP IA_MAX_RDMA_READ_PER_EP_IN \
         IA_MAX_RDMA_READ_PER_EP_OUT IA_MAX_EVDS IA_MAX_EVD_QLEN IA_MAX_IOV_SEGMENTS_PER_DTO IA_MAX_LMRS \
         IA_MAX_LMR_BLOCK_SIZE IA_MAX_LMR_VIRTUAL_ADDRESS IA_MAX_PZS IA_MAX_MESSAGE_SIZE IA_MAX_RDMA_SIZE IA_MAX_RMRS \
         IA_MAX_RMR_TARGET_ADDRESS IA_MAX_SRQS IA_MAX_EP_PER_SRQ IA_MAX_RECV_PER_SRQ \
         IA_MAX_IOV_SEGMENTS_PER_RDMA_READ IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE IA_MAX_RDMA_READ_IN \
         IA_MAX_RDMA_READ_OUT IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED \
         IA_NUM_TRANSPORT_ATTR IA_TRANSPORT_ATTR IA_NUM_VENDOR_ATTR IA_VENDOR_ATTR",
        0x7_ffff_ffff,
    ),
    (
        "DAT_PROVIDER_FIELD_",
        0,
        "PROVIDER_NAME PROVIDER_VERSION_MAJOR PROVIDER_VERSION_MINOR DAPL_VERSION_MAJOR DAPL_VERSION_MINOR \
         LMR_MEM_TYPE_SUPPORTED IOV_OWNERSHIP DAT_QOS_SUPPORTED COMPLETION_FLAGS_SUPPORTED IS_THREAD_SAFE \
         MAX_PRIVATE_DATA_SIZE SUPPORTS_MULTIPATH EP_CREATOR PZ_SUPPORT OPTIMAL_BUFFER_ALIGNMENT \
         EVD_STREAM_MERGING_SUPPORTED SRQ_SUPPORTED SRQ_WATERMARKS_SUPPORTED SRQ_EP_PZ_DIFFERENCE_SUPPORTED \
         SRQ_INFO_SUPPORTED EP_RECV_INFO_SUPPORTED LMR_SYNC_REQ DTO_ASYNC_RETURN_GUARANTEED \
         RDMA_WRITE_FOR_RDMA_READ_REQ NUM_PROVIDER_SPECIFIC_ATTR PROVIDER_SPECIFIC_ATTR",
        0x3ff_ffff,
    ),
    (
        "DAT_EP_FIELD_",
        0,
        "IA_HANDLE EP_STATE LOCAL_IA_ADDRESS_PTR LOCAL_PORT_QUAL REMOTE_IA_ADDRESS_PTR REMOTE_PORT_QUAL PZ_HANDLE \
         RECV_EVD_HANDLE REQUEST_EVD_HANDLE CONNECT_EVD_HANDLE SRQ_HANDLE",
        0x7fff_f7ff,
    ),
    (
        "DAT_EP_FIELD_EP_ATTR_",
        12,
        "SERVICE_TYPE MAX_MESSAGE_SIZE MAX_RDMA_SIZE QOS RECV_COMPLETION_FLAGS REQUEST_COMPLETION_FLAGS MAX_RECV_DTOS \
         MAX_REQUEST_DTOS MAX_RECV_IOV MAX_REQUEST_IOV MAX_RDMA_READ_IN MAX_RDMA_READ_OUT SRQ_SOFT_HW \
         MAX_RDMA_READ_IOV MAX_RDMA_WRITE_IOV NUM_TRANSPORT_ATTR TRANSPORT_SPECIFIC_ATTR NUM_PROVIDER_ATTR \
         PROVIDER_SPECIFIC_ATTR",
        0x7fff_f000,
    ),
    (
        "DAT_LMR_FIELD_",
        0,
        "IA_HANDLE MEM_TYPE REGION_DESC LENGTH PZ_HANDLE MEM_PRIV LMR_CONTEXT RMR_CONTEXT REGISTERED_SIZE \
         REGISTERED_ADDRESS",
        0x3ff,
    ),
    ("DAT_RMR_FIELD_", 0, "IA_HANDLE PZ_HANDLE LMR_TRIPLET MEM_PRIV RMR_CONTEXT", 0x1f),
    ("DAT_EVD_FIELD_", 0, "IA_HANDLE EVD_QLEN EVD_STATE CNO EVD_FLAGS", 0x1f),
    ("DAT_CNO_FIELD_", 0, "IA_HANDLE AGENT", 3),
    (
        "DAT_CR_FIELD_",
        0,
        "REMOTE_IA_ADDRESS_PTR REMOTE_PORT_QUAL PRIVATE_DATA_SIZE PRIVATE_DATA LOCAL_EP_HANDLE",
        0x1f,
    ),
    ("DAT_PSP_FIELD_", 0, "IA_HANDLE CONN_QUAL EVD_HANDLE PSP_FLAGS", 0xf),
    ("DAT_RSP_FIELD_", 0, "IA_HANDLE CONN_QUAL EVD_HANDLE EP_HANDLE", 0xf),
    ("DAT_PZ_FIELD_", 0, "IA_HANDLE", 1),
    (
        "DAT_SRQ_FIELD_",
        0,
        "IA_HANDLE SRQ_STATE PZ_HANDLE MAX_RECV_DTO MAX_RECV_IOV LOW_WATERMARK AVAILABLE_DTO_COUNT \
         OUTSTANDING_DTO_COUNT",
        0xff,
    ),
];

/// What else has to hold, as C says it.
const CONDITIONS: &[&str] = &[
    "DAT_VERSION_MAJOR == 1 && DAT_VERSION_MINOR == 2 && DAT_THREADSAFE == DAT_FALSE",
    "DAT_CLASS_ERROR == 0x80000000U && DAT_CLASS_WARNING == 0x40000000U",
    "DAT_GET_TYPE(0x80060027U) == DAT_INVALID_PARAMETER && DAT_GET_SUBTYPE(0x80060027U) == DAT_INVALID_ARG4",
    "DAT_GET_TYPE(0x000D0000U) == DAT_QUEUE_EMPTY && DAT_IS_WARNING(0x80060027U) == 0",
    "DAT_NOT_IMPLEMENTED == 0x0FFF0000 && DAT_NAME_NOT_FOUND == DAT_PROVIDER_NOT_FOUND",
    "DAT_NAME_MAX_LENGTH == 256 && DAT_LMR_COOKIE_SIZE == 40 && DAT_OPTIMAL_ALIGNMENT == 256",
    "DAT_WATERMARK_INFINITE == -1 && DAT_HW_DEFAULT == -1 && DAT_SRQ_LW_DEFAULT == 0 && DAT_VALUE_UNKNOWN == -2",
    "DAT_TIMEOUT_INFINITE == 0xffffffffU && DAT_CLOSE_DEFAULT == DAT_CLOSE_ABRUPT_FLAG",
    "DAT_COMPLETION_DEFAULT_FLAG == 0 && DAT_COMPLETION_SUPPRESS_FLAG == 1 && DAT_COMPLETION_SOLICITED_WAIT_FLAG == 2",
    "DAT_COMPLETION_UNSIGNALLED_FLAG == 4 && DAT_COMPLETION_BARRIER_FENCE_FLAG == 8",
    "DAT_COMPLETION_EVD_THRESHOLD_FLAG == 0x10",
    "DAT_QOS_BEST_EFFORT == 0 && DAT_QOS_HIGH_THROUGHPUT == 1 && DAT_QOS_LOW_LATENCY == 2 && DAT_QOS_ECONOMY == 4",
    "DAT_QOS_PREMIUM == 8 && DAT_SERVICE_TYPE_RC == 0",
    "DAT_EVD_SOFTWARE_FLAG == 1 && DAT_EVD_CR_FLAG == 0x10 && DAT_EVD_DTO_FLAG == 0x20",
    "DAT_EVD_CONNECTION_FLAG == 0x40 && DAT_EVD_RMR_BIND_FLAG == 0x80 && DAT_EVD_ASYNC_FLAG == 0x100",
    "DAT_EVD_DEFAULT_FLAG == 0x1F0",
    "DAT_EVD_STATE_ENABLED == 1 && DAT_EVD_STATE_DISABLED == 2 && DAT_EVD_STATE_WAITABLE == 4",
    "DAT_EVD_STATE_UNWAITABLE == 8 && DAT_EVD_STATE_CONFIG_NOTIFY == 0x10 && DAT_EVD_STATE_CONFIG_SOLICITED == 0x20",
    "DAT_EVD_STATE_CONFIG_THRESHOLD == 0x30",
    "DAT_MEM_PRIV_NONE_FLAG == 0 && DAT_MEM_PRIV_LOCAL_READ_FLAG == 1 && DAT_MEM_PRIV_REMOTE_READ_FLAG == 2",
    "DAT_MEM_PRIV_LOCAL_WRITE_FLAG == 0x10 && DAT_MEM_PRIV_REMOTE_WRITE_FLAG == 0x20 && DAT_MEM_PRIV_ALL_FLAG == 0x33",
    "DAT_MEM_PRIV_READ_FLAG == 3 && DAT_MEM_PRIV_WRITE_FLAG == 0x30 && DAT_MEM_PRIV_RO_DISABLE_FLAG == 0x100",
    "DAT_RMR_OPERATION_FAILED == 11 && DAT_DTO_FAILURE == 1 && DAT_DTO_LENGTH_ERROR == 2",
    "DAT_RMR_BIND_SUCCESS == 0 && DAT_RMR_BIND_FAILURE == 1",
    "DAT_EP_STATE_ERROR == DAT_EP_STATE_DISCONNECTED",
    "DAT_DTO_COMPLETION_EVENT == 1 && DAT_RMR_BIND_COMPLETION_EVENT == 0x1001",
    "DAT_CONNECTION_REQUEST_EVENT == 0x2001 && DAT_SOFTWARE_EVENT == 0x10001",
    "DAT_IA_CATASTROPHIC_ERROR == 0 && DAT_IA_OTHER_ERROR == 1 && DAT_EVD_OVERFLOW_ERROR == 0 && DAT_EVD_OTHER_ERROR == 1",
    "DAT_LMR_OTHER_ERROR == 0 && DAT_RMR_OTHER_ERROR == 0 && DAT_PZ_OTHER_ERROR == 0",
    "DAT_IA_ALL == DAT_IA_FIELD_ALL && DAT_IA_FIELD_IA_MAX_MTU_SIZE == DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE",
    "DAT_IA_FIELD_IA_MAX_DTO_PER_OP == DAT_IA_FIELD_IA_MAX_DTO_PER_EP && DAT_IA_FIELD_NONE == 0",
    "offsetof(DAT_IA_ATTR, max_mtu_size) == 592 && offsetof(DAT_IA_ATTR, max_rdma_read_per_ep) == 544",
    "sizeof(DAT_RETURN) == 4 && sizeof(DAT_COUNT) == 4 && sizeof(DAT_BOOLEAN) == 4 && sizeof(DAT_TIMEOUT) == 4",
    "sizeof(DAT_VLEN) == 8 && sizeof(DAT_VADDR) == 8 && sizeof(DAT_CONN_QUAL) == 8 && sizeof(DAT_UVERYLONG) == 8",
    "sizeof(DAT_CONTEXT) == 8 && sizeof(DAT_DTO_COOKIE) == 8 && sizeof(DAT_LMR_CONTEXT) == 4",
    "sizeof(DAT_EP_PARAM_MASK) == 8 && sizeof(DAT_IA_ATTR_MASK) == 8 && sizeof(DAT_LMR_PARAM_MASK) == 4",
    "sizeof(DAT_EVENT_DATA) == 32 && sizeof(DAT_LMR_COOKIE) == 8 && sizeof(*(DAT_LMR_COOKIE)0) == 40",
];

/// Structures: size, then members with their offsets.
const LAYOUTS: &[(&str, usize, &str)] = &[
    ("DAT_LMR_TRIPLET", 24, "lmr_context 0 virtual_address 8 segment_length 16"),
    ("DAT_RMR_TRIPLET", 24, "rmr_context 0 target_address 8 segment_length 16"),
    (
        "DAT_REGION_DESCRIPTION",
        16,
        "for_va 0 for_lmr_handle 0 for_shared_memory.virtual_address 0 for_shared_memory.shared_memory_id 8",
    ),
    ("DAT_OS_WAIT_PROXY_AGENT", 16, "instance_data 0 proxy_agent_func 8"),
    ("DAT_NAMED_ATTR", 16, "name 0 value 8"),
    ("DAT_EVENT", 48, "event_number 0 evd_handle 8 event_data 16"),
    ("DAT_DTO_COMPLETION_EVENT_DATA", 32, "ep_handle 0 user_cookie 8 status 16 transfered_length 24"),
    ("DAT_RMR_BIND_COMPLETION_EVENT_DATA", 24, "rmr_handle 0 user_cookie 8 status 16"),
    ("DAT_CR_ARRIVAL_EVENT_DATA", 32, "sp_handle 0 local_ia_address_ptr 8 conn_qual 16 cr_handle 24"),
    ("DAT_CONNECTION_EVENT_DATA", 24, "ep_handle 0 private_data_size 8 private_data 16"),
    ("DAT_ASYNCH_ERROR_EVENT_DATA", 16, "dat_handle 0 reason 8"),
    ("DAT_SOFTWARE_EVENT_DATA", 8, "pointer 0"),
    (
        "DAT_IA_ATTR",
        688,
        "adapter_name 0 vendor_name 256 hardware_version_major 512 hardware_version_minor 516 firmware_version_major 520 \
         firmware_version_minor 524 ia_address_ptr 528 max_eps 536 max_dto_per_ep 540 max_rdma_read_per_ep_in 544 \
         max_rdma_read_per_ep_out 548 max_evds 552 max_evd_qlen 556 max_iov_segments_per_dto 560 max_lmrs 564 \
         max_lmr_block_size 568 max_lmr_virtual_address 576 max_pzs 584 max_message_size 592 max_rdma_size 600 \
         max_rmrs 608 max_rmr_target_address 616 max_srqs 624 max_ep_per_srq 628 max_recv_per_srq 632 \
         max_iov_segments_per_rdma_read 636 max_iov_segments_per_rdma_write 640 max_rdma_read_in 644 \
         max_rdma_read_out 648 max_rdma_read_per_ep_in_guaranteed 652 max_rdma_read_per_ep_out_guaranteed 656 \
         num_transport_attr 660 transport_attr 664 num_vendor_attr 672 vendor_attr 680",
    ),
    (
        "DAT_PROVIDER_ATTR",
        504,
        "provider_name 0 provider_version_major 256 provider_version_minor 260 dapl_version_major 264 \
         dapl_version_minor 268 lmr_mem_types_supported 272 iov_ownership_on_return 276 dat_qos_supported 280 \
         completion_flags_supported 284 is_thread_safe 288 max_private_data_size 292 supports_multipath 296 \
         ep_creator 300 pz_support 304 optimal_buffer_alignment 308 evd_stream_merging_supported 312 srq_supported 456 \
         srq_watermarks_supported 460 srq_ep_pz_difference_supported 464 srq_info_supported 468 \
         ep_recv_info_supported 472 lmr_sync_req 476 dto_async_return_guaranteed 480 \
         rdma_write_for_rdma_read_req 484 num_provider_specific_attr 488 provider_specific_attr 496",
    ),
    (
        "DAT_EP_ATTR",
        104,
        "service_type 0 max_message_size 8 max_rdma_size 16 qos 24 recv_completion_flags 28 \
         request_completion_flags 32 max_recv_dtos 36 max_request_dtos 40 max_recv_iov 44 max_request_iov 48 \
         max_rdma_read_in 52 max_rdma_read_out 56 srq_soft_hw 60 max_rdma_read_iov 64 max_rdma_write_iov 68 \
         ep_transport_specific_count 72 ep_transport_specific 80 ep_provider_specific_count 88 ep_provider_specific 96",
    ),
    (
        "DAT_EP_PARAM",
        192,
        "ia_handle 0 ep_state 8 local_ia_address_ptr 16 local_port_qual 24 remote_ia_address_ptr 32 \
         remote_port_qual 40 pz_handle 48 recv_evd_handle 56 request_evd_handle 64 connect_evd_handle 72 srq_handle 80 \
         ep_attr 88",
    ),
    (
        "DAT_LMR_PARAM",
        80,
        "ia_handle 0 mem_type 8 region_desc 16 length 32 pz_handle 40 mem_priv 48 lmr_context 52 rmr_context 56 \
         registered_size 64 registered_address 72",
    ),
    ("DAT_RMR_PARAM", 48, "ia_handle 0 pz_handle 8 lmr_triplet 16 mem_priv 40 rmr_context 44"),
    ("DAT_EVD_PARAM", 32, "ia_handle 0 evd_qlen 8 evd_state 12 cno_handle 16 evd_flags 24"),
    ("DAT_CNO_PARAM", 24, "ia_handle 0 agent 8"),
    ("DAT_PZ_PARAM", 8, "ia_handle 0"),
    (
        "DAT_CR_PARAM",
        40,
        "remote_ia_address_ptr 0 remote_port_qual 8 private_data_size 16 private_data 24 local_ep_handle 32",
    ),
    ("DAT_PSP_PARAM", 32, "ia_handle 0 conn_qual 8 evd_handle 16 psp_flags 24"),
    ("DAT_RSP_PARAM", 32, "ia_handle 0 conn_qual 8 evd_handle 16 ep_handle 24"),
    ("DAT_SRQ_ATTR", 12, "max_recv_dtos 0 max_recv_iov 4 low_watermark 8"),
    (
        "DAT_SRQ_PARAM",
        48,
        "ia_handle 0 srq_state 8 pz_handle 16 max_recv_dtos 24 max_recv_iov 28 low_watermark 32 \
         available_dto_count 36 outstanding_dto_count 40",
    ),
    ("DAT_PROVIDER_INFO", 268, "ia_name 0 dapl_version_major 256 dapl_version_minor 260 is_thread_safe 264"),
];

/// The functions of a provider's table, in their order from byte 16 on.
const TABLE: &str = "ia_open ia_query ia_close set_consumer_context get_consumer_context get_handle_type cno_create \
    cno_modify_agent cno_query cno_free cno_wait cr_query cr_accept cr_reject cr_handoff evd_create evd_query \
    evd_modify_cno evd_enable evd_disable evd_wait evd_resize evd_post_se evd_dequeue evd_free ep_create ep_query \
    ep_modify ep_connect ep_dup_connect ep_disconnect ep_post_send ep_post_recv ep_post_rdma_read ep_post_rdma_write \
    ep_get_status ep_free lmr_create lmr_query lmr_free rmr_create rmr_query rmr_bind rmr_free psp_create psp_query \
    psp_free rsp_create rsp_query rsp_free pz_create pz_query pz_free psp_create_any ep_reset evd_set_unwaitable \
    evd_clear_unwaitable lmr_sync_rdma_read lmr_sync_rdma_write ep_create_with_srq ep_recv_query ep_set_watermark \
    srq_create srq_free srq_post_recv srq_query srq_resize srq_set_lw";

/// Everything that has to hold, as C says it.
fn conditions() -> Vec<String> {
    let mut all: Vec<String> = CONDITIONS.iter().map(|&condition| condition.to_owned()).collect();
    for (beginning, first, step, names) in SEQUENCES {
        for (name, index) in names.split_whitespace().zip(0..) {
            all.push(format!("{beginning}{name} == {}", first + step * index));
        }
    }
    for (beginning, bit, names, whole) in MASKS {
        for (name, index) in names.split_whitespace().zip(*bit..) {
            all.push(format!("{beginning}{name} == UINT64_C({})", 1_u64 << index));
        }
        all.push(format!("{beginning}ALL == UINT64_C({whole})"));
    }
    for (structure, size, members) in LAYOUTS {
        all.push(format!("sizeof({structure}) == {size}"));
        let words: Vec<_> = members.split_whitespace().collect();
        for pair in words.chunks(2) {
            all.push(format!("offsetof({structure}, {}) == {}", pair[0], pair[1]));
        }
    }
    all.push("offsetof(DAT_PROVIDER, device_name) == 0 && offsetof(DAT_PROVIDER, extension) == 8".to_owned());
    for (function, index) in TABLE.split_whitespace().zip(0..) {
        all.push(format!("offsetof(DAT_PROVIDER, {function}_func) == {}", 16 + 8 * index));
    }
    all.push("sizeof(DAT_PROVIDER) == 560".to_owned());
    all
}

#[test]
fn every_header_compiles_alone_and_twice_in_every_standard() {
    for header in HEADERS {
        let text = format!("#include <dat/{header}>\n#include <dat/{header}>\nint something;\n");
        for standard in ["c89", "c99", "c11", "c17"] {
            assert_eq!(compile("gcc", "c", standard, &text), "", "{header} in {standard}");
        }
        for standard in ["c++98", "c++11", "c++17", "c++20"] {
            assert_eq!(compile("g++", "c++", standard, &text), "", "{header} in {standard}");
        }
    }
}

#[test]
fn every_name_has_its_value_and_every_structure_its_layout() {
    let conditions = conditions();
    assert!(conditions.len() > 500, "the lists were read");
    let mut text = "#include <dat/udat.h>\n#include <stddef.h>\n".to_owned();
    for (number, condition) in conditions.iter().enumerate() {
        text += &holds(number, condition);
    }
    // Structures with members in unions and old enumerations compare in C only without complaints.
    assert_eq!(compile("gcc", "c", "c89", &text), "");
}

#[test]
fn every_function_of_the_table_has_the_type_of_its_call() {
    let mut text =
        "#include <dat/udat.h>\nvoid fill(DAT_PROVIDER *table);\nvoid fill(DAT_PROVIDER *table)\n{\n"
            .to_owned();
    for function in TABLE.split_whitespace().filter(|function| *function != "ia_open") {
        text += &format!("\ttable->{function}_func = dat_{function};\n");
    }
    text += "}\n";
    assert_eq!(compile("gcc", "c", "c89", &text), "");
    assert_eq!(compile("g++", "c++", "c++98", &text), "");
}

#[test]
fn programs_use_unions_agents_and_macros_in_c_and_in_cpp() {
    let text = "#include <dat/udat.h>\n\
        DAT_RETURN use(DAT_IA_HANDLE ia, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd, char *name);\n\
        DAT_RETURN use(DAT_IA_HANDLE ia, DAT_EP_HANDLE ep, DAT_EVD_HANDLE evd, char *name)\n\
        {\n\
            DAT_PROVIDER_ATTR attributes;\n\
            DAT_DTO_COOKIE cookie;\n\
            DAT_LMR_TRIPLET segment;\n\
            DAT_EVENT event;\n\
            DAT_CNO_HANDLE cno;\n\
            DAT_REGION_DESCRIPTION region;\n\
            cookie.as_64 = 1;\n\
            segment.segment_length = 0;\n\
            region.for_va = &event;\n\
            attributes.max_private_data_size = 0;\n\
            return dat_ia_open(name, 8, &evd, &ia) | DAT_EP_POST_SEND(ep, 1, &segment, cookie, DAT_COMPLETION_DEFAULT_FLAG)\n\
                | DAT_EVD_DEQUEUE(evd, &event) | DAT_PZ_FREE(region.for_lmr_handle) | DAT_IA_CLOSE(ia, DAT_CLOSE_DEFAULT)\n\
                | dat_cno_create(ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno)\n\
                | (DAT_RETURN)attributes.max_private_data_size;\n\
        }\n";
    for standard in ["c89", "c17"] {
        assert_eq!(compile("gcc", "c", standard, text), "", "{standard}");
    }
    for standard in ["c++98", "c++20"] {
        assert_eq!(compile("g++", "c++", standard, text), "", "{standard}");
    }
}

#[test]
fn a_wrong_name_or_value_does_not_compile_so_that_these_tests_mean_something() {
    for wrong in ["DAT_INVALID_ARG4 == 40", "sizeof(DAT_EVENT) == 120", "DAT_EP_FIELD_COMM == 4"] {
        let text = format!("#include <dat/udat.h>\n{}", holds(0, wrong));
        assert_ne!(compile("gcc", "c", "c89", &text), "", "{wrong}");
    }
}

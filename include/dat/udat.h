/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * udat.h - uDAPL 1.2, the user Direct Access Programming Library, as nonic offers it
 *
 * Programs link with -ldat (libdat.so.1). Types, names and values are those of uDAPL 1.2 with the additions of Solaris, so
 * programs written for either compile unchanged, as C and as C++. dat(7) says what differs from other libraries; each call has a
 * page in section 3 of the manual.
 *
 * Units: lengths are bytes, times microseconds. Handles are opaque. A wrong handle, whatever it is, is answered by
 * DAT_INVALID_HANDLE. A call that is refused has changed nothing.
 */
#ifndef _UDAT_H_
#define _UDAT_H_

#include <dat/udat_config.h>
#include <dat/dat.h>
#include <dat/udat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How memory is described that is to be registered. */
typedef enum dat_mem_type {
	DAT_MEM_TYPE_VIRTUAL = 0x00,
	DAT_MEM_TYPE_LMR = 0x01,
	DAT_MEM_TYPE_SHARED_VIRTUAL = 0x02,
	/* Solaris: strong order. Order is always strong here. */
	DAT_MEM_TYPE_SO_VIRTUAL = 0x03
} DAT_MEM_TYPE;

/* The name of shared memory: all 40 bytes count, and a 0 ends nothing. */
#define DAT_LMR_COOKIE_SIZE 40
typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];

typedef struct dat_shared_memory {
	DAT_PVOID virtual_address;
	DAT_LMR_COOKIE shared_memory_id;
} DAT_SHARED_MEMORY;

typedef union dat_region_description {
	DAT_PVOID for_va;
	DAT_LMR_HANDLE for_lmr_handle;
	DAT_SHARED_MEMORY for_shared_memory;
} DAT_REGION_DESCRIPTION;

/* What an LMR is. */
typedef struct dat_lmr_param {
	DAT_IA_HANDLE ia_handle;
	DAT_MEM_TYPE mem_type;
	DAT_REGION_DESCRIPTION region_desc;
	DAT_VLEN length;
	DAT_PZ_HANDLE pz_handle;
	DAT_MEM_PRIV_FLAGS mem_priv;
	DAT_LMR_CONTEXT lmr_context;
	DAT_RMR_CONTEXT rmr_context;
	DAT_VLEN registered_size;
	DAT_VADDR registered_address;
} DAT_LMR_PARAM;
typedef enum dat_lmr_param_mask {
	DAT_LMR_FIELD_IA_HANDLE = 0x001,
	DAT_LMR_FIELD_MEM_TYPE = 0x002,
	DAT_LMR_FIELD_REGION_DESC = 0x004,
	DAT_LMR_FIELD_LENGTH = 0x008,
	DAT_LMR_FIELD_PZ_HANDLE = 0x010,
	DAT_LMR_FIELD_MEM_PRIV = 0x020,
	DAT_LMR_FIELD_LMR_CONTEXT = 0x040,
	DAT_LMR_FIELD_RMR_CONTEXT = 0x080,
	DAT_LMR_FIELD_REGISTERED_SIZE = 0x100,
	DAT_LMR_FIELD_REGISTERED_ADDRESS = 0x200,
	DAT_LMR_FIELD_ALL = 0x3FF
} DAT_LMR_PARAM_MASK;

typedef enum dat_handle_type {
	DAT_HANDLE_TYPE_CR = 0,
	DAT_HANDLE_TYPE_EP = 1,
	DAT_HANDLE_TYPE_EVD = 2,
	DAT_HANDLE_TYPE_IA = 3,
	DAT_HANDLE_TYPE_LMR = 4,
	DAT_HANDLE_TYPE_PSP = 5,
	DAT_HANDLE_TYPE_PZ = 6,
	DAT_HANDLE_TYPE_RMR = 7,
	DAT_HANDLE_TYPE_RSP = 8,
	DAT_HANDLE_TYPE_CNO = 9,
	DAT_HANDLE_TYPE_SRQ = 10
} DAT_HANDLE_TYPE;

/* State of a dispatcher: bits. */
typedef enum dat_evd_state {
	DAT_EVD_STATE_ENABLED = 0x01,
	DAT_EVD_STATE_DISABLED = 0x02,
	DAT_EVD_STATE_WAITABLE = 0x04,
	DAT_EVD_STATE_UNWAITABLE = 0x08,
	DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,
	DAT_EVD_STATE_CONFIG_SOLICITED = 0x20,
	DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30
} DAT_EVD_STATE;
typedef struct dat_evd_param {
	DAT_IA_HANDLE ia_handle;
	DAT_COUNT evd_qlen;
	DAT_EVD_STATE evd_state;
	DAT_CNO_HANDLE cno_handle;
	DAT_EVD_FLAGS evd_flags;
} DAT_EVD_PARAM;
typedef enum dat_evd_param_mask {
	DAT_EVD_FIELD_IA_HANDLE = 0x01,
	DAT_EVD_FIELD_EVD_QLEN = 0x02,
	DAT_EVD_FIELD_EVD_STATE = 0x04,
	DAT_EVD_FIELD_CNO = 0x08,
	DAT_EVD_FIELD_EVD_FLAGS = 0x10,
	DAT_EVD_FIELD_ALL = 0x1F
} DAT_EVD_PARAM_MASK;

/* For dat_ia_openv: asynchronous errors go where they go already; and what it answers then. */
#define DAT_EVD_ASYNC_EXISTS (DAT_EVD_HANDLE)0x1
#define DAT_EVD_OUT_OF_SCOPE (DAT_EVD_HANDLE)0x2

/* A function that is called, once, when a dispatcher of a notification object has an event. */
typedef void (*DAT_AGENT_FUNC)(DAT_PVOID instance_data, DAT_EVD_HANDLE evd_handle);

typedef struct dat_os_wait_proxy_agent {
	DAT_PVOID instance_data;
	DAT_AGENT_FUNC proxy_agent_func;
} DAT_OS_WAIT_PROXY_AGENT;

#ifdef __cplusplus
#define DAT_OS_WAIT_PROXY_AGENT_NULL DAT_OS_WAIT_PROXY_AGENT()
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define DAT_OS_WAIT_PROXY_AGENT_NULL (DAT_OS_WAIT_PROXY_AGENT) { (DAT_PVOID)NULL, (DAT_AGENT_FUNC)NULL }
#else
/* C of 1989 has no structures without a name. */
static const DAT_OS_WAIT_PROXY_AGENT DAT_OS_WAIT_PROXY_AGENT_NULL = { NULL, NULL };
#endif

typedef struct dat_cno_param {
	DAT_IA_HANDLE ia_handle;
	DAT_OS_WAIT_PROXY_AGENT agent;
} DAT_CNO_PARAM;
typedef enum dat_cno_param_mask {
	DAT_CNO_FIELD_IA_HANDLE = 0x01,
	DAT_CNO_FIELD_AGENT = 0x02,
	DAT_CNO_FIELD_ALL = 0x03
} DAT_CNO_PARAM_MASK;

/* What an interface adapter is. Its address may be written to, and stays as long as the adapter is open. */
typedef struct dat_ia_attr {
	char adapter_name[DAT_NAME_MAX_LENGTH];
	char vendor_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 hardware_version_major;
	DAT_UINT32 hardware_version_minor;
	DAT_UINT32 firmware_version_major;
	DAT_UINT32 firmware_version_minor;
	DAT_IA_ADDRESS_PTR ia_address_ptr;
	DAT_COUNT max_eps;
	DAT_COUNT max_dto_per_ep;
	DAT_COUNT max_rdma_read_per_ep_in;
	DAT_COUNT max_rdma_read_per_ep_out;
	DAT_COUNT max_evds;
	DAT_COUNT max_evd_qlen;
	DAT_COUNT max_iov_segments_per_dto;
	DAT_COUNT max_lmrs;
	DAT_VLEN max_lmr_block_size;
	DAT_VADDR max_lmr_virtual_address;
	DAT_COUNT max_pzs;
	DAT_VLEN max_message_size;
	DAT_VLEN max_rdma_size;
	DAT_COUNT max_rmrs;
	DAT_VADDR max_rmr_target_address;
	DAT_COUNT max_srqs;
	DAT_COUNT max_ep_per_srq;
	DAT_COUNT max_recv_per_srq;
	DAT_COUNT max_iov_segments_per_rdma_read;
	DAT_COUNT max_iov_segments_per_rdma_write;
	DAT_COUNT max_rdma_read_in;
	DAT_COUNT max_rdma_read_out;
	DAT_BOOLEAN max_rdma_read_per_ep_in_guaranteed;
	DAT_BOOLEAN max_rdma_read_per_ep_out_guaranteed;
	DAT_COUNT num_transport_attr;
	DAT_NAMED_ATTR *transport_attr;
	DAT_COUNT num_vendor_attr;
	DAT_NAMED_ATTR *vendor_attr;
} DAT_IA_ATTR;
/* Older names of members. */
#define max_mtu_size max_message_size
#define max_rdma_read_per_ep max_rdma_read_per_ep_in

typedef DAT_UINT64 DAT_IA_ATTR_MASK;
#define DAT_IA_FIELD_NONE UINT64_C(0x0)
#define DAT_IA_FIELD_IA_ADAPTER_NAME UINT64_C(0x000000001)
#define DAT_IA_FIELD_IA_VENDOR_NAME UINT64_C(0x000000002)
#define DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION UINT64_C(0x000000004)
#define DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION UINT64_C(0x000000008)
#define DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION UINT64_C(0x000000010)
#define DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION UINT64_C(0x000000020)
#define DAT_IA_FIELD_IA_ADDRESS_PTR UINT64_C(0x000000040)
#define DAT_IA_FIELD_IA_MAX_EPS UINT64_C(0x000000080)
#define DAT_IA_FIELD_IA_MAX_DTO_PER_EP UINT64_C(0x000000100)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN UINT64_C(0x000000200)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT UINT64_C(0x000000400)
#define DAT_IA_FIELD_IA_MAX_EVDS UINT64_C(0x000000800)
#define DAT_IA_FIELD_IA_MAX_EVD_QLEN UINT64_C(0x000001000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO UINT64_C(0x000002000)
#define DAT_IA_FIELD_IA_MAX_LMRS UINT64_C(0x000004000)
#define DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE UINT64_C(0x000008000)
#define DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS UINT64_C(0x000010000)
#define DAT_IA_FIELD_IA_MAX_PZS UINT64_C(0x000020000)
#define DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE UINT64_C(0x000040000)
#define DAT_IA_FIELD_IA_MAX_RDMA_SIZE UINT64_C(0x000080000)
#define DAT_IA_FIELD_IA_MAX_RMRS UINT64_C(0x000100000)
#define DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS UINT64_C(0x000200000)
#define DAT_IA_FIELD_IA_MAX_SRQS UINT64_C(0x000400000)
#define DAT_IA_FIELD_IA_MAX_EP_PER_SRQ UINT64_C(0x000800000)
#define DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ UINT64_C(0x001000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ UINT64_C(0x002000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE UINT64_C(0x004000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_IN UINT64_C(0x008000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT UINT64_C(0x010000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED UINT64_C(0x020000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED UINT64_C(0x040000000)
#define DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR UINT64_C(0x080000000)
#define DAT_IA_FIELD_IA_TRANSPORT_ATTR UINT64_C(0x100000000)
#define DAT_IA_FIELD_IA_NUM_VENDOR_ATTR UINT64_C(0x200000000)
#define DAT_IA_FIELD_IA_VENDOR_ATTR UINT64_C(0x400000000)
#define DAT_IA_FIELD_IA_MAX_MTU_SIZE DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE
#define DAT_IA_FIELD_IA_MAX_DTO_PER_OP DAT_IA_FIELD_IA_MAX_DTO_PER_EP
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN
#define DAT_IA_FIELD_ALL UINT64_C(0x7FFFFFFFF)
#define DAT_IA_ALL DAT_IA_FIELD_ALL

/* Whose a list of segments is after a call. */
typedef enum dat_iov_ownership {
	DAT_IOV_CONSUMER = 0,
	DAT_IOV_PROVIDER_NOMOD = 1,
	DAT_IOV_PROVIDER_MOD = 2
} DAT_IOV_OWNERSHIP;

/* Whether the provider makes endpoints for requests. */
typedef enum dat_ep_creator_for_psp {
	DAT_PSP_CREATES_EP_NEVER = 0,
	DAT_PSP_CREATES_EP_IFASKED = 1,
	DAT_PSP_CREATES_EP_ALWAYS = 2
} DAT_EP_CREATOR_FOR_PSP;

/* Whether zones of several adapters can be one. */
typedef enum dat_pz_support {
	DAT_PZ_UNIQUE = 0,
	DAT_PZ_SAME = 1,
	DAT_PZ_SHAREABLE = 2
} DAT_PZ_SUPPORT;

/* Which watermarks, and which counts of receives, a provider knows. */
#define DAT_SRQ_LW_SUPPORTED 0x001
#define DAT_SRQ_SOFT_HW_SUPPORTED 0x010
#define DAT_SRQ_HARD_HW_SUPPORTED 0x100
#define DAT_SRQ_INFO_AVAILABLE 0x01
#define DAT_SRQ_INFO_OUTSTANDING 0x10
#define DAT_EP_RECV_INFO_NBUFS 0x01
#define DAT_EP_RECV_INFO_SPAN 0x10

/*
 * What a provider does. The matrix of streams that one dispatcher can take together is indexed in the order software, CR, DTO,
 * connection, RMR bind, asynchronous.
 */
typedef struct dat_provider_attr {
	char provider_name[DAT_NAME_MAX_LENGTH];
	DAT_UINT32 provider_version_major;
	DAT_UINT32 provider_version_minor;
	DAT_UINT32 dapl_version_major;
	DAT_UINT32 dapl_version_minor;
	DAT_MEM_TYPE lmr_mem_types_supported;
	DAT_IOV_OWNERSHIP iov_ownership_on_return;
	DAT_QOS dat_qos_supported;
	DAT_COMPLETION_FLAGS completion_flags_supported;
	DAT_BOOLEAN is_thread_safe;
	DAT_COUNT max_private_data_size;
	DAT_BOOLEAN supports_multipath;
	DAT_EP_CREATOR_FOR_PSP ep_creator;
	DAT_PZ_SUPPORT pz_support;
	DAT_UINT32 optimal_buffer_alignment;
	DAT_BOOLEAN evd_stream_merging_supported[6][6];
	DAT_BOOLEAN srq_supported;
	DAT_COUNT srq_watermarks_supported;
	DAT_BOOLEAN srq_ep_pz_difference_supported;
	DAT_COUNT srq_info_supported;
	DAT_COUNT ep_recv_info_supported;
	DAT_BOOLEAN lmr_sync_req;
	DAT_BOOLEAN dto_async_return_guaranteed;
	DAT_BOOLEAN rdma_write_for_rdma_read_req;
	DAT_COUNT num_provider_specific_attr;
	DAT_NAMED_ATTR *provider_specific_attr;
} DAT_PROVIDER_ATTR;

typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;
#define DAT_PROVIDER_FIELD_NONE UINT64_C(0x0)
#define DAT_PROVIDER_FIELD_PROVIDER_NAME UINT64_C(0x0000001)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR UINT64_C(0x0000002)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR UINT64_C(0x0000004)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR UINT64_C(0x0000008)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR UINT64_C(0x0000010)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED UINT64_C(0x0000020)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP UINT64_C(0x0000040)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED UINT64_C(0x0000080)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED UINT64_C(0x0000100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE UINT64_C(0x0000200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE UINT64_C(0x0000400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH UINT64_C(0x0000800)
#define DAT_PROVIDER_FIELD_EP_CREATOR UINT64_C(0x0001000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT UINT64_C(0x0002000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT UINT64_C(0x0004000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED UINT64_C(0x0008000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED UINT64_C(0x0010000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED UINT64_C(0x0020000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED UINT64_C(0x0040000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED UINT64_C(0x0080000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED UINT64_C(0x0100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ UINT64_C(0x0200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED UINT64_C(0x0400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ UINT64_C(0x0800000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR UINT64_C(0x1000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR UINT64_C(0x2000000)
#define DAT_PROVIDER_FIELD_ALL UINT64_C(0x3FFFFFF)

/* ---- Calls: each has a page in section 3 of the manual ---------------------------------------------------------------- */

/* Opens an interface adapter by its name. The version is the one that the program was compiled for. */
extern DAT_RETURN dat_ia_openv(
	IN const DAT_NAME_PTR ia_name,
	IN DAT_COUNT async_evd_min_qlen,
	INOUT DAT_EVD_HANDLE *async_evd_handle,
	OUT DAT_IA_HANDLE *ia_handle,
	IN DAT_UINT32 dapl_major,
	IN DAT_UINT32 dapl_minor,
	IN DAT_BOOLEAN thread_safety);
#define dat_ia_open(name, qlen, async_evd, ia) \
	dat_ia_openv((name), (qlen), (async_evd), (ia), DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_THREADSAFE)

/* Tells what can be opened. The list holds pointers to structures of the program. */
extern DAT_RETURN dat_registry_list_providers(
	IN DAT_COUNT max_to_return,
	OUT DAT_COUNT *entries_returned,
	OUT DAT_PROVIDER_INFO *(dat_provider_list[]));

/* Tells what an adapter and its provider are. */
extern DAT_RETURN dat_ia_query(
	IN DAT_IA_HANDLE ia_handle,
	OUT DAT_EVD_HANDLE *async_evd_handle,
	IN DAT_IA_ATTR_MASK ia_attr_mask,
	OUT DAT_IA_ATTR *ia_attr,
	IN DAT_PROVIDER_ATTR_MASK provider_attr_mask,
	OUT DAT_PROVIDER_ATTR *provider_attr);

/* Closes an adapter: with all its objects, or only if there are none. */
extern DAT_RETURN dat_ia_close(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_CLOSE_FLAGS flags);

/* Keeps eight bytes of the program's with an object. */
extern DAT_RETURN dat_set_consumer_context(
	IN DAT_HANDLE dat_handle,
	IN DAT_CONTEXT context);

/* Gives them back; 0 at first. */
extern DAT_RETURN dat_get_consumer_context(
	IN DAT_HANDLE dat_handle,
	OUT DAT_CONTEXT *context);

/* Tells the kind of an object. */
extern DAT_RETURN dat_get_handle_type(
	IN DAT_HANDLE dat_handle,
	OUT DAT_HANDLE_TYPE *handle_type);

/* Notification objects: one place to wait for several dispatchers. */
extern DAT_RETURN dat_cno_create(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_OS_WAIT_PROXY_AGENT agent,
	OUT DAT_CNO_HANDLE *cno_handle);

extern DAT_RETURN dat_cno_modify_agent(
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_OS_WAIT_PROXY_AGENT agent);

extern DAT_RETURN dat_cno_query(
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_CNO_PARAM_MASK cno_param_mask,
	OUT DAT_CNO_PARAM *cno_param);

extern DAT_RETURN dat_cno_free(
	IN DAT_CNO_HANDLE cno_handle);

extern DAT_RETURN dat_cno_wait(
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_TIMEOUT timeout,
	OUT DAT_EVD_HANDLE *evd_handle);

/* Requests to connect. Who answers one gives up its handle. */
extern DAT_RETURN dat_cr_query(
	IN DAT_CR_HANDLE cr_handle,
	IN DAT_CR_PARAM_MASK cr_param_mask,
	OUT DAT_CR_PARAM *cr_param);

extern DAT_RETURN dat_cr_accept(
	IN DAT_CR_HANDLE cr_handle,
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT private_data_size,
	IN const DAT_PVOID private_data);

extern DAT_RETURN dat_cr_reject(
	IN DAT_CR_HANDLE cr_handle);

extern DAT_RETURN dat_cr_handoff(
	IN DAT_CR_HANDLE cr_handle,
	IN DAT_CONN_QUAL handoff);

/* Event dispatchers: queues of events. */
extern DAT_RETURN dat_evd_create(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_COUNT evd_min_qlen,
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_EVD_FLAGS evd_flags,
	OUT DAT_EVD_HANDLE *evd_handle);

extern DAT_RETURN dat_evd_query(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_EVD_PARAM_MASK evd_param_mask,
	OUT DAT_EVD_PARAM *evd_param);

extern DAT_RETURN dat_evd_modify_cno(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_CNO_HANDLE cno_handle);

extern DAT_RETURN dat_evd_enable(
	IN DAT_EVD_HANDLE evd_handle);

extern DAT_RETURN dat_evd_disable(
	IN DAT_EVD_HANDLE evd_handle);

extern DAT_RETURN dat_evd_wait(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_TIMEOUT timeout,
	IN DAT_COUNT threshold,
	OUT DAT_EVENT *event,
	OUT DAT_COUNT *n_more_events);

extern DAT_RETURN dat_evd_resize(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_COUNT evd_min_qlen);

extern DAT_RETURN dat_evd_post_se(
	IN DAT_EVD_HANDLE evd_handle,
	IN const DAT_EVENT *event);

extern DAT_RETURN dat_evd_dequeue(
	IN DAT_EVD_HANDLE evd_handle,
	OUT DAT_EVENT *event);

extern DAT_RETURN dat_evd_free(
	IN DAT_EVD_HANDLE evd_handle);

/* Endpoints: sides of connections. */
extern DAT_RETURN dat_ep_create(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_EVD_HANDLE recv_evd_handle,
	IN DAT_EVD_HANDLE request_evd_handle,
	IN DAT_EVD_HANDLE connect_evd_handle,
	IN const DAT_EP_ATTR *ep_attributes,
	OUT DAT_EP_HANDLE *ep_handle);

extern DAT_RETURN dat_ep_query(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EP_PARAM_MASK ep_param_mask,
	OUT DAT_EP_PARAM *ep_param);

extern DAT_RETURN dat_ep_modify(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EP_PARAM_MASK ep_param_mask,
	IN const DAT_EP_PARAM *ep_param);

extern DAT_RETURN dat_ep_connect(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_IA_ADDRESS_PTR remote_ia_address,
	IN DAT_CONN_QUAL remote_conn_qual,
	IN DAT_TIMEOUT timeout,
	IN DAT_COUNT private_data_size,
	IN const DAT_PVOID private_data,
	IN DAT_QOS qos,
	IN DAT_CONNECT_FLAGS connect_flags);

extern DAT_RETURN dat_ep_dup_connect(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EP_HANDLE dup_ep_handle,
	IN DAT_TIMEOUT timeout,
	IN DAT_COUNT private_data_size,
	IN const DAT_PVOID private_data,
	IN DAT_QOS qos);

extern DAT_RETURN dat_ep_disconnect(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_CLOSE_FLAGS disconnect_flags);

/* Data transfer. The lists are the program's again when the call returns. */
extern DAT_RETURN dat_ep_post_send(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN DAT_COMPLETION_FLAGS completion_flags);

extern DAT_RETURN dat_ep_post_recv(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN DAT_COMPLETION_FLAGS completion_flags);

extern DAT_RETURN dat_ep_post_rdma_read(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN const DAT_RMR_TRIPLET *remote_buffer,
	IN DAT_COMPLETION_FLAGS completion_flags);

extern DAT_RETURN dat_ep_post_rdma_write(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN const DAT_RMR_TRIPLET *remote_buffer,
	IN DAT_COMPLETION_FLAGS completion_flags);

extern DAT_RETURN dat_ep_get_status(
	IN DAT_EP_HANDLE ep_handle,
	OUT DAT_EP_STATE *ep_state,
	OUT DAT_BOOLEAN *recv_idle,
	OUT DAT_BOOLEAN *request_idle);

extern DAT_RETURN dat_ep_free(
	IN DAT_EP_HANDLE ep_handle);

/* Local memory regions: memory that operations may use. */
extern DAT_RETURN dat_lmr_create(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_MEM_TYPE mem_type,
	IN DAT_REGION_DESCRIPTION region_description,
	IN DAT_VLEN length,
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_MEM_PRIV_FLAGS mem_privileges,
	OUT DAT_LMR_HANDLE *lmr_handle,
	OUT DAT_LMR_CONTEXT *lmr_context,
	OUT DAT_RMR_CONTEXT *rmr_context,
	OUT DAT_VLEN *registered_size,
	OUT DAT_VADDR *registered_address);

extern DAT_RETURN dat_lmr_query(
	IN DAT_LMR_HANDLE lmr_handle,
	IN DAT_LMR_PARAM_MASK lmr_param_mask,
	OUT DAT_LMR_PARAM *lmr_param);

extern DAT_RETURN dat_lmr_free(
	IN DAT_LMR_HANDLE lmr_handle);

/* Remote memory regions: parts of local ones that peers may use, bound by operations of an endpoint. */
extern DAT_RETURN dat_rmr_create(
	IN DAT_PZ_HANDLE pz_handle,
	OUT DAT_RMR_HANDLE *rmr_handle);

extern DAT_RETURN dat_rmr_query(
	IN DAT_RMR_HANDLE rmr_handle,
	IN DAT_RMR_PARAM_MASK rmr_param_mask,
	OUT DAT_RMR_PARAM *rmr_param);

extern DAT_RETURN dat_rmr_bind(
	IN DAT_RMR_HANDLE rmr_handle,
	IN DAT_LMR_TRIPLET *lmr_triplet,
	IN DAT_MEM_PRIV_FLAGS mem_privileges,
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_RMR_COOKIE user_cookie,
	IN DAT_COMPLETION_FLAGS completion_flags,
	OUT DAT_RMR_CONTEXT *rmr_context);

extern DAT_RETURN dat_rmr_free(
	IN DAT_RMR_HANDLE rmr_handle);

/* Service points: where peers connect to. */
extern DAT_RETURN dat_psp_create(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_CONN_QUAL conn_qual,
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_PSP_FLAGS psp_flags,
	OUT DAT_PSP_HANDLE *psp_handle);

extern DAT_RETURN dat_psp_query(
	IN DAT_PSP_HANDLE psp_handle,
	IN DAT_PSP_PARAM_MASK psp_param_mask,
	OUT DAT_PSP_PARAM *psp_param);

extern DAT_RETURN dat_psp_free(
	IN DAT_PSP_HANDLE psp_handle);

extern DAT_RETURN dat_rsp_create(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_CONN_QUAL conn_qual,
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EVD_HANDLE evd_handle,
	OUT DAT_RSP_HANDLE *rsp_handle);

extern DAT_RETURN dat_rsp_query(
	IN DAT_RSP_HANDLE rsp_handle,
	IN DAT_RSP_PARAM_MASK rsp_param_mask,
	OUT DAT_RSP_PARAM *rsp_param);

extern DAT_RETURN dat_rsp_free(
	IN DAT_RSP_HANDLE rsp_handle);

/* Protection zones. */
extern DAT_RETURN dat_pz_create(
	IN DAT_IA_HANDLE ia_handle,
	OUT DAT_PZ_HANDLE *pz_handle);

extern DAT_RETURN dat_pz_query(
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_PZ_PARAM_MASK pz_param_mask,
	OUT DAT_PZ_PARAM *pz_param);

extern DAT_RETURN dat_pz_free(
	IN DAT_PZ_HANDLE pz_handle);

extern DAT_RETURN dat_psp_create_any(
	IN DAT_IA_HANDLE ia_handle,
	OUT DAT_CONN_QUAL *conn_qual,
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_PSP_FLAGS psp_flags,
	OUT DAT_PSP_HANDLE *psp_handle);

extern DAT_RETURN dat_ep_reset(
	IN DAT_EP_HANDLE ep_handle);

extern DAT_RETURN dat_evd_set_unwaitable(
	IN DAT_EVD_HANDLE evd_handle);

extern DAT_RETURN dat_evd_clear_unwaitable(
	IN DAT_EVD_HANDLE evd_handle);

/* For memory that is not coherent with the adapter: after writing, before peers read; and after peers wrote, before reading. */
extern DAT_RETURN dat_lmr_sync_rdma_read(
	IN DAT_IA_HANDLE ia_handle,
	IN const DAT_LMR_TRIPLET *local_segments,
	IN DAT_VLEN num_segments);

extern DAT_RETURN dat_lmr_sync_rdma_write(
	IN DAT_IA_HANDLE ia_handle,
	IN const DAT_LMR_TRIPLET *local_segments,
	IN DAT_VLEN num_segments);

extern DAT_RETURN dat_ep_create_with_srq(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_EVD_HANDLE recv_evd_handle,
	IN DAT_EVD_HANDLE request_evd_handle,
	IN DAT_EVD_HANDLE connect_evd_handle,
	IN DAT_SRQ_HANDLE srq_handle,
	IN const DAT_EP_ATTR *ep_attributes,
	OUT DAT_EP_HANDLE *ep_handle);

extern DAT_RETURN dat_ep_recv_query(
	IN DAT_EP_HANDLE ep_handle,
	OUT DAT_COUNT *nbufs_allocated,
	OUT DAT_COUNT *bufs_alloc_span);

extern DAT_RETURN dat_ep_set_watermark(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT soft_high_watermark,
	IN DAT_COUNT hard_high_watermark);

/* Shared receive queues. */
extern DAT_RETURN dat_srq_create(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_SRQ_ATTR *srq_attr,
	OUT DAT_SRQ_HANDLE *srq_handle);

extern DAT_RETURN dat_srq_free(
	IN DAT_SRQ_HANDLE srq_handle);

extern DAT_RETURN dat_srq_post_recv(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie);

extern DAT_RETURN dat_srq_query(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_SRQ_PARAM_MASK srq_param_mask,
	OUT DAT_SRQ_PARAM *srq_param);

extern DAT_RETURN dat_srq_resize(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_COUNT srq_max_recv_dto);

extern DAT_RETURN dat_srq_set_lw(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_COUNT low_watermark);

#ifdef __cplusplus
}
#endif

#include <dat/dat_registry.h>

#endif /* _UDAT_H_ */

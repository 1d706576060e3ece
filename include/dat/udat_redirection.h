/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * udat_redirection.h - the table of a provider's calls
 */
#ifndef _UDAT_REDIRECTION_H_
#define _UDAT_REDIRECTION_H_

#ifndef _UDAT_H_
#error include <dat/udat.h>
#endif

#include <dat/dat_redirection.h>

#define DAT_CNO_CREATE(ia_handle, agent, cno_handle) \
	(*DAT_HANDLE_TO_PROVIDER(ia_handle)->cno_create_func)((ia_handle), (agent), (cno_handle))
#define DAT_CNO_MODIFY_AGENT(cno_handle, agent) \
	(*DAT_HANDLE_TO_PROVIDER(cno_handle)->cno_modify_agent_func)((cno_handle), (agent))
#define DAT_CNO_QUERY(cno_handle, cno_param_mask, cno_param) \
	(*DAT_HANDLE_TO_PROVIDER(cno_handle)->cno_query_func)((cno_handle), (cno_param_mask), (cno_param))
#define DAT_CNO_FREE(cno_handle) \
	(*DAT_HANDLE_TO_PROVIDER(cno_handle)->cno_free_func)((cno_handle))
#define DAT_CNO_WAIT(cno_handle, timeout, evd_handle) \
	(*DAT_HANDLE_TO_PROVIDER(cno_handle)->cno_wait_func)((cno_handle), (timeout), (evd_handle))
#define DAT_EVD_CREATE(ia_handle, evd_min_qlen, cno_handle, evd_flags, evd_handle) \
	(*DAT_HANDLE_TO_PROVIDER(ia_handle)->evd_create_func)((ia_handle), (evd_min_qlen), (cno_handle), (evd_flags), (evd_handle))
#define DAT_EVD_QUERY(evd_handle, evd_param_mask, evd_param) \
	(*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_query_func)((evd_handle), (evd_param_mask), (evd_param))
#define DAT_EVD_MODIFY_CNO(evd_handle, cno_handle) \
	(*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_modify_cno_func)((evd_handle), (cno_handle))
#define DAT_EVD_ENABLE(evd_handle) \
	(*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_enable_func)((evd_handle))
#define DAT_EVD_DISABLE(evd_handle) \
	(*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_disable_func)((evd_handle))
#define DAT_EVD_WAIT(evd_handle, timeout, threshold, event, n_more_events) \
	(*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_wait_func)((evd_handle), (timeout), (threshold), (event), (n_more_events))
#define DAT_LMR_CREATE(ia_handle, mem_type, region_description, length, pz_handle, mem_privileges, lmr_handle, lmr_context, rmr_context, registered_size, registered_address) \
	(*DAT_HANDLE_TO_PROVIDER(ia_handle)->lmr_create_func)((ia_handle), (mem_type), (region_description), (length), (pz_handle), (mem_privileges), (lmr_handle), (lmr_context), (rmr_context), (registered_size), (registered_address))
#define DAT_LMR_QUERY(lmr_handle, lmr_param_mask, lmr_param) \
	(*DAT_HANDLE_TO_PROVIDER(lmr_handle)->lmr_query_func)((lmr_handle), (lmr_param_mask), (lmr_param))
#define DAT_LMR_FREE(lmr_handle) \
	(*DAT_HANDLE_TO_PROVIDER(lmr_handle)->lmr_free_func)((lmr_handle))
#define DAT_EVD_SET_UNWAITABLE(evd_handle) \
	(*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_set_unwaitable_func)((evd_handle))
#define DAT_EVD_CLEAR_UNWAITABLE(evd_handle) \
	(*DAT_HANDLE_TO_PROVIDER(evd_handle)->evd_clear_unwaitable_func)((evd_handle))
#define DAT_LMR_SYNC_RDMA_READ(ia_handle, local_segments, num_segments) \
	(*DAT_HANDLE_TO_PROVIDER(ia_handle)->lmr_sync_rdma_read_func)((ia_handle), (local_segments), (num_segments))
#define DAT_LMR_SYNC_RDMA_WRITE(ia_handle, local_segments, num_segments) \
	(*DAT_HANDLE_TO_PROVIDER(ia_handle)->lmr_sync_rdma_write_func)((ia_handle), (local_segments), (num_segments))

typedef DAT_RETURN (DAT_API *DAT_IA_OPEN_FUNC)(
	IN const DAT_NAME_PTR ia_name,
	IN DAT_COUNT async_evd_min_qlen,
	INOUT DAT_EVD_HANDLE *async_evd_handle,
	OUT DAT_IA_HANDLE *ia_handle);
typedef DAT_RETURN (DAT_API *DAT_IA_QUERY_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	OUT DAT_EVD_HANDLE *async_evd_handle,
	IN DAT_IA_ATTR_MASK ia_attr_mask,
	OUT DAT_IA_ATTR *ia_attr,
	IN DAT_PROVIDER_ATTR_MASK provider_attr_mask,
	OUT DAT_PROVIDER_ATTR *provider_attr);
typedef DAT_RETURN (DAT_API *DAT_IA_CLOSE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_CLOSE_FLAGS flags);
typedef DAT_RETURN (DAT_API *DAT_SET_CONSUMER_CONTEXT_FUNC)(
	IN DAT_HANDLE dat_handle,
	IN DAT_CONTEXT context);
typedef DAT_RETURN (DAT_API *DAT_GET_CONSUMER_CONTEXT_FUNC)(
	IN DAT_HANDLE dat_handle,
	OUT DAT_CONTEXT *context);
typedef DAT_RETURN (DAT_API *DAT_GET_HANDLE_TYPE_FUNC)(
	IN DAT_HANDLE dat_handle,
	OUT DAT_HANDLE_TYPE *handle_type);
typedef DAT_RETURN (DAT_API *DAT_CNO_CREATE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_OS_WAIT_PROXY_AGENT agent,
	OUT DAT_CNO_HANDLE *cno_handle);
typedef DAT_RETURN (DAT_API *DAT_CNO_MODIFY_AGENT_FUNC)(
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_OS_WAIT_PROXY_AGENT agent);
typedef DAT_RETURN (DAT_API *DAT_CNO_QUERY_FUNC)(
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_CNO_PARAM_MASK cno_param_mask,
	OUT DAT_CNO_PARAM *cno_param);
typedef DAT_RETURN (DAT_API *DAT_CNO_FREE_FUNC)(
	IN DAT_CNO_HANDLE cno_handle);
typedef DAT_RETURN (DAT_API *DAT_CNO_WAIT_FUNC)(
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_TIMEOUT timeout,
	OUT DAT_EVD_HANDLE *evd_handle);
typedef DAT_RETURN (DAT_API *DAT_CR_QUERY_FUNC)(
	IN DAT_CR_HANDLE cr_handle,
	IN DAT_CR_PARAM_MASK cr_param_mask,
	OUT DAT_CR_PARAM *cr_param);
typedef DAT_RETURN (DAT_API *DAT_CR_ACCEPT_FUNC)(
	IN DAT_CR_HANDLE cr_handle,
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT private_data_size,
	IN const DAT_PVOID private_data);
typedef DAT_RETURN (DAT_API *DAT_CR_REJECT_FUNC)(
	IN DAT_CR_HANDLE cr_handle);
typedef DAT_RETURN (DAT_API *DAT_CR_HANDOFF_FUNC)(
	IN DAT_CR_HANDLE cr_handle,
	IN DAT_CONN_QUAL handoff);
typedef DAT_RETURN (DAT_API *DAT_EVD_CREATE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_COUNT evd_min_qlen,
	IN DAT_CNO_HANDLE cno_handle,
	IN DAT_EVD_FLAGS evd_flags,
	OUT DAT_EVD_HANDLE *evd_handle);
typedef DAT_RETURN (DAT_API *DAT_EVD_QUERY_FUNC)(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_EVD_PARAM_MASK evd_param_mask,
	OUT DAT_EVD_PARAM *evd_param);
typedef DAT_RETURN (DAT_API *DAT_EVD_MODIFY_CNO_FUNC)(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_CNO_HANDLE cno_handle);
typedef DAT_RETURN (DAT_API *DAT_EVD_ENABLE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle);
typedef DAT_RETURN (DAT_API *DAT_EVD_DISABLE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle);
typedef DAT_RETURN (DAT_API *DAT_EVD_WAIT_FUNC)(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_TIMEOUT timeout,
	IN DAT_COUNT threshold,
	OUT DAT_EVENT *event,
	OUT DAT_COUNT *n_more_events);
typedef DAT_RETURN (DAT_API *DAT_EVD_RESIZE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_COUNT evd_min_qlen);
typedef DAT_RETURN (DAT_API *DAT_EVD_POST_SE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle,
	IN const DAT_EVENT *event);
typedef DAT_RETURN (DAT_API *DAT_EVD_DEQUEUE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle,
	OUT DAT_EVENT *event);
typedef DAT_RETURN (DAT_API *DAT_EVD_FREE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle);
typedef DAT_RETURN (DAT_API *DAT_EP_CREATE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_EVD_HANDLE recv_evd_handle,
	IN DAT_EVD_HANDLE request_evd_handle,
	IN DAT_EVD_HANDLE connect_evd_handle,
	IN const DAT_EP_ATTR *ep_attributes,
	OUT DAT_EP_HANDLE *ep_handle);
typedef DAT_RETURN (DAT_API *DAT_EP_QUERY_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EP_PARAM_MASK ep_param_mask,
	OUT DAT_EP_PARAM *ep_param);
typedef DAT_RETURN (DAT_API *DAT_EP_MODIFY_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EP_PARAM_MASK ep_param_mask,
	IN const DAT_EP_PARAM *ep_param);
typedef DAT_RETURN (DAT_API *DAT_EP_CONNECT_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_IA_ADDRESS_PTR remote_ia_address,
	IN DAT_CONN_QUAL remote_conn_qual,
	IN DAT_TIMEOUT timeout,
	IN DAT_COUNT private_data_size,
	IN const DAT_PVOID private_data,
	IN DAT_QOS qos,
	IN DAT_CONNECT_FLAGS connect_flags);
typedef DAT_RETURN (DAT_API *DAT_EP_DUP_CONNECT_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EP_HANDLE dup_ep_handle,
	IN DAT_TIMEOUT timeout,
	IN DAT_COUNT private_data_size,
	IN const DAT_PVOID private_data,
	IN DAT_QOS qos);
typedef DAT_RETURN (DAT_API *DAT_EP_DISCONNECT_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_CLOSE_FLAGS disconnect_flags);
typedef DAT_RETURN (DAT_API *DAT_EP_POST_SEND_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (DAT_API *DAT_EP_POST_RECV_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (DAT_API *DAT_EP_POST_RDMA_READ_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN const DAT_RMR_TRIPLET *remote_buffer,
	IN DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (DAT_API *DAT_EP_POST_RDMA_WRITE_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie,
	IN const DAT_RMR_TRIPLET *remote_buffer,
	IN DAT_COMPLETION_FLAGS completion_flags);
typedef DAT_RETURN (DAT_API *DAT_EP_GET_STATUS_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	OUT DAT_EP_STATE *ep_state,
	OUT DAT_BOOLEAN *recv_idle,
	OUT DAT_BOOLEAN *request_idle);
typedef DAT_RETURN (DAT_API *DAT_EP_FREE_FUNC)(
	IN DAT_EP_HANDLE ep_handle);
typedef DAT_RETURN (DAT_API *DAT_LMR_CREATE_FUNC)(
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
typedef DAT_RETURN (DAT_API *DAT_LMR_QUERY_FUNC)(
	IN DAT_LMR_HANDLE lmr_handle,
	IN DAT_LMR_PARAM_MASK lmr_param_mask,
	OUT DAT_LMR_PARAM *lmr_param);
typedef DAT_RETURN (DAT_API *DAT_LMR_FREE_FUNC)(
	IN DAT_LMR_HANDLE lmr_handle);
typedef DAT_RETURN (DAT_API *DAT_RMR_CREATE_FUNC)(
	IN DAT_PZ_HANDLE pz_handle,
	OUT DAT_RMR_HANDLE *rmr_handle);
typedef DAT_RETURN (DAT_API *DAT_RMR_QUERY_FUNC)(
	IN DAT_RMR_HANDLE rmr_handle,
	IN DAT_RMR_PARAM_MASK rmr_param_mask,
	OUT DAT_RMR_PARAM *rmr_param);
typedef DAT_RETURN (DAT_API *DAT_RMR_BIND_FUNC)(
	IN DAT_RMR_HANDLE rmr_handle,
	IN const DAT_LMR_TRIPLET *lmr_triplet,
	IN DAT_MEM_PRIV_FLAGS mem_privileges,
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_RMR_COOKIE user_cookie,
	IN DAT_COMPLETION_FLAGS completion_flags,
	OUT DAT_RMR_CONTEXT *rmr_context);
typedef DAT_RETURN (DAT_API *DAT_RMR_FREE_FUNC)(
	IN DAT_RMR_HANDLE rmr_handle);
typedef DAT_RETURN (DAT_API *DAT_PSP_CREATE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_CONN_QUAL conn_qual,
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_PSP_FLAGS psp_flags,
	OUT DAT_PSP_HANDLE *psp_handle);
typedef DAT_RETURN (DAT_API *DAT_PSP_QUERY_FUNC)(
	IN DAT_PSP_HANDLE psp_handle,
	IN DAT_PSP_PARAM_MASK psp_param_mask,
	OUT DAT_PSP_PARAM *psp_param);
typedef DAT_RETURN (DAT_API *DAT_PSP_FREE_FUNC)(
	IN DAT_PSP_HANDLE psp_handle);
typedef DAT_RETURN (DAT_API *DAT_RSP_CREATE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_CONN_QUAL conn_qual,
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_EVD_HANDLE evd_handle,
	OUT DAT_RSP_HANDLE *rsp_handle);
typedef DAT_RETURN (DAT_API *DAT_RSP_QUERY_FUNC)(
	IN DAT_RSP_HANDLE rsp_handle,
	IN DAT_RSP_PARAM_MASK rsp_param_mask,
	OUT DAT_RSP_PARAM *rsp_param);
typedef DAT_RETURN (DAT_API *DAT_RSP_FREE_FUNC)(
	IN DAT_RSP_HANDLE rsp_handle);
typedef DAT_RETURN (DAT_API *DAT_PZ_CREATE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	OUT DAT_PZ_HANDLE *pz_handle);
typedef DAT_RETURN (DAT_API *DAT_PZ_QUERY_FUNC)(
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_PZ_PARAM_MASK pz_param_mask,
	OUT DAT_PZ_PARAM *pz_param);
typedef DAT_RETURN (DAT_API *DAT_PZ_FREE_FUNC)(
	IN DAT_PZ_HANDLE pz_handle);
typedef DAT_RETURN (DAT_API *DAT_PSP_CREATE_ANY_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	OUT DAT_CONN_QUAL *conn_qual,
	IN DAT_EVD_HANDLE evd_handle,
	IN DAT_PSP_FLAGS psp_flags,
	OUT DAT_PSP_HANDLE *psp_handle);
typedef DAT_RETURN (DAT_API *DAT_EP_RESET_FUNC)(
	IN DAT_EP_HANDLE ep_handle);
typedef DAT_RETURN (DAT_API *DAT_EVD_SET_UNWAITABLE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle);
typedef DAT_RETURN (DAT_API *DAT_EVD_CLEAR_UNWAITABLE_FUNC)(
	IN DAT_EVD_HANDLE evd_handle);
typedef DAT_RETURN (DAT_API *DAT_LMR_SYNC_RDMA_READ_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN const DAT_LMR_TRIPLET *local_segments,
	IN DAT_VLEN num_segments);
typedef DAT_RETURN (DAT_API *DAT_LMR_SYNC_RDMA_WRITE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN const DAT_LMR_TRIPLET *local_segments,
	IN DAT_VLEN num_segments);
typedef DAT_RETURN (DAT_API *DAT_EP_CREATE_WITH_SRQ_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_EVD_HANDLE recv_evd_handle,
	IN DAT_EVD_HANDLE request_evd_handle,
	IN DAT_EVD_HANDLE connect_evd_handle,
	IN DAT_SRQ_HANDLE srq_handle,
	IN const DAT_EP_ATTR *ep_attributes,
	OUT DAT_EP_HANDLE *ep_handle);
typedef DAT_RETURN (DAT_API *DAT_EP_RECV_QUERY_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	OUT DAT_COUNT *nbufs_allocated,
	OUT DAT_COUNT *bufs_alloc_span);
typedef DAT_RETURN (DAT_API *DAT_EP_SET_WATERMARK_FUNC)(
	IN DAT_EP_HANDLE ep_handle,
	IN DAT_COUNT soft_high_watermark,
	IN DAT_COUNT hard_high_watermark);
typedef DAT_RETURN (DAT_API *DAT_SRQ_CREATE_FUNC)(
	IN DAT_IA_HANDLE ia_handle,
	IN DAT_PZ_HANDLE pz_handle,
	IN DAT_SRQ_ATTR *srq_attr,
	OUT DAT_SRQ_HANDLE *srq_handle);
typedef DAT_RETURN (DAT_API *DAT_SRQ_FREE_FUNC)(
	IN DAT_SRQ_HANDLE srq_handle);
typedef DAT_RETURN (DAT_API *DAT_SRQ_POST_RECV_FUNC)(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_COUNT num_segments,
	IN DAT_LMR_TRIPLET *local_iov,
	IN DAT_DTO_COOKIE user_cookie);
typedef DAT_RETURN (DAT_API *DAT_SRQ_QUERY_FUNC)(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_SRQ_PARAM_MASK srq_param_mask,
	OUT DAT_SRQ_PARAM *srq_param);
typedef DAT_RETURN (DAT_API *DAT_SRQ_RESIZE_FUNC)(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_COUNT srq_max_recv_dto);
typedef DAT_RETURN (DAT_API *DAT_SRQ_SET_LW_FUNC)(
	IN DAT_SRQ_HANDLE srq_handle,
	IN DAT_COUNT low_watermark);

struct dat_provider {
	const char *device_name;
	DAT_PVOID extension; /* the provider's own */

	DAT_IA_OPEN_FUNC ia_open_func;

	/* Interface adapters */
	DAT_IA_QUERY_FUNC ia_query_func;
	DAT_IA_CLOSE_FUNC ia_close_func;
	DAT_SET_CONSUMER_CONTEXT_FUNC set_consumer_context_func;
	DAT_GET_CONSUMER_CONTEXT_FUNC get_consumer_context_func;
	DAT_GET_HANDLE_TYPE_FUNC get_handle_type_func;

	/* Notification objects */
	DAT_CNO_CREATE_FUNC cno_create_func;
	DAT_CNO_MODIFY_AGENT_FUNC cno_modify_agent_func;
	DAT_CNO_QUERY_FUNC cno_query_func;
	DAT_CNO_FREE_FUNC cno_free_func;
	DAT_CNO_WAIT_FUNC cno_wait_func;

	/* Connection requests */
	DAT_CR_QUERY_FUNC cr_query_func;
	DAT_CR_ACCEPT_FUNC cr_accept_func;
	DAT_CR_REJECT_FUNC cr_reject_func;
	DAT_CR_HANDOFF_FUNC cr_handoff_func;

	/* Event dispatchers */
	DAT_EVD_CREATE_FUNC evd_create_func;
	DAT_EVD_QUERY_FUNC evd_query_func;
	DAT_EVD_MODIFY_CNO_FUNC evd_modify_cno_func;
	DAT_EVD_ENABLE_FUNC evd_enable_func;
	DAT_EVD_DISABLE_FUNC evd_disable_func;
	DAT_EVD_WAIT_FUNC evd_wait_func;
	DAT_EVD_RESIZE_FUNC evd_resize_func;
	DAT_EVD_POST_SE_FUNC evd_post_se_func;
	DAT_EVD_DEQUEUE_FUNC evd_dequeue_func;
	DAT_EVD_FREE_FUNC evd_free_func;

	/* Endpoints */
	DAT_EP_CREATE_FUNC ep_create_func;
	DAT_EP_QUERY_FUNC ep_query_func;
	DAT_EP_MODIFY_FUNC ep_modify_func;
	DAT_EP_CONNECT_FUNC ep_connect_func;
	DAT_EP_DUP_CONNECT_FUNC ep_dup_connect_func;
	DAT_EP_DISCONNECT_FUNC ep_disconnect_func;
	DAT_EP_POST_SEND_FUNC ep_post_send_func;
	DAT_EP_POST_RECV_FUNC ep_post_recv_func;
	DAT_EP_POST_RDMA_READ_FUNC ep_post_rdma_read_func;
	DAT_EP_POST_RDMA_WRITE_FUNC ep_post_rdma_write_func;
	DAT_EP_GET_STATUS_FUNC ep_get_status_func;
	DAT_EP_FREE_FUNC ep_free_func;

	/* Local memory regions */
	DAT_LMR_CREATE_FUNC lmr_create_func;
	DAT_LMR_QUERY_FUNC lmr_query_func;
	DAT_LMR_FREE_FUNC lmr_free_func;

	/* Remote memory regions */
	DAT_RMR_CREATE_FUNC rmr_create_func;
	DAT_RMR_QUERY_FUNC rmr_query_func;
	DAT_RMR_BIND_FUNC rmr_bind_func;
	DAT_RMR_FREE_FUNC rmr_free_func;

	/* Service points */
	DAT_PSP_CREATE_FUNC psp_create_func;
	DAT_PSP_QUERY_FUNC psp_query_func;
	DAT_PSP_FREE_FUNC psp_free_func;
	DAT_RSP_CREATE_FUNC rsp_create_func;
	DAT_RSP_QUERY_FUNC rsp_query_func;
	DAT_RSP_FREE_FUNC rsp_free_func;

	/* Protection zones */
	DAT_PZ_CREATE_FUNC pz_create_func;
	DAT_PZ_QUERY_FUNC pz_query_func;
	DAT_PZ_FREE_FUNC pz_free_func;

	/* What 1.1 added */
	DAT_PSP_CREATE_ANY_FUNC psp_create_any_func;
	DAT_EP_RESET_FUNC ep_reset_func;
	DAT_EVD_SET_UNWAITABLE_FUNC evd_set_unwaitable_func;
	DAT_EVD_CLEAR_UNWAITABLE_FUNC evd_clear_unwaitable_func;

	/* What 1.2 added */
	DAT_LMR_SYNC_RDMA_READ_FUNC lmr_sync_rdma_read_func;
	DAT_LMR_SYNC_RDMA_WRITE_FUNC lmr_sync_rdma_write_func;
	DAT_EP_CREATE_WITH_SRQ_FUNC ep_create_with_srq_func;
	DAT_EP_RECV_QUERY_FUNC ep_recv_query_func;
	DAT_EP_SET_WATERMARK_FUNC ep_set_watermark_func;
	DAT_SRQ_CREATE_FUNC srq_create_func;
	DAT_SRQ_FREE_FUNC srq_free_func;
	DAT_SRQ_POST_RECV_FUNC srq_post_recv_func;
	DAT_SRQ_QUERY_FUNC srq_query_func;
	DAT_SRQ_RESIZE_FUNC srq_resize_func;
	DAT_SRQ_SET_LW_FUNC srq_set_lw_func;
};

#endif

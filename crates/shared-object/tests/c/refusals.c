/* Arguments the C interface can get wrong, and extensions this release lacks: each refusal with its errno. */

#include "check.h"

static void registration(struct fixture *f)
{
	static char buffer[4096];
	static const char constant[4096] = {1};
	struct ibv_mr *mr;
	REFUSED("unknown access bits", EINVAL, ibv_reg_mr(f->pd, buffer, 64, 1 << 10));
	REFUSED("remote write without local write", EINVAL, ibv_reg_mr(f->pd, buffer, 64, IBV_ACCESS_REMOTE_WRITE));
	REFUSED("on-demand paging that wraps around", EINVAL,
		ibv_reg_mr(f->pd, (void *)-4096l, 8192, IBV_ACCESS_ON_DEMAND));
	REFUSED("wraps around", EINVAL, ibv_reg_mr(f->pd, (void *)-4096l, 8192, 0));
	REFUSED("not mapped", EFAULT, ibv_reg_mr(f->pd, (void *)64, 64, 0));
	REFUSED("read-only and to be written", EFAULT,
		ibv_reg_mr(f->pd, (void *)constant, sizeof(constant), IBV_ACCESS_LOCAL_WRITE));
	CHECK("read-only and to be read", (mr = ibv_reg_mr(f->pd, (void *)constant, sizeof(constant), 0)));
	CHECK("dereg", !ibv_dereg_mr(mr));
	int optional = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING | 1 << 29;
	CHECK("optional bits are dropped", (mr = ibv_reg_mr(f->pd, buffer, 64, optional)));
	CHECK("rereg of nothing", ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD && errno == EINVAL);
	CHECK("dereg", !ibv_dereg_mr(mr));
	CHECK("an own base", (mr = ibv_reg_mr_iova(f->pd, buffer, 64, 0x123000, IBV_ACCESS_LOCAL_WRITE)));
	CHECK("the structure keeps the program's address", mr->addr == buffer);
	CHECK("dereg", !ibv_dereg_mr(mr));
	REFUSED("dmabuf", EOPNOTSUPP, ibv_reg_dmabuf_mr(f->pd, 0, 64, 0, 0, 0));
	REFUSED("advice about nothing", EINVAL, ibv_advise_mr(f->pd, 0, 0, NULL, 0));
	REFUSED("window of no type", EINVAL, ibv_alloc_mw(f->pd, 7));
}

static void device_memory(struct fixture *f)
{
	char in[64], out[64];
	struct ibv_device_attr_ex attr;
	CHECK("extended attributes", !ibv_query_device_ex(f->context, NULL, &attr) && attr.max_dm_size > 0);
	REFUSED("no length", EINVAL, ibv_alloc_dm(f->context, &(struct ibv_alloc_dm_attr){.length = 0}));
	REFUSED("more than there is", EINVAL,
		ibv_alloc_dm(f->context, &(struct ibv_alloc_dm_attr){.length = attr.max_dm_size + 1}));
	REFUSED("unknown mask", EINVAL, ibv_alloc_dm(f->context, &(struct ibv_alloc_dm_attr){.length = 64, .comp_mask = 1}));
	struct ibv_dm *dm = ibv_alloc_dm(f->context, &(struct ibv_alloc_dm_attr){.length = 64, .log_align_req = 6});
	CHECK("device memory", dm);
	memset(in, 7, sizeof(in));
	memset(out, 1, sizeof(out));
	CHECK("in", !ibv_memcpy_to_dm(dm, 0, in, 64));
	CHECK("out", !ibv_memcpy_from_dm(out, dm, 0, 64) && !memcmp(in, out, 64));
	REFUSED("beyond the end", EFAULT, ibv_memcpy_to_dm(dm, 4, in, 64));
	REFUSED("offset wraps", EFAULT, ibv_memcpy_to_dm(dm, -4ull, in, 8));
	REFUSED("a byte beyond the end", EFAULT, ibv_memcpy_to_dm(dm, 61, in, 4));
	REFUSED("... and from there", EFAULT, ibv_memcpy_from_dm(out, dm, 64, 1));
	REFUSED("not zero based", EINVAL, ibv_reg_dm_mr(f->pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE));
	REFUSED("paging", EINVAL, ibv_reg_dm_mr(f->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND));
	REFUSED("beyond the memory", EINVAL, ibv_reg_dm_mr(f->pd, dm, 4, 64, IBV_ACCESS_ZERO_BASED));
	struct ibv_mr *mr = ibv_reg_dm_mr(f->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	CHECK("a region of it has no address", mr && !mr->addr && mr->length == 64);
	REFUSED("memory with a region: free", EBUSY, ibv_free_dm(dm));
	CHECK("dereg", !ibv_dereg_mr(mr));
	CHECK("free", !ibv_free_dm(dm));
}

static void queries(struct fixture *f)
{
	struct ibv_device_attr attr;
	union ibv_gid gid;
	struct ibv_gid_entry entries[256];
	uint16_t pkey;
	CHECK("device", !ibv_query_device(f->context, &attr));
	CHECK("who made it", attr.node_guid && attr.sys_image_guid && attr.vendor_id && attr.fw_ver[0]);
	CHECK("one port", attr.phys_port_cnt == 1 && attr.max_pkeys > 0 && attr.max_qp > 0 && attr.max_cqe > 0);
	CHECK("the name of the device", !strncmp(ibv_get_device_name(f->context->device), "nonic", 5));
	CHECK("its GUID", ibv_get_device_guid(f->context->device) == attr.node_guid);
	CHECK("port is active", f->port.state == IBV_PORT_ACTIVE && f->port.phys_state == 5);
	CHECK("a link layer", f->port.link_layer == IBV_LINK_LAYER_ETHERNET || f->port.lid);
	REFUSED("no such port", EINVAL, ibv_query_port(f->context, 2, &f->port));
	REFUSED("no such GID", EINVAL, ibv_query_gid(f->context, 1, f->port.gid_tbl_len, &gid));
	REFUSED("negative GID", EINVAL, ibv_query_gid(f->context, 1, -1, &gid));
	REFUSED("GID of no port", EINVAL, ibv_query_gid(f->context, 0, 0, &gid));
	long count = ibv_query_gid_table(f->context, entries, 256, 0);
	CHECK("the table has entries", count > 0 && count <= f->port.gid_tbl_len);
	CHECK("the first is that of query_gid", !memcmp(&entries[0].gid, &f->gid, sizeof(gid)));
	CHECK("a small array is refused", ibv_query_gid_table(f->context, entries, count - 1, 0) == -EINVAL);
	struct ibv_gid_entry entry;
	CHECK("one entry", !ibv_query_gid_ex(f->context, 1, 0, &entry, 0) && entry.port_num == 1);
	REFUSED("flags", EINVAL, ibv_query_gid_ex(f->context, 1, 0, &entry, 1));
	REFUSED("no such entry", EINVAL, ibv_query_gid_ex(f->context, 1, 1 << 20, &entry, 0));
	if (count < f->port.gid_tbl_len) {
		REFUSED("empty entry", ENODATA, ibv_query_gid_ex(f->context, 1, count, &entry, 0));
		CHECK("empty GID", !ibv_query_gid(f->context, 1, count, &gid) && !gid.global.interface_id);
	}
	CHECK("P_Key", !ibv_query_pkey(f->context, 1, 0, &pkey) && pkey == 0xffff);
	CHECK("its index", ibv_get_pkey_index(f->context, 1, pkey) == 0);
	REFUSED("no such P_Key", EINVAL, ibv_query_pkey(f->context, 1, f->port.pkey_tbl_len, &pkey));
	REFUSED("P_Key in no table", EINVAL, ibv_get_pkey_index(f->context, 1, 0x1234));
	CHECK("fork needs no preparation", ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	CHECK("whoever asks for it gets it", !ibv_fork_init() && ibv_is_fork_initialized() == IBV_FORK_ENABLED);
	CHECK("and once more", !ibv_fork_init() && ibv_is_fork_initialized() == IBV_FORK_ENABLED);
}

static void creation(struct fixture *f)
{
	struct ibv_qp_init_attr init = {.send_cq = f->cq, .recv_cq = f->cq, .qp_type = IBV_QPT_RAW_PACKET};
	REFUSED("raw packets", EOPNOTSUPP, ibv_create_qp(f->pd, &init));
	init.qp_type = 77;
	REFUSED("no such type", EINVAL, ibv_create_qp(f->pd, &init));
	init.qp_type = IBV_QPT_RC;
	init.send_cq = NULL;
	REFUSED("no queue", EINVAL, ibv_create_qp(f->pd, &init));
	init.send_cq = f->cq;
	init.cap.max_send_wr = 1 << 30;
	REFUSED("too large", EINVAL, ibv_create_qp(f->pd, &init));
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = f->pd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(f->context, &ex);
	CHECK("extended, asking for nothing more", qp && !ibv_qp_to_qp_ex(qp));
	struct ibv_ece ece = {0};
	REFUSED("connection options", EOPNOTSUPP, ibv_query_ece(qp, &ece));
	REFUSED("a group for connections", EINVAL, ibv_attach_mcast(qp, &f->gid, 0));
	CHECK("destroy", !ibv_destroy_qp(qp));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	ex.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO;
	REFUSED("segmentation", EOPNOTSUPP, ibv_create_qp_ex(f->context, &ex));
	ex.send_ops_flags = 1ull << 40;
	REFUSED("unknown operation", EINVAL, ibv_create_qp_ex(f->context, &ex));
	ex.qp_type = IBV_QPT_UC;
	ex.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
	REFUSED("reads of an unreliable connection", EOPNOTSUPP, ibv_create_qp_ex(f->context, &ex));
	ex.qp_type = IBV_QPT_UD;
	ex.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	REFUSED("writes of datagrams", EOPNOTSUPP, ibv_create_qp_ex(f->context, &ex));
	ex.qp_type = IBV_QPT_RC;
	ex.send_ops_flags = IBV_QP_EX_WITH_SEND;
	qp = ibv_create_qp_ex(f->context, &ex);
	CHECK("builder calls", qp && (void *)ibv_qp_to_qp_ex(qp) == (void *)qp);
	struct ibv_qp_ex *destroyed = ibv_qp_to_qp_ex(qp);
	CHECK("destroy", !ibv_destroy_qp(qp));
	CHECK("a destroyed queue pair has none", !ibv_qp_to_qp_ex(qp));
	ibv_wr_start(destroyed);
	ibv_wr_send(destroyed);
	REFUSED("and takes nothing", EINVAL, ibv_wr_complete(destroyed));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | 1 << 30;
	REFUSED("unknown mask", EINVAL, ibv_create_qp_ex(f->context, &ex));
	struct ibv_cq_init_attr_ex cq_ex = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};
	REFUSED("extended queue with flow tags", EOPNOTSUPP, ibv_create_cq_ex(f->context, &cq_ex));
	REFUSED("XRC domain", EINVAL, ibv_open_xrcd(f->context, &(struct ibv_xrcd_init_attr){0}));
	REFUSED("parent domain of nothing", EINVAL,
		ibv_alloc_parent_domain(f->context, &(struct ibv_parent_domain_init_attr){0}));
	REFUSED("import", EINVAL, ibv_import_device(f->context->async_fd));
	REFUSED("import of memory", ENOENT, ibv_import_dm(f->context, 1));
}

int main(void)
{
	struct fixture f;
	open_fixture(&f);
	registration(&f);
	device_memory(&f);
	queries(&f);
	creation(&f);
	close_fixture(&f);
	return finish();
}

//! The structures of `rdma/rdma_cma.h` (rdma-core 44, 64 bit), written out by hand, one file per noun.
//!
//! Sizes and offsets are promises to programs compiled years ago: each structure states them in a `layout!` block that fails
//! the build when they move, and `tests/layout.rs` compares them with the header of the distribution. Structures of
//! `infiniband/verbs.h` are those of the verbs face, whose objects these lead to.

#![allow(non_camel_case_types, reason = "the names are those of the C header")]
#![allow(missing_docs, reason = "the fields are those of the C header and explained by its manual pages")]

mod address_info;
mod event;
mod identifier;
mod multicast;
mod numbers;

pub use address_info::{rdma_addrinfo, sockaddr_ib};
pub use event::{rdma_cm_event, rdma_cm_event_param, rdma_conn_param, rdma_event_channel, rdma_ud_param};
pub use identifier::{rdma_addr, rdma_cm_id, rdma_ib_addr, rdma_route};
pub use multicast::rdma_cm_join_mc_attr_ex;
pub use nonic_verbs::abi::{
    ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_ece, ibv_gid, ibv_pd, ibv_qp, ibv_qp_attr,
    ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_sa_path_rec, ibv_srq, ibv_srq_init_attr,
    ibv_srq_init_attr_ex,
};
pub use numbers::*;

pub use libc::{epoll_event, fd_set, iovec, msghdr, pollfd, sockaddr, timeval};

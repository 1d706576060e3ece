//! What the pointers of the calls lead to, none of which is followed here.

#![allow(non_camel_case_types, reason = "the names are those of the C header")]

pub use libc::{epoll_event, fd_set, iovec, msghdr, pollfd, sockaddr, timeval};

macro_rules! opaque {
    ($($name:ident),* $(,)?) => {$(
        #[doc = concat!("`struct ", stringify!($name), "`")]
        pub enum $name {}
    )*};
}

opaque! {
    ibv_context, ibv_ece, ibv_pd, ibv_qp_attr, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_srq_init_attr,
    ibv_srq_init_attr_ex, rdma_addrinfo, rdma_cm_event, rdma_cm_id, rdma_cm_join_mc_attr_ex, rdma_conn_param,
    rdma_event_channel,
}

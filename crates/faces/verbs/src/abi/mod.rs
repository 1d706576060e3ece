//! The structures of `infiniband/verbs.h` (rdma-core 44, x86-64), written out by hand, one file per noun.
//!
//! Sizes and offsets are promises to programs compiled years ago: each structure states them in a `layout!`
//! block that fails the build when they move, and `tests/layout.rs` compares them with the header of the
//! distribution. Names are those of the header, so that a manual page and this module can be read side by
//! side.

#![allow(non_camel_case_types, non_snake_case, reason = "the names are those of the C header")]
#![allow(missing_docs, reason = "the fields are those of the C header and explained by its manual pages")]

/// States size and offsets of C structures and checks them while compiling.
#[macro_export]
macro_rules! layout {
    ($($name:ty: $size:literal { $($field:ident @ $offset:literal),* $(,)? })+) => {
        $(const _: () = {
            assert!(core::mem::size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            $(assert!(
                core::mem::offset_of!($name, $field) == $offset,
                concat!("offset of ", stringify!($field), " in ", stringify!($name))
            );)*
        };)+
    };
}

mod address;
mod completion;
mod context;
mod counters;
mod device;
mod event;
mod extended_domain;
mod kernel;
mod memory;
mod numbers;
mod port;
mod queue_pair;
mod shared_receive;
mod synchronization;
mod work_request;

pub use address::{ibv_ah, ibv_ah_attr, ibv_gid, ibv_gid_entry, ibv_global_route, ibv_grh};
pub use completion::{
    ibv_comp_channel, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_moderate_cq, ibv_modify_cq_attr,
    ibv_poll_cq_attr, ibv_wc, ibv_wc_tm_info,
};
pub use context::{Slot, ibv_context, ibv_context_ops, verbs_context};
pub use counters::{
    ibv_counter_attach_attr, ibv_counters, ibv_counters_init_attr, ibv_dmah, ibv_dmah_init_attr,
};
pub use device::{
    ibv_cq_moderation_caps, ibv_device, ibv_device_attr, ibv_device_attr_ex, ibv_odp_caps,
    ibv_packet_pacing_caps, ibv_pci_atomic_caps, ibv_query_device_ex_input, ibv_rss_caps, ibv_tm_caps,
    ibv_tso_caps, ibv_values_ex,
};
pub use event::{ibv_async_event, ibv_async_event_element};
pub use extended_domain::{ibv_qp_open_attr, ibv_xrcd, ibv_xrcd_init_attr};
pub use kernel::{
    ib_user_path_rec, ib_uverbs_ah_attr, ib_uverbs_global_route, ib_uverbs_qp_attr, ibv_sa_path_rec,
};
pub use memory::{
    ibv_alloc_dm_attr, ibv_dm, ibv_mr, ibv_mr_init_attr, ibv_mw, ibv_mw_bind, ibv_mw_bind_info,
    ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr,
};
pub use numbers::*;
pub use port::{ibv_port_attr, ibv_port_attr_short};
pub use queue_pair::{
    ibv_ece, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_rx_hash_conf,
};
pub use shared_receive::{
    ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex, ibv_tm_cap, ibv_wq,
};
pub use synchronization::Synchronization;
pub use work_request::{
    ibv_data_buf, ibv_recv_wr, ibv_send_wr, ibv_send_wr_atomic, ibv_send_wr_bind_mw, ibv_send_wr_last,
    ibv_send_wr_rdma, ibv_send_wr_remote, ibv_send_wr_tso, ibv_send_wr_ud, ibv_sge,
};

/// A structure this library only hands through or refuses; its contents do not matter here.
pub enum Opaque {}

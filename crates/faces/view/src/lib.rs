//! The face of files: what `/sys/class/infiniband`, `/sys/class/infiniband_verbs` and `/dev/infiniband` would show of the device, for
//! programs that look there themselves.
//!
//! What is there is said in `tree`, of what the devices tell (`facts`) and count (`numbers`). It stands in a folder of this user's
//! (`folder`), and `libnonic-view.so`, which stands in front of the C library, leads the paths there: it reaches this face
//! through one table, [`table::nonic_view_table`]. What programs ask the kernel by `NETLINK_RDMA` is answered from the same facts (`netlink`,
//! `responding`).

pub mod calls;
mod facts;
mod folder;
mod netlink;
mod numbers;
mod responding;
pub mod table;
mod tree;

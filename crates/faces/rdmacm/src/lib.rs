//! The face of the RDMA connection manager: what the calls of `librdmacm.so.1` do, for programs compiled against
//! `rdma/rdma_cma.h`.
//!
//! Identifiers, their states, addresses, ports and events are `nonic-rdma-cm`'s. This crate does what the original library does
//! in front of the kernel: it keeps the public structures ([`abi`]), opens devices (`devices`), creates queue pairs and moves them
//! from state to state (`queue_pairs`), turns what happened into events (`delivery`), and lets the calls of identifiers without
//! a channel wait for them (`synchronous`).
//!
//! Contexts, domains, queues and queue pairs are those of the verbs face: a program goes on with them by the calls of
//! `libibverbs.so.1`. The functions have no names for the linker: `librdmacm.so.1` is a library of its own
//! (`nonic-rdmacm-library`), which reaches them through one table, [`table::nonic_rdmacm_table`].

pub mod abi;
#[macro_use]
pub mod calls;
mod connection_parameters;
mod delivery;
mod devices;
mod entry;
mod errno;
mod objects;
mod queue_pairs;
mod route;
mod socket_address;
mod synchronous;
pub mod table;

//! Remote memory regions: `dat_rmr_create(3)`, `dat_rmr_bind(3)`, `dat_rmr_free(3)`, with a peer in the same process.

mod binds;
mod ends;
mod refusals;

use std::collections::HashSet;
use std::sync::Arc;

use crate::common::peers::{PLAIN, Side, connect, connect_endpoints, connected, expect_broken, far};
use crate::common::{Pages, bad_handle, bad_state, part, privileges_violation, register};
use nonic_dat::{
    AccessKind, CompletionFlags, ConnectionEvent, DatError, EndpointAttributes, EndpointChange,
    EndpointState, EventDispatcher, HandleKind, Kind, Privileges, ProtectionZone, RemoteRegion, Resource,
    Segment, StateKind, Streams, Subtype, TransferStatus,
};

const NOWHERE: Segment = Segment { context: 0, address: 0, length: 0 };
const REMOTE: Privileges = Privileges::REMOTE;

/// Bytes of the server's memory, and what they should be.
#[track_caller]
fn assert_bytes(pages: &Pages, offset: usize, length: usize, byte: u8) {
    (offset..offset + length).for_each(|at| assert_eq!(pages.read(at), byte, "at {at}"));
}

/// Shows the server's program what peers wrote, if that has to be asked for.
fn show(server: &Side) {
    server.adapter.sync_rdma_write(std::iter::once(server.piece(0, server.pages.length()))).unwrap();
}

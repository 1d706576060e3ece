//! Data transfer operations between two endpoints: what is moved, what completes, and in which order.

mod endpoint_ends;
mod failures;
mod limits;
mod order;
mod shared_receives;
mod suppressed;

use std::iter::once;

use crate::common::connected::{
    PLAIN, Plan, Seen, accept, connect, connected, dequeue, done, failed, flushed, pair, seen, told,
};
use crate::common::{bad_state, connected::Side, connected::next};
use nonic_dat::{
    CompletionFlags, ConnectionEvent, DatError, DatResult, EndpointAttributes, EndpointState, Kind,
    Privileges, RemoteRegion, RemoteSegment, Resource, Segment, StateKind, Subtype, TransferKind,
    TransferStatus,
};

const SUPPRESS: CompletionFlags = CompletionFlags::SUPPRESS;
const TOO_LONG: DatError = DatError::new(Kind::LengthError, Subtype::None);
use TransferKind::{RdmaRead, RdmaWrite, Receive, Send};

fn break_up(side: &Side) {
    assert_eq!(next(&side.connections), told(ConnectionEvent::Broken));
    assert_eq!(side.endpoint.state(), EndpointState::Disconnected);
}

#[test]
fn a_message_fills_the_receive_and_both_ends_are_told() {
    let (near, far) = pair();
    near.pages.write(0, 7);
    near.pages.write(99, 8);
    far.receive(u64::MAX, 4096);
    near.send(1 << 63, 100, PLAIN).unwrap();
    assert_eq!(far.next(), done(u64::MAX, Receive, 100));
    assert_eq!(near.next(), done(1 << 63, Send, 100));
    assert_eq!((far.pages.read(4096), far.pages.read(4096 + 99)), (7, 8));
    assert!(near.is_quiet() && far.is_quiet());
}

#[test]
fn messages_without_bytes_and_pieces_without_bytes_are_allowed() {
    let (near, far) = pair();
    far.endpoint.post_receive(std::iter::empty(), 1, PLAIN).unwrap();
    far.receive(2, 8);
    near.endpoint.post_send(std::iter::empty(), 3, PLAIN).unwrap();
    near.pages.write(5, 9);
    let nothing = Segment { context: 0, address: 0, length: 0 };
    let pieces = [nothing, near.piece(5, 1), nothing, near.piece(5, 1)];
    near.endpoint.post_send(pieces.into_iter(), 4, PLAIN).unwrap();
    assert_eq!([far.next(), far.next()], [done(1, Receive, 0), done(2, Receive, 2)]);
    assert_eq!([near.next(), near.next()], [done(3, Send, 0), done(4, Send, 2)]);
    assert_eq!((far.pages.read(4096), far.pages.read(4097)), (9, 9));
}

#[test]
fn an_rdma_write_places_bytes_and_tells_only_its_sender() {
    let (near, far) = pair();
    near.pages.write(3, 42);
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 5, far.remote(64, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(5, RdmaWrite, 8));
    assert_eq!(far.pages.read(67), 42);
    assert!(far.is_quiet());
}

#[test]
fn an_rdma_write_may_be_shorter_than_its_target_and_not_longer() {
    let (near, far) = pair();
    near.pages.fill(1);
    let long = near.endpoint.post_rdma_write(once(near.piece(0, 9)), 5, far.remote(0, 8), PLAIN);
    assert_eq!(long, Err(TOO_LONG));
    assert!(near.is_quiet());
    assert_eq!(far.pages.read(0), 0);
    near.endpoint.post_rdma_write(once(near.piece(0, 3)), 6, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(6, RdmaWrite, 3));
    assert_eq!((far.pages.read(2), far.pages.read(3)), (1, 0));
}

#[test]
fn an_rdma_read_brings_the_remote_segment_and_leaves_the_rest() {
    let (near, far) = pair();
    far.pages.fill(3);
    let short = near.endpoint.post_rdma_read(once(near.piece(0, 7)), 5, far.remote(0, 8), PLAIN);
    assert_eq!(short, Err(TOO_LONG));
    assert!(near.is_quiet());
    assert_eq!(near.pages.read(0), 0);
    let pieces = [near.piece(0, 4), near.piece(100, 2), near.piece(200, 50), near.piece(300, 50)];
    near.endpoint.post_rdma_read(pieces.into_iter(), 6, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(6, RdmaRead, 8));
    let read = |offset| near.pages.read(offset);
    assert_eq!([read(3), read(4), read(101), read(201), read(202), read(300)], [3, 0, 3, 3, 0, 0]);
    // Nothing may be read, too.
    near.endpoint.post_rdma_read(once(near.piece(300, 50)), 7, far.remote(0, 0), PLAIN).unwrap();
    assert_eq!(near.next(), done(7, RdmaRead, 0));
    assert_eq!(read(300), 0);
}

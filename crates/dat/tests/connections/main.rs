//! Connecting, accepting, rejecting, handing off, disconnecting: every state, and every refusal with nothing changed.

mod attempts;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod many;
mod service_points;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::connected::{
    PATIENCE, PLAIN, Plan, Seen, Side, accept, connect, dequeue, done, flushed, next, pair, told,
};
use common::{bad_handle, bad_state, open};
use nonic_dat::ConnectionEvent::{
    AcceptCompletionError, Broken, Disconnected, Established, NonPeerRejected, PeerRejected, TimedOut,
    Unreachable,
};
use nonic_dat::{
    ConnectionRequest, DatError, DatResult, Endpoint, EndpointChange, EndpointSetup, EndpointState, Event,
    EventDispatcher, HandleKind, InterfaceAdapter, Kind, PublicServicePoint, ReservedServicePoint,
    ServicePoint, StateKind, Streams, Subtype, TransferKind,
};

const ALL: Streams = Streams::CONNECTION_REQUEST;

/// A dispatcher of requests, and a service point that tells it.
fn listening(
    adapter: &Arc<InterfaceAdapter>,
    length: i32,
) -> (Arc<EventDispatcher>, u64, Arc<PublicServicePoint>) {
    let requests = EventDispatcher::create(adapter, length, None, ALL).unwrap();
    let (conn_qual, point) = PublicServicePoint::create_any(adapter, &requests, false).unwrap();
    (requests, conn_qual, point)
}

/// The next request, and the qualifier at which it came.
fn next_request(requests: &EventDispatcher) -> (Arc<ConnectionRequest>, u64) {
    let mut found = None;
    let (result, _) = requests.wait(PATIENCE, 1, |event| {
        let Event::Request { request, conn_qual, .. } = event else { panic!("{event:?}") };
        found = Some((Arc::clone(request), *conn_qual));
    });
    result.unwrap();
    found.unwrap()
}

fn ask(side: &Side, conn_qual: u64, data: &[u8]) {
    side.endpoint.connect(side.adapter.address(), conn_qual, PATIENCE, data, 0, 0).unwrap();
}

fn state(side: &Side) -> EndpointState {
    side.endpoint.state()
}

fn argument(number: u8) -> DatError {
    DatError::argument(number)
}

//! Endpoints that are reset and freed between transfers.

use super::*;

#[test]
fn a_reset_endpoint_connects_again_and_sees_nothing_of_before() {
    let (near, far) = pair();
    for round in 0..3 {
        near.receive(1, 8);
        far.receive(1, 8);
        near.endpoint.disconnect(false).unwrap();
        assert_eq!(next(&near.connections), told(ConnectionEvent::Disconnected));
        assert_eq!(next(&far.connections), told(ConnectionEvent::Disconnected));
        near.endpoint.reset().unwrap();
        far.endpoint.reset().unwrap();
        assert_eq!(near.endpoint.status(), Ok((EndpointState::Unconnected, true, true)));
        assert!(near.is_quiet() && far.is_quiet());
        far.receive(7, 64);
        connect(&near, &far);
        near.send(round, 8, PLAIN).unwrap();
        assert_eq!(far.next(), done(7, Receive, 8));
        assert_eq!(near.next(), done(round, Send, 8));
    }
}

#[test]
fn only_a_disconnected_endpoint_is_reset() {
    let (near, far) = pair();
    assert_eq!(near.endpoint.reset(), Err(bad_state(StateKind::EpConnected)));
    far.receive(1, 64);
    near.send(2, 8, PLAIN).unwrap();
    assert_eq!(near.next(), done(2, Send, 8));
    let change = nonic_dat::EndpointChange { max_requests: Some(64), ..Default::default() };
    assert_eq!(near.endpoint.modify(change), Err(bad_state(StateKind::EpConnected)));
}

#[test]
fn freeing_a_connected_endpoint_disconnects_its_peer_and_its_events_go() {
    let merged = Plan { merged: true, ..Plan::default() };
    let (near, far) = connected(&merged, &Plan::default());
    near.receive(1, 8);
    near.endpoint.free().unwrap();
    assert_eq!(next(&far.connections), told(ConnectionEvent::Disconnected));
    assert!(near.is_quiet());
    near.transfers.free().unwrap();
    near.region.free().unwrap();
    near.zone.free().unwrap();
    assert_eq!(near.adapter.close(true), Ok(()));
}

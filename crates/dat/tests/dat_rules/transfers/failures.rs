//! Transfers that fail, and what goes with them.

use super::*;

#[test]
fn a_wrong_remote_context_fails_the_transfer_and_breaks_both_sides() {
    for reads in [false, true] {
        let (near, far) = pair();
        far.receive(1, 8);
        let nowhere = RemoteSegment { context: far.remote(0, 8).context ^ 0x100, ..far.remote(0, 8) };
        near.pages.fill(5);
        let kind = if reads { RdmaRead } else { RdmaWrite };
        let piece = once(near.piece(0, 8));
        if reads {
            near.endpoint.post_rdma_read(piece, 4, nowhere, PLAIN).unwrap();
        } else {
            near.endpoint.post_rdma_write(piece, 4, nowhere, PLAIN).unwrap();
        }
        assert_eq!(near.next(), failed(4, kind, TransferStatus::RemoteAccess));
        break_up(&near);
        break_up(&far);
        assert_eq!(far.next(), flushed(1, Receive));
        assert_eq!((far.pages.read(0), near.pages.read(0)), (0, 5));
    }
}

#[test]
fn remote_privileges_are_those_of_the_region() {
    let local_only = Plan {
        privileges: Privileges::LOCAL_READ | Privileges::LOCAL_WRITE | Privileges::REMOTE_READ,
        ..Plan::default()
    };
    let (near, far) = connected(&Plan::default(), &local_only);
    near.endpoint.post_rdma_read(once(near.piece(0, 8)), 1, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(1, RdmaRead, 8));
    near.pages.fill(5);
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 2, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), failed(2, RdmaWrite, TransferStatus::RemoteAccess));
    assert_eq!(far.pages.read(0), 0);
    break_up(&far);
}

#[test]
fn wrong_local_memory_fails_the_transfer_and_breaks_the_connection() {
    for outside in [false, true] {
        let (near, far) = pair();
        far.receive(1, 64);
        let piece =
            if outside { near.piece(4 * 4096 - 4, 8) } else { Segment { context: 0, ..near.piece(0, 8) } };
        near.endpoint.post_send(once(piece), 2, PLAIN).unwrap();
        assert_eq!(near.next(), failed(2, Send, TransferStatus::LocalProtection));
        break_up(&near);
        assert_eq!(far.next(), flushed(1, Receive));
    }
}

#[test]
fn a_message_longer_than_the_receive_breaks_both_sides() {
    let (near, far) = pair();
    far.receive(1, 8);
    near.send(2, 9, PLAIN).unwrap();
    assert_eq!(far.next(), failed(1, Receive, TransferStatus::LocalLength));
    assert_eq!(near.next(), failed(2, Send, TransferStatus::RemoteResponder));
    break_up(&near);
    break_up(&far);
}

#[test]
fn a_transfer_in_a_disconnected_endpoint_is_taken_and_flushed() {
    let (near, far) = pair();
    near.receive(1, 8);
    near.endpoint.disconnect(false).unwrap();
    assert_eq!(next(&near.connections), told(ConnectionEvent::Disconnected));
    assert_eq!(next(&far.connections), told(ConnectionEvent::Disconnected));
    assert_eq!(near.next(), flushed(1, Receive));
    near.send(2, 8, PLAIN).unwrap();
    near.send(3, 8, SUPPRESS).unwrap();
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 4, far.remote(0, 8), PLAIN).unwrap();
    near.endpoint.post_rdma_read(once(near.piece(0, 8)), 5, far.remote(0, 8), PLAIN).unwrap();
    near.receive(6, 8);
    let expected = [
        flushed(2, Send),
        flushed(3, Send),
        flushed(4, RdmaWrite),
        flushed(5, RdmaRead),
        flushed(6, Receive),
    ];
    for event in expected {
        assert_eq!(near.next(), event);
    }
    assert!(near.is_quiet());
    assert_eq!(near.endpoint.status(), Ok((EndpointState::Disconnected, true, true)));
}

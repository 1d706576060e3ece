//! Requests whose success is not shown.

use super::*;

#[test]
fn a_suppressed_success_is_not_shown_and_a_failure_is() {
    let (near, far) = pair();
    far.receive(1, 8);
    near.send(1, 8, SUPPRESS).unwrap();
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 2, far.remote(0, 8), SUPPRESS).unwrap();
    near.endpoint.post_rdma_read(once(near.piece(0, 8)), 3, far.remote(0, 8), PLAIN).unwrap();
    assert_eq!(near.next(), done(3, RdmaRead, 8));
    assert_eq!(far.next(), done(1, Receive, 8));
    let nowhere = RemoteSegment { context: 0, ..far.remote(0, 8) };
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 4, nowhere, SUPPRESS).unwrap();
    near.endpoint.post_rdma_write(once(near.piece(0, 8)), 5, far.remote(0, 8), SUPPRESS).unwrap();
    assert_eq!(near.next(), failed(4, RdmaWrite, TransferStatus::RemoteAccess));
    assert_eq!(near.next(), flushed(5, RdmaWrite));
}

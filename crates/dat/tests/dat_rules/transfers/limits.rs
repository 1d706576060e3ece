//! What an endpoint takes at most, at once and in one request.

use super::*;

#[test]
fn requests_beyond_the_limits_are_refused_and_move_nothing() {
    let attributes = EndpointAttributes {
        max_request_pieces: 2,
        max_read_pieces: 1,
        max_write_pieces: 3,
        max_message_size: 100,
        max_rdma_size: 200,
        ..EndpointAttributes::default()
    };
    let (near, far) = connected(&Plan { attributes, ..Plan::default() }, &Plan::default());
    far.receive(1, 4096);
    let pieces = |count: usize| vec![near.piece(0, 8); count].into_iter();
    let endpoint = &near.endpoint;
    let too_many = Err(DatError::argument(2));
    assert_eq!(endpoint.post_send(pieces(3), 1, PLAIN), too_many);
    assert_eq!(endpoint.post_rdma_read(pieces(2), 1, far.remote(0, 8), PLAIN), too_many);
    assert_eq!(endpoint.post_rdma_write(pieces(4), 1, far.remote(0, 64), PLAIN), too_many);
    assert_eq!(near.send(1, 101, PLAIN), Err(TOO_LONG));
    let long = once(near.piece(0, 201));
    assert_eq!(endpoint.post_rdma_write(long.clone(), 1, far.remote(0, 4096), PLAIN), Err(TOO_LONG));
    assert_eq!(endpoint.post_rdma_read(long, 1, far.remote(0, 8), PLAIN), Err(TOO_LONG));
    for flags in [CompletionFlags::UNSIGNALLED, CompletionFlags::EVD_THRESHOLD] {
        assert_eq!(near.send(1, 8, flags), Err(DatError::argument(5)));
        let wrong = Err(DatError::argument(6));
        assert_eq!(endpoint.post_rdma_write(pieces(1), 1, far.remote(0, 8), flags), wrong);
        assert_eq!(endpoint.post_rdma_read(pieces(1), 1, far.remote(0, 8), flags), wrong);
    }
    assert_eq!(endpoint.status(), Ok((EndpointState::Connected, true, true)));
    assert!(near.is_quiet() && far.is_quiet());
    // What is allowed goes through.
    near.send(2, 100, CompletionFlags::SOLICITED_WAIT | CompletionFlags::BARRIER_FENCE).unwrap();
    endpoint.post_rdma_write(pieces(3), 3, far.remote(0, 64), PLAIN).unwrap();
    assert_eq!([near.next(), near.next()], [done(2, Send, 100), done(3, RdmaWrite, 24)]);
}

#[test]
fn a_full_queue_of_requests_is_said_and_nothing_is_lost() {
    let (near, far) = pair();
    let limit = near.endpoint.facts().unwrap().attributes.max_requests as u64;
    // No receive is there, so nothing ends.
    (0..limit).for_each(|number| near.send(number, 8, PLAIN).unwrap());
    let full = DatError::resources(Subtype::Resource(Resource::Credits));
    assert_eq!(near.send(99, 8, PLAIN), Err(full));
    assert_eq!(near.endpoint.status().map(|status| status.2), Ok(false));
    for number in 0..limit {
        far.receive(number, 64);
        assert_eq!(far.next(), done(number, Receive, 8));
        assert_eq!(near.next(), done(number, Send, 8));
    }
    assert!(near.is_quiet() && far.is_quiet());
}

//! What a shared receive queue says of itself, and changing its size.

use std::sync::Arc;

use crate::common::End;
use nonic_device::{
    Capabilities, CreateError, Operation, PostError, QpType, QueuePairRequest, ReceiveRequest,
    SharedReceiveQueue, Status,
};

fn post(end: &End, queue: &SharedReceiveQueue, id: u64, length: u32) -> Result<(), PostError> {
    queue.post_receive(&ReceiveRequest { id, pieces: &[end.piece(0, length)] })
}

fn counts(queue: &SharedReceiveQueue) -> (u32, u32) {
    (queue.waiting(), queue.unfinished())
}

/// A receiver whose receives come from a queue of `requests`.
fn receiver(requests: u32) -> (End, Arc<SharedReceiveQueue>) {
    let mut end = End::new();
    let queue = end.zone.create_shared_receive_queue(requests, 2, 0, 0).unwrap();
    let none = Capabilities { receive_requests: 0, receive_pieces: 0, ..end.pair.capabilities() };
    end.pair = end
        .zone
        .create_queue_pair(QueuePairRequest {
            transport: QpType::ReliableConnection,
            send_queue: Arc::clone(&end.completions),
            receive_queue: Arc::clone(&end.completions),
            shared_receive_queue: Some(Arc::clone(&queue)),
            capabilities: none,
            signal_all: true,
            cookie: 0,
            observer: None,
        })
        .unwrap();
    (end, queue)
}

#[test]
fn receives_are_counted_until_they_are_taken_and_until_they_complete() {
    let (receiver, queue) = receiver(4);
    let sender = End::new();
    sender.connect(receiver.pair.number());
    receiver.connect(sender.pair.number());
    for id in 0..3 {
        post(&receiver, &queue, id, 4096).unwrap();
    }
    assert_eq!(counts(&queue), (3, 3));
    sender.post(1, Operation::Send { immediate: None }, &[sender.piece(0, 8)]);
    assert_eq!(receiver.completion().status, Status::Success);
    assert_eq!(counts(&queue), (2, 2));
    assert_eq!(sender.completion().status, Status::Success);
    // One that fails is over as well.
    let short = post(&receiver, &queue, 9, 8);
    assert_eq!((short, counts(&queue)), (Ok(()), (3, 3)));
    for _ in 0..2 {
        sender.post(1, Operation::Send { immediate: None }, &[sender.piece(0, 8)]);
        assert_eq!(receiver.completion().status, Status::Success);
        assert_eq!(sender.completion().status, Status::Success);
    }
    sender.post(1, Operation::Send { immediate: None }, &[sender.piece(0, 16)]);
    let failed = receiver.completion();
    assert_eq!((failed.id, failed.status), (9, Status::LocalLength));
    assert_eq!(counts(&queue), (0, 0));
}

#[test]
fn a_queue_grows_and_shrinks_to_what_it_holds_and_no_further() {
    let (end, queue) = receiver(2);
    post(&end, &queue, 0, 8).unwrap();
    post(&end, &queue, 1, 8).unwrap();
    assert_eq!(post(&end, &queue, 2, 8), Err(PostError::QueueFull { capacity: 2 }));
    queue.resize(3).unwrap();
    assert_eq!(queue.limits(), (3, 2));
    post(&end, &queue, 2, 8).unwrap();
    assert!(matches!(queue.resize(2), Err(CreateError::StillHolds { entries: 3 })));
    assert!(matches!(queue.resize(0), Err(CreateError::Limit { .. })));
    assert!(matches!(queue.resize(u32::MAX), Err(CreateError::Limit { .. })));
    assert_eq!((queue.limits().0, counts(&queue)), (3, (3, 3)));
    queue.resize(100).unwrap();
    queue.set_limit(3).unwrap();
    assert!(queue.set_limit(101).is_err());
    assert!(matches!(queue.resize(2), Err(CreateError::StillHolds { .. })));
    queue.resize(3).unwrap();
    queue.resize(100).unwrap();
}

#[test]
fn size_and_limit_change_together_or_not_at_all() {
    let (end, queue) = receiver(4);
    for id in 0..3 {
        post(&end, &queue, id, 8).unwrap();
    }
    let now = || (queue.limits().0, queue.limit());
    queue.set_limit(1).unwrap();
    // The size could be, the limit could not, and the other way about.
    assert!(matches!(queue.modify(Some(8), Some(9)), Err(CreateError::Limit { asked: 9, limit: 8, .. })));
    assert!(matches!(queue.modify(Some(3), Some(4)), Err(CreateError::Limit { asked: 4, limit: 3, .. })));
    assert!(matches!(queue.modify(Some(2), Some(2)), Err(CreateError::StillHolds { entries: 3 })));
    assert!(matches!(queue.modify(Some(0), Some(0)), Err(CreateError::Limit { asked: 0, .. })));
    assert_eq!(now(), (4, 1));
    // A limit that only the new size allows; then a size that only the new limit allows.
    queue.modify(Some(8), None).unwrap();
    for id in 3..8 {
        post(&end, &queue, id, 8).unwrap();
    }
    queue.modify(Some(20), Some(8)).unwrap();
    assert_eq!(now(), (20, 8));
    queue.modify(Some(8), Some(2)).unwrap();
    assert_eq!(now(), (8, 2));
    assert_eq!(post(&end, &queue, 8, 8), Err(PostError::QueueFull { capacity: 8 }));
}

#[test]
fn a_queue_does_not_shrink_below_a_limit_that_is_armed() {
    let end = End::new();
    let queue = end.zone.create_shared_receive_queue(8, 1, 6, 0).unwrap();
    assert!(matches!(queue.resize(5), Err(CreateError::Limit { asked: 6, limit: 5, .. })));
    assert_eq!(queue.limits().0, 8);
    queue.modify(Some(5), Some(0)).unwrap();
    assert_eq!((queue.limits().0, queue.limit()), (5, 0));
}

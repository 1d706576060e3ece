//! What a forked child may do with its parent's device: nothing, and it harms nothing; it opens its own.

mod common;

use nonic_device::{
    CreateError, ModifyError, Operation, PostError, QpAttributes, ReceiveRequest, Status, devices,
};

fn exchange(one: &common::End, other: &common::End) {
    other.post_receive(1);
    one.post(2, Operation::Send { immediate: None }, &[one.piece(0, 64)]);
    assert_eq!((one.completion().status, other.completion().status), (Status::Success, Status::Success));
}

#[test]
fn a_child_is_refused_on_its_parents_device_and_can_open_its_own() {
    let (one, other) = common::connected();
    exchange(&one, &other);
    // A message waits in the ring while the child lives: one with immediate data goes no other way.
    other.post_receive(3);
    one.post(4, Operation::Send { immediate: Some(5) }, &[one.piece(0, 64)]);
    let status = common::in_child(|| {
        let zone =
            one.zone.create_address_handle(one.pair.attributes().address_vector.unwrap_or_else(|| {
                // No path was set: any other failure than the expected one ends the child with a telling status.
                std::process::exit(10)
            }));
        if !matches!(zone, Err(CreateError::Gone)) {
            return 11;
        }
        if one.pair.post_receive(&ReceiveRequest { id: 9, pieces: &[] }) != Err(PostError::Gone) {
            return 12;
        }
        // What its parent is about to receive is not the child's to read.
        let polled = one.completions.poll(|_| {}, 1);
        if !matches!(polled, Ok(0)) {
            return 16;
        }
        let mask = nonic_device::AttributeMask::STATE;
        if one.pair.modify(&QpAttributes::default(), mask) != Err(ModifyError::Gone) {
            return 13;
        }
        let _ = one.pair.destroy();
        let _ = one.region.deregister();
        let Ok(context) = devices()[0].open() else { return 14 };
        let Ok(own) = context.allocate_zone() else { return 15 };
        let (mine, yours) = common::connected();
        exchange(&mine, &yours);
        drop((own, mine, yours));
        0
    });
    assert_eq!(status, 0);
    assert_eq!((one.completion().id, other.completion().id), (4, 3));
    // The child's destroying and deregistering touched copies only.
    exchange(&one, &other);
    assert_eq!(one.pair.state(), nonic_device::QpState::ReadyToSend);
}

//! Who drives the device.

mod common;

use nonic_device::{AttributeMask, Operation, QpAttributes, QpState, RemoteRange, Status};

/// The first byte of an end's buffer, which the device may be writing.
fn first_byte(end: &common::End) -> u8 {
    // SAFETY: the buffer lives as long as `end`; a volatile load of a byte is never torn.
    unsafe { std::ptr::read_volatile(end.buffer.as_ptr()) }
}

#[test]
fn a_program_whose_polls_always_succeed_still_serves_its_peers() {
    let (busy, idle) = common::connected();
    let (mut sender, receiver) = common::connected();
    sender.buffer[0] = 0xAB;
    receiver.post_receive(1);
    let remote = RemoteRange { address: idle.buffer.as_ptr() as u64, key: idle.region.remote_key() };
    let write = || busy.post(1, Operation::Write { remote, immediate: None }, &[busy.piece(0, 8)]);
    // These complete at once, so from here on every poll finds what it wants.
    (0..8).for_each(|_| write());
    busy.completion();
    sender.post(2, Operation::Send { immediate: None }, &[sender.piece(0, 8)]);
    for _ in 0..100_000 {
        if first_byte(&receiver) == 0xAB {
            return;
        }
        write();
        busy.completion();
    }
    panic!("the message still waits after 100,000 successful polls");
}

#[test]
fn a_queue_pair_that_is_reset_or_destroyed_has_acknowledged_what_its_program_saw() {
    for destroyed in [false, true] {
        let (sender, receiver) = common::connected();
        receiver.post_receive(1);
        sender.post(2, Operation::Send { immediate: None }, &[sender.piece(0, 8)]);
        assert_eq!(receiver.completion().status, Status::Success);
        // Nobody looked at the rings since: the acknowledgement is still owed.
        if destroyed {
            receiver.pair.destroy().unwrap();
        } else {
            let reset = QpAttributes { state: QpState::Reset, ..QpAttributes::default() };
            receiver.pair.modify(&reset, AttributeMask::STATE).unwrap();
        }
        assert_eq!(sender.completion().status, Status::Success, "destroyed: {destroyed}");
    }
}

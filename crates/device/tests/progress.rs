//! Who drives the device.

mod common;

use nonic_device::{
    Access, AttributeMask, Completion, Operation, QpAttributes, QpState, ReceiveRequest, RegionMemory,
    RegionRequest, RemoteRange, Status,
};

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

#[test]
fn a_request_that_waits_for_an_answer_goes_on_when_a_message_of_the_peer_brings_it() {
    // More than a fragment, so that it waits until it can be written directly.
    let mut target = vec![0u8; 16384];
    let memory = RegionMemory::Program {
        address: common::program(target.as_mut_ptr() as usize),
        length: target.len(),
    };
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    // A receive of one piece takes the express way, one of two the ordinary.
    for pieces in [1, 2] {
        for _ in 0..100 {
            let (one, other) = common::connected();
            let zone = &other.zone;
            let region = zone.register(RegionRequest { memory: memory.clone(), base: 0, access }).unwrap();
            let receive = [one.piece(0, 64), one.piece(64, 64)];
            one.pair.post_receive(&ReceiveRequest { id: 1, pieces: &receive[..pieces] }).unwrap();
            other.post_receive(2);
            one.post(3, Operation::Send { immediate: None }, &[one.piece(0, 64)]);
            let remote = RemoteRange { address: 0, key: region.remote_key() };
            one.post(4, Operation::Write { remote, immediate: None }, &[one.piece(0, 4096); 4]);
            assert_eq!(other.completion().id, 2);
            other.post(5, Operation::Send { immediate: None }, &[other.piece(0, 64)]);
            let mut ended: Vec<Completion> = (0..3).map(|_| one.completion()).collect();
            ended.sort_by_key(|completion| completion.id);
            let ended: Vec<_> = ended.iter().map(|completion| (completion.id, completion.status)).collect();
            assert_eq!(ended, [(1, Status::Success), (3, Status::Success), (4, Status::Success)]);
        }
    }
}

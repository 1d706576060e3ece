//! A peer that stands still inside an operation on this process's memory.

mod bare;
mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bare::BarePeer;
use nonic_device::{Access, Key, QpType, RegionMemory, RegionRequest};
use nonic_memory::AddressRange;
use nonic_transport::{DirectRequest, Link, Tier};

/// More than the key table lets rest.
const MANY: usize = 200;

/// Registers the end's buffer once more and takes it back; the key it had.
fn registered_and_taken_back(end: &mut common::End) -> Key {
    let memory =
        RegionMemory::Program { address: common::program(end.buffer.as_mut_ptr() as usize), length: 64 };
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let region = end.zone.register(RegionRequest { memory, base: 0, access }).unwrap();
    let key = region.remote_key();
    region.deregister().unwrap();
    key
}

/// What a peer says that is about to write to the region.
fn write_to(end: &common::End, peer: &BarePeer, link: &Link) -> DirectRequest {
    let deadline = Instant::now() + Duration::from_secs(20);
    while link.view().is_none() {
        assert!(Instant::now() < deadline, "the device shows nothing to a process of the same user");
        link.handle_socket();
    }
    let target = link.view().and_then(|view| view.segment.slot_place(end.pair.number()));
    DirectRequest {
        source: peer.number(),
        transport: QpType::ReliableConnection,
        target: target.expect("the device has the queue pair"),
        pair: end.pair.number(),
        key: end.region.remote_key(),
        range: AddressRange::new(end.buffer.as_ptr() as u64, 64),
        want: Access::REMOTE_WRITE,
    }
}

#[test]
fn the_place_of_a_key_is_not_used_again_while_a_stopped_peer_may_stand_between_its_words() {
    let mut end = common::End::new();
    let peer = BarePeer::new(Tier::Mapped);
    end.connect(peer.number());
    let link = peer.accept();
    let old = end.region.remote_key().index();
    {
        // It looked the key up and goes no further.
        let inside = link.direct(&write_to(&end, &peer, &link)).expect("the peer may write");
        end.region.deregister().unwrap();
        let later: BTreeSet<u32> = (0..MANY).map(|_| registered_and_taken_back(&mut end).index()).collect();
        assert!(!later.contains(&old), "the peer may still read the rest of its entry");
        drop(inside);
    }
    link.close();
    let deadline = Instant::now() + Duration::from_secs(20);
    while registered_and_taken_back(&mut end).index() != old {
        assert!(Instant::now() < deadline, "the place is lost though the peer has gone");
    }
}

//! A peer that is no device but the bare ring: what the requester says on it, word for word.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_device::{Operation, QpNumber, Status};
use nonic_memory::AdoptionPolicy;
use nonic_transport::{BLOCK_SIZE, Block, Header, Link, MessageKind, Party, Tier, claim_block};

struct BarePeer {
    block: Block,
    party: Arc<Party>,
}

impl BarePeer {
    fn new(tier: Tier) -> Self {
        Self {
            block: claim_block().unwrap(),
            party: Arc::new(Party::create(tier, AdoptionPolicy::Never, Vec::new()).unwrap()),
        }
    }

    fn number(&self) -> QpNumber {
        QpNumber(self.block.number * BLOCK_SIZE + 7)
    }

    /// Accepts the device's connection.
    fn accept(&self) -> Link {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "the device does not connect");
            let Ok(socket) = self.block.socket.accept() else { continue };
            return Link::accept(&self.party, socket, &[]).map_err(|(error, _)| error).unwrap();
        }
    }
}

/// The next message and the length of its payload.
fn next_message(link: &Link) -> (Header, usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "no message came");
        let Some(mut ring) = link.try_receive() else { continue };
        let found = ring.peek().unwrap().map(|incoming| (incoming.header, incoming.payload.length()));
        if let Some(found) = found {
            if ring.advance() | ring.report() {
                drop(ring);
                link.ring_bell_now();
            }
            return found;
        }
    }
}

#[test]
fn a_message_begun_in_fragments_ends_in_fragments_though_the_peer_could_pull_by_then() {
    let end = common::End::new();
    let peer = BarePeer::new(Tier::Kernel);
    end.connect(peer.number());
    // Far more than the ring holds, and the peer has not even accepted yet.
    let pieces = [end.piece(0, 4096); 4];
    const MESSAGES: usize = 40;
    for id in 0..MESSAGES {
        end.post(id as u64, Operation::Send { immediate: None }, &pieces);
    }
    let link = peer.accept();
    assert!(link.can_reach(), "a process reaches its own memory");
    // The device answers the peer's introduction when it has read it; that the peer can pull stands right behind.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !link.peer_can_reach() {
        assert!(Instant::now() < deadline, "the device does not answer");
        link.handle_socket();
    }
    let mut whole = 0;
    let mut pulled = 0;
    while whole < MESSAGES {
        let (header, length) = next_message(&link);
        assert_eq!((header.total, header.source), (16384, end.pair.number()));
        match header.kind {
            MessageKind::SendPull => {
                pulled += 1;
                whole += 1;
            }
            MessageKind::Send => {
                assert_eq!(header.offset % 8192, 0);
                assert_eq!(length, 8192);
                if header.offset > 0 {
                    whole += 1;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(pulled > 0, "the peer said that it can pull");
}

#[test]
fn what_a_peer_said_last_counts_though_it_made_the_connection_for_it_just_before_its_end() {
    // Which of the peer's doings the device sees first is chance.
    for round in 0..200 {
        let end = common::End::new();
        let peer = BarePeer::new(Tier::Kernel);
        end.connect(peer.number());
        end.post(round, Operation::Send { immediate: None }, &[end.piece(0, 64)]);
        let first = peer.accept();
        let (sent, _) = next_message(&first);
        // Its own connection, made at the same time, is the one it answers on.
        let second = Link::connect(&peer.party, end.pair.number(), &[peer.block.number]).unwrap();
        let answer = Header::new(MessageKind::Acknowledge, sent.source, peer.number(), sent.psn, 0);
        second.push(&answer, &[]).unwrap();
        for link in [first, second] {
            link.say_goodbye();
            link.close();
        }
        let completion = end.completion();
        assert_eq!((completion.id, completion.status), (round, Status::Success));
    }
}

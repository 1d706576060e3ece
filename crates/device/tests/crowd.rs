//! More threads that poll in vain than there are processors.

mod bare;
mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bare::BarePeer;
use common::pair::Side;
use common::sleeps_of_this_thread;
use nonic_device::{Config, Context, EngineHandle, QpNumber};
use nonic_protocol::{BaseHeader, Body, Extent, Message, Psn, Request, SendFragment};
use nonic_transport::{Link, Tier, connect_owner};

const PATIENCE: Duration = Duration::from_secs(20);
/// Polls of each thread. Some hundreds of times one of them gives way.
const POLLS: u32 = 16_384;

/// A device of an engine of its own, which nobody has sent anything.
fn side() -> (EngineHandle, Side) {
    let engine = EngineHandle::create(Config::default()).unwrap();
    let side = Side::on(&engine);
    (engine, side)
}

/// Has many threads poll the same queue, or each one of its own, to which nothing comes: how often a thread slept, for each of them.
fn sleeps_of_a_crowd(context: &Arc<Context>, polls_the_same: bool) -> f64 {
    let threads = 6 * nonic_sys::usable_cpus().max(2);
    let create = || context.create_completion_queue(16, 0, None, 0).unwrap();
    let same = create();
    let poll = || {
        let queue = if polls_the_same { Arc::clone(&same) } else { create() };
        let before = sleeps_of_this_thread();
        for _ in 0..POLLS {
            assert_eq!(queue.poll(|completion| panic!("{completion:?}"), 1), Ok(0));
        }
        sleeps_of_this_thread() - before
    };
    let sleeps: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(poll)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    sleeps as f64 / f64::from(threads)
}

/// A peer of the engine that was sent something, which it does not read. If it `proves_itself`, it is trusted.
fn peer_that_reads_nothing(side: &Side, proves_itself: bool) -> (BarePeer, Link) {
    let peer = BarePeer::new(Tier::Mapped);
    let number = side.end.pair.number();
    let link = Link::connect(&peer.party, connect_owner(number).unwrap(), &[peer.block.number]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while proves_itself && link.view().is_none() {
        assert!(Instant::now() < deadline, "the device shows nothing to a process of the same user");
        link.handle_socket();
    }
    // What is for a queue pair that is not there is refused.
    let base = BaseHeader::new(QpNumber(number.0 ^ 0x20), peer.number(), Psn(0), 0);
    let send =
        SendFragment { extent: Extent::whole(0), immediate: None, solicited: false, acknowledges: None };
    link.push(&Message { base, body: Body::Request(Request::Send(send)) }, &[]).unwrap();
    link.ring_bell_now();
    while !link.try_receive().is_some_and(|ring| ring.has_message()) {
        assert!(Instant::now() < deadline, "the device does not answer");
        std::thread::yield_now();
    }
    (peer, link)
}

#[test]
fn most_sleep_in_their_polls_while_a_peer_does_not_come_to_read() {
    let (_engine, side) = side();
    let (_peer, link) = peer_that_reads_nothing(&side, true);
    let sleeps = sleeps_of_a_crowd(side.end.context(), true);
    assert!(sleeps > 2.0, "{sleeps} sleeps for each thread");
    link.close();
}

#[test]
fn nobody_sleeps_in_polls_of_a_queue_of_its_own() {
    let (_engine, side) = side();
    let (_peer, link) = peer_that_reads_nothing(&side, true);
    let sleeps = sleeps_of_a_crowd(side.end.context(), false);
    assert!(sleeps < 1.0, "{sleeps} sleeps for each thread");
    link.close();
}

#[test]
fn nobody_sleeps_in_a_poll_for_a_stranger_that_does_not_read() {
    let (_engine, side) = side();
    let (_peer, link) = peer_that_reads_nothing(&side, false);
    let sleeps = sleeps_of_a_crowd(side.end.context(), true);
    assert!(sleeps < 1.0, "{sleeps} sleeps for each thread");
    link.close();
}

#[test]
fn nobody_sleeps_in_a_poll_without_anybody_to_wait_for() {
    let (_engine, side) = side();
    let sleeps = sleeps_of_a_crowd(side.end.context(), true);
    assert!(sleeps < 1.0, "{sleeps} sleeps for each thread");
}

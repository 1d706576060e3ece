//! What two processes measure of the device, through the C library, by the methods of perftest.

mod contention;
mod latency;
mod rate;
mod registration;

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use super::job::{Job, Order, Sample, Verb};
use super::worker::Side;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::verbs::{
    Buffer, CompletionQueue, Library, Operation, Piece, QueuePair, Region, RemoteMemory, Rights, Session,
};

/// Requests under way at most when a rate is measured, as in perftest.
const DEPTH: u32 = 128;

/// Receives posted in advance, as in perftest.
const RECEIVES: u32 = 512;

/// The open device.
pub(super) struct Device {
    session: Rc<Session>,
}

impl Device {
    /// Loads the library and opens its first device.
    pub(super) fn open(library: &Path) -> Outcome<Self> {
        let library = Library::load(library).map_err(|error| Failure::new(error.to_string()))?;
        if library.device_names()?.is_empty() {
            return Err(Failure::new("the library shows no device (is NONIC_DEVICES 0?)"));
        }
        Ok(Self { session: Session::open(&library, 0)? })
    }

    /// What the objects of this process are made in.
    pub(super) fn session(&self) -> &Rc<Session> {
        &self.session
    }

    /// Measures; nothing if there is nothing to measure. The target's answer means nothing.
    pub(super) fn perform(
        &mut self,
        side: Side,
        order: &Order,
        peer: &mut Exchange,
    ) -> Outcome<Option<Sample>> {
        let stage = &mut Stage { session: &self.session, side, order, peer };
        match order.job {
            Job::Latency { verb: Verb::Write, size, .. } => latency::write(stage, size).map(Some),
            Job::Latency { verb: Verb::Send, size, events } => latency::send(stage, size, events).map(Some),
            Job::Latency { verb, size, .. } => latency::fetch(stage, verb, size).map(Some),
            Job::Rate { verb, size } => rate::rate(stage, verb, size).map(Some),
            Job::Contention => contention::contention(stage).map(Some),
            Job::Registration(what) => registration::registration(stage, what),
            _ => Err(Failure::new("this measures the machine, and this process has the device")),
        }
    }
}

/// What a measurement has to work with.
struct Stage<'a> {
    session: &'a Rc<Session>,
    side: Side,
    order: &'a Order,
    peer: &'a mut Exchange,
}

impl Stage<'_> {
    /// Memory of that many bytes for others to use.
    fn region(&self, length: usize) -> Outcome<Region> {
        Ok(self.session.register(&Rc::new(Buffer::new(length)), Rights::Remote)?)
    }

    /// Connects to the other process and learns where its memory is.
    fn connect(&mut self, memory: &Region, sleep: bool) -> Outcome<(Connection, RemoteMemory)> {
        let connection = Connection::create(self.session, sleep)?;
        let address = self.peer.swap(&connection.queue_pair.address()?)?;
        connection.queue_pair.connect(&address)?;
        Ok((connection, self.peer.swap(&RemoteMemory::of(memory))?))
    }

    /// Repeats something that both sides do in step: a few times first, then for about as long as the order says. Returns
    /// the time that each of the second kind took, in nanoseconds.
    fn in_step(
        &mut self,
        warm_up: u64,
        mut turn: impl FnMut(u64) -> Outcome<()>,
        mut clock: impl FnMut() -> f64,
    ) -> Outcome<Vec<f64>> {
        let begun = clock();
        for number in 1..=warm_up {
            turn(number)?;
        }
        let each = ((clock() - begun) / warm_up as f64).max(1.0);
        let wanted = self.order.budget.as_nanos() as f64 / each;
        let wanted = (wanted as u64).clamp(warm_up, TURNS_MAX);
        let count = match self.side {
            Side::Initiator => {
                self.peer.tell(&wanted)?;
                self.peer.hear::<()>()?;
                wanted
            }
            Side::Target => {
                let count = self.peer.hear()?;
                self.peer.tell(&())?;
                count
            }
        };
        let mut times = Vec::with_capacity(count as usize);
        let mut last = clock();
        for number in warm_up + 1..=warm_up + count {
            turn(number)?;
            let now = clock();
            times.push(now - last);
            last = now;
        }
        Ok(times)
    }
}

/// Repeats what both sides do in step, without the device: the time that each turn took, in nanoseconds.
pub(super) fn spin_in_step(
    device: &mut Device,
    side: Side,
    order: &Order,
    peer: &mut Exchange,
    turn: impl FnMut(u64) -> Outcome<()>,
    clock: impl FnMut() -> f64,
) -> Outcome<Vec<f64>> {
    let mut stage = Stage { session: device.session(), side, order, peer };
    stage.in_step(warm_up(order.budget), turn, clock)
}

/// Turns of one latency measurement at most.
const TURNS_MAX: u64 = 1_000_000;

/// Nothing is known before that: caches, page tables and the connection itself settle.
fn warm_up(budget: Duration) -> u64 {
    if budget < Duration::from_millis(10) { 20 } else { 200 }
}

/// Nanoseconds by the time-stamp counter, from anywhere.
pub(super) fn now() -> f64 {
    super::physical::ticks() as f64 * super::physical::nanoseconds_a_tick()
}

/// A connected queue pair with its two completion queues.
struct Connection {
    queue_pair: QueuePair,
    requests: Rc<CompletionQueue>,
    receives: Rc<CompletionQueue>,
}

impl Connection {
    fn create(session: &Rc<Session>, sleep: bool) -> Outcome<Self> {
        let requests = CompletionQueue::create(session, DEPTH, false)?;
        let receives = CompletionQueue::create(session, RECEIVES, sleep)?;
        let queue_pair = QueuePair::create_with(session, (&requests, DEPTH), (&receives, RECEIVES))?;
        Ok(Self { queue_pair, requests, receives })
    }
}

/// The operation on the beginning of the other's memory.
fn operation(verb: Verb, remote: RemoteMemory) -> Operation {
    match verb {
        Verb::Write => Operation::Write(remote),
        Verb::Read => Operation::Read(remote),
        Verb::Send => Operation::Send,
        Verb::Atomics => Operation::FetchAdd(remote, 1),
    }
}

/// The first bytes of a region.
fn first(region: &Region, length: usize) -> Piece<'_> {
    Piece::new(region, 0, length)
}

//! How many operations a second, with as many under way as perftest has.

use std::time::Duration;

use super::super::job::{Sample, Unit, Verb};
use super::super::machine::nothing;
use super::super::worker::{Side, wait_until};
use super::{Connection, DEPTH, RECEIVES, Stage, first, now, operation};
use crate::demo::failure::Outcome;
use crate::verbs::{Entries, Operation, Receive, Region, Request};

/// Tells the receiver of messages that this is the last.
const LAST: Operation = Operation::SendImmediate(0);

/// Of small messages only each 100th completes, as in perftest; of large ones every one.
fn moderation(size: usize) -> u32 {
    if size > 8192 { 1 } else { 100 }
}

/// Operations per second.
pub(super) fn rate(stage: &mut Stage<'_>, verb: Verb, size: usize) -> Outcome<Sample> {
    let region = stage.region(size)?;
    let (connection, remote) = stage.connect(&region, false)?;
    let mut receive = Receive::new(first(&region, size));
    if (stage.side, verb) == (Side::Target, Verb::Send) {
        for _ in 0..RECEIVES {
            connection.queue_pair.post_receive_again(&mut receive)?;
        }
    }
    stage.peer.meet()?;
    let budget = stage.order.budget.as_nanos() as f64;
    let sample = match stage.side {
        Side::Initiator => {
            let request = Request::new(operation(verb, remote), first(&region, size));
            let mut stream = Stream::new(&connection, request, size);
            let begin = now();
            stream.run_until(begin + budget / 4.0)?; // Not counted: caches and page tables settle.
            let begun = the_beginning(stage.order.begin_at);
            let count = stream.run_until(begun + budget)?;
            let sample = Sample::of(count as f64 / (now() - begun) * 1e9, Unit::OperationsPerSecond);
            if verb == Verb::Send {
                stream.finish_with(&region)?;
            }
            sample
        }
        Side::Target => {
            if verb == Verb::Send {
                take_until_the_last(&connection, &mut receive)?;
            }
            nothing()
        }
    };
    stage.peer.meet()?;
    Ok(sample)
}

/// Requests of one kind, as many under way as may be.
struct Stream<'a> {
    connection: &'a Connection,
    request: Request<'a>,
    moderation: u32,
}

impl<'a> Stream<'a> {
    fn new(connection: &'a Connection, request: Request<'a>, size: usize) -> Self {
        Self { connection, request, moderation: moderation(size) }
    }

    /// Posts until that moment, then waits until all have ended; how many there were.
    fn run_until(&mut self, end: f64) -> Outcome<u64> {
        let (mut posted, mut ended) = (0_u64, 0_u64);
        let moderation = u64::from(self.moderation);
        let mut entries = Entries::default();
        while now() < end {
            while posted - ended < u64::from(DEPTH) {
                posted += 1;
                self.connection.queue_pair.post_again(&mut self.request, posted % moderation == 0)?;
            }
            ended += moderation * self.take(&mut entries)?;
        }
        // All but the last have perhaps no completion of their own: that of the last vouches for them.
        let signalled = posted / moderation;
        let mut seen = ended / moderation;
        wait_until("room for the last request", || {
            seen += self.take(&mut entries)?;
            Ok(posted - seen * moderation < u64::from(DEPTH))
        })?;
        self.connection.queue_pair.post_again(&mut self.request, true)?;
        wait_until("the last request", || {
            seen += self.take(&mut entries)?;
            Ok(seen > signalled)
        })?;
        Ok(posted + 1)
    }

    fn take(&self, entries: &mut Entries) -> Outcome<u64> {
        Ok(self.connection.requests.take(entries)?.0 as u64)
    }

    /// Tells the receiver that no more come.
    fn finish_with(&self, region: &Region) -> Outcome<()> {
        let mut last = Request::new(LAST, first(region, 1));
        self.connection.queue_pair.post_again(&mut last, true)?;
        let mut entries = Entries::default();
        wait_until("the last message to be taken", || Ok(self.take(&mut entries)? > 0))
    }
}

/// Takes messages and posts as many receives again.
fn take_until_the_last(connection: &Connection, receive: &mut Receive<'_>) -> Outcome<()> {
    let mut entries = Entries::default();
    let mut last = false;
    while !last {
        wait_until("a message", || {
            let (count, immediate) = connection.receives.take(&mut entries)?;
            for _ in 0..count {
                connection.queue_pair.post_receive_again(receive)?;
            }
            last = immediate;
            Ok(count > 0)
        })?;
    }
    Ok(())
}

/// The moment from which on time counts: now, or the one at which all pairs of a crowd begin. Whoever wakes up late there has
/// lost that time, like any program that waits for a processor.
fn the_beginning(at: Option<u64>) -> f64 {
    let Some(at) = at else { return now() };
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    if let Some(left) = at.checked_sub(clock()) {
        std::thread::sleep(Duration::from_nanos(left));
    }
    now() - clock().saturating_sub(at) as f64
}

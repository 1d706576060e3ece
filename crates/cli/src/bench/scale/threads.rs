//! Many threads of one process: each with a queue pair of its own, and all on the same one.

use std::rc::Rc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::device::{self, Device};
use super::super::worker::wait_within;
use super::plan::{Goal, Part, Plan, Unit};
use super::process::{Ask, PATIENCE, PeerArguments, Process, Role, UNTIL_TOLD, serve};
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::verbs::{
    Address, Buffer, CompletionQueue, Entries, Operation, Piece, Poster, QueuePair, Region, RemoteMemory,
    Rights, Session,
};

const PAGE: usize = 4096;

/// Requests under way on a queue pair, and receives of one.
const DEPTH: u32 = 128;

/// Requests that a thread posts before it looks for completions.
const BATCH: usize = 8;

/// So many times the time of other measurements, since many threads share two processors.
const LONGER: u32 = 4;

/// What threads do: the operation and its bytes.
const OPERATIONS: [(bool, usize, &str); 3] =
    [(false, 8, "write 8 B"), (false, PAGE, "write 4 KiB"), (true, 8, "send 8 B")];

/// What is measured: within the process, then to another one; queue pairs of one's own, then the same one.
pub(super) fn plans(quick: bool) -> Vec<Plan> {
    let numbers = if quick { vec![1, 4] } else { vec![1, 2, 4, 16, 64, 256] };
    let mut plans = Vec::new();
    for place in ["within a process", "to another process"] {
        for queues in ["own queue pairs", "one queue pair"] {
            plans.extend(OPERATIONS.map(|(_, _, operation)| Plan {
                part: Part::Threads,
                name: format!("{operation} {place}, {queues}"),
                counted: "threads",
                numbers: numbers.clone(),
                unit: Unit::OperationsPerSecond,
                goal: Some(Goal::OfFirstAtLeast(0.5)),
            }));
        }
    }
    plans
}

/// One of the figures.
#[derive(Clone, Copy)]
struct Figure {
    elsewhere: bool,
    shared: bool,
    send: bool,
    size: usize,
}

impl Figure {
    /// By the place of its plan.
    fn of(what: usize) -> Self {
        let (send, size, _) = OPERATIONS[what % OPERATIONS.len()];
        let (shared, elsewhere) = (what / 3 % 2 == 1, what / 6 == 1);
        Self { elsewhere, shared, send, size }
    }
}

/// A queue pair with its two completion queues.
struct End {
    queue_pair: QueuePair,
    requests: Rc<CompletionQueue>,
    receives: Rc<CompletionQueue>,
}

impl End {
    /// With room for so many completions of receives.
    fn create(session: &Rc<Session>, room: u32) -> Outcome<Self> {
        let requests = CompletionQueue::create(session, DEPTH, false)?;
        let receives = CompletionQueue::create(session, room, false)?;
        let queue_pair = QueuePair::create_with(session, (&requests, DEPTH), (&receives, DEPTH))?;
        Ok(Self { queue_pair, requests, receives })
    }
}

/// Two that are connected within this process.
struct Within {
    from: End,
    to: End,
}

impl Within {
    fn create(session: &Rc<Session>, room: u32) -> Outcome<Self> {
        let (from, to) = (End::create(session, DEPTH)?, End::create(session, room)?);
        from.queue_pair.join(&to.queue_pair)?;
        Ok(Self { from, to })
    }
}

/// What a thread uses.
struct Station<'a> {
    requests: Poster<'a>,
    /// Where its messages arrive, if that is here.
    receives: Option<Poster<'a>>,
    /// Requests that have been posted, and those that have ended.
    posted: AtomicU64,
    ended: AtomicU64,
}

impl Station<'_> {
    /// Posts until that moment; how many requests ended meanwhile.
    fn work(&self, end: f64) -> Outcome<u64> {
        let mut entries = Entries::default();
        let (mut posted, mut ended) = (0, 0);
        // Once in any case: whoever is late has lost its time, and is not as if it had never been.
        loop {
            for _ in 0..BATCH {
                self.post_receive()?;
                if !self.requests.post()? {
                    break;
                }
                posted += 1;
            }
            ended += self.take(&mut entries)?;
            if device::now() >= end {
                break;
            }
        }
        self.posted.fetch_add(posted, Ordering::Relaxed);
        self.ended.fetch_add(ended, Ordering::Relaxed);
        Ok(ended)
    }

    /// Posts a receive where messages arrive here. Where there is no room for another, one is there for what is posted next.
    fn post_receive(&self) -> Outcome<()> {
        if let Some(receives) = &self.receives {
            receives.post_receive()?;
        }
        Ok(())
    }

    fn take(&self, entries: &mut Entries) -> Outcome<u64> {
        if let Some(receives) = &self.receives {
            receives.take(entries)?;
        }
        Ok(self.requests.take(entries)? as u64)
    }

    /// Waits until all requests have ended.
    fn drain(&self) -> Outcome<()> {
        let mut entries = Entries::default();
        let mut ended = self.ended.load(Ordering::Relaxed);
        let posted = self.posted.load(Ordering::Relaxed);
        wait_within(PATIENCE, "the last requests of a thread", || {
            // Another thread's message may have had the receive that was there.
            self.post_receive()?;
            ended += self.take(&mut entries)?;
            Ok(ended == posted)
        })
    }
}

/// The process whose threads are measured.
pub(super) fn process(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let count = arguments.number as usize;
    let mut target = Process::start(Role::ThreadTarget, &arguments.library, &[], arguments.number)?;
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let region = session.register(&Rc::new(Buffer::new(2 * PAGE)), Rights::Remote)?;
    // Threads that share the first may each have looked for receives before these ended, and for requests after that.
    let room = |place| DEPTH + if place == 0 { 16 * count as u32 } else { DEPTH };
    let within: Vec<_> =
        (0..count).map(|place| Within::create(session, room(place))).collect::<Outcome<_>>()?;
    let across: Vec<_> = (0..count).map(|_| End::create(session, DEPTH)).collect::<Outcome<_>>()?;
    let addresses: Vec<_> = across.iter().map(|end| end.queue_pair.address()).collect::<Result<_, _>>()?;
    target.tell(&addresses)?;
    let (addresses, remote): (Vec<Address>, RemoteMemory) = target.hear()?;
    across.iter().zip(&addresses).try_for_each(|(end, peer)| end.queue_pair.connect(peer))?;
    let mut turn = 0;
    serve(control, |ask: Ask| {
        let figure = Figure::of(ask.what);
        let number = ask.number as usize;
        let stations: Vec<_> = (0..if figure.shared { 1 } else { number })
            .map(|place| {
                if figure.elsewhere {
                    station(figure, &region, remote, &across[place], None)
                } else {
                    let own = RemoteMemory::of(&region).at(PAGE);
                    let pair = &within[place];
                    station(figure, &region, own, &pair.from, Some(&pair.to))
                }
            })
            .collect();
        let receives = figure.elsewhere && figure.send;
        if receives {
            turn += 1;
            target.tell(&turn)?;
        }
        let rate = measure(&stations, number, LONGER * ask.budget)?;
        stations.iter().try_for_each(Station::drain)?;
        if receives {
            end_turn(&across[0], &region, remote, turn)?;
            target.hear::<()>()?;
        }
        Ok(Some(rate))
    })
}

fn station<'a>(
    figure: Figure,
    region: &'a Region,
    remote: RemoteMemory,
    from: &'a End,
    to: Option<&'a End>,
) -> Station<'a> {
    let operation = if figure.send { Operation::Send } else { Operation::Write(remote) };
    let piece = Piece::new(region, 0, figure.size);
    let place = Piece::new(region, PAGE, figure.size);
    let to = to.filter(|_| figure.send);
    Station {
        requests: Poster::new(&from.queue_pair, &from.requests, operation, piece),
        receives: to.map(|to| Poster::new(&to.queue_pair, &to.receives, Operation::Send, place)),
        posted: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    }
}

/// Requests a second that so many threads end together.
fn measure(stations: &[Station<'_>], threads: usize, budget: Duration) -> Outcome<f64> {
    let barrier = Barrier::new(threads + 1);
    let end = AtomicU64::new(0);
    let work = |number: usize| {
        barrier.wait(); // All are there.
        barrier.wait(); // And know when to end.
        stations[number % stations.len()].work(f64::from_bits(end.load(Ordering::Relaxed)))
    };
    let work = &work;
    let ended = std::thread::scope(|scope| {
        let start = |number| {
            std::thread::Builder::new().stack_size(1 << 18).spawn_scoped(scope, move || work(number))
        };
        let started: Vec<_> = (0..threads).map(start).collect::<Result<_, _>>().map_err(|error| {
            // Those that are there wait for ever; the process ends soon.
            Failure::new(format!("{threads} threads cannot be started: {error}"))
        })?;
        barrier.wait();
        end.store((device::now() + budget.as_nanos() as f64).to_bits(), Ordering::Relaxed);
        barrier.wait();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<u64>>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
        };
        started.into_iter().map(join).sum::<Outcome<u64>>()
    })?;
    Ok(ended as f64 / budget.as_secs_f64())
}

/// Tells a target that takes messages that this turn is over.
fn end_turn(end: &End, region: &Region, remote: RemoteMemory, turn: u64) -> Outcome<()> {
    region.buffer().store(0, turn);
    let word = Operation::Write(remote.at(PAGE));
    let poster = Poster::new(&end.queue_pair, &end.requests, word, Piece::new(region, 0, 8));
    poster.post()?;
    let mut entries = Entries::default();
    wait_within(PATIENCE, "the end of a write", || Ok(poster.take(&mut entries)? > 0))
}

/// The process that writes and messages go to: takes messages in the turns that it is told of, else sleeps.
pub(super) fn target(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let count = arguments.number as usize;
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let requests = CompletionQueue::create(session, 16, false)?;
    let receives = CompletionQueue::create(session, count as u32 * DEPTH, false)?;
    let create = |_| QueuePair::create_with(session, (&requests, 16), (&receives, DEPTH));
    let queue_pairs = (0..count).map(create).collect::<Result<Vec<_>, _>>()?;
    // What is written, the word that ends a turn, what is sent.
    let region = session.register(&Rc::new(Buffer::new(3 * PAGE)), Rights::Remote)?;
    let place = Piece::new(&region, 2 * PAGE, 8);
    let peers: Vec<Address> = control.hear_within(super::SETTING_UP)?;
    for (number, (queue_pair, peer)) in queue_pairs.iter().zip(&peers).enumerate() {
        queue_pair.connect(peer)?;
        for _ in 0..DEPTH {
            queue_pair.post_receive(number as u64, place)?;
        }
    }
    let addresses: Vec<_> = queue_pairs.iter().map(QueuePair::address).collect::<Result<_, _>>()?;
    control.tell(&(addresses, RemoteMemory::of(&region)))?;
    let mut entries = Entries::default();
    loop {
        let turn: u64 = control.hear_within(UNTIL_TOLD)?;
        wait_within(4 * PATIENCE, "the end of a turn", || {
            let count = receives.take(&mut entries)?.0;
            for number in entries.ids(count) {
                queue_pairs[number as usize].post_receive(number, place)?;
            }
            Ok(count == 0 && region.buffer().load(PAGE) == turn)
        })?;
        control.tell(&())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plan_names_what_its_figure_measures() {
        for (what, plan) in plans(false).iter().enumerate() {
            let figure = Figure::of(what);
            let words = [
                (figure.send, "send"),
                (figure.size == PAGE, "4 KiB"),
                (figure.elsewhere, "another"),
                (figure.shared, "one queue pair"),
            ];
            for (holds, word) in words {
                assert_eq!(plan.name.contains(word), holds, "{word} in {}", plan.name);
            }
        }
    }
}

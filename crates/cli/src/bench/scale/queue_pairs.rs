//! A process with many queue pairs that are connected with another process: what it takes to have them and to use them in turn.

use std::rc::Rc;

use super::super::device::{self, Device};
use super::super::worker::wait_within;
use super::memory::settled_memory;
use super::plan::{Goal, Part, Plan, Unit};
use super::process::{PATIENCE, PeerArguments, Process, Role, serve, sleep_for_ever};
use super::repeated::{poll, repeat};
use crate::demo::exchange::Exchange;
use crate::demo::failure::Outcome;
use crate::verbs::{
    Address, Buffer, CompletionQueue, Entries, Operation, Piece, QueuePair, RemoteMemory, Request, Rights,
    Session,
};

/// The figures, in the order of the plans.
const WRITE: usize = 0;
const POLL: usize = 1;
const OWN_MEMORY: usize = 2;

const PAGE: usize = 4096;

/// Requests and receives of a queue pair.
const DEPTH: u32 = 16;

/// Bytes of a write.
const LENGTH: usize = 8;

/// What is measured.
pub(super) fn plans(quick: bool) -> Vec<Plan> {
    let row = |numbers: [&[u64]; 2]| numbers[usize::from(quick)].to_vec();
    let plan = |name: &str, numbers, unit, goal| {
        let (name, counted) = (name.to_owned(), "connected queue pairs");
        Plan { part: Part::QueuePairs, name, counted, numbers, unit, goal }
    };
    let many = || row([&[1, 16, 256, 4096, 10_000], &[1, 16]]);
    let large = || row([&[256, 4096, 10_000], &[16, 64]]);
    let small = Some(Goal::AtMost(4096.0));
    vec![
        plan("write of 8 B, posted and polled on each in turn", many(), Unit::Nanoseconds, None),
        plan("empty poll", many(), Unit::Nanoseconds, Some(Goal::OfFirstAtMost(1.2))),
        plan("memory of a queue pair, at who posts", large(), Unit::Bytes, small),
        plan("memory of a queue pair, at who is written to", large(), Unit::Bytes, small),
    ]
}

/// The one that is measured. Its memory is told once it has posted on each of them.
pub(super) fn process(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let count = arguments.number as usize;
    let mut target = Process::start(Role::TurnTarget, &arguments.library, &[], arguments.number)?;
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let (queue, idle) =
        (CompletionQueue::create(session, 1024, false)?, CompletionQueue::create(session, 16, false)?);
    let region = session.register(&Rc::new(Buffer::new(PAGE)), Rights::Remote)?;
    let mut entries = Entries::default();
    let before = settled_memory()?;
    let queue_pairs = create(session, count, &queue)?;
    let addresses: Vec<_> = queue_pairs.iter().map(QueuePair::address).collect::<Result<_, _>>()?;
    target.tell(&addresses)?;
    let (addresses, remote): (Vec<Address>, RemoteMemory) = target.hear()?;
    queue_pairs.iter().zip(&addresses).try_for_each(|(queue_pair, peer)| queue_pair.connect(peer))?;
    drop(addresses);
    let mut request = Request::new(Operation::Write(remote), Piece::new(&region, 0, LENGTH));
    let mut write = |queue_pair: &QueuePair| -> Outcome<()> {
        queue_pair.post_again(&mut request, true)?;
        wait_within(PATIENCE, "the end of a write", || Ok(queue.take(&mut entries)?.0 > 0))
    };
    queue_pairs.iter().try_for_each(&mut write)?;
    let memory = (settled_memory()? - before) / count as f64;
    target.tell(&())?;
    let targets_memory: f64 = target.hear()?;
    let mut next = 0;
    serve(control, |ask| match ask.what {
        WRITE => {
            let turns = count.clamp(64, 4096);
            let each = repeat(ask.budget, || {
                let begun = device::now();
                for _ in 0..turns {
                    next = (next + 1) % count;
                    write(&queue_pairs[next])?;
                }
                Ok((device::now() - begun) / turns as f64)
            });
            each.map(Some)
        }
        POLL => poll(&idle, ask.budget).map(Some),
        OWN_MEMORY => Ok(Some(memory)),
        _ => Ok(Some(targets_memory)),
    })
}

/// Has the memory that these writes go to.
pub(super) fn target(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let count = arguments.number as usize;
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let queue = CompletionQueue::create(session, 1024, false)?;
    let region = session.register(&Rc::new(Buffer::new(PAGE)), Rights::Remote)?;
    let peers: Vec<Address> = control.hear_within(super::SETTING_UP)?;
    let before = settled_memory()?;
    let queue_pairs = create(session, count, &queue)?;
    queue_pairs.iter().zip(&peers).try_for_each(|(queue_pair, peer)| queue_pair.connect(peer))?;
    let addresses: Vec<_> = queue_pairs.iter().map(QueuePair::address).collect::<Result<_, _>>()?;
    control.tell(&(addresses, RemoteMemory::of(&region)))?;
    control.hear_within::<()>(super::SETTING_UP)?;
    control.tell(&((settled_memory()? - before) / count as f64))?;
    sleep_for_ever(control)
}

/// So many, which all complete to one queue.
fn create(session: &Rc<Session>, count: usize, queue: &Rc<CompletionQueue>) -> Outcome<Vec<QueuePair>> {
    let create = |_| Ok(QueuePair::create_with(session, (queue, DEPTH), (queue, DEPTH))?);
    (0..count).map(create).collect()
}

/// Two that are connected with each other.
pub(super) fn create_pair(session: &Rc<Session>, queue: &Rc<CompletionQueue>) -> Outcome<[QueuePair; 2]> {
    let create = || QueuePair::create_with(session, (queue, DEPTH), (queue, DEPTH));
    let [one, other] = [create()?, create()?];
    one.join(&other)?;
    Ok([one, other])
}

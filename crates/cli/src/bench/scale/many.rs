//! One process with many queue pairs, regions or windows: what one operation costs among them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::super::device::{self, Device};
use super::super::job::median;
use super::super::worker::wait_within;
use super::plan::{Part, Plan, Unit};
use super::process::{Ask, PATIENCE, PeerArguments, Process, Role, serve, sleep_for_ever};
use crate::demo::exchange::Exchange;
use crate::demo::failure::Outcome;
use crate::verbs::{
    Address, Buffer, CompletionQueue, Entries, MemoryWindow, Operation, Piece, QueuePair, Region,
    RemoteMemory, Request, Rights, Session,
};

const PAGE: usize = 4096;

/// Requests and receives of a queue pair.
const DEPTH: u32 = 16;

/// Bytes of a write, and what a window shows.
const LENGTH: usize = 8;
const SHOWN: usize = 64;

/// What is measured among queue pairs that are used in turn.
pub(super) fn turn_plans(quick: bool) -> Vec<Plan> {
    let numbers = if quick { vec![1, 16] } else { vec![1, 16, 256, 4096] };
    vec![plan(Part::QueuePairs, "post and poll of a write of 8 B", "queue pairs in turn", numbers)]
}

/// What is measured among live regions.
pub(super) fn region_plans(quick: bool) -> Vec<Plan> {
    let numbers = if quick { vec![1, 100] } else { vec![1, 100, 10_000] };
    ["registering a page", "deregistering it"]
        .map(|name| plan(Part::Regions, name, "live regions", numbers.clone()))
        .into()
}

/// What is measured among live windows.
pub(super) fn window_plans(quick: bool) -> Vec<Plan> {
    let numbers = if quick { vec![1, 100] } else { vec![1, 100, 10_000] };
    ["binding a window of type 2", "invalidating it"]
        .map(|name| plan(Part::Windows, name, "live windows", numbers.clone()))
        .into()
}

fn plan(part: Part, name: &str, counted: &'static str, numbers: Vec<u64>) -> Plan {
    Plan { part, name: name.to_owned(), counted, numbers, unit: Unit::Nanoseconds, goal: None }
}

/// Calls `once` until the time is over; the median of what it returns.
fn repeat(budget: Duration, mut once: impl FnMut() -> Outcome<f64>) -> Outcome<f64> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || begun.elapsed() < budget {
        times.push(once()?);
    }
    Ok(median(&times))
}

/// Writes to as many queue pairs in turn as it is asked for.
pub(super) fn turns(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let count = arguments.number as usize;
    let mut target = Process::start(Role::TurnTarget, &arguments.library, &[], arguments.number)?;
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let queue = CompletionQueue::create(session, 1024, false)?;
    let queue_pairs = queue_pairs(session, count, &queue)?;
    let addresses: Vec<_> = queue_pairs.iter().map(QueuePair::address).collect::<Result<_, _>>()?;
    target.tell(&addresses)?;
    let (addresses, remote): (Vec<Address>, RemoteMemory) = target.hear()?;
    queue_pairs.iter().zip(&addresses).try_for_each(|(queue_pair, peer)| queue_pair.connect(peer))?;
    let region = session.register(&Rc::new(Buffer::new(PAGE)), Rights::Remote)?;
    let mut request = Request::new(Operation::Write(remote), Piece::new(&region, 0, LENGTH));
    let mut entries = Entries::default();
    let mut next = 0;
    serve(control, |ask| {
        let turns = (ask.number as usize).max(64);
        repeat(ask.budget, || {
            let begun = device::now();
            for _ in 0..turns {
                next = (next + 1) % ask.number as usize;
                queue_pairs[next].post_again(&mut request, true)?;
                wait_within(PATIENCE, "the end of a write", || Ok(queue.take(&mut entries)?.0 > 0))?;
            }
            Ok((device::now() - begun) / turns as f64)
        })
        .map(Some)
    })
}

/// Has the memory that these writes go to.
pub(super) fn turn_target(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let queue = CompletionQueue::create(session, 1024, false)?;
    let queue_pairs = queue_pairs(session, arguments.number as usize, &queue)?;
    let region = session.register(&Rc::new(Buffer::new(PAGE)), Rights::Remote)?;
    let peers: Vec<Address> = control.hear_within(super::SETTING_UP)?;
    queue_pairs.iter().zip(&peers).try_for_each(|(queue_pair, peer)| queue_pair.connect(peer))?;
    let addresses: Vec<_> = queue_pairs.iter().map(QueuePair::address).collect::<Result<_, _>>()?;
    control.tell(&(addresses, RemoteMemory::of(&region)))?;
    sleep_for_ever(control)
}

fn queue_pairs(session: &Rc<Session>, count: usize, queue: &Rc<CompletionQueue>) -> Outcome<Vec<QueuePair>> {
    let create = |_| Ok(QueuePair::create_with(session, (queue, DEPTH), (queue, DEPTH))?);
    (0..count).map(create).collect()
}

/// Registers a page, and ends that, beside as many regions as it is asked for.
pub(super) fn regions(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let most = arguments.number as usize;
    let memory = touched(most * PAGE);
    let other = touched(PAGE);
    let mut live: Vec<Region> = Vec::new();
    serve(control, |ask| {
        live.truncate(ask.number as usize);
        while live.len() < ask.number as usize {
            let start = live.len() * PAGE;
            live.push(session.register_part(&memory, start..start + PAGE, Rights::Remote)?);
        }
        repeat(ask.budget, || {
            let begun = device::now();
            let region = session.register(&other, Rights::Remote)?;
            let registered = device::now();
            drop(region);
            let ended = device::now();
            Ok(if ask.what == 0 { registered - begun } else { ended - registered })
        })
        .map(Some)
    })
}

fn touched(length: usize) -> Rc<Buffer> {
    let buffer = Buffer::new(length);
    (0..length).step_by(PAGE).for_each(|at| buffer.store(at, 1));
    Rc::new(buffer)
}

/// Binds a window, and takes its key back, beside as many windows as it is asked for.
pub(super) fn windows(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let queue = CompletionQueue::create(session, 16, false)?;
    let pair = queue_pairs(session, 2, &queue)?;
    pair[0].connect(&pair[1].address()?)?;
    pair[1].connect(&pair[0].address()?)?;
    let most = arguments.number as usize;
    let region = session.register(&Rc::new(Buffer::new((most + 1) * SHOWN)), Rights::Windows)?;
    let other = MemoryWindow::allocate(session)?;
    let mut live: Vec<MemoryWindow> = Vec::new();
    let mut entries = Entries::default();
    let mut ended = || wait_within(PATIENCE, "the end of a bind", || Ok(queue.take(&mut entries)?.0 > 0));
    serve(control, |ask: Ask| {
        live.truncate(ask.number as usize);
        while live.len() < ask.number as usize {
            let window = MemoryWindow::allocate(session)?;
            window.bind(&pair[0], Piece::new(&region, live.len() * SHOWN, SHOWN))?;
            ended()?;
            live.push(window);
        }
        repeat(ask.budget, || {
            let begun = device::now();
            other.bind(&pair[0], Piece::new(&region, most * SHOWN, SHOWN))?;
            ended()?;
            let bound = device::now();
            other.invalidate(&pair[0])?;
            ended()?;
            Ok(if ask.what == 0 { bound - begun } else { device::now() - bound })
        })
        .map(Some)
    })
}

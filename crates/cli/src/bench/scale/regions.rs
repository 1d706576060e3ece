//! One process with many regions: what it takes to have them, and to use one among them.

use std::rc::Rc;

use super::super::device::{self, Device};
use super::super::worker::wait_within;
use super::memory::Table;
use super::plan::{Goal, Part, Plan, Unit};
use super::process::{PATIENCE, PeerArguments, serve};
use super::queue_pairs;
use super::repeated::repeat;
use crate::demo::exchange::Exchange;
use crate::demo::failure::Outcome;
use crate::verbs::{
    Buffer, CompletionQueue, Entries, Operation, Piece, QueuePair, Region, RemoteMemory, Request, Rights,
};

/// The figures, in the order of the plans.
const REGISTER: usize = 0;
const DEREGISTER: usize = 1;
const RIGHTS: usize = 2;
const WRITE: usize = 3;
const LINE: usize = 4;

const PAGE: usize = 4096;

/// Bytes of one of the many, and of a write.
const SIZE: usize = 64;
const LENGTH: usize = 8;

/// Writes of one measurement.
const WRITES: u32 = 256;

/// How many an operation may be among, and how many are enough to see what one takes of the table.
const NUMBERS: [&[u64]; 2] = [&[1, 100, 10_000, 1_000_000], &[1, 100]];
const ENOUGH: [&[u64]; 2] = [&[100_000, 1_000_000], &[100, 1000]];

/// What one operation costs more among a million than alone.
pub(super) const LOOKUP: Option<Goal> = Some(Goal::BeyondFirstAtMost(50.0));
/// As much as that, at most, of the table that peers see.
const ENTRY: Option<Goal> = Some(Goal::AtMost(128.0));

/// Rows of numbers: among which to operate, and at which to see what the table takes.
pub(super) fn rows(quick: bool) -> [Vec<u64>; 2] {
    [NUMBERS, ENOUGH].map(|numbers| numbers[usize::from(quick)].to_vec())
}

/// What is measured.
pub(super) fn plans(quick: bool) -> Vec<Plan> {
    let plan = |name: &str, numbers, unit, goal| {
        let (name, counted) = (name.to_owned(), "live regions");
        Plan { part: Part::Regions, name, counted, numbers, unit, goal }
    };
    let flat = Some(Goal::OfFirstAtMost(1.5));
    let [many, enough] = rows(quick);
    vec![
        plan("registering a page", many.clone(), Unit::Nanoseconds, flat),
        plan("deregistering it", many.clone(), Unit::Nanoseconds, flat),
        plan("changing its rights", many.clone(), Unit::Nanoseconds, Some(Goal::AtMost(3000.0))),
        plan("write of 8 B, posted and polled to each in turn", many.clone(), Unit::Nanoseconds, LOOKUP),
        plan(
            "a line of memory of each in an order by chance, without a device",
            many,
            Unit::Nanoseconds,
            None,
        ),
        plan("memory of a region, in the table that peers see", enough, Unit::Bytes, ENTRY),
    ]
}

/// Writes from one queue pair of a process to another.
pub(super) struct Writer<'a> {
    queue_pair: &'a QueuePair,
    queue: &'a CompletionQueue,
    request: Request<'a>,
    entries: Entries,
    next: usize,
}

impl<'a> Writer<'a> {
    /// From the beginning of that region.
    pub(super) fn new(queue_pair: &'a QueuePair, queue: &'a CompletionQueue, from: &'a Region) -> Self {
        let request = Request::new(Operation::Write(RemoteMemory::of(from)), Piece::new(from, 0, LENGTH));
        Self { queue_pair, queue, request, entries: Entries::default(), next: 0 }
    }

    /// Nanoseconds of a write to the next of these.
    pub(super) fn write_in_turn(&mut self, to: &[RemoteMemory]) -> Outcome<f64> {
        let begun = device::now();
        for _ in 0..WRITES {
            self.next = (self.next + 1) % to.len();
            self.request.lead_to(to[self.next]);
            self.queue_pair.post_again(&mut self.request, true)?;
            let (queue, entries) = (self.queue, &mut self.entries);
            wait_within(PATIENCE, "the end of a write", || Ok(queue.take(entries)?.0 > 0))?;
        }
        Ok((device::now() - begun) / f64::from(WRITES))
    }
}

/// So many lines of memory, which say in which order they are read: what the machine takes for a look at one entry of a table of as many.
struct Lines {
    following: Vec<[usize; 8]>,
    at: usize,
}

impl Lines {
    fn new(number: usize) -> Self {
        let mut following: Vec<_> = (0..number).map(|line| [line; 8]).collect();
        // One circle of all of them (Sattolo); which one does not matter, if no processor guesses it.
        let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
        for last in (1..number).rev() {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            following.swap(last, (chance % last as u64) as usize);
        }
        Self { following, at: 0 }
    }

    /// Nanoseconds of a read, which has to end before the next begins.
    fn read(&mut self) -> f64 {
        let begun = device::now();
        for _ in 0..WRITES {
            self.at = self.following[self.at][0];
        }
        (device::now() - begun) / f64::from(WRITES)
    }
}

/// The process that is measured.
pub(super) fn process(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let queue = CompletionQueue::create(session, 16, false)?;
    let pair = queue_pairs::create_pair(session, &queue)?;
    let page = Rc::new(Buffer::new(PAGE));
    let from = session.register(&page, Rights::Local)?;
    let memory = Rc::new(Buffer::untouched(arguments.number as usize * SIZE));
    let mut table = Table::new()?;
    let (mut live, mut places) = (Vec::<Region>::new(), Vec::new());
    let mut writer = Writer::new(&pair[0], &queue, &from);
    serve(control, |ask| {
        let number = ask.number as usize;
        live.truncate(number);
        places.truncate(number);
        while live.len() < number {
            let start = live.len() * SIZE;
            let region = session.register_part(&memory, start..start + SIZE, Rights::Remote)?;
            places.push(RemoteMemory::of(&region));
            live.push(region);
        }
        match ask.what {
            what @ (REGISTER | DEREGISTER | RIGHTS) => repeat(ask.budget, || {
                let begun = device::now();
                let region = session.register(&page, Rights::Remote)?;
                let registered = device::now();
                region.change_rights(Rights::Local)?;
                let changed = device::now();
                drop(region);
                let ended = device::now();
                Ok([registered - begun, ended - changed, changed - registered][what])
            }),
            WRITE => repeat(ask.budget, || writer.write_in_turn(&places)),
            LINE => {
                let mut lines = Lines::new(number);
                repeat(ask.budget, || Ok(lines.read()))
            }
            _ => table.share(number),
        }
        .map(Some)
    })
}

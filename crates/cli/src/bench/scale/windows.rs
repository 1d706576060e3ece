//! One process with many memory windows, each of a region of its own: what it takes to have them, to use one among them, and to
//! bind one while others are used.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::device::{self, Device};
use super::super::worker::wait_within;
use super::memory::Table;
use super::plan::{Goal, Part, Plan, Unit};
use super::process::{Ask, PATIENCE, PeerArguments, serve};
use super::queue_pairs;
use super::regions::{LOOKUP, Writer, rows};
use super::repeated::repeat;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::verbs::{
    Buffer, CompletionQueue, Entries, MemoryWindow, Operation, Piece, Poster, QueuePair, Region,
    RemoteMemory, Rights, Session,
};

/// The figures, in the order of the plans.
const BIND: usize = 0;
const INVALIDATE: usize = 1;
const WRITE: usize = 2;
const TABLE: usize = 3;

/// Bytes that a window shows, and of a write.
const SHOWN: usize = 64;
const LENGTH: usize = 8;

/// What a window and its region take, at most, of the table that peers see.
const ENTRIES: Option<Goal> = Some(Goal::AtMost(256.0));

/// Threads that use windows while another one is bound.
const THREADS: [&[u64]; 2] = [&[1, 8], &[1, 2]];

/// Times of a thread that are kept, at most.
const TIMES_MAX: usize = 1 << 18;

/// What is measured.
pub(super) fn plans(quick: bool) -> Vec<Plan> {
    let plan = |name: &str, counted, numbers, unit, goal| {
        let name = name.to_owned();
        Plan { part: Part::Windows, name, counted, numbers, unit, goal }
    };
    let live = "live windows, each of a region of its own";
    let short = Some(Goal::AtMost(300.0));
    let [many, enough] = rows(quick);
    vec![
        plan("binding a window of type 2", live, many.clone(), Unit::Nanoseconds, short),
        plan("invalidating it", live, many.clone(), Unit::Nanoseconds, short),
        plan("write of 8 B, posted and polled to each in turn", live, many, Unit::Nanoseconds, LOOKUP),
        plan("memory of a window and its region, in the table", live, enough, Unit::Bytes, ENTRIES),
        plan(
            "slowest of 1,000 writes of 8 B, through a window beside binds",
            "threads that write",
            THREADS[usize::from(quick)].to_vec(),
            Unit::Nanoseconds,
            Some(Goal::AtMost(100_000.0)),
        ),
    ]
}

/// The process that is measured.
pub(super) fn process(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let queue = CompletionQueue::create(session, 16, false)?;
    let pair = queue_pairs::create_pair(session, &queue)?;
    let from = session.register(&Rc::new(Buffer::new(SHOWN)), Rights::Local)?;
    let memory = Rc::new(Buffer::untouched(arguments.number as usize * SHOWN));
    let free = session.register(&Rc::new(Buffer::new(SHOWN)), Rights::Windows)?;
    let other = MemoryWindow::allocate(session)?;
    // (A window goes before its region.)
    let (mut live, mut places) = (Vec::<(MemoryWindow, Region)>::new(), Vec::new());
    let mut table = Table::new()?;
    let mut entries = Entries::default();
    let mut ended = || wait_within(PATIENCE, "the end of a bind", || Ok(queue.take(&mut entries)?.0 > 0));
    let mut writer = Writer::new(&pair[1], &queue, &from);
    serve(control, |ask: Ask| {
        let number = ask.number as usize;
        if ask.what > TABLE {
            return slowest(session, number, ask.budget).map(Some);
        }
        live.truncate(number);
        places.truncate(number);
        while live.len() < number {
            let start = live.len() * SHOWN;
            let region = session.register_part(&memory, start..start + SHOWN, Rights::Windows)?;
            let window = MemoryWindow::allocate(session)?;
            window.bind(&pair[0], Piece::new(&region, 0, SHOWN))?;
            ended()?;
            places.push(window.remote(Piece::new(&region, 0, SHOWN)));
            live.push((window, region));
        }
        match ask.what {
            what @ (BIND | INVALIDATE) => repeat(ask.budget, || {
                let begun = device::now();
                other.bind(&pair[0], Piece::new(&free, 0, SHOWN))?;
                ended()?;
                let bound = device::now();
                other.invalidate(&pair[0])?;
                ended()?;
                Ok(if what == BIND { bound - begun } else { device::now() - bound })
            }),
            WRITE => repeat(ask.budget, || writer.write_in_turn(&places)),
            _ => table.share(number),
        }
        .map(Some)
    })
}

/// A window that a thread of its own writes through.
struct Used {
    from: QueuePair,
    to: QueuePair,
    queue: Rc<CompletionQueue>,
    window: MemoryWindow,
    region: Region,
}

impl Used {
    fn create(session: &Rc<Session>) -> Outcome<Self> {
        let queue = CompletionQueue::create(session, 16, false)?;
        let [from, to] = queue_pairs::create_pair(session, &queue)?;
        let region = session.register(&Rc::new(Buffer::new(SHOWN)), Rights::Windows)?;
        let window = MemoryWindow::allocate(session)?;
        window.bind(&to, Piece::new(&region, 0, SHOWN))?;
        let mut entries = Entries::default();
        wait_within(PATIENCE, "the end of a bind", || Ok(queue.take(&mut entries)?.0 > 0))?;
        Ok(Self { from, to, queue, window, region })
    }

    fn remote(&self) -> RemoteMemory {
        self.window.remote(Piece::new(&self.region, 0, SHOWN))
    }
}

/// Of a thousand writes by so many threads, the slowest but for one, in nanoseconds: the 99.9th of a hundred.
fn slowest(session: &Rc<Session>, threads: usize, budget: Duration) -> Outcome<f64> {
    let used: Vec<_> = (0..threads).map(|_| Used::create(session)).collect::<Outcome<_>>()?;
    let bound = Used::create(session)?;
    let posters: Vec<_> = used
        .iter()
        .map(|used| {
            let write = Operation::Write(used.remote());
            Poster::new(&used.from, &used.queue, write, Piece::new(&used.region, 0, LENGTH))
        })
        .collect();
    let over = AtomicBool::new(false);
    let mut times = std::thread::scope(|scope| -> Outcome<Vec<f64>> {
        let over = &over;
        let writers: Vec<_> =
            posters.iter().map(|poster| scope.spawn(move || times_of(poster, over))).collect();
        let end = device::now() + budget.as_nanos() as f64;
        let mut entries = Entries::default();
        let mut ended =
            || wait_within(PATIENCE, "the end of a bind", || Ok(bound.queue.take(&mut entries)?.0 > 0));
        let mut rebind = || -> Outcome<()> {
            while device::now() < end {
                bound.window.invalidate(&bound.to)?;
                ended()?;
                bound.window.bind(&bound.to, Piece::new(&bound.region, 0, SHOWN))?;
                ended()?;
            }
            Ok(())
        };
        let rebound = rebind();
        over.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for writer in writers {
            times.extend(writer.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))?);
        }
        rebound.map(|()| times)
    })?;
    times.sort_by(f64::total_cmp);
    Ok(times[(times.len() - 1) * 999 / 1000])
}

fn times_of(poster: &Poster<'_>, over: &AtomicBool) -> Outcome<Vec<f64>> {
    let (mut entries, mut times) = (Entries::default(), Vec::with_capacity(TIMES_MAX));
    // Once in any case, also if it was late.
    while times.is_empty() || !over.load(Ordering::Relaxed) && times.len() < TIMES_MAX {
        let begun = device::now();
        poster.post()?;
        wait_within(PATIENCE, "the end of a write", || Ok(poster.take(&mut entries)? > 0))?;
        times.push(device::now() - begun);
    }
    Ok(times)
}

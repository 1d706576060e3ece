//! Processes of which each is connected with each.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::super::worker::wait_within;
use super::plan::{Goal, Part, Plan, Unit};
use super::process::{Ask, PATIENCE, PeerArguments, Process, Role, UNTIL_TOLD, raise_descriptor_limit};
use super::{Place, Subject, bare_mesh};
use crate::bench::device::Device;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::verbs::{
    Address, Buffer, CompletionQueue, Entries, Operation, Piece, QueuePair, Region, Rights, Session,
};

/// The figures, in the order of the plans.
const CONNECT: usize = 0;
const STREAM: usize = 1;

/// Bytes of a message.
pub(super) const MESSAGE: usize = 1024;

/// Messages under way to each peer, and receives from each: those that arrive behind the end find a place.
pub(super) const DEPTH: u32 = 8;
const RECEIVES: u32 = 2 * DEPTH;

/// So many times the time of other measurements, since all share two processors.
const LONGER: u32 = 25;

/// How long after the word all begin to send, so that every one has heard it.
const READY: Duration = Duration::from_millis(200);

/// What is measured.
pub(super) fn plans(quick: bool) -> Vec<Plan> {
    let numbers = if quick { vec![2, 4] } else { vec![4, 64] };
    let plan = |name: &str, unit, goal: Option<Goal>| Plan {
        part: Part::Mesh,
        name: name.to_owned(),
        counted: "processes",
        numbers: numbers.clone(),
        unit,
        goal,
    };
    vec![
        plan("all connected, a message through everywhere", Unit::Nanoseconds, Some(Goal::AtMost(2e9))),
        plan("sends of 1 KiB, all together", Unit::BytesPerSecond, Some(Goal::OfFirstAtLeast(1.0))),
        // So many processes have more under way than the caches hold: what is left to be had of the machine then.
        plan("copies of 1 KiB through bare rings, without a device", Unit::BytesPerSecond, None),
    ]
}

/// What a member of a mesh is told to do, once it is connected.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
enum Turn {
    /// Send one message to each, and wait for one of each.
    First,
    /// Send in turn meanwhile.
    Stream(Stretch),
}

/// From when on members stream, and for how long.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Stretch {
    begin: u64,
    budget: Duration,
}

impl Stretch {
    /// Begins soon, when every one has heard of it.
    fn soon(budget: Duration) -> Self {
        Self { begin: clock() + READY.as_nanos() as u64, budget }
    }

    /// Waits until it begins; when it ends.
    pub(super) fn wait(self) -> u64 {
        std::thread::sleep(Duration::from_nanos(self.begin.saturating_sub(clock())));
        self.begin + self.budget.as_nanos() as u64
    }
}

/// Has all stream meanwhile; how many bytes a second arrived at all together.
pub(super) fn stream_all(members: &mut [Process], turn: &impl Serialize, budget: Duration) -> Outcome<f64> {
    members.iter_mut().try_for_each(|member| member.tell(turn))?;
    let messages: u64 = members.iter_mut().map(Process::hear::<u64>).sum::<Outcome<_>>()?;
    Ok((messages * MESSAGE as u64) as f64 / budget.as_secs_f64())
}

/// Meshes, by their size. One is made anew each time that connecting is measured.
pub(super) struct Meshes {
    library: std::path::PathBuf,
    meshes: BTreeMap<u64, Vec<Process>>,
    bare: BTreeMap<u64, Vec<Process>>,
}

impl Meshes {
    pub(super) fn new(place: &Place) -> Self {
        Self { library: place.library.clone(), meshes: BTreeMap::new(), bare: BTreeMap::new() }
    }

    /// Starts a mesh; how long it took from the moment at which all have a queue pair for each until all have heard of
    /// each.
    fn connect(&mut self, number: u64) -> Outcome<f64> {
        self.meshes.remove(&number); // Ended before others begin.
        let start = |_| Process::start(Role::Member, &self.library, &[], number);
        let mut members = (0..number).map(start).collect::<Outcome<Vec<_>>>()?;
        let addresses: Vec<Vec<Address>> = members.iter_mut().map(Process::hear).collect::<Outcome<_>>()?;
        let begun = clock();
        for (own, member) in members.iter_mut().enumerate() {
            let peers: Vec<_> = addresses.iter().map(|of_one| of_one[own]).collect();
            member.tell(&(own, peers))?;
        }
        members.iter_mut().try_for_each(Process::hear)?;
        members.iter_mut().try_for_each(|member| member.tell(&Turn::First))?;
        let mut last = begun;
        for member in &mut members {
            last = last.max(member.hear()?);
        }
        self.meshes.insert(number, members);
        Ok((last - begun) as f64)
    }

    /// Bytes a second that arrived at all together.
    fn stream(&mut self, number: u64, budget: Duration) -> Outcome<f64> {
        let members = self.meshes.get_mut(&number).ok_or_else(|| Failure::new("there is no such mesh"))?;
        stream_all(members, &Turn::Stream(Stretch::soon(budget)), budget)
    }

    /// The same without a device.
    fn stream_bare(&mut self, number: u64, budget: Duration) -> Outcome<f64> {
        let mesh = match self.bare.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(bare_mesh::start(&self.library, number)?),
        };
        stream_all(mesh, &Stretch::soon(budget), budget)
    }
}

impl Subject for Meshes {
    fn ask(&mut self, ask: Ask) -> Outcome<Option<f64>> {
        match ask.what {
            CONNECT => self.connect(ask.number),
            STREAM => self.stream(ask.number, LONGER * ask.budget),
            _ => self.stream_bare(ask.number, LONGER * ask.budget),
        }
        .map(Some)
    }
}

/// Nanoseconds of the system's monotonic clock, which all processes share.
pub(super) fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One of the processes.
pub(super) fn member(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    raise_descriptor_limit()?;
    let device = Device::open(&arguments.library)?;
    let mut ends = Ends::create(device.session(), arguments.number as usize)?;
    control.tell(&ends.queue_pairs.iter().map(QueuePair::address).collect::<Result<Vec<_>, _>>()?)?;
    let (own, peers): (usize, Vec<Address>) = control.hear_within(super::SETTING_UP)?;
    ends.connect(own, &peers)?;
    control.tell(&())?;
    loop {
        match control.hear_within(UNTIL_TOLD)? {
            Turn::First => {
                ends.first()?;
                control.tell(&clock())?;
            }
            Turn::Stream(stretch) => {
                let count = ends.stream(stretch)?;
                control.tell(&count)?;
            }
        }
    }
}

/// A queue pair for each process; the one for this process itself is never used.
struct Ends {
    own: usize,
    sent: Rc<CompletionQueue>,
    arrived: Rc<CompletionQueue>,
    queue_pairs: Vec<QueuePair>,
    region: Region,
    /// Messages under way to each.
    under_way: Vec<u32>,
}

impl Ends {
    fn create(session: &Rc<Session>, count: usize) -> Outcome<Self> {
        let sent = CompletionQueue::create(session, count as u32 * DEPTH, false)?;
        let arrived = CompletionQueue::create(session, count as u32 * RECEIVES, false)?;
        let create = |_| QueuePair::create_with(session, (&sent, DEPTH), (&arrived, RECEIVES));
        let queue_pairs = (0..count).map(create).collect::<Result<_, _>>()?;
        // What is sent, then room for what arrives; nobody looks at it, so all of a peer's messages share a place.
        let region = session.register(&Rc::new(Buffer::new((count + 1) * MESSAGE)), Rights::Remote)?;
        Ok(Self { own: 0, sent, arrived, queue_pairs, region, under_way: vec![0; count] })
    }

    fn connect(&mut self, own: usize, peers: &[Address]) -> Outcome<()> {
        self.own = own;
        for (peer, address) in peers.iter().enumerate().filter(|(peer, _)| *peer != own) {
            self.queue_pairs[peer].connect(address)?;
            for _ in 0..RECEIVES {
                self.receive(peer)?;
            }
        }
        Ok(())
    }

    fn receive(&self, peer: usize) -> Outcome<()> {
        let place = Piece::new(&self.region, (peer + 1) * MESSAGE, MESSAGE);
        Ok(self.queue_pairs[peer].post_receive(peer as u64, place)?)
    }

    fn send(&mut self, peer: usize) -> Outcome<()> {
        self.under_way[peer] += 1;
        let piece = Piece::new(&self.region, 0, MESSAGE);
        Ok(self.queue_pairs[peer].post(peer as u64, Operation::Send, piece, false)?)
    }

    /// Takes what has been sent and what has arrived; how much has arrived.
    fn take(&mut self, entries: &mut Entries) -> Outcome<u64> {
        let count = self.sent.take(entries)?.0;
        for peer in entries.ids(count) {
            self.under_way[peer as usize] -= 1;
        }
        let count = self.arrived.take(entries)?.0;
        for peer in entries.ids(count) {
            self.receive(peer as usize)?;
        }
        Ok(count as u64)
    }

    fn first(&mut self) -> Outcome<()> {
        let peers = self.queue_pairs.len();
        for peer in (0..peers).filter(|peer| *peer != self.own).collect::<Vec<_>>() {
            self.send(peer)?;
        }
        let (mut arrived, mut entries) = (0, Entries::default());
        wait_within(PATIENCE, "a message of each process", || {
            arrived += self.take(&mut entries)?;
            Ok(arrived == peers as u64 - 1 && self.under_way.iter().all(|count| *count == 0))
        })
    }

    /// Sends to one after the other meanwhile; how many messages arrived.
    fn stream(&mut self, stretch: Stretch) -> Outcome<u64> {
        let mut entries = Entries::default();
        while self.take(&mut entries)? > 0 {} // What came behind the end of the last time.
        let end = stretch.wait();
        let (mut arrived, mut next) = (0, self.own);
        while clock() < end {
            for _ in 0..DEPTH {
                next = (next + 1) % self.queue_pairs.len();
                if next != self.own && self.under_way[next] < DEPTH {
                    self.send(next)?;
                }
            }
            arrived += self.take(&mut entries)?;
        }
        // Nobody may end while a peer's messages have no place: as many are under way at most as receives are left.
        while self.take(&mut entries)? > 0 {}
        Ok(arrived)
    }
}

//! Processes with idle links: each link leads to a process of its own that sent one message and sleeps since.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use super::super::crew::Member;
use super::super::device::Device;
use super::super::job::{Job, Order, Sample, Verb, median};
use super::super::worker::{Side, pin, wait_within};
use super::memory::settled_memory;
use super::plan::{Goal, Part, Plan, Unit};
use super::process::{PATIENCE, PeerArguments, Process, Role, ensure_descriptors, serve, sleep_for_ever};
use super::queue_pairs::create_pair;
use super::repeated::poll;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::verbs::{
    Address, Buffer, CompletionQueue, Entries, Operation, Piece, QueuePair, Receive, Region, Rights, Session,
};

/// The figures, in the order of the plans.
const POLL: usize = 0;
const LATENCY: usize = 1;
const OWN_MEMORY: usize = 2;

/// How many peers begin something at the same time.
const BATCH: usize = 32;

/// Requests and receives of a queue pair of an idle link.
const DEPTH: u32 = 16;

/// Bytes of the one message.
const MESSAGE: usize = 8;

/// Descriptors of a process that has a link: its socket and its process, what it shows and is shown, and the way of this
/// benchmark to the peer.
const DESCRIPTORS_PER_LINK: u64 = 8;
const DESCRIPTORS_BESIDE: u64 = 128;

/// What is measured.
pub(super) fn plans(quick: bool) -> Vec<Plan> {
    let counted = "idle links";
    let row = |numbers: [&[u64]; 2]| numbers[usize::from(quick)].to_vec();
    let plan = |name: &str, numbers, unit, goal| {
        let name = name.to_owned();
        Plan { part: Part::Links, name, counted, numbers, unit, goal }
    };
    let flat = Some(Goal::OfFirstAtMost(1.2));
    let small = Some(Goal::AtMost(16.0 * 1024.0));
    vec![
        plan("empty poll", row([&[0, 1, 16, 256, 1000], &[0, 1, 4]]), Unit::Nanoseconds, flat),
        plan("send 8 B, half a round trip", row([&[0, 16, 256, 1000], &[0, 4]]), Unit::Nanoseconds, flat),
        plan("memory of a link where all end", row([&[1, 16, 256, 1000], &[1, 4]]), Unit::Bytes, small),
        plan("memory of a link at its other end", row([&[1, 16, 256, 1000], &[1, 4]]), Unit::Bytes, small),
    ]
}

/// A process with so many idle links, which exchanges messages with a partner when told to.
pub(super) fn hub(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let count = arguments.number;
    let needed = count * DESCRIPTORS_PER_LINK + DESCRIPTORS_BESIDE;
    ensure_descriptors(needed, &format!("{count} idle links"))?;
    let [own, others] = arguments.processors[..] else {
        return Err(Failure::new("two processors are needed"));
    };
    let mut peers = start_peers(arguments)?;
    pin(&[own])?; // Before the library is loaded, whose threads then run there too.
    let mut device = Device::open(&arguments.library)?;
    let links = Links::connect(device.session(), &mut peers)?;
    let idle = CompletionQueue::create(device.session(), 16, false)?;
    serve(control, |ask| match ask.what {
        POLL => poll(&idle, ask.budget).map(Some),
        LATENCY => latency(&mut device, &arguments.library, others, ask.budget),
        OWN_MEMORY => Ok(links.memory),
        _ => Ok(links.peers_memory),
    })
}

/// The peers, each with the address of its queue pair.
fn start_peers(arguments: &PeerArguments) -> Outcome<Vec<(Process, Address)>> {
    let mut peers = Vec::with_capacity(arguments.number as usize);
    while peers.len() < arguments.number as usize {
        let count = BATCH.min(arguments.number as usize - peers.len());
        let batch: Vec<_> = (0..count)
            .map(|_| Process::start(Role::IdlePeer, &arguments.library, &[], 0))
            .collect::<Outcome<_>>()?;
        for mut peer in batch {
            let address = peer.hear()?;
            peers.push((peer, address));
        }
    }
    Ok(peers)
}

/// The ends of the idle links here, and what a link takes.
struct Links {
    _queue_pairs: Vec<QueuePair>,
    _region: Region,
    memory: Option<f64>,
    peers_memory: Option<f64>,
}

impl Links {
    /// Connects a queue pair with each peer and lets it send its message.
    fn connect(session: &Rc<Session>, peers: &mut [(Process, Address)]) -> Outcome<Self> {
        let region = session.register(&Rc::new(Buffer::new(MESSAGE)), Rights::Remote)?;
        let queue = CompletionQueue::create(session, (peers.len() as u32).max(16), false)?;
        let mut receive = Receive::new(Piece::new(&region, 0, MESSAGE));
        let mut queue_pairs = Vec::with_capacity(peers.len());
        for (peer, address) in &mut *peers {
            let queue_pair = QueuePair::create_with(session, (&queue, DEPTH), (&queue, DEPTH))?;
            queue_pair.connect(address)?;
            queue_pair.post_receive_again(&mut receive)?;
            peer.tell(&queue_pair.address()?)?;
            queue_pairs.push(queue_pair);
        }
        peers.iter_mut().try_for_each(|(peer, _)| peer.hear())?;
        let before = settled_memory()?;
        let mut each = Vec::with_capacity(peers.len());
        let mut entries = Entries::default();
        for batch in peers.chunks_mut(BATCH) {
            batch.iter_mut().try_for_each(|(peer, _)| peer.tell(&()))?;
            let mut arrived = 0;
            wait_within(PATIENCE, "the message of every peer", || {
                arrived += queue.take(&mut entries)?.0;
                Ok(arrived == batch.len())
            })?;
            for (peer, _) in batch {
                each.push(peer.hear::<f64>()?);
            }
        }
        let grown = settled_memory()? - before;
        let any = !each.is_empty();
        Ok(Self {
            _queue_pairs: queue_pairs,
            _region: region,
            memory: any.then(|| grown / each.len() as f64),
            peers_memory: any.then(|| median(&each)),
        })
    }
}

/// A process with one link to another, over which it sends one message; it sleeps from then on.
pub(super) fn idle_peer(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let device = Device::open(&arguments.library)?;
    let session = device.session();
    let queue = CompletionQueue::create(session, 16, false)?;
    let region = session.register(&Rc::new(Buffer::new(MESSAGE)), Rights::Remote)?;
    let queue_pair = QueuePair::create_with(session, (&queue, DEPTH), (&queue, DEPTH))?;
    control.tell(&queue_pair.address()?)?;
    queue_pair.connect(&control.hear_within(super::SETTING_UP)?)?;
    let _talked = talk_with_itself(session, &region)?;
    let before = settled_memory()?;
    control.tell(&())?;
    control.hear_within::<()>(super::SETTING_UP)?;
    queue_pair.post(0, Operation::Send, Piece::new(&region, 0, MESSAGE), false)?;
    let mut entries = Entries::default();
    wait_within(PATIENCE, "the message to be taken", || Ok(queue.take(&mut entries)?.0 > 0))?;
    control.tell(&(settled_memory()? - before))?;
    sleep_for_ever(control)
}

/// Has a process send itself a message, so that what its first message costs, whomever it is for, is not taken for the link's that it
/// makes next. What was needed stands as long as what this returns.
fn talk_with_itself(session: &Rc<Session>, region: &Region) -> Outcome<[QueuePair; 2]> {
    let queue = CompletionQueue::create(session, 16, false)?;
    let [from, to] = create_pair(session, &queue)?;
    to.post_receive(0, Piece::new(region, 0, MESSAGE))?;
    from.post(0, Operation::Send, Piece::new(region, 0, MESSAGE), false)?;
    let (mut ended, mut entries) = (0, Entries::default());
    wait_within(PATIENCE, "a message to this process", || {
        ended += queue.take(&mut entries)?.0;
        Ok(ended == 2)
    })?;
    Ok([from, to])
}

/// Nanoseconds of half a round trip with a partner. Each time it is another process: where its memory lies decides about a
/// third of the time, and goes with the process.
fn latency(device: &mut Device, library: &Path, processor: usize, budget: Duration) -> Outcome<Option<f64>> {
    let (peer, theirs) = UnixStream::pair().map_err(|error| Failure::new(error.to_string()))?;
    let mut peer = Exchange::new(peer);
    let mut partner = Member::start(Side::Target, theirs, &[processor], &mut |_, command| {
        command.arg("--library").arg(library);
        Ok(())
    })
    .map_err(|error| Failure::new(format!("no process can be started: {error}")))?;
    partner.hear::<()>(PATIENCE)?;
    let job = Job::Latency { verb: Verb::Send, size: MESSAGE, events: false };
    let order = Order { job, budget, begin_at: None };
    partner.tell(&order)?;
    let sample = device.perform(Side::Initiator, &order, &mut peer)?;
    partner.hear::<Option<Sample>>(PATIENCE)?;
    Ok(sample.map(|sample| sample.value))
}

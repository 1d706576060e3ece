//! What a connection costs while others stand: endpoints of SCIF, each with a descriptor of its own.

use serde::{Deserialize, Serialize};

use super::super::device;
use super::super::job::median;
use super::plan::{Part, Plan, Unit};
use super::process::{Ask, PeerArguments, Process, Role, UNTIL_TOLD, raise_descriptor_limit, serve};
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome, ensure};
use crate::scif::{Endpoint, PortId, ScifLibrary};

/// Descriptors of an endpoint at most, and of what stands beside it.
const DESCRIPTORS_PER_ENDPOINT: u64 = 4;
const DESCRIPTORS_BESIDE: u64 = 128;

/// Connections that are timed in one measurement, as a rule and at least, and what each is thought to take.
const EACH_NS: u128 = 400_000;
const LEAST: u128 = 5;

/// What is measured.
pub(super) fn plans(quick: bool) -> Vec<Plan> {
    let numbers = if quick { vec![0, 4] } else { vec![0, 16, 256, 1000] };
    let name = "connecting an endpoint of SCIF".to_owned();
    let counted = "standing connections";
    vec![Plan { part: Part::Connections, name, counted, numbers, unit: Unit::Nanoseconds, goal: None }]
}

/// What the process that accepts is to do.
#[derive(Deserialize, Serialize)]
enum Accepting {
    /// Take so many connections, and keep them.
    Stand(u64),
    /// Take so many, one after the other; each ends when the other side closes it.
    Pass(u64),
    /// Keep only the first so many.
    Keep(u64),
}

/// Connects.
pub(super) fn connector(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let allowed = raise_descriptor_limit()?;
    let needed = arguments.number * DESCRIPTORS_PER_ENDPOINT + DESCRIPTORS_BESIDE;
    ensure(needed <= allowed, || {
        let words = format!("{} standing connections need {needed} descriptors", arguments.number);
        format!("{words}, and this process may have {allowed} (ulimit -Hn)")
    })?;
    let mut acceptor = Process::start(Role::Acceptor, &arguments.library, &[], arguments.number)?;
    let library = ScifLibrary::load(&arguments.library)?;
    let [node, port] = acceptor.hear()?;
    let target = PortId { node, port };
    let mut standing = Vec::new();
    serve(control, |ask: Ask| {
        while standing.len() as u64 > ask.number {
            drop(standing.pop());
        }
        acceptor.tell(&Accepting::Keep(ask.number))?;
        acceptor.hear::<()>()?;
        acceptor.tell(&Accepting::Stand(ask.number - standing.len() as u64))?;
        while (standing.len() as u64) < ask.number {
            standing.push(connected(&library, target)?.0);
        }
        acceptor.hear::<()>()?;
        let count = (ask.budget.as_nanos() / EACH_NS).max(LEAST) as u64;
        acceptor.tell(&Accepting::Pass(count))?;
        let times = (0..count).map(|_| connected(&library, target).map(|(_, time)| time));
        let times = times.collect::<Outcome<Vec<_>>>()?;
        acceptor.hear::<()>()?;
        Ok(Some(median(&times)))
    })
}

/// A new connection, and how long the call took.
fn connected(library: &ScifLibrary, target: PortId) -> Outcome<(Endpoint, f64)> {
    let endpoint = Endpoint::open(library)?;
    let begun = device::now();
    endpoint.connect(target)?;
    Ok((endpoint, device::now() - begun))
}

/// Accepts.
pub(super) fn acceptor(arguments: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    raise_descriptor_limit()?;
    let library = ScifLibrary::load(&arguments.library)?;
    let listener = Endpoint::open(&library)?;
    let port = listener.listen()?;
    control.tell(&[library.nodes()?.1, port])?;
    let mut standing = Vec::new();
    loop {
        match control.hear_within(UNTIL_TOLD)? {
            Accepting::Keep(count) => standing.truncate(count as usize),
            Accepting::Stand(count) => {
                for _ in 0..count {
                    standing.push(listener.accept()?.0);
                }
            }
            Accepting::Pass(count) => {
                for _ in 0..count {
                    let (endpoint, _) = listener.accept()?;
                    // Nothing is ever sent: this waits until the other side has closed it.
                    let closed = endpoint.receive(&mut [0]).is_err();
                    ensure(closed, || "a byte came that nobody sent".to_owned())?;
                }
            }
        }
        control.tell(&())?;
    }
}

/// Starts the one that connects, in a fabric of its own.
pub(super) fn start(place: &super::Place, most: u64) -> Outcome<Process> {
    let fabric = format!("bench-scale-{}", std::process::id());
    let variables = [("NONIC_SCIF_FABRIC", &fabric[..]), ("NONIC_SCIF_NODE", "0"), ("NONIC_SCIF_NODES", "0")];
    let mut process = Process::start_with(Role::Connector, &place.scif, &[], most, &variables)?;
    process.hear::<()>().map_err(|failure| Failure::new(failure.to_string()))?;
    Ok(process)
}

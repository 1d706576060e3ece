//! Small operations of every kind, all in the same rounds: what can be shown side by side.

use super::cell::Cell;
use super::job::{Job, Sample, Verb};
use super::lab::{Lab, Probe, Tier};
use super::programs::Test;
use crate::demo::failure::Outcome;

/// Bytes of each.
pub(super) const SIZE: usize = 8;

/// Each operation by its name, with who does it.
pub(super) const OPERATIONS: [(&str, Probe); 8] = [
    ("RDMA write", own(Verb::Write)),
    ("UCX put", Probe::Program(Test::Ucx("ucp_put_lat", SIZE))),
    ("send", own(Verb::Send)),
    ("UCX active message", Probe::Program(Test::Ucx("ucp_am_lat", SIZE))),
    ("UCX tagged send", Probe::Program(Test::Ucx("tag_lat", SIZE))),
    ("libfabric send", Probe::Program(Test::PingPong(SIZE))),
    ("RDMA read", own(Verb::Read)),
    ("fetch and add", own(Verb::Atomics)),
];

const fn own(verb: Verb) -> Probe {
    Probe::Device(Tier::Auto, Job::Latency { verb, size: SIZE, events: false })
}

/// Time of each, measured in turn.
#[derive(Clone, Debug)]
pub(super) struct Small {
    pub(super) cell: Cell,
}

impl Small {
    /// Measures them.
    pub(super) fn measure(lab: &mut Lab, rounds: usize) -> Outcome<Self> {
        let probes = OPERATIONS.map(|(_, probe)| probe);
        Ok(Self { cell: Cell::measure(lab, &probes, rounds)? })
    }

    /// Those that were measured, in their order.
    pub(super) fn operations(&self) -> impl Iterator<Item = (&'static str, Probe, Sample)> {
        OPERATIONS.iter().enumerate().filter_map(|(number, (name, probe))| {
            let sample = self.cell.samples(number).next()?;
            let value = self.cell.values(number)?.median;
            Some((*name, *probe, Sample { value, ..sample }))
        })
    }
}

//! The comparisons by size: each verb, each tier, latency and rate.

use serde::Serialize;

use super::cell::{Cell, Spread};
use super::job::{Copy, Job, Sample, Unit, Verb, WireJob};
use super::lab::{Lab, Probe, Tier};
use super::programs::Test;
use crate::demo::failure::Outcome;

/// From this many bytes on a copy is the measure of a transfer; below, a cache line.
const COPY_MIN: usize = 4096;

/// What is measured of a verb.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Measure {
    /// Time of one, polling.
    Latency,
    /// Time of one, sleeping until an event comes.
    EventLatency,
    /// Many at once.
    Rate,
    /// Many at once by both processes on the same word.
    Contention,
}

/// One line of the report, before it is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) verb: Verb,
    pub(super) measure: Measure,
    pub(super) tier: Tier,
    pub(super) size: usize,
    /// The device first.
    pub(super) probes: Vec<Probe>,
}

/// One line of the report.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) plan: Plan,
    pub(super) cell: Cell,
}

/// Every comparison that these choices make, in the order of the report.
pub(super) fn plans(verbs: &[Verb], tiers: &[Tier], sizes: &[usize]) -> Vec<Plan> {
    let mut plans = Vec::new();
    for verb in Verb::ALL.into_iter().filter(|verb| verbs.contains(verb)) {
        for measure in measures(verb) {
            for tier in Tier::ALL.into_iter().filter(|tier| tiers.contains(tier)) {
                let small = [8];
                let one_size = verb == Verb::Atomics || *measure == Measure::EventLatency;
                for &size in if one_size { &small } else { sizes } {
                    let probes = probes(verb, *measure, tier, size);
                    plans.push(Plan { verb, measure: *measure, tier, size, probes });
                }
            }
        }
    }
    plans
}

fn measures(verb: Verb) -> &'static [Measure] {
    match verb {
        Verb::Write | Verb::Read => &[Measure::Latency, Measure::Rate],
        Verb::Send => &[Measure::Latency, Measure::EventLatency, Measure::Rate],
        Verb::Atomics => &[Measure::Latency, Measure::Rate, Measure::Contention],
    }
}

/// The device, then the machine, then whoever does the same.
fn probes(verb: Verb, measure: Measure, tier: Tier, size: usize) -> Vec<Probe> {
    let job = match measure {
        Measure::Latency => Job::Latency { verb, size, events: false },
        Measure::EventLatency => Job::Latency { verb, size, events: true },
        Measure::Rate => Job::Rate { verb, size },
        Measure::Contention => Job::Contention,
    };
    let mut probes = vec![Probe::Device(tier, job)];
    probes.extend(references(verb, measure, size).into_iter().map(Probe::Machine));
    // Others have no tiers: they stand beside the fastest.
    let beside = match measure {
        Measure::Latency | Measure::Rate if tier == Tier::Auto => {
            Test::beside(verb, measure == Measure::Rate, size)
        }
        _ => Vec::new(),
    };
    probes.extend(beside.into_iter().map(Probe::Program));
    probes
}

fn references(verb: Verb, measure: Measure, size: usize) -> Vec<Job> {
    match measure {
        Measure::EventLatency => vec![Job::Wake],
        Measure::Contention => vec![Job::AtomicContended],
        Measure::Latency if size >= COPY_MIN => vec![Job::Line, Job::Copy(Copy::Plain, size)],
        Measure::Latency => vec![Job::Line],
        Measure::Rate if size >= COPY_MIN => {
            [Copy::NonTemporal, Copy::Plain, Copy::Kernel].map(|copy| Job::Copy(copy, size)).to_vec()
        }
        Measure::Rate if verb == Verb::Atomics => vec![Job::AtomicAlone],
        Measure::Rate => vec![Job::Line],
    }
}

impl Plan {
    /// Measures it.
    pub(super) fn measure(self, lab: &mut Lab, rounds: usize) -> Outcome<Row> {
        let cell = Cell::measure(lab, &self.probes, rounds)?;
        Ok(Row { plan: self, cell })
    }
}

impl Row {
    /// What the device gave, in the unit of the report.
    pub(super) fn device(&self) -> Option<Sample> {
        let value = self.cell.values(0)?.median;
        let middle = self
            .cell
            .samples(0)
            .min_by(|left, right| (left.value - value).abs().total_cmp(&(right.value - value).abs()))?;
        Some(Sample { value, ..middle }.in_bytes_if(self.in_bytes(), self.plan.size))
    }

    /// Whether rates are shown as bytes.
    pub(super) fn in_bytes(&self) -> bool {
        self.plan.size >= COPY_MIN
    }

    /// Another probe's figure in the unit of the report, and by how much the device's is as large: rates by rates, else
    /// times by times, a rate being the time of one.
    pub(super) fn beside(&self, probe: usize) -> Option<(Sample, Spread)> {
        let ours = self.cell.samples(0).next()?.unit;
        let theirs = self.cell.samples(probe).next()?.unit;
        let both_rates = [ours, theirs] == [Unit::OperationsPerSecond; 2];
        let ratio = |round: &[Option<Sample>], _: f64| {
            let (ours, theirs) = (round[0]?, round[probe]?);
            Some(if both_rates { ours.value / theirs.value } else { ours.time() / theirs.time() })
        };
        let value = self.cell.values(probe)?.median;
        let sample = match ours {
            Unit::Nanoseconds => Sample::of(Sample::of(value, theirs).time(), Unit::Nanoseconds),
            _ => Sample::of(value, theirs).in_bytes_if(self.in_bytes(), self.plan.size),
        };
        Some((sample, Spread::of(&self.cell.each_round(ratio))?))
    }
}

impl Sample {
    fn in_bytes_if(self, in_bytes: bool, size: usize) -> Self {
        if in_bytes && self.unit == Unit::OperationsPerSecond { self.in_bytes(size) } else { self }
    }
}

impl Probe {
    /// What it is, in two words.
    pub(super) fn name(self) -> String {
        match self {
            Self::Machine(job) => job.name(),
            Self::Program(test) => test.name(),
            Self::Device(tier, _) => format!("nonic {}", tier.name()),
            Self::Adopting(_) => "nonic".to_owned(),
            Self::Crowd(_) => "ten pairs".to_owned(),
            Self::Loner(_) => "one pair".to_owned(),
            Self::Wire(job) => job.name(),
        }
    }
}

impl Job {
    fn name(self) -> String {
        match self {
            Self::Line => "cache line".to_owned(),
            Self::Wake => "eventfd".to_owned(),
            Self::Copy(Copy::Plain, _) => "plain copy".to_owned(),
            Self::Copy(Copy::NonTemporal, _) => "non-temporal copy".to_owned(),
            Self::Copy(Copy::Kernel, _) => "process_vm_writev".to_owned(),
            Self::AtomicAlone => "bare atomic".to_owned(),
            Self::AtomicContended => "bare atomic, contended".to_owned(),
            Self::Latency { verb, .. } | Self::Rate { verb, .. } => verb.name().to_owned(),
            Self::Contention => "contended atomics".to_owned(),
            Self::Registration(_) => "registration".to_owned(),
            Self::Wire(WireJob::Lossy) => "write, lossy".to_owned(),
            Self::Wire(WireJob::Datagrams) => "UDP in runs".to_owned(),
            Self::Wire(WireJob::PingPong) => "UDP ping-pong".to_owned(),
            Self::Wire(WireJob::Packets) => "the packets alone".to_owned(),
            Self::Wire(WireJob::WriteCost) => "write".to_owned(),
            Self::Wire(WireJob::StreamCost) => "TCP".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_makes_its_comparisons_and_each_has_a_physical_reference() {
        let plans = plans(&Verb::ALL, &Tier::ALL, &[8, 65536]);
        // By tier: write and read have two measures of two sizes, send one of one size more, atomics three of one.
        assert_eq!(plans.len(), 3 * (4 + 4 + 5 + 3));
        for plan in &plans {
            assert!(matches!(plan.probes[0], Probe::Device(tier, _) if tier == plan.tier), "{plan:?}");
            assert!(matches!(plan.probes[1], Probe::Machine(_)), "{plan:?}");
            let others = plan.probes.iter().any(|probe| matches!(probe, Probe::Program(_)));
            assert!(!others || plan.tier == Tier::Auto, "{plan:?}");
        }
    }

    #[test]
    fn what_was_not_chosen_is_not_measured() {
        let plans = plans(&[Verb::Read], &[Tier::Ring], &[64]);
        assert!(plans.iter().all(|plan| (plan.verb, plan.tier, plan.size) == (Verb::Read, Tier::Ring, 64)));
        assert_eq!(plans.len(), 2);
    }
}

//! Everything that can be asked for a number: pairs of processes, by the way their bytes take, and programs of others.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::crew::Pair;
use super::job::{Job, Order, Sample, Unit};
use super::programs::{Programs, Test};
use crate::cable::Cable;
use crate::demo::failure::{Failure, Outcome};

/// How many pairs make a crowd.
pub(super) const CROWD: usize = 10;

/// How long after the word a crowd begins, so that every pair of it is ready.
const CROWD_READY: Duration = Duration::from_millis(600);

/// The fastest way that bytes may take.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Tier {
    /// The fastest there is for each piece of memory.
    Auto,
    /// One system call copies from process to process.
    Kernel,
    /// Through a ring; the receiver places the bytes.
    Ring,
}

impl Tier {
    /// All of them, fastest first.
    pub(super) const ALL: [Self; 3] = [Self::Auto, Self::Kernel, Self::Ring];

    /// As the variable says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kernel => "kernel",
            Self::Ring => "ring",
        }
    }
}

/// Something that gives a number.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
pub(super) enum Probe {
    /// The device.
    Device(Tier, Job),
    /// The device where every registration is adopted, however short it lives.
    Adopting(Job),
    /// The machine.
    Machine(Job),
    /// Ten pairs at once on both processors, together.
    Crowd(Job),
    /// A pair alone on both processors, as one of a crowd would be.
    Loner(Job),
    /// The device at the ends of a cable, and what is measured there beside it.
    Wire(Job),
    /// A program of others.
    Program(Test),
}

/// Where and with what to measure.
pub(super) struct Lab {
    library: PathBuf,
    processors: [usize; 2],
    /// What two processes are at the ends of, if that is asked for.
    cable: Option<Cable>,
    /// How long one measurement takes.
    pub(super) budget: Duration,
    quick: bool,
    machine: Pair,
    pairs: HashMap<PairKind, Pair>,
    pub(super) programs: Programs,
    /// Programs that failed, with the reason; they are not asked again.
    pub(super) failures: Vec<Failure>,
    failed: HashSet<Probe>,
}

#[derive(Clone, Copy, Eq, Hash, PartialEq)]
enum PairKind {
    Tier(Tier),
    Adopting,
    Crowd(usize),
    Wire,
}

impl Lab {
    pub(super) fn new(
        library: PathBuf,
        processors: [usize; 2],
        budget: Duration,
        quick: bool,
        programs: Programs,
        cable: Option<Cable>,
    ) -> Outcome<Self> {
        let machine = Pair::without_device(&processors.map(|processor| vec![processor]))?;
        Ok(Self {
            library,
            processors,
            cable,
            budget,
            quick,
            machine,
            pairs: HashMap::new(),
            programs,
            failures: Vec::new(),
            failed: HashSet::new(),
        })
    }

    /// How long a cache line takes now, in nanoseconds.
    pub(super) fn line(&mut self) -> Outcome<f64> {
        let sample = self.machine.perform(&order(Job::Line, self.budget))?;
        sample
            .map(|sample| sample.value)
            .ok_or_else(|| Failure::new("a cache line takes no time that could be told"))
    }

    /// Nothing where a program is not installed or has failed; the device and the machine must not fail.
    pub(super) fn ask(&mut self, probe: Probe) -> Outcome<Option<Sample>> {
        match probe {
            Probe::Machine(job) => self.machine(job),
            Probe::Device(tier, job) => self.device(PairKind::Tier(tier), job),
            Probe::Adopting(job) => {
                let sample = self.device(PairKind::Adopting, job)?;
                if sample.is_none() {
                    let words = "registration: the device leaves private memory where it is, so there is no cost of adoption";
                    self.give_up(Probe::Adopting(job), Failure::new(words));
                }
                Ok(sample)
            }
            Probe::Loner(job) => self.crowd(1, job).map(Some),
            Probe::Crowd(job) => self.crowd(CROWD, job).map(Some),
            Probe::Wire(job) => self.device(PairKind::Wire, job),
            Probe::Program(test) => Ok(self.program(probe, test)),
        }
    }

    /// Copies are shorter than what is compared with them, and enough.
    fn machine(&mut self, job: Job) -> Outcome<Option<Sample>> {
        if self.failed.contains(&Probe::Machine(job)) {
            return Ok(None);
        }
        let order = order(job, self.budget / 4);
        match self.machine.perform(&order) {
            Ok(sample) => Ok(sample),
            // A machine may forbid the kernel's copy, and has perhaps no stores past the caches: then they are no measure.
            Err(failure) if matches!(job, Job::Copy(..)) => {
                self.give_up(Probe::Machine(job), failure);
                self.machine = Pair::without_device(&self.processors.map(|processor| vec![processor]))?;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    fn program(&mut self, probe: Probe, test: Test) -> Option<Sample> {
        if !self.programs.has(test.suite()) || self.failed.contains(&probe) {
            return None;
        }
        let measured = self.programs.measure(test, self.quick);
        measured.map_err(|failure| self.give_up(probe, failure)).ok()
    }

    fn give_up(&mut self, probe: Probe, failure: Failure) {
        if self.failed.insert(probe) && !self.failures.iter().any(|known| known.0 == failure.0) {
            self.failures.push(failure);
        }
    }

    fn device(&mut self, kind: PairKind, job: Job) -> Outcome<Option<Sample>> {
        let order = order(job, self.budget);
        let sample = self.pair(kind)?.perform(&order);
        sample.map_err(|failure| Failure::new(format!("{failure} (while measuring {job:?})")))
    }

    /// So many pairs at once; the sum of their rates.
    fn crowd(&mut self, count: usize, job: Job) -> Outcome<Sample> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        for number in 0..count {
            self.pair(PairKind::Crowd(number))?;
        }
        let begin = Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + CROWD_READY;
        let begin_at = Some(begin.as_nanos() as u64);
        let order = Order { job, budget: 4 * self.budget, begin_at };
        for number in 0..count {
            self.pair(PairKind::Crowd(number))?.begin(&order)?;
        }
        let mut sum = Sample::of(0.0, Unit::OperationsPerSecond);
        for number in 0..count {
            sum.value += self.pair(PairKind::Crowd(number))?.end(&order)?.map_or(0.0, |sample| sample.value);
        }
        Ok(sum)
    }

    fn pair(&mut self, kind: PairKind) -> Outcome<&mut Pair> {
        if !self.pairs.contains_key(&kind) {
            let pinned = self.processors.map(|processor| vec![processor]);
            let free = [self.processors.to_vec(), self.processors.to_vec()];
            let cable = self.cable.as_ref().filter(|_| kind == PairKind::Wire);
            let (processors, variables) = match kind {
                PairKind::Tier(tier) => (pinned, vec![("NONIC_TIER", tier.name().to_owned())]),
                PairKind::Adopting => (pinned, vec![("NONIC_ADOPT", "always".to_owned())]),
                PairKind::Crowd(_) => (free, Vec::new()),
                PairKind::Wire => (pinned, Vec::new()),
            };
            let pair = Pair::with_device(&self.library, &processors, &variables, cable)?;
            self.pairs.insert(kind, pair);
        }
        Ok(self.pairs.get_mut(&kind).expect("it was there or has just been put there"))
    }
}

fn order(job: Job, budget: Duration) -> Order {
    Order { job, budget, begin_at: None }
}

//! What the project promises about speed: each promise with what it is measured against, in the same rounds.

use super::cell::{Cell, Spread};
use super::job::{Copy, Job, Registration, Sample, Verb};
use super::lab::{Lab, Probe, Tier};
use super::programs::Test;
use crate::demo::failure::Outcome;

/// A number that a figure is held against: so many times a probe, and so much more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// Times this probe; nothing: only what is added.
    of: Option<Against>,
    factor: f64,
    /// Nanoseconds, or operations a second.
    plus: f64,
}

/// What a bound is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Against {
    /// The cache line that is timed around each measurement.
    Line,
    /// A probe of the goal, by its place among them.
    Probe(usize),
}

const fn line(factor: f64, plus: f64) -> Bound {
    Bound { of: Some(Against::Line), factor, plus }
}

pub(super) const fn of(factor: f64, probe: usize) -> Bound {
    Bound { of: Some(Against::Probe(probe)), factor, plus: 0.0 }
}

pub(super) const fn fixed(plus: f64) -> Bound {
    Bound { of: None, factor: 0.0, plus }
}

impl Bound {
    fn value(&self, round: &[Option<Sample>], line: f64) -> Option<f64> {
        let of = match self.of {
            None => 0.0,
            Some(Against::Line) => line,
            Some(Against::Probe(probe)) => round[probe]?.value,
        };
        Some(self.factor * of + self.plus)
    }
}

/// One promise. A figure keeps it if it keeps each bound: times stay below, rates above.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    /// What is measured.
    pub(super) name: &'static str,
    /// The device first.
    pub(super) probes: Vec<Probe>,
    /// Whether more is better.
    pub(super) rate: bool,
    /// Bytes of an operation, where the figure is shown as bytes.
    pub(super) bytes: Option<usize>,
    /// In words, and what must hold.
    pub(super) pass: (&'static str, Vec<Bound>),
    /// In words, and what would be better still.
    pub(super) aim: (&'static str, Vec<Bound>),
}

/// How it came out.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// What was aimed at.
    Aim,
    /// What was promised.
    Pass,
    /// Not what was promised.
    Miss,
    /// Something it is measured against is not here.
    Unknown,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Aim => "aim",
            Self::Pass => "pass",
            Self::Miss => "MISS",
            Self::Unknown => "unknown",
        }
    }
}

/// A promise, measured.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) goal: Goal,
    pub(super) cell: Cell,
}

impl Goal {
    /// Measures it.
    pub(super) fn measure(self, lab: &mut Lab, rounds: usize) -> Outcome<Kept> {
        let cell = Cell::measure(lab, &self.probes, rounds)?;
        Ok(Kept { goal: self, cell })
    }
}

impl Kept {
    /// The figure by what it has to keep to, round by round: of several bounds the one that it keeps worst. Times keep it at
    /// 1 and below, rates at 1 and above.
    pub(super) fn share(&self, bounds: &[Bound]) -> Option<Spread> {
        let rate = self.goal.rate;
        let shares = self.cell.each_round(|round, line| {
            let figure = round[0]?.value;
            let shares: Option<Vec<f64>> =
                bounds.iter().map(|bound| Some(figure / bound.value(round, line)?)).collect();
            let worse = if rate { f64::min } else { f64::max };
            shares?.into_iter().reduce(worse)
        });
        Spread::of(&shares)
    }

    fn keeps(&self, bounds: &[Bound]) -> Option<bool> {
        let share = self.share(bounds)?.median;
        Some(if self.goal.rate { share >= 1.0 } else { share <= 1.0 })
    }

    /// How it came out, by the medians.
    pub(super) fn verdict(&self) -> Verdict {
        match (self.keeps(&self.goal.pass.1), self.keeps(&self.goal.aim.1)) {
            (None, _) => Verdict::Unknown,
            (Some(false), _) => Verdict::Miss,
            (Some(true), Some(true)) => Verdict::Aim,
            (Some(true), _) => Verdict::Pass,
        }
    }
}

const KIB_64: usize = 64 << 10;
const MIB: usize = 1 << 20;

/// All of them. Where perftest is not installed, the same measurements of this command stand for its programs.
pub(super) fn goals(perftest: bool) -> Vec<Goal> {
    let mut goals = latencies();
    goals.extend(bandwidths());
    goals.extend(registrations());
    goals.extend(together());
    if !perftest {
        for goal in &mut goals {
            goal.probes[0] = own(goal.probes[0]);
        }
    }
    goals
}

/// What this command measures itself like a program of perftest.
fn own(probe: Probe) -> Probe {
    let Probe::Program(Test::Perftest(name, size, flag)) = probe else { return probe };
    let verb = match name.split('_').nth(1) {
        Some("write") => Verb::Write,
        Some("read") => Verb::Read,
        Some("atomic") => Verb::Atomics,
        _ => Verb::Send,
    };
    let job = if name.ends_with("_bw") {
        Job::Rate { verb, size }
    } else {
        Job::Latency { verb, size, events: flag == Some("-e") }
    };
    Probe::Device(Tier::Auto, job)
}

fn perftest(name: &'static str, size: usize) -> Probe {
    Probe::Program(Test::Perftest(name, size, None))
}

fn ucx(name: &'static str, size: usize) -> Probe {
    Probe::Program(Test::Ucx(name, size))
}

type Words = (&'static str, Vec<Bound>);

pub(super) fn time(name: &'static str, probes: Vec<Probe>, pass: Words, aim: Words) -> Goal {
    Goal { name, probes, rate: false, bytes: None, pass, aim }
}

pub(super) fn rate(
    name: &'static str,
    bytes: Option<usize>,
    probes: Vec<Probe>,
    pass: Words,
    aim: Words,
) -> Goal {
    Goal { name, probes, rate: true, bytes, pass, aim }
}

fn latencies() -> Vec<Goal> {
    let sends = |size| vec![perftest("ib_send_lat", size), ucx("tag_lat", size), ucx("ucp_am_lat", size)];
    let events = Probe::Program(Test::Perftest("ib_send_lat", 8, Some("-e")));
    let round_trips: Words = ("2 cache-line round trips", vec![line(4.0, 0.0)]);
    let round_trip: Words = ("1 round trip + 60 ns", vec![line(2.0, 60.0)]);
    vec![
        time(
            "ib_write_lat 8 B",
            vec![perftest("ib_write_lat", 8), ucx("ucp_put_lat", 8)],
            ("cache line + 120 ns", vec![line(1.0, 120.0)]),
            ("cache line + 60 ns; UCX ucp_put_lat", vec![line(1.0, 60.0), of(1.0, 1)]),
        ),
        time(
            "ib_send_lat 8 B",
            sends(8),
            ("UCX tag_lat", vec![of(1.0, 1)]),
            ("0.8 of UCX ucp_am_lat", vec![of(0.8, 2)]),
        ),
        time(
            "ib_send_lat 4 KiB",
            sends(4096),
            ("UCX tag_lat", vec![of(1.0, 1)]),
            ("UCX ucp_am_lat", vec![of(1.0, 2)]),
        ),
        time(
            "ib_send_lat 64 KiB",
            sends(KIB_64),
            ("0.8 of UCX tag_lat", vec![of(0.8, 1)]),
            ("0.6 of UCX tag_lat", vec![of(0.6, 1)]),
        ),
        time("ib_read_lat 8 B", vec![perftest("ib_read_lat", 8)], round_trips.clone(), round_trip.clone()),
        time("ib_atomic_lat", vec![perftest("ib_atomic_lat", 8)], round_trips, round_trip),
        time(
            "ib_send_lat -e 8 B",
            vec![events, Probe::Machine(Job::Wake)],
            ("1.3 of an eventfd ping-pong", vec![of(1.3, 1)]),
            ("1.05 of it", vec![of(1.05, 1)]),
        ),
    ]
}

fn bandwidths() -> Vec<Goal> {
    let copy = |copy, size| Probe::Machine(Job::Copy(copy, size));
    let write = |name, size| {
        let probes =
            vec![perftest("ib_write_bw", size), copy(Copy::NonTemporal, size), copy(Copy::Kernel, size)];
        let pass = ("0.8 of the non-temporal copy; 1.5 of process_vm_writev", vec![of(0.8, 1), of(1.5, 2)]);
        let aim = ("0.95; 2.0", vec![of(0.95, 1), of(2.0, 2)]);
        rate(name, Some(size), probes, pass, aim)
    };
    let send = |name, size| {
        let probes = vec![perftest("ib_send_bw", size), ucx("tag_bw", size)];
        rate(name, Some(size), probes, ("1.3 of UCX tag_bw", vec![of(1.3, 1)]), ("2.0", vec![of(2.0, 1)]))
    };
    let messages = |name, program, pass: Words, aim: Words| {
        rate(name, None, vec![perftest(program, 8), Probe::Machine(Job::Line)], pass, aim)
    };
    vec![
        write("ib_write_bw 64 KiB", KIB_64),
        write("ib_write_bw 1 MiB", MIB),
        send("ib_send_bw 64 KiB", KIB_64),
        send("ib_send_bw 1 MiB", MIB),
        messages(
            "ib_write_bw 8 B",
            "ib_write_bw",
            ("12 million a second", vec![fixed(12e6)]),
            ("20 million", vec![fixed(20e6)]),
        ),
        messages(
            "ib_send_bw 8 B",
            "ib_send_bw",
            ("8 million a second", vec![fixed(8e6)]),
            ("15 million", vec![fixed(15e6)]),
        ),
    ]
}

fn registrations() -> Vec<Goal> {
    let goal = |name, what, pass: Words, aim: Words| {
        time(name, vec![Probe::Adopting(Job::Registration(what))], pass, aim)
    };
    vec![
        goal(
            "registering a page that holds data",
            Registration::Data,
            ("2 us", vec![fixed(2e3)]),
            ("1 us", vec![fixed(1e3)]),
        ),
        goal(
            "registering 64 MiB never touched",
            Registration::Untouched,
            ("300 us", vec![fixed(300e3)]),
            ("20 us", vec![fixed(20e3)]),
        ),
        goal(
            "registering what a live region covers",
            Registration::Covered,
            ("3 us", vec![fixed(3e3)]),
            ("0.5 us", vec![fixed(500.0)]),
        ),
        goal(
            "giving back a page that holds data",
            Registration::GiveBack,
            ("1.5 us", vec![fixed(1.5e3)]),
            ("1 us", vec![fixed(1e3)]),
        ),
    ]
}

fn together() -> Vec<Goal> {
    let ten = |name, job, bytes| {
        let probes = vec![Probe::Crowd(job), Probe::Loner(job)];
        let pass: Words = ("not below one pair", vec![of(1.0, 1)]);
        rate(name, bytes, probes, pass, ("above one pair", vec![of(1.0, 1)]))
    };
    vec![
        time(
            "fetch and add contended by both processes",
            vec![Probe::Device(Tier::Auto, Job::Contention), Probe::Machine(Job::AtomicContended)],
            ("2.0 of the bare instruction", vec![of(2.0, 1)]),
            ("1.2 of it", vec![of(1.2, 1)]),
        ),
        ten(
            "ten pairs on two cores, writes of 64 KiB",
            Job::Rate { verb: Verb::Write, size: KIB_64 },
            Some(KIB_64),
        ),
        ten("ten pairs on two cores, sends of 8 B", Job::Rate { verb: Verb::Send, size: 8 }, None),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::programs::Suite;
    use super::*;

    /// A goal of one figure against one probe, measured so.
    fn kept(rate: bool, figures: &[(f64, f64)]) -> Kept {
        let probes = vec![perftest("ib_send_lat", 8), ucx("tag_lat", 8)];
        let goal = Goal {
            name: "a goal",
            probes,
            rate,
            bytes: None,
            pass: ("1", vec![of(1.0, 1)]),
            aim: ("0.5 or 2", vec![of(if rate { 2.0 } else { 0.5 }, 1)]),
        };
        Kept { goal, cell: Cell::of_values(figures) }
    }

    #[test]
    fn times_keep_a_bound_from_below_and_rates_from_above() {
        assert_eq!(kept(false, &[(90.0, 100.0)]).verdict(), Verdict::Pass);
        assert_eq!(kept(false, &[(110.0, 100.0)]).verdict(), Verdict::Miss);
        assert_eq!(kept(false, &[(40.0, 100.0)]).verdict(), Verdict::Aim);
        assert_eq!(kept(true, &[(110.0, 100.0)]).verdict(), Verdict::Pass);
        assert_eq!(kept(true, &[(90.0, 100.0)]).verdict(), Verdict::Miss);
        assert_eq!(kept(true, &[(250.0, 100.0)]).verdict(), Verdict::Aim);
    }

    #[test]
    fn the_median_of_the_rounds_decides() {
        assert_eq!(kept(false, &[(90.0, 100.0), (300.0, 100.0), (80.0, 100.0)]).verdict(), Verdict::Pass);
        assert_eq!(kept(false, &[]).verdict(), Verdict::Unknown);
    }

    #[test]
    fn of_two_bounds_the_one_kept_worst_counts() {
        let kept = kept(true, &[(100.0, 50.0)]);
        let share = kept.share(&[of(1.0, 1), fixed(200.0)]).unwrap();
        assert_eq!(share.median, 0.5);
    }

    #[test]
    fn without_perftest_nothing_asks_for_it() {
        let asks = |goal: &Goal| {
            goal.probes
                .iter()
                .any(|probe| matches!(probe, Probe::Program(test) if test.suite() == Suite::Perftest))
        };
        assert!(goals(true).iter().any(asks));
        assert!(!goals(false).iter().any(asks));
        assert_eq!(
            own(Probe::Program(Test::Perftest("ib_send_lat", 8, Some("-e")))),
            Probe::Device(Tier::Auto, Job::Latency { verb: Verb::Send, size: 8, events: true })
        );
    }
}

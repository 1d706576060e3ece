//! What a person at a terminal reads, line by line as it is measured.

use super::goals::{Kept, Verdict};
use super::job::{Sample, Unit};
use super::lab::Probe;
use super::programs::Installed;
use super::results::Results;
use super::small::{SIZE, Small};
use super::sweep::Row;
use super::words::{figure, measure, ratio, size, time};
use crate::style::{Style, print};

/// What is printed so far.
pub(super) struct Report {
    style: Style,
    /// The part of the sweep that is being printed.
    part: String,
    goals_begun: bool,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { style: Style::of_standard_output(), part: String::new(), goals_begun: false }
    }

    /// Where, with what, and what is missing.
    pub(super) fn begin(&self, results: &Results, line: f64) {
        let machine = &results.machine;
        let [left, right] = machine.processors;
        let title = format!("nonic {} bench", results.nonic);
        self.say(&format!(
            "{}: {}, processors {left} and {right}, Linux {}; a cache line takes {}",
            self.style.strong(title),
            machine.processor,
            machine.kernel,
            time(line)
        ));
        let here = results.programs.iter().filter_map(|program| {
            program.version.as_ref().map(|version| format!("{} {version}", program.suite.name()))
        });
        let here: Vec<_> = here.collect();
        if !here.is_empty() {
            self.say(&format!("beside it: {}", here.join(", ")));
        }
        if results.peers {
            for missing in results.programs.iter().filter(|program| program.version.is_none()) {
                self.say(&self.style.notable(absent(missing)));
            }
        }
    }

    /// Small operations side by side.
    pub(super) fn small(&self, small: &Small) {
        let words = format!("{}, time of one operation, all in the same rounds", size(SIZE));
        self.say(&format!("\n{}", self.style.strong(words)));
        for (name, probe, sample) in small.operations() {
            let ours = matches!(probe, Probe::Device(..));
            let value = format!("{:>10}", figure(sample));
            let value = if ours { self.style.strong(value) } else { value };
            let who = if ours { "nonic " } else { "" };
            self.say(&format!(
                "  {:<30}{value}{:>10}{:>10}",
                format!("{who}{name}"),
                tail(sample.p99),
                tail(sample.p999)
            ));
        }
    }

    /// One comparison of the sweep.
    pub(super) fn row(&mut self, row: &Row) {
        let part = measure(row.plan.verb, row.plan.measure);
        if part != self.part {
            let tail = if row.device().is_some_and(|sample| sample.unit == Unit::Nanoseconds) {
                format!("{:>10}{:>10}{:>10}   ", "median", "p99", "p99.9")
            } else {
                format!("{:>10}{:20}   ", "median", "")
            };
            let head = format!("{:<20}{tail}beside it (ours by theirs)", "");
            self.say(&format!("\n{}\n{}", self.style.strong(&part), self.style.faint(head)));
            self.part = part;
        }
        let Some(sample) = row.device() else { return };
        let others = (1..row.plan.probes.len()).filter_map(|probe| {
            let (theirs, by) = row.beside(probe)?;
            let name = row.plan.probes[probe].name();
            Some(format!("{name} {} ({})", figure(theirs), ratio(by.median)))
        });
        let mark = if row.cell.steady { "" } else { "~" };
        self.say(&format!(
            "  {:<7}{:>8}{mark:>3}{}{:>10}{:>10}   {}",
            row.plan.tier.name(),
            size(row.plan.size),
            self.style.strong(format!("{:>10}", figure(sample))),
            tail(sample.p99),
            tail(sample.p999),
            others.collect::<Vec<_>>().join("   ")
        ));
    }

    /// One promise.
    pub(super) fn goal(&mut self, kept: &Kept) {
        if !self.goals_begun {
            self.goals_begun = true;
            self.say(&format!(
                "\n{}\n{}",
                self.style.strong("Goals: the figure by its pass mark, within one round: median (min to max); times stay below 1, rates above"),
                self.style.faint(format!(
                    "  {:<9}{:<43}{:>11}   {:<23}{:<8}",
                    "", "", "figure", "by the pass mark", "by the aim"
                ))
            ));
        }
        let verdict = kept.verdict();
        let word = format!("{:<9}", verdict.word());
        let word = match verdict {
            Verdict::Aim | Verdict::Pass => self.style.good(word),
            Verdict::Miss => self.style.bad(word),
            Verdict::Unknown => self.style.notable(word),
        };
        let mark = if kept.cell.steady { "" } else { " ~" };
        let aim = kept.share(&kept.goal.aim.1).map_or("-".to_owned(), |share| ratio(share.median));
        self.say(&format!(
            "  {word}{:<43}{:>11}{mark:<3}{:<23}{aim:<12}{} {}; {} {}{}",
            kept.goal.name,
            kept.figure().map_or("-".to_owned(), figure),
            shares(kept),
            self.style.faint("pass:"),
            kept.goal.pass.0,
            self.style.faint("aim:"),
            kept.goal.aim.0,
            beside_on_wire(kept),
        ));
    }

    /// What was discarded and what failed.
    pub(super) fn end(&self, results: &Results) {
        let lines = &results.calibration;
        if let Some(line) = lines.line_ns {
            self.say(&format!(
                "\nA cache line took {} (median; {} to {}). {} rounds count; {} were discarded because that moved by more than \
                 a quarter.",
                time(line.median),
                time(line.min),
                time(line.max),
                lines.rounds,
                lines.discarded
            ));
        }
        if results.unsteady() > 0 {
            self.say("~ the machine moved in every round; the last one is shown");
        }
        for failure in &results.failures {
            self.say(&self.style.notable(format!("left out: {failure}")));
        }
        self.say(&format!("Took {:.0} s.", results.seconds));
    }

    fn say(&self, text: &str) {
        print(&format!("{text}\n"));
    }
}

/// What else was measured at the ends of a cable, in the unit of the report.
fn beside_on_wire(kept: &Kept) -> String {
    let words = kept.goal.probes.iter().enumerate().skip(1).filter_map(|(number, probe)| {
        let sample = kept.cell.samples(number).next().filter(|_| matches!(probe, Probe::Wire(_)))?;
        let sample = Sample { value: kept.cell.values(number)?.median, ..sample };
        let sample = kept.goal.bytes.map_or(sample, |bytes| sample.in_bytes(bytes));
        Some(format!("; {} {}", probe.name(), figure(sample)))
    });
    words.collect()
}

/// That a suite is not there, and what brings it.
pub(super) fn absent(missing: &Installed) -> String {
    let suite = missing.suite;
    format!("{} is not installed and left out; on Debian: apt-get install {}", suite.name(), suite.package())
}

fn tail(nanoseconds: Option<f64>) -> String {
    nanoseconds.map_or(String::new(), time)
}

/// A figure by what it has to keep to: median, smallest, largest.
pub(super) fn shares(kept: &Kept) -> String {
    kept.share(&kept.goal.pass.1).map_or("-".to_owned(), |share| {
        format!("{} ({} to {})", ratio(share.median), ratio(share.min), ratio(share.max))
    })
}

impl Kept {
    /// The figure in the unit of the report.
    pub(super) fn figure(&self) -> Option<Sample> {
        let sample = self.cell.samples(0).next()?;
        let sample = Sample { value: self.cell.values(0)?.median, ..sample };
        Some(self.goal.bytes.map_or(sample, |bytes| sample.in_bytes(bytes)))
    }
}

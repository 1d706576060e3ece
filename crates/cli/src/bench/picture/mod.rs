//! The comparison by size as a picture to show: time of small operations, time by size, bandwidth by size, each with the
//! machine's own limit beside it. Plain SVG, readable on light and dark ground.

mod bars;
mod chart;
mod labels;
pub(super) mod scale;
pub(super) mod svg;

use super::job::{Copy, Job, Sample, Unit, Verb, median};
use super::lab::{Probe, Tier};
use super::programs::{Suite, Test};
use super::results::Results;
use super::small::{SIZE, Small};
use super::sweep::{Measure, Row};
use super::words::{size, time};
use bars::{Bar, Bars};
use chart::{Chart, Series};
use scale::Scale;
use svg::{Anchor, Svg};

const WIDTH: f64 = 1380.0;
const HEIGHT: f64 = 600.0;

/// Whose figures they are, which decides the colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owner {
    /// The device, by what it does.
    Nonic(&'static str),
    Ucx,
    Libfabric,
    Machine,
}

impl Owner {
    fn is_nonic(self) -> bool {
        matches!(self, Self::Nonic(_))
    }

    /// The class of the style sheet.
    fn class(self) -> &'static str {
        match self {
            Self::Nonic("send") => "nonic send",
            Self::Nonic("read" | "RDMA read") => "nonic read",
            Self::Nonic(_) => "nonic",
            Self::Ucx => "ucx",
            Self::Libfabric => "libfabric",
            Self::Machine => "machine",
        }
    }
}

/// The picture of what was measured on the fastest tier.
pub(super) fn picture(results: &Results) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, "Speed of nonic beside the machine's own limits");
    let machine = &results.machine;
    svg.text((40.0, 46.0), Anchor::Start, "title", "Two processes on one machine, no network hardware");
    let [left, right] = machine.processors;
    let label = results.label.as_ref().map(|label| format!(" {label}")).unwrap_or_default();
    let where_ = format!(
        "nonic {}{label}: a program's view through libibverbs, on ordinary malloc'ed memory. {}, processors {left} and {right}, Linux {}",
        results.nonic, machine.processor, machine.kernel
    );
    svg.text((40.0, 70.0), Anchor::Start, "faint", &where_);
    bars(results).draw(&mut svg, (40.0, 110.0), (370.0, 420.0));
    latency(results).draw(&mut svg, (500.0, 110.0), (300.0, 420.0));
    bandwidth(results).draw(&mut svg, (970.0, 110.0), (270.0, 420.0));
    let versions = results.programs.iter().filter_map(|program| {
        program.version.as_ref().map(|version| format!("{} {version}", program.suite.name()))
    });
    let versions: Vec<_> = versions.collect();
    let foot = format!(
        "Medians of {} interleaved rounds; {} more were discarded because the machine moved within them. {}",
        results.calibration.rounds,
        results.calibration.discarded,
        versions.join(", ")
    );
    svg.text((40.0, HEIGHT - 18.0), Anchor::Start, "faint", &foot);
    svg.finish()
}

/// The rows of the fastest tier that measure this.
fn rows(results: &Results, verb: Verb, measure: Measure) -> impl Iterator<Item = &Row> {
    let wanted =
        move |row: &&Row| (row.plan.verb, row.plan.measure, row.plan.tier) == (verb, measure, Tier::Auto);
    results.rows.iter().filter(wanted)
}

/// A probe beside the device, by what it is.
fn find(row: &Row, wanted: impl Fn(Probe) -> bool) -> Option<Sample> {
    let probe = (1..row.plan.probes.len()).find(|probe| wanted(row.plan.probes[*probe]))?;
    row.beside(probe).map(|(sample, _)| sample)
}

fn is_ucx(probe: Probe) -> bool {
    matches!(probe, Probe::Program(Test::Ucx(..)))
}

fn is_libfabric(probe: Probe) -> bool {
    matches!(probe, Probe::Program(Test::PingPong(_)))
}

/// Small operations side by side.
fn bars(results: &Results) -> Bars {
    let owner = |name, probe| match probe {
        Probe::Program(test) if test.suite() == Suite::Ucx => Owner::Ucx,
        Probe::Program(_) => Owner::Libfabric,
        _ => Owner::Nonic(name),
    };
    let operations = results.small.iter().flat_map(Small::operations);
    let lines = results.small.as_ref().map(|small| median(&small.cell.lines));
    Bars {
        title: format!("Time of one operation, {}", size(SIZE)),
        bars: operations
            .map(|(name, probe, sample)| Bar::new(owner(name, probe), name, sample.value))
            .collect(),
        limit: lines.map(|value| (format!("one cache line, {}", time(value)), value)),
    }
}

/// Time by size.
fn latency(results: &Results) -> Chart {
    let mut series = Vec::new();
    for (verb, name) in [(Verb::Write, "write"), (Verb::Send, "send"), (Verb::Read, "read")] {
        let rows: Vec<_> = rows(results, verb, Measure::Latency).collect();
        series.push(Series::new(Owner::Nonic(name), format!("nonic {name}"), points(&rows, Row::device)));
        if verb == Verb::Send {
            series.push(Series::new(
                Owner::Ucx,
                "UCX tagged".to_owned(),
                points(&rows, |row| find(row, is_ucx)),
            ));
            let theirs = points(&rows, |row| find(row, is_libfabric));
            series.push(Series::new(Owner::Libfabric, "libfabric".to_owned(), theirs));
        }
        if verb == Verb::Write {
            let limit = |row: &Row| {
                let line = row.cell.lines.iter().sum::<f64>() / row.cell.lines.len().max(1) as f64;
                let copy = find(row, |probe| probe == Probe::Machine(Job::Copy(Copy::Plain, row.plan.size)));
                Some(Sample::of(line + copy.map_or(0.0, |copy| copy.value), Unit::Nanoseconds))
            };
            series.push(Series::new(Owner::Machine, "line + copy".to_owned(), points(&rows, limit)));
        }
    }
    Chart {
        title: "Time of one operation, by size".to_owned(),
        scale: Scale::logarithmic(series.iter().flat_map(Series::values)),
        series,
        label: |value| match value {
            small if small < 1e3 => format!("{small:.0} ns"),
            middle if middle < 1e6 => format!("{:.0} us", middle / 1e3),
            large => format!("{:.0} ms", large / 1e6),
        },
    }
}

/// Bandwidth by size.
fn bandwidth(results: &Results) -> Chart {
    let bytes = |row: &Row, sample: Sample| sample.in_bytes(row.plan.size);
    let mut series = Vec::new();
    for (verb, name, theirs) in [(Verb::Write, "write", None), (Verb::Send, "send", Some("UCX tagged"))] {
        let rows: Vec<_> = rows(results, verb, Measure::Rate).collect();
        let ours = points(&rows, |row| row.device().map(|sample| bytes(row, sample)));
        series.push(Series::new(Owner::Nonic(name), format!("nonic {name}"), ours));
        if let Some(theirs) = theirs {
            let points = points(&rows, |row| find(row, is_ucx).map(|sample| bytes(row, sample)));
            series.push(Series::new(Owner::Ucx, theirs.to_owned(), points));
        } else {
            for (copy, name) in
                [(Copy::NonTemporal, "non-temporal copy"), (Copy::Kernel, "process_vm_writev")]
            {
                let limit =
                    |row: &Row| find(row, |probe| probe == Probe::Machine(Job::Copy(copy, row.plan.size)));
                series.push(Series::new(Owner::Machine, name.to_owned(), points(&rows, limit)));
            }
        }
    }
    Chart {
        title: "Bandwidth, by size".to_owned(),
        scale: Scale::linear(series.iter().flat_map(Series::values)),
        series,
        label: |value| format!("{} GB/s", (value / 1e7).round() / 100.0),
    }
}

/// By size, where there is a figure.
fn points(rows: &[&Row], figure: impl Fn(&Row) -> Option<Sample>) -> Vec<(f64, f64)> {
    let point = |row: &&Row| Some((row.plan.size as f64, figure(row)?.value));
    rows.iter().filter_map(point).filter(|(_, value)| value.is_finite() && *value > 0.0).collect()
}

//! Everything that was measured and where, for machines.

use serde::Serialize;
use serde_json::{Value, json};

use super::cell::{Cell, Spread};
use super::goals::Kept;
use super::programs::Installed;
use super::small::{OPERATIONS, SIZE, Small};
use super::sweep::Row;

/// The machine, as far as it explains figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    /// Model of the processor.
    pub(super) processor: String,
    /// Release of the kernel.
    pub(super) kernel: String,
    /// Where the two processes ran.
    pub(super) processors: [usize; 2],
}

impl Machine {
    pub(super) fn here(processors: [usize; 2]) -> Self {
        let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Self {
            processor: model.unwrap_or_else(|| format!("an {} processor", std::env::consts::ARCH)),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            processors,
        }
    }
}

/// How the machine kept still.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Calibration {
    /// The time of a cache line in the rounds that count.
    pub(super) line_ns: Option<Spread>,
    /// Rounds that count.
    pub(super) rounds: usize,
    /// Rounds that were thrown away because that time moved within them.
    pub(super) discarded: usize,
}

/// All of it.
pub(super) struct Results {
    pub(super) nonic: &'static str,
    pub(super) label: Option<String>,
    pub(super) machine: Machine,
    /// Whether programs of others were wanted.
    pub(super) peers: bool,
    pub(super) programs: Vec<Installed>,
    pub(super) small: Option<Small>,
    pub(super) rows: Vec<Row>,
    pub(super) goals: Vec<Kept>,
    pub(super) calibration: Calibration,
    pub(super) failures: Vec<String>,
    pub(super) seconds: f64,
}

impl Results {
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let small = self.small.iter().map(|small| &small.cell);
        small.chain(self.rows.iter().map(|row| &row.cell)).chain(self.goals.iter().map(|kept| &kept.cell))
    }

    /// Sums up how still the machine was.
    pub(super) fn calibrate(&mut self) {
        let lines: Vec<_> = self.cells().flat_map(|cell| cell.lines.iter().copied()).collect();
        self.calibration = Calibration {
            line_ns: Spread::of(&lines).map(Spread::rounded),
            rounds: self.cells().map(Cell::round_count).sum(),
            discarded: self.cells().map(|cell| cell.discarded).sum(),
        };
    }

    /// Comparisons in which the machine never kept still.
    pub(super) fn unsteady(&self) -> usize {
        self.cells().filter(|cell| !cell.steady).count()
    }

    /// One JSON object, each comparison on a line of its own.
    pub(super) fn to_json(&self) -> String {
        let all = json!({
            "nonic": self.nonic,
            "label": self.label,
            "seconds": (self.seconds * 10.0).round() / 10.0,
            "machine": self.machine,
            "programs": self.programs,
            "calibration": self.calibration,
            "failures": self.failures,
            "small": self.small.as_ref().map(small),
            "sweep": self.rows.iter().map(row).collect::<Vec<_>>(),
            "goals": self.goals.iter().map(goal).collect::<Vec<_>>(),
        });
        let members = all.as_object().into_iter().flatten().map(|(name, value)| match value {
            Value::Array(lines) if !lines.is_empty() => {
                let lines: Vec<_> = lines.iter().map(|line| format!("    {line}")).collect();
                format!("  \"{name}\": [\n{}\n  ]", lines.join(",\n"))
            }
            value => format!("  \"{name}\": {value}"),
        });
        format!("{{\n{}\n}}\n", members.collect::<Vec<_>>().join(",\n"))
    }
}

/// To five digits: more than such a measurement is worth, and short to read.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10_f64.powf(value.abs().log10().floor() - 4.0);
    // Dividing by a power of ten leaves no tail of digits where multiplying by its inverse does.
    if unit < 1.0 {
        (value / unit).round() / (1.0 / unit).round()
    } else {
        (value / unit).round() * unit.round()
    }
}

impl Spread {
    fn rounded(self) -> Self {
        Self { min: rounded(self.min), median: rounded(self.median), max: rounded(self.max) }
    }
}

/// What a probe gave: all values, not in bytes.
fn values(cell: &Cell, probe: usize) -> Value {
    let samples: Vec<_> = cell.samples(probe).collect();
    json!({
        "unit": samples.first().map(|sample| sample.unit),
        "values": samples.iter().map(|sample| rounded(sample.value)).collect::<Vec<_>>(),
        "summary": cell.values(probe).map(Spread::rounded),
    })
}

fn cell(cell: &Cell) -> Value {
    json!({
        "rounds": cell.round_count(),
        "discarded": cell.discarded,
        "steady": cell.steady,
        "line_ns": cell.lines.iter().map(|line| rounded(*line)).collect::<Vec<_>>(),
    })
}

fn small(small: &Small) -> Value {
    let operations = OPERATIONS.iter().enumerate().map(|(probe, (name, kind))| {
        json!({ "name": name, "by": kind.name(), "figure": values(&small.cell, probe) })
    });
    json!({ "bytes": SIZE, "operations": operations.collect::<Vec<_>>(), "cell": cell(&small.cell) })
}

fn row(row: &Row) -> Value {
    let others = (1..row.plan.probes.len()).map(|probe| {
        json!({
            "name": row.plan.probes[probe].name(),
            "figure": values(&row.cell, probe),
            "ratio": row.beside(probe).map(|(_, ratio)| ratio.rounded()),
        })
    });
    let device = row.device();
    json!({
        "verb": row.plan.verb,
        "measure": row.plan.measure,
        "tier": row.plan.tier,
        "bytes": row.plan.size,
        "figure": values(&row.cell, 0),
        "p99_ns": device.and_then(|sample| sample.p99).map(rounded),
        "p999_ns": device.and_then(|sample| sample.p999).map(rounded),
        "beside": others.collect::<Vec<_>>(),
        "cell": cell(&row.cell),
    })
}

fn goal(kept: &Kept) -> Value {
    let goal = &kept.goal;
    let probes = goal
        .probes
        .iter()
        .enumerate()
        .map(|(probe, kind)| json!({ "name": kind.name(), "figure": values(&kept.cell, probe) }));
    json!({
        "name": goal.name,
        "verdict": kept.verdict(),
        "more_is_better": goal.rate,
        "pass": { "words": goal.pass.0, "share": kept.share(&goal.pass.1).map(Spread::rounded) },
        "aim": { "words": goal.aim.0, "share": kept.share(&goal.aim.1).map(Spread::rounded) },
        "probes": probes.collect::<Vec<_>>(),
        "cell": cell(&kept.cell),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_five_digits_and_no_tail() {
        assert_eq!(rounded(45.163_87).to_string(), "45.164");
        assert_eq!(rounded(12_345_678.9).to_string(), "12346000");
        assert_eq!(rounded(0.123_456_789).to_string(), "0.12346");
        assert_eq!(rounded(0.0), 0.0);
        assert_eq!(rounded(1.0), 1.0);
    }
}

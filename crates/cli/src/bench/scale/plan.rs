//! What is measured over a row of numbers, what it may cost, and what came of it.

use clap::ValueEnum;
use serde::Serialize;

use super::super::cell::Spread;
use super::super::job::{self, Sample};
use super::super::words::{self, ratio};

/// Figures that need the same processes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    /// Beside idle links to other processes.
    Links,
    /// With many threads.
    Threads,
    /// On many queue pairs.
    QueuePairs,
    /// Beside many regions.
    Regions,
    /// Beside many memory windows.
    Windows,
    /// Beside many connections.
    Connections,
    /// Among many processes.
    Mesh,
}

impl Part {
    /// All of them, in the order of the report.
    pub(super) const ALL: [Self; 7] = [
        Self::Links,
        Self::Threads,
        Self::QueuePairs,
        Self::Regions,
        Self::Windows,
        Self::Connections,
        Self::Mesh,
    ];
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// Less is better.
    Nanoseconds,
    /// Less is better.
    Bytes,
    /// More is better.
    OperationsPerSecond,
    /// More is better.
    BytesPerSecond,
}

impl Unit {
    /// A figure in words.
    pub(super) fn words(self, value: f64) -> String {
        match self {
            Self::Nanoseconds if value >= 999.5e6 => format!("{:.2} s", value / 1e9),
            Self::Nanoseconds => words::time(value),
            Self::OperationsPerSecond => words::figure(Sample::of(value, job::Unit::OperationsPerSecond)),
            Self::BytesPerSecond => words::figure(Sample::of(value, job::Unit::BytesPerSecond)),
            Self::Bytes if value.abs() >= 1e6 => format!("{:.1} MiB", value / f64::from(1 << 20)),
            Self::Bytes if value.abs() >= 1024.0 => format!("{:.1} KiB", value / 1024.0),
            Self::Bytes => format!("{value:.0} B"),
        }
    }
}

/// What a figure has to keep to at each number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    /// So many times the figure at the first number, made within a round.
    OfFirstAtMost(f64),
    /// So many times that, where more is better.
    OfFirstAtLeast(f64),
    /// So much more than the figure at the first number, made within a round.
    BeyondFirstAtMost(f64),
    /// So much.
    AtMost(f64),
}

impl Goal {
    /// In words.
    pub(super) fn words(self, unit: Unit) -> String {
        match self {
            Self::OfFirstAtMost(factor) => format!("at most {} of the first", ratio(factor)),
            Self::OfFirstAtLeast(factor) => format!("at least {} of the first", ratio(factor)),
            Self::BeyondFirstAtMost(value) => format!("at most {} beyond the first", unit.words(value)),
            Self::AtMost(value) => format!("at most {}", unit.words(value)),
        }
    }
}

/// One figure over a row of numbers.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) part: Part,
    /// What is measured.
    pub(super) name: String,
    /// What there are so many of.
    pub(super) counted: &'static str,
    /// In the order of measuring; the others are compared with the first.
    pub(super) numbers: Vec<u64>,
    pub(super) unit: Unit,
    pub(super) goal: Option<Goal>,
}

/// What was measured at one number.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) number: u64,
    /// By round; nothing where there was nothing to measure.
    pub(super) values: Vec<Option<f64>>,
}

/// A plan, carried out.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) plan: Plan,
    pub(super) points: Vec<Point>,
}

impl Series {
    /// Nothing measured yet.
    pub(super) fn new(plan: Plan) -> Self {
        let points =
            plan.numbers.iter().map(|number| Point { number: *number, values: Vec::new() }).collect();
        Self { plan, points }
    }

    /// The figures of a point.
    pub(super) fn figure(&self, point: &Point) -> Option<Spread> {
        Spread::of(&point.values.iter().flatten().copied().collect::<Vec<_>>())
    }

    /// The figure by that of the first number, round by round.
    pub(super) fn by_first(&self, point: &Point) -> Option<Spread> {
        self.with_first(point, |value, first| (first > 0.0).then(|| value / first))
    }

    /// What is made of the figure and that of the first number, round by round.
    fn with_first(&self, point: &Point, make: impl Fn(f64, f64) -> Option<f64>) -> Option<Spread> {
        let rounds = point.values.iter().zip(&self.points.first()?.values);
        Spread::of(&rounds.filter_map(|(value, first)| make((*value)?, (*first)?)).collect::<Vec<_>>())
    }

    /// Whether the goal is kept at that number; nothing where there is none to keep. The first number is what the others
    /// are compared with.
    pub(super) fn keeps(&self, point: &Point) -> Option<bool> {
        let is_first = self.points.first().is_some_and(|first| first.number == point.number);
        match self.plan.goal? {
            Goal::OfFirstAtMost(_) | Goal::OfFirstAtLeast(_) | Goal::BeyondFirstAtMost(_) if is_first => None,
            Goal::OfFirstAtLeast(factor) => Some(self.by_first(point)?.median >= factor),
            Goal::OfFirstAtMost(factor) => Some(self.by_first(point)?.median <= factor),
            Goal::BeyondFirstAtMost(most) => {
                Some(self.with_first(point, |value, first| Some(value - first))?.median <= most)
            }
            Goal::AtMost(value) => Some(self.figure(point)?.median <= value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rounds at each of two numbers.
    fn series(goal: Goal, values: [[f64; 2]; 2]) -> Series {
        let mut series = Series::new(Plan {
            part: Part::Links,
            name: "a figure".to_owned(),
            counted: "things",
            numbers: vec![0, 16],
            unit: Unit::Nanoseconds,
            goal: Some(goal),
        });
        for (point, values) in series.points.iter_mut().zip(values) {
            point.values = values.into_iter().map(Some).collect();
        }
        series
    }

    #[test]
    fn the_first_number_keeps_no_goal_that_is_made_of_it() {
        let series = series(Goal::OfFirstAtMost(1.2), [[10.0, 10.0], [11.0, 11.0]]);
        assert_eq!(series.keeps(&series.points[0]), None);
        assert_eq!(series.keeps(&series.points[1]), Some(true));
    }

    #[test]
    fn ratios_are_made_within_a_round() {
        let series = series(Goal::OfFirstAtMost(1.2), [[10.0, 100.0], [15.0, 100.0]]);
        let by_first = series.by_first(&series.points[1]).unwrap();
        assert_eq!((by_first.min, by_first.max), (1.0, 1.5));
        assert_eq!(series.keeps(&series.points[1]), Some(false));
    }

    #[test]
    fn what_is_beyond_the_first_is_told_within_a_round() {
        for (last, kept) in [([60.0, 150.0], true), ([70.0, 160.0], false)] {
            let series = series(Goal::BeyondFirstAtMost(50.0), [[10.0, 100.0], last]);
            assert_eq!(series.keeps(&series.points[0]), None);
            assert_eq!(series.keeps(&series.points[1]), Some(kept));
        }
    }

    #[test]
    fn what_was_not_measured_keeps_and_misses_nothing() {
        let mut series = series(Goal::AtMost(12.0), [[10.0, 10.0], [13.0, 13.0]]);
        assert_eq!(series.keeps(&series.points[0]), Some(true));
        assert_eq!(series.keeps(&series.points[1]), Some(false));
        series.points[1].values = vec![None, None];
        assert_eq!(series.keeps(&series.points[1]), None);
    }
}

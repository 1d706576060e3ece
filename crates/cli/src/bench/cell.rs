//! One comparison: several things measured in turn, several times, as long as the machine stays as it is.
//!
//! Virtual machines move their processors, and with them the distance of the two that measure: figures of one moment say
//! little about another. So before the first measurement and behind each one the time of a cache line is taken; if it moved,
//! the whole round counts for nothing and is done again, a bounded number of times. Ratios are made within a round.

use serde::Serialize;

use super::job::{Sample, median};
use super::lab::{Lab, Probe};
use crate::demo::failure::Outcome;

/// By how much the time of a cache line may differ within a round: the slowest by the fastest.
const STEADY: f64 = 1.25;

/// How often a round may be done again, for each that is wanted.
const ATTEMPTS: usize = 3;

/// Smallest, middle, largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    /// Smallest.
    pub(super) min: f64,
    /// Middle.
    pub(super) median: f64,
    /// Largest.
    pub(super) max: f64,
}

impl Spread {
    /// Of some numbers; nothing if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { min, median: median(values), max })
    }
}

/// The rounds of one comparison that count.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// By round, then by probe.
    rounds: Vec<Vec<Option<Sample>>>,
    /// The time of a cache line in each round, in nanoseconds.
    pub(super) lines: Vec<f64>,
    /// Rounds that count for nothing.
    pub(super) discarded: usize,
    /// Whether the machine stayed as it was; if it never did, the rounds are the best there were.
    pub(super) steady: bool,
}

impl Cell {
    /// Measures all probes in turn until there are so many good rounds.
    pub(super) fn measure(lab: &mut Lab, probes: &[Probe], rounds: usize) -> Outcome<Self> {
        let mut cell = Self { steady: true, ..Self::default() };
        let mut last_resort = None;
        for _ in 0..ATTEMPTS * rounds {
            let mut lines = vec![lab.line()?];
            let mut samples = Vec::with_capacity(probes.len());
            for probe in probes {
                samples.push(lab.ask(*probe)?);
                lines.push(lab.line()?);
            }
            if is_steady(&lines) {
                cell.rounds.push(samples);
                cell.lines.push(median(&lines));
                if cell.rounds.len() == rounds {
                    return Ok(cell);
                }
            } else {
                cell.discarded += 1;
                last_resort = Some((samples, median(&lines)));
            }
        }
        if let (true, Some((samples, line))) = (cell.rounds.is_empty(), last_resort) {
            cell.discarded -= 1;
            cell.steady = false;
            cell.rounds.push(samples);
            cell.lines.push(line);
        }
        Ok(cell)
    }

    /// How many rounds count.
    pub(super) fn round_count(&self) -> usize {
        self.rounds.len()
    }

    /// What a probe gave, each good round.
    pub(super) fn samples(&self, probe: usize) -> impl Iterator<Item = Sample> {
        self.rounds.iter().filter_map(move |round| round[probe])
    }

    /// The values of a probe.
    pub(super) fn values(&self, probe: usize) -> Option<Spread> {
        Spread::of(&self.samples(probe).map(|sample| sample.value).collect::<Vec<_>>())
    }

    /// A number made of each round, where it can be made.
    pub(super) fn each_round(&self, make: impl Fn(&[Option<Sample>], f64) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().zip(&self.lines).filter_map(|(round, line)| make(round, *line)).collect()
    }

    /// Two probes that gave these numbers, each pair in a round; for tests of what is made of cells.
    #[cfg(test)]
    pub(super) fn of_values(values: &[(f64, f64)]) -> Self {
        let sample = |value| Some(Sample::of(value, super::job::Unit::Nanoseconds));
        let rounds = values.iter().map(|(left, right)| vec![sample(*left), sample(*right)]).collect();
        Self { rounds, lines: vec![1.0; values.len()], discarded: 0, steady: true }
    }
}

fn is_steady(lines: &[f64]) -> bool {
    Spread::of(lines).is_some_and(|lines| lines.max <= STEADY * lines.min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_in_which_the_line_moved_is_not_steady() {
        assert!(is_steady(&[45.0, 47.0, 55.0]));
        assert!(!is_steady(&[45.0, 205.0, 45.0]));
        assert!(!is_steady(&[]));
    }

    #[test]
    fn ratios_are_made_within_a_round_and_skip_what_is_absent() {
        let mut cell = Cell::of_values(&[(10.0, 5.0), (40.0, 10.0), (7.0, 7.0)]);
        cell.rounds[2][1] = None;
        let ratios = cell.each_round(|round, _| Some(round[0]?.value / round[1]?.value));
        assert_eq!(Spread::of(&ratios), Some(Spread { min: 2.0, median: 3.0, max: 4.0 }));
        assert_eq!(cell.values(0).unwrap().median, 10.0);
        assert_eq!(cell.values(1).unwrap().max, 10.0);
    }
}

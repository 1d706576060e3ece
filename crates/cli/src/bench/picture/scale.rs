//! From values to places, and the values worth a mark on an axis.

/// A range of values, linear from zero or logarithmic.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// From zero to a little more than the largest value.
    pub(in crate::bench) fn linear(values: impl Iterator<Item = f64>) -> Self {
        let high = values.fold(0.0, f64::max);
        Self { low: 0.0, high: if high > 0.0 { high * 1.06 } else { 1.0 }, logarithmic: false }
    }

    /// From a little less than the smallest value, all being above zero, to a little more than the largest.
    pub(in crate::bench) fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .fold((f64::INFINITY, 0.0), |(low, high), value| (f64::min(low, value), f64::max(high, value)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        Self { low: low / 1.3, high: high * 1.3, logarithmic: true }
    }

    /// Where a value lies: 0 at the low end, 1 at the high one.
    pub(in crate::bench) fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Round values to mark: powers of ten, or some steps of 1, 2 or 5.
    pub(in crate::bench) fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            let powers = self.low.log10().ceil() as i32..=self.high.log10().floor() as i32;
            return powers.map(|power| 10_f64.powi(power)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0) * power;
        let count = (self.high / step).floor() as u32;
        (0..=count).map(|number| f64::from(number) * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_lie_at_the_ends() {
        let scale = Scale::logarithmic([10.0, 1000.0].into_iter());
        assert!(scale.place(10.0) > 0.0 && scale.place(1000.0) < 1.0);
        assert!((scale.place(100.0) - 0.5).abs() < 1e-9);
        assert_eq!(Scale::linear([5.0].into_iter()).place(0.0), 0.0);
    }

    #[test]
    fn marks_are_round_and_within() {
        assert_eq!(Scale::linear([47e9].into_iter()).marks(), [0.0, 10e9, 20e9, 30e9, 40e9]);
        assert_eq!(Scale::logarithmic([45.0, 2e5].into_iter()).marks(), [100.0, 1e3, 1e4, 1e5]);
    }

    #[test]
    fn nothing_at_all_still_makes_an_axis() {
        assert!(!Scale::linear(std::iter::empty()).marks().is_empty());
        assert!(!Scale::logarithmic(std::iter::empty()).marks().is_empty());
    }
}

//! Times as bars, with the machine's limit as a line through them.

use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::{Owner, time};

/// One bar.
pub(super) struct Bar {
    owner: Owner,
    name: &'static str,
    value: f64,
}

impl Bar {
    pub(super) fn new(owner: Owner, name: &'static str, value: f64) -> Self {
        Self { owner, name, value }
    }
}

/// Bars from zero, the first at the top.
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) bars: Vec<Bar>,
    /// In words, and where.
    pub(super) limit: Option<(String, f64)>,
}

impl Bars {
    /// Draws them in that place: each with its name before and its value behind.
    pub(super) fn draw(&self, svg: &mut Svg, (left, top): (f64, f64), (width, height): (f64, f64)) {
        svg.text((left, top), Anchor::Start, "panel", &self.title);
        let (top, height) = (top + 24.0, height - 24.0);
        if self.bars.is_empty() {
            return svg.text((left, top + 40.0), Anchor::Start, "faint", "nothing was measured");
        }
        let each = (height / self.bars.len() as f64).min(56.0);
        let thickness = (each - 16.0).min(28.0);
        let scale = Scale::linear(self.bars.iter().map(|bar| bar.value));
        let zero = left + NAMES;
        let x = |value: f64| zero + scale.place(value) * (width - NAMES - VALUES);
        for (number, bar) in self.bars.iter().enumerate() {
            let (y, class) = (top + number as f64 * each, bar.owner.class());
            let name = if bar.owner.is_nonic() { format!("nonic {}", bar.name) } else { bar.name.to_owned() };
            let middle = y + thickness / 2.0 + 4.5;
            svg.text((zero - 8.0, middle), Anchor::End, class, &name);
            svg.bar(&format!("bar {class}"), (zero, y), (x(bar.value) - zero, thickness));
            svg.text((x(bar.value) + 7.0, middle), Anchor::Start, class, &time(bar.value));
        }
        let bottom = top + each * self.bars.len() as f64 - 8.0;
        svg.line("axis", &[(zero, top - 6.0), (zero, bottom)]);
        if let Some((words, value)) = &self.limit {
            svg.line("limit", &[(x(*value), top - 6.0), (x(*value), bottom)]);
            svg.text((x(*value), bottom + 18.0), Anchor::Start, "machine", words);
        }
    }
}

/// Room for the names before the bars and the values behind them, in pixels.
const NAMES: f64 = 156.0;
const VALUES: f64 = 60.0;

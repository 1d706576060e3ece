//! Lines by size.

use super::labels::spread;
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::{Owner, size};

/// One line.
pub(super) struct Series {
    owner: Owner,
    name: String,
    points: Vec<(f64, f64)>,
}

impl Series {
    pub(super) fn new(owner: Owner, name: String, points: Vec<(f64, f64)>) -> Self {
        Self { owner, name, points }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|(_, value)| *value)
    }
}

/// Lines over the logarithm of the size.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) series: Vec<Series>,
    pub(super) scale: Scale,
    /// How a value stands at the axis.
    pub(super) label: fn(f64) -> String,
}

impl Chart {
    /// Draws it, the axes in the given place, the words around it outside.
    pub(super) fn draw(&self, svg: &mut Svg, (left, top): (f64, f64), (width, height): (f64, f64)) {
        svg.text((left - 60.0, top), Anchor::Start, "panel", &self.title);
        let (top, height) = (top + 24.0, height - 24.0);
        let bottom = top + height;
        let y = |value: f64| bottom - self.scale.place(value) * height;
        for mark in self.scale.marks() {
            svg.line("grid", &[(left, y(mark)), (left + width, y(mark))]);
            svg.text((left - 8.0, y(mark) + 4.0), Anchor::End, "faint", &(self.label)(mark));
        }
        let mut sizes: Vec<f64> =
            self.series.iter().flat_map(|series| series.points.iter().map(|(bytes, _)| *bytes)).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        sizes.dedup();
        let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else {
            return svg.text((left, top + 40.0), Anchor::Start, "faint", "nothing was measured");
        };
        let span = (last / first).ln().max(1e-9);
        let x = |bytes: f64| left + 6.0 + (bytes / first).ln() / span * (width - 12.0);
        svg.line("axis", &[(left, bottom), (left + width, bottom)]);
        let mut free = f64::NEG_INFINITY;
        for bytes in &sizes {
            svg.line("axis", &[(x(*bytes), bottom), (x(*bytes), bottom + 5.0)]);
            if x(*bytes) >= free {
                svg.text((x(*bytes), bottom + 20.0), Anchor::Middle, "faint", &size(*bytes as usize));
                free = x(*bytes) + 40.0;
            }
        }
        // Limits first, the device last, on top of all.
        let mut order: Vec<_> = self.series.iter().filter(|series| !series.points.is_empty()).collect();
        order.sort_by_key(|series| series.owner.is_nonic());
        let ends: Vec<_> = order.iter().map(|series| y(series.points[series.points.len() - 1].1)).collect();
        let words = spread(&ends, top + 4.0, bottom - 4.0);
        for ((series, end), word) in order.iter().zip(&ends).zip(&words) {
            let class = series.owner.class();
            let points: Vec<_> = series.points.iter().map(|(bytes, value)| (x(*bytes), y(*value))).collect();
            svg.line(&format!("line {class}"), &points);
            if series.owner != Owner::Machine {
                let radius = if series.owner.is_nonic() { 4.0 } else { 3.0 };
                points.iter().for_each(|point| svg.dot(&format!("dot {class}"), *point, radius));
            }
            let at = points[points.len() - 1].0;
            svg.line(&format!("leader {class}"), &[(at + 5.0, *end), (left + width + 6.0, *word)]);
            svg.text((left + width + 10.0, word + 4.0), Anchor::Start, class, &series.name);
        }
    }
}

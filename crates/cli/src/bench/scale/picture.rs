//! The figures as a picture to show: one panel each, a line over the row of numbers, the goal as a line that it may not
//! cross.

use super::super::picture::scale::Scale;
use super::super::picture::svg::{Anchor, Svg};
use super::plan::{Goal, Series};
use super::report::Results;

const COLUMNS: usize = 4;
/// Pixels of a panel with what is around it, and of its axes.
const PANEL: (f64, f64) = (330.0, 270.0);
const AXES: (f64, f64) = (210.0, 150.0);
/// Where the first panel begins.
const ORIGIN: (f64, f64) = (40.0, 110.0);

/// All figures.
pub(super) fn picture(results: &Results) -> String {
    let rows = results.series.len().div_ceil(COLUMNS).max(1);
    let (width, height) = (COLUMNS as f64 * PANEL.0 + 40.0, ORIGIN.1 + rows as f64 * PANEL.1 + 20.0);
    let mut svg = Svg::new(width, height, "How the cost of nonic grows with number");
    svg.text((ORIGIN.0, 46.0), Anchor::Start, "title", "How cost grows with number");
    let machine = &results.machine;
    let label = results.label.as_ref().map(|label| format!(" {label}")).unwrap_or_default();
    let where_ = format!(
        "nonic {}{label}: {}, Linux {}; medians of {} interleaved rounds. Dashed: the goal.",
        env!("CARGO_PKG_VERSION"),
        machine.processor,
        machine.kernel,
        results.rounds
    );
    svg.text((ORIGIN.0, 70.0), Anchor::Start, "faint", &where_);
    for (place, series) in results.series.iter().enumerate() {
        let (row, column) = (place / COLUMNS, place % COLUMNS);
        panel(&mut svg, (ORIGIN.0 + column as f64 * PANEL.0, ORIGIN.1 + row as f64 * PANEL.1), series);
    }
    svg.finish()
}

/// One figure.
fn panel(svg: &mut Svg, (left, top): (f64, f64), series: &Series) {
    let plan = &series.plan;
    let (what, how) = plan.name.split_once(", ").unwrap_or((&plan.name, ""));
    svg.text((left, top), Anchor::Start, "panel", what);
    svg.text((left, top + 17.0), Anchor::Start, "faint", how);
    let (left, top, bottom) = (left + 66.0, top + 32.0, top + 32.0 + AXES.1);
    let points: Vec<_> = series
        .points
        .iter()
        .enumerate()
        .filter_map(|(place, point)| Some((place, point.number, series.figure(point)?.median)))
        .collect();
    let Some((_, _, first)) = points.first() else {
        return svg.text((left, top + 40.0), Anchor::Start, "faint", "nothing was measured");
    };
    let limit = plan.goal.map(|goal| match goal {
        Goal::OfFirstAtMost(factor) | Goal::OfFirstAtLeast(factor) => factor * first,
        Goal::BeyondFirstAtMost(value) => first + value,
        Goal::AtMost(value) => value,
    });
    let scale = Scale::linear(points.iter().map(|(_, _, value)| *value).chain(limit));
    let y = |value: f64| bottom - scale.place(value) * AXES.1;
    let step = AXES.0 / (series.points.len() - 1).max(1) as f64;
    let x = |place: usize| left + 8.0 + place as f64 * step;
    for mark in scale.marks() {
        svg.line("grid", &[(left, y(mark)), (left + AXES.0 + 16.0, y(mark))]);
        svg.text((left - 6.0, y(mark) + 4.0), Anchor::End, "faint", &plan.unit.words(mark));
    }
    svg.line("axis", &[(left, bottom), (left + AXES.0 + 16.0, bottom)]);
    for (place, point) in series.points.iter().enumerate() {
        svg.text((x(place), bottom + 18.0), Anchor::Middle, "faint", &point.number.to_string());
    }
    svg.text((left + AXES.0 / 2.0, bottom + 36.0), Anchor::Middle, "faint", plan.counted);
    if let Some(limit) = limit {
        svg.line("limit", &[(left, y(limit)), (left + AXES.0 + 16.0, y(limit))]);
    }
    let line: Vec<_> = points.iter().map(|(place, _, value)| (x(*place), y(*value))).collect();
    svg.line("line nonic", &line);
    line.iter().for_each(|point| svg.dot("dot nonic", *point, 4.0));
}

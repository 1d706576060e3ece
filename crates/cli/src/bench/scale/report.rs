//! What came of it: for a person, a table for each figure; for machines, one JSON object.

use serde_json::{Value, json};

use super::super::results::{Machine, rounded};
use super::plan::{Goal, Point, Series};
use crate::demo::failure::Failure;
use crate::style::{Style, print};

/// All of it.
pub(super) struct Results {
    pub(super) label: Option<String>,
    pub(super) machine: Machine,
    pub(super) rounds: usize,
    pub(super) series: Vec<Series>,
    pub(super) failures: Vec<Failure>,
    pub(super) seconds: f64,
}

/// Where it is measured.
pub(super) fn begin(results: &Results) {
    let machine = &results.machine;
    let [left, right] = machine.processors;
    let title =
        Style::of_standard_output().strong(format!("nonic {} bench-scale", env!("CARGO_PKG_VERSION")));
    print(&format!(
        "{title}: {}, processors {left} and {right}, Linux {}; medians of {} interleaved rounds\n",
        machine.processor, machine.kernel, results.rounds
    ));
}

/// One figure over its row of numbers.
pub(super) fn series(series: &Series) {
    let (style, plan) = (Style::of_standard_output(), &series.plan);
    let goal = plan.goal.map_or_else(|| "no goal".to_owned(), |goal| goal.words(plan.unit));
    let head = format!("  {:>20}{:>13}{:>28}{:>9}", plan.counted, "figure", "(min to max)", "by first");
    print(&format!("\n{}; {goal}\n{}\n", style.strong(&plan.name), style.faint(head)));
    for point in &series.points {
        let Some(figure) = series.figure(point) else {
            print(&format!("  {:>20}{:>13}\n", point.number, "-"));
            continue;
        };
        let [low, middle, high] = [figure.min, figure.median, figure.max].map(|value| plan.unit.words(value));
        let by_first = series.by_first(point).map_or("-".to_owned(), |by| format!("{:.2}", by.median));
        print(&format!(
            "  {:>20}{}{:>28}{by_first:>9}  {}\n",
            point.number,
            style.strong(format!("{middle:>13}")),
            format!("({low} to {high})"),
            verdict(series, point, style)
        ));
    }
}

fn verdict(series: &Series, point: &Point, style: Style) -> String {
    match series.keeps(point) {
        Some(true) => style.good("pass"),
        Some(false) => style.bad("MISS"),
        None => String::new(),
    }
}

/// What was left out, and how long it took.
pub(super) fn end(results: &Results) {
    let style = Style::of_standard_output();
    print("\n");
    for failure in &results.failures {
        print(&format!("{}\n", style.notable(format!("left out: {failure}"))));
    }
    print(&format!("Took {:.0} s.\n", results.seconds));
}

/// One JSON object, each figure on a line of its own.
pub(super) fn to_json(results: &Results) -> String {
    let lines: Vec<_> = results.series.iter().map(|series| format!("    {}", series_json(series))).collect();
    let failures: Vec<_> = results.failures.iter().map(ToString::to_string).collect();
    format!(
        "{{\n  \"nonic\": {},\n  \"label\": {},\n  \"seconds\": {},\n  \"rounds\": {},\n  \"machine\": {},\n  \
         \"failures\": {},\n  \"series\": [\n{}\n  ]\n}}\n",
        json!(env!("CARGO_PKG_VERSION")),
        json!(results.label),
        json!(rounded(results.seconds)),
        results.rounds,
        json!(results.machine),
        json!(failures),
        lines.join(",\n")
    )
}

fn series_json(series: &Series) -> Value {
    let plan = &series.plan;
    let points = series.points.iter().map(|point| {
        json!({
            "number": point.number,
            "values": point.values.iter().map(|value| value.map(rounded)).collect::<Vec<_>>(),
            "median": series.figure(point).map(|figure| rounded(figure.median)),
            "by_first": series.by_first(point).map(|by| rounded(by.median)),
            "kept": series.keeps(point),
        })
    });
    json!({
        "part": plan.part,
        "name": plan.name,
        "counted": plan.counted,
        "unit": plan.unit,
        "goal": plan.goal.map(|goal: Goal| goal.words(plan.unit)),
        "points": points.collect::<Vec<_>>(),
    })
}

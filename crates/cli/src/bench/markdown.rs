//! The table of the goals for a page of the documentation.

use super::goals::Verdict;
use super::report::shares;
use super::results::Results;
use super::words::{figure, time};

/// A table, and a line about where it was measured.
pub(super) fn table(results: &Results) -> String {
    let mut text = String::from(
        "| what | measured | pass mark | by the pass mark: median (min to max) | |\n|---|---|---|---|---|\n",
    );
    for kept in &results.goals {
        let verdict = match kept.verdict() {
            Verdict::Miss => "**missed**",
            verdict => verdict.word(),
        };
        let measured = kept.figure().map_or("-".to_owned(), figure);
        let (pass, shares) = (kept.goal.pass.0, shares(kept));
        text.push_str(&format!("| {} | {measured} | {pass} | {shares} | {verdict} |\n", kept.goal.name));
    }
    let machine = &results.machine;
    let line = results.calibration.line_ns.map_or("-".to_owned(), |line| time(line.median));
    let label = results.label.as_ref().map(|label| format!(" {label}")).unwrap_or_default();
    let programs = results.programs.iter().filter_map(|program| {
        program.version.as_ref().map(|version| format!("{} {version}", program.suite.name()))
    });
    text.push_str(&format!(
        "\nnonic {}{label} on {}, two processors, Linux {}, beside {}. A cache line took {line}; {} rounds count, {} were \
         discarded because that moved within them.\n",
        results.nonic,
        machine.processor,
        machine.kernel,
        programs.collect::<Vec<_>>().join(", "),
        results.calibration.rounds,
        results.calibration.discarded,
    ));
    text
}

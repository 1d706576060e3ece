//! What the suite found: rule by rule, and one column an arrangement.

use std::collections::BTreeMap;

/// How a rule ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds.
    Holds,
    /// It does not: why.
    Fails(String),
    /// It says nothing about this arrangement: why.
    Skipped(String),
}

/// All results.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By rule and arrangement.
    results: BTreeMap<(usize, usize), Verdict>,
}

impl Table {
    /// Enters a result.
    pub(crate) fn enter(&mut self, rule: usize, arrangement: usize, verdict: Verdict) {
        self.results.insert((rule, arrangement), verdict);
    }

    fn count(&self, wanted: impl Fn(&Verdict) -> bool) -> usize {
        self.results.values().filter(|verdict| wanted(verdict)).count()
    }

    /// The last rule with a result in an arrangement.
    pub(crate) fn last_of(&self, arrangement: usize) -> Option<usize> {
        self.results.keys().filter(|(_, other)| *other == arrangement).map(|(rule, _)| *rule).max()
    }

    /// How many fail.
    pub(crate) fn failed(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Fails(_)))
    }

    /// The table, then every failure with its reason, every skip with its, and the sums.
    pub(crate) fn print(&self, rules: &[(&str, String)], arrangements: &[&str]) {
        let columns: Vec<usize> = (0..arrangements.len())
            .filter(|column| self.results.keys().any(|(_, arrangement)| arrangement == column))
            .collect();
        println!();
        for (place, column) in columns.iter().enumerate() {
            println!("  {}  {}", letter(place), arrangements[*column]);
        }
        let header: String = (0..columns.len()).map(|place| format!("{:>5}", letter(place))).collect();
        println!("\n{:<10}{header}  rule", "id");
        for (row, (id, sentence)) in rules.iter().enumerate() {
            let cells: Vec<Option<&Verdict>> =
                columns.iter().map(|column| self.results.get(&(row, *column))).collect();
            if cells.iter().all(Option::is_none) {
                continue;
            }
            let cells: String = cells
                .into_iter()
                .map(|cell| match cell {
                    Some(Verdict::Holds) => "   ok",
                    Some(Verdict::Fails(_)) => " FAIL",
                    Some(Verdict::Skipped(_)) => "    -",
                    None => "     ",
                })
                .collect();
            println!("{id:<10}{cells}  {sentence}");
        }
        self.print_reasons(rules, arrangements);
    }

    fn print_reasons(&self, rules: &[(&str, String)], arrangements: &[&str]) {
        let mut skips = BTreeMap::<&str, usize>::new();
        for ((rule, arrangement), verdict) in &self.results {
            match verdict {
                Verdict::Fails(reason) => {
                    println!(
                        "\nFAIL {} {} ({})\n     {reason}",
                        rules[*rule].0, rules[*rule].1, arrangements[*arrangement]
                    );
                }
                Verdict::Skipped(reason) => *skips.entry(reason).or_default() += 1,
                Verdict::Holds => {}
            }
        }
        println!();
        for (reason, count) in &skips {
            println!("{count} skipped: {reason}");
        }
        let holds = self.count(|verdict| *verdict == Verdict::Holds);
        println!("{holds} passed, {} failed", self.failed());
    }
}

fn letter(place: usize) -> char {
    char::from(b'A' + place as u8)
}

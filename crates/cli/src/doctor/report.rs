//! What the doctor found, for people and for machines.

use std::borrow::Cow;

use serde::Serialize;

use crate::style::{Style, wrapped};

/// Columns of the report on a terminal.
const WIDTH: usize = 110;

/// Where the value begins.
const VALUE_COLUMN: usize = 30;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mark {
    /// As it should be.
    Ok,
    /// Works, but slower or not everywhere; or worth knowing.
    Note,
    /// nonic cannot be used before this is mended.
    Problem,
}

/// One finding.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    name: Cow<'static, str>,
    mark: Mark,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Line {
    /// Something that is as it should be.
    pub(crate) fn ok(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        Self { name: name.into(), mark: Mark::Ok, value: value.into(), fix: None }
    }

    /// Something worth knowing.
    pub(crate) fn note(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        Self { mark: Mark::Note, ..Self::ok(name, value) }
    }

    /// Something that makes nonic unusable, and the one line that mends it.
    pub(crate) fn problem(
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { mark: Mark::Problem, ..Self::ok(name, value) }.fix(fix)
    }

    /// The one line that would change it.
    pub(crate) fn fix(self, words: impl Into<String>) -> Self {
        Self { fix: Some(words.into()), ..self }
    }
}

/// Findings about one subject.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    /// What they are about.
    pub(crate) title: Cow<'static, str>,
    /// The findings.
    pub(crate) lines: Vec<Line>,
}

impl Section {
    /// These findings under this title.
    pub(crate) fn new(title: impl Into<Cow<'static, str>>, lines: Vec<Line>) -> Self {
        Self { title: title.into(), lines }
    }
}

/// Which ways bytes can take between two processes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tier {
    /// Both have the memory mapped.
    Mapped,
    /// One system call copies from process to process.
    Kernel,
    /// Through a ring; the receiver places the bytes.
    Ring,
}

impl Tier {
    /// In words, as in the documentation.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Kernel => "kernel copy",
            Self::Ring => "ring",
        }
    }
}

/// The tiers a pair of processes would use now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tiers {
    /// Two processes of this user, ordinary memory.
    pub(crate) same_user: Tier,
    /// Two processes of this user, device memory and memory that is shared already.
    pub(crate) same_user_shared_memory: Tier,
    /// Two processes of different users.
    pub(crate) other_user: Tier,
}

/// The whole of it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    usable: bool,
    tiers: Option<Tiers>,
    sections: Vec<Section>,
}

impl Report {
    /// A report of these findings; without tiers where nonic cannot be used at all.
    pub(crate) fn new(sections: Vec<Section>, tiers: Tiers) -> Self {
        let usable =
            !sections.iter().flat_map(|section| &section.lines).any(|line| line.mark == Mark::Problem);
        Self { version: env!("CARGO_PKG_VERSION"), usable, tiers: usable.then_some(tiers), sections }
    }

    /// Whether nothing makes nonic unusable.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// The report as one JSON object on one line.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report holds only strings and booleans")
    }

    /// The report as a person reads it.
    pub(crate) fn to_text(&self, style: Style) -> String {
        let mut text = format!("{}\n", style.strong(format_args!("nonic {}", self.version)));
        render_sections(&self.sections, style, &mut text);
        let count = |mark| {
            self.sections.iter().flat_map(|section| &section.lines).filter(|line| line.mark == mark).count()
        };
        let (problems, notes) = (count(Mark::Problem), count(Mark::Note));
        let verdict = match (problems, notes) {
            (0, 0) => style.good("nonic works here."),
            (0, notes) => format!("{} {}", style.good("nonic works here."), plural(notes, "note", "above.")),
            (problems, _) => {
                format!(
                    "{} {}",
                    style.bad("nonic cannot work here."),
                    plural(problems, "problem", "above, each with its fix.")
                )
            }
        };
        text.push_str(&format!("\n{verdict}\n"));
        text
    }
}

/// Appends sections as a person reads them.
pub(crate) fn render_sections(sections: &[Section], style: Style, text: &mut String) {
    for section in sections {
        text.push_str(&format!("\n{}\n", style.strong(&section.title)));
        for line in &section.lines {
            render(line, style, text);
        }
    }
}

fn plural(count: usize, noun: &str, rest: &str) -> String {
    format!("{count} {noun}{} {rest}", if count == 1 { "" } else { "s" })
}

fn render(line: &Line, style: Style, text: &mut String) {
    let mark = match line.mark {
        Mark::Ok => style.good("ok     "),
        Mark::Note => style.notable("note   "),
        Mark::Problem => style.bad("problem"),
    };
    let indent = " ".repeat(VALUE_COLUMN);
    let mut value = wrapped(&line.value, WIDTH - VALUE_COLUMN).into_iter();
    let first = value.next().unwrap_or_default();
    text.push_str(&format!("  {mark}  {:<width$} {first}\n", line.name, width = VALUE_COLUMN - 12));
    for rest in value {
        text.push_str(&format!("{indent}{rest}\n"));
    }
    for (at, words) in line.fix.iter().flat_map(|fix| wrapped(fix, WIDTH - VALUE_COLUMN - 5)).enumerate() {
        let lead = if at == 0 { "fix: " } else { "     " };
        text.push_str(&format!("{indent}{}{words}\n", style.faint(lead)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIERS: Tiers =
        Tiers { same_user: Tier::Kernel, same_user_shared_memory: Tier::Mapped, other_user: Tier::Ring };

    fn report(lines: Vec<Line>) -> Report {
        Report::new(vec![Section::new("Kernel", lines)], TIERS)
    }

    #[test]
    fn a_note_leaves_nonic_usable_and_a_problem_does_not() {
        assert!(report(vec![Line::ok("memfd", "yes"), Line::note("Yama", "1")]).is_usable());
        let unusable = report(vec![Line::problem("memfd", "no", "a newer kernel")]);
        assert!(!unusable.is_usable());
        assert!(unusable.to_json().contains("\"tiers\":null"));
    }

    #[test]
    fn every_line_shows_its_mark_its_name_its_value_and_its_fix() {
        let text = report(vec![Line::note("Yama", "1").fix("sysctl")]).to_text(Style::Plain);
        assert!(text.contains("  note     Yama               1\n"), "{text}");
        assert!(text.contains("fix: sysctl\n"), "{text}");
        assert!(text.ends_with("nonic works here. 1 note above.\n"), "{text}");
    }
}

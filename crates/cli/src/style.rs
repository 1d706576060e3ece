//! Text for people: colour at a terminal and only there, and lines of bearable length.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

/// How to mark up text on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it is: a file, a pipe, a dumb terminal, or a person who asked for it.
    Plain,
    /// With ANSI colours.
    Coloured,
}

impl Style {
    /// Coloured only on a terminal that can, and never against `NO_COLOR` (<https://no-color.org>).
    pub(crate) fn of_standard_output() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let refused = set("NO_COLOR").is_some() || set("TERM").is_none_or(|term| term == "dumb");
        if !refused && std::io::stdout().is_terminal() { Self::Coloured } else { Self::Plain }
    }

    /// What went well.
    pub(crate) fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// What deserves a look.
    pub(crate) fn notable(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    /// What is wrong.
    pub(crate) fn bad(self, text: impl Display) -> String {
        self.wrap("1;31", text)
    }

    /// What a reader should find first.
    pub(crate) fn strong(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    /// What can be skipped.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        match self {
            Self::Plain => text.to_string(),
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// Writes to standard output. A reader that has gone (`nonic doctor | head`) is no fault and changes no exit status.
pub(crate) fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("nonic: cannot write to standard output: {error}");
        }
        _ => {}
    }
}

/// `text` in lines of at most `width` columns, broken at spaces; a longer word stays whole.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("starts with one line and only grows");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is_and_coloured_text_is_closed_again() {
        assert_eq!(Style::Plain.bad("no"), "no");
        assert_eq!(Style::Coloured.bad("no"), "\x1b[1;31mno\x1b[0m");
    }

    #[test]
    fn long_text_is_broken_at_spaces_and_no_word_is_cut() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}

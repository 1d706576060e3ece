//! `dat.conf`: which provider libraries uDAPL programs may open, and under which names.
//!
//! Each line is one entry of eight words, an entry that makes no sense is left out, and the original libraries do not say
//! why. This reader does: for the registry, which loads what is named here, and for `nonic doctor`.

#![forbid(unsafe_code)]

mod place;
mod words;

use std::fmt;

pub use place::{OVERRIDE, Place, USUAL_PLACES, place, place_beside};

/// Bytes of a name at most.
pub const NAME_MAX: usize = 255;

/// Words of an entry.
const FIELDS: [&str; 8] = [
    "name",
    "API version",
    "thread safety",
    "default or nondefault",
    "library",
    "provider version",
    "parameters of the adapter",
    "parameters of the platform",
];

/// A line of the file that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An entry.
    Entry(Entry),
    /// Left out.
    Rejected {
        /// Its number, from 1.
        line: usize,
        /// Why.
        reason: Reason,
    },
}

/// One name under which a provider can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of its line, from 1.
    pub line: usize,
    /// What programs call the adapter.
    pub name: String,
    /// Whether it is for programs; otherwise for the kernel.
    pub is_user: bool,
    /// Version of the interface, major and minor.
    pub version: (u32, u32),
    /// Whether the provider calls itself thread safe.
    pub is_thread_safe: bool,
    /// Whether it counts without being asked for in another way.
    pub is_default: bool,
    /// Path or name of the library.
    pub library: String,
    /// Who made it, and its version.
    pub provider: (String, u32, u32),
    /// What the provider is told.
    pub parameters: String,
    /// What the platform is told.
    pub platform_parameters: String,
}

impl Entry {
    /// Why the registry does not keep a sound entry, if it does not.
    pub fn why_unused(&self) -> Option<&'static str> {
        match (self.is_user, self.is_default) {
            (false, _) => Some("it is for the kernel: its API version begins with k"),
            (true, false) => Some("it is marked nondefault"),
            (true, true) => None,
        }
    }

    /// Whether its library is nonic's own, to which it gives one more name.
    pub fn is_nonic(&self) -> bool {
        let file = self.library.rsplit('/').next().unwrap_or_default();
        self.library == OWN_WORD || OWN_FILES.iter().any(|own| file.starts_with(own))
    }
}

/// Beginnings of the file names of nonic's libraries, and what may stand for them.
const OWN_FILES: [&str; 3] = ["libdat.so", "libnonic.so", "libdaplnonic.so"];
const OWN_WORD: &str = "nonic";

/// Why a line is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A quotation mark has no other one in its line.
    QuoteNotClosed,
    /// So many words instead of eight.
    TooFew(usize),
    /// So many words instead of eight.
    TooMany(usize),
    /// The name is empty or so many bytes long.
    NameLength(usize),
    /// Another word than `u` or `k` with two numbers.
    Version(String),
    /// Another word than `threadsafe` and `nonthreadsafe`.
    ThreadSafety(String),
    /// Another word than `default` and `nondefault`.
    Default(String),
    /// No library is named.
    NoLibrary,
    /// Another word than a name and two numbers.
    ProviderVersion(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuoteNotClosed => to.write_str("a quotation mark is not closed in its line"),
            Self::TooFew(count) => {
                write!(to, "{count} of 8 words: the {} is missing", FIELDS[(*count).min(FIELDS.len() - 1)])
            }
            Self::TooMany(count) => write!(to, "{count} words instead of 8: quote what belongs together"),
            Self::NameLength(0) => to.write_str("the name is empty"),
            Self::NameLength(bytes) => write!(to, "a name of {bytes} bytes, and {NAME_MAX} is the limit"),
            Self::Version(word) => write!(to, "the API version {word:?} should be like u1.2 or u2.0"),
            Self::ThreadSafety(word) => {
                write!(to, "the thread safety {word:?} should be threadsafe or nonthreadsafe")
            }
            Self::Default(word) => write!(to, "{word:?} should be default or nondefault"),
            Self::NoLibrary => to.write_str("no library is named"),
            Self::ProviderVersion(word) => {
                write!(to, "the provider version {word:?} should be like dapl.1.2")
            }
        }
    }
}

/// The lines of a file that are neither empty nor comments, in their order.
pub fn parse(text: &str) -> Vec<Line> {
    let numbered = text.lines().zip(1..);
    numbered.filter_map(|(text, line)| read(text, line)).collect()
}

fn read(text: &str, line: usize) -> Option<Line> {
    let entry = match words::words(text) {
        Ok(words) if words.is_empty() => return None,
        Ok(words) => entry(words, line),
        Err(reason) => Err(reason),
    };
    Some(entry.map_or_else(|reason| Line::Rejected { line, reason }, Line::Entry))
}

fn entry(words: Vec<String>, line: usize) -> Result<Entry, Reason> {
    let words: [String; FIELDS.len()] = words.try_into().map_err(|words: Vec<_>| match words.len() {
        count if count < FIELDS.len() => Reason::TooFew(count),
        count => Reason::TooMany(count),
    })?;
    let [name, api, thread_safety, default, library, provider, parameters, platform_parameters] = words;
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(Reason::NameLength(name.len()));
    }
    let (is_user, version) = api_version(&api).ok_or(Reason::Version(api))?;
    let is_thread_safe =
        either(&thread_safety, "threadsafe", "nonthreadsafe").ok_or(Reason::ThreadSafety(thread_safety))?;
    let is_default = either(&default, "default", "nondefault").ok_or(Reason::Default(default))?;
    if library.is_empty() {
        return Err(Reason::NoLibrary);
    }
    let provider = provider_version(&provider).ok_or(Reason::ProviderVersion(provider))?;
    Ok(Entry {
        line,
        name,
        is_user,
        version,
        is_thread_safe,
        is_default,
        library,
        provider,
        parameters,
        platform_parameters,
    })
}

/// `u1.2`, `k1.2`.
fn api_version(word: &str) -> Option<(bool, (u32, u32))> {
    let (is_user, numbers) = match word.strip_prefix('u') {
        Some(numbers) => (true, numbers),
        None => (false, word.strip_prefix('k')?),
    };
    let (major, minor) = numbers.split_once('.')?;
    Some((is_user, (number(major)?, number(minor)?)))
}

/// `dapl.1.2`; the name ends at the first dot.
fn provider_version(word: &str) -> Option<(String, u32, u32)> {
    let (id, numbers) = word.split_once('.')?;
    let (major, minor) = numbers.split_once('.')?;
    (!id.is_empty()).then_some((id.to_owned(), number(major)?, number(minor)?))
}

/// Digits and nothing else, so no sign.
fn number(word: &str) -> Option<u32> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok())?
}

/// Which of two words it begins with: the original libraries look no further.
fn either(word: &str, yes: &str, no: &str) -> Option<bool> {
    if word.starts_with(yes) { Some(true) } else { word.starts_with(no).then_some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str =
        r#"ofa-v2-ib0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "ib0 0" "" # a comment"#;

    fn only(text: &str) -> Line {
        let mut lines = parse(text);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    }

    fn reason(text: &str) -> Reason {
        match only(text) {
            Line::Rejected { reason, .. } => reason,
            Line::Entry(entry) => panic!("taken: {entry:?}"),
        }
    }

    #[test]
    fn an_entry_has_eight_words() {
        let Line::Entry(entry) = only(SOUND) else { panic!("it is sound") };
        assert_eq!((entry.name.as_str(), entry.is_user, entry.version), ("ofa-v2-ib0", true, (2, 0)));
        assert_eq!((entry.is_thread_safe, entry.is_default), (false, true));
        assert_eq!(entry.provider, ("dapl".to_owned(), 2, 0));
        assert_eq!((entry.library.as_str(), entry.parameters.as_str()), ("libdaplofa.so.2", "ib0 0"));
        assert_eq!(entry.platform_parameters, "");
        assert_eq!(entry.why_unused(), None);
    }

    #[test]
    fn a_line_that_makes_no_sense_is_left_out_and_the_next_one_read() {
        let text = format!("# first\n\nnonsense\n  {SOUND}\nshort u1.2\n");
        let lines = parse(&text);
        let numbers: Vec<_> = lines
            .iter()
            .map(|line| match line {
                Line::Entry(entry) => (true, entry.line),
                Line::Rejected { line, .. } => (false, *line),
            })
            .collect();
        assert_eq!(numbers, [(false, 3), (true, 4), (false, 5)]);
    }

    #[test]
    fn every_wrong_word_has_its_reason() {
        let with = |old: &str, new: &str| reason(&SOUND.replace(old, new));
        assert_eq!(with("u2.0", "2.0"), Reason::Version("2.0".to_owned()));
        assert_eq!(with("u2.0", "u2"), Reason::Version("u2".to_owned()));
        assert_eq!(with("u2.0", "u2.+1"), Reason::Version("u2.+1".to_owned()));
        assert_eq!(with("u2.0", "u2.99999999999"), Reason::Version("u2.99999999999".to_owned()));
        assert_eq!(with("nonthreadsafe", "safe"), Reason::ThreadSafety("safe".to_owned()));
        assert_eq!(with(" default", " yes"), Reason::Default("yes".to_owned()));
        assert_eq!(with("libdaplofa.so.2", "\"\""), Reason::NoLibrary);
        assert_eq!(with("dapl.2.0", "dapl.2"), Reason::ProviderVersion("dapl.2".to_owned()));
        assert_eq!(with("dapl.2.0", ".2.0"), Reason::ProviderVersion(".2.0".to_owned()));
        assert_eq!(with("dapl.2.0", "dapl.2.0.1"), Reason::ProviderVersion("dapl.2.0.1".to_owned()));
        assert_eq!(with("\"\"", "\"\" more"), Reason::TooMany(9));
        assert_eq!(with("\"\"", ""), Reason::TooFew(7));
        assert_eq!(with("\"ib0 0\" \"\"", "0 \"ib0"), Reason::QuoteNotClosed);
        assert_eq!(with("ofa-v2-ib0", "\"\""), Reason::NameLength(0));
        assert_eq!(with("ofa-v2-ib0", &"n".repeat(256)), Reason::NameLength(256));
        assert!(matches!(only(&SOUND.replace("ofa-v2-ib0", &"n".repeat(255))), Line::Entry(_)));
    }

    #[test]
    fn entries_for_the_kernel_and_nondefault_ones_say_why_they_do_not_count() {
        for (old, new) in [("u2.0", "k2.0"), (" default", " nondefault")] {
            let Line::Entry(entry) = only(&SOUND.replace(old, new)) else { panic!("it is sound") };
            assert!(entry.why_unused().is_some());
        }
    }

    #[test]
    fn nonics_own_libraries_are_known_by_their_files() {
        for (library, own) in [
            ("nonic", true),
            ("/opt/nonic/libdat.so.1", true),
            ("libdaplnonic.so.2", true),
            ("libdaplofa.so.2", false),
            ("/opt/nonic/libdapl.so", false),
        ] {
            let Line::Entry(entry) = only(&SOUND.replace("libdaplofa.so.2", library)) else {
                panic!("it is sound")
            };
            assert_eq!(entry.is_nonic(), own, "{library}");
        }
    }

    #[test]
    fn words_are_compared_as_the_original_libraries_do() {
        let text = SOUND.replace(" default", " defaults").replace("nonthreadsafe", "threadsafely");
        let Line::Entry(entry) = only(&text) else { panic!("it is sound") };
        assert!(entry.is_default && entry.is_thread_safe);
    }

    #[test]
    fn a_reason_is_a_sentence_with_the_value_or_what_is_missing() {
        assert_eq!(reason("nonic u1.2").to_string(), "2 of 8 words: the thread safety is missing");
        assert!(Reason::Version("2".to_owned()).to_string().contains("\"2\""));
    }
}

//! `dat.conf`, read once.

use std::sync::OnceLock;

use nonic_dat_conf::{Entry, Line, parse, place, place_beside};

use super::Key;
use super::report::{STATIC, report};

/// What `dat.conf` says.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    /// Entries that count, in their order; no two have one key.
    pub(super) entries: Vec<Known>,
}

/// An entry.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) key: Key,
    pub(super) leads: Leads,
}

/// Where an entry leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leads {
    /// To the provider that is built in, under a name that the file gives it.
    Here,
    /// To another library.
    Library {
        library: String,
        /// What its `dat_provider_init` is told.
        parameters: String,
    },
}

/// What the file says that counts in this process.
pub(super) fn configuration() -> &'static Configuration {
    static CONFIGURATION: OnceLock<Configuration> = OnceLock::new();
    CONFIGURATION.get_or_init(|| {
        // SAFETY: asks for a number.
        let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        // A program that runs with more rights than its user loads nothing that the user names.
        let place = if is_privileged { place_beside(None) } else { place() };
        let Some(place) = place else { return Configuration::default() };
        match std::fs::read(&place.path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                from_text(&text, |line, reason| {
                    report(STATIC, &format!("{}, line {line}: {reason}", place.path.display()));
                })
            }
            Err(error) => {
                report(STATIC, &format!("{}: {error}", place.path.display()));
                Configuration::default()
            }
        }
    })
}

/// What a text says; tells `left_out` about each line that does not count.
fn from_text(text: &str, mut left_out: impl FnMut(usize, &str)) -> Configuration {
    let mut known = Configuration::default();
    for line in parse(text) {
        match line {
            Line::Rejected { line, reason } => left_out(line, &reason.to_string()),
            Line::Entry(entry) => {
                if let Some(reason) = entry.why_unused() {
                    left_out(entry.line, reason);
                    continue;
                }
                let key = key(&entry);
                match known.entries.iter().any(|other| other.key == key) {
                    true => {
                        left_out(entry.line, "an earlier line has the same name, version and thread safety")
                    }
                    false => known.entries.push(Known { key, leads: leads(entry) }),
                }
            }
        }
    }
    known
}

fn key(entry: &Entry) -> Key {
    Key { name: entry.name.clone(), version: entry.version, thread_safe: entry.is_thread_safe }
}

fn leads(entry: Entry) -> Leads {
    if entry.is_nonic() {
        return Leads::Here;
    }
    Leads::Library { library: entry.library, parameters: entry.parameters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_count_in_their_order_and_of_equal_ones_the_first() {
        let text = "\
            a u1.2 nonthreadsafe default libother.so.1 other.1.2 \"ib0 0\" \"\"\n\
            a u1.2 nonthreadsafe default libthird.so.1 other.1.2 \"\" \"\"\n\
            a u2.0 nonthreadsafe default libother.so.2 other.2.0 \"\" \"\"\n\
            b u1.2 nonthreadsafe nondefault libother.so.1 other.1.2 \"\" \"\"\n\
            c u1.2\n\
            mine u1.2 nonthreadsafe default nonic nonic.1.2 \"\" \"\"\n\
            mine2 u1.2 nonthreadsafe default /opt/nonic/libdat.so.1 nonic.1.2 \"\" \"\"\n";
        let mut left_out = Vec::new();
        let known = from_text(text, |line, _| left_out.push(line));
        assert_eq!(left_out, [2, 4, 5]);
        let names: Vec<_> =
            known.entries.iter().map(|entry| (entry.key.name.as_str(), entry.key.version)).collect();
        assert_eq!(names, [("a", (1, 2)), ("a", (2, 0)), ("mine", (1, 2)), ("mine2", (1, 2))]);
        let other = Leads::Library { library: "libother.so.1".into(), parameters: "ib0 0".into() };
        assert_eq!(known.entries[0].leads, other);
        assert!(known.entries[2..].iter().all(|entry| entry.leads == Leads::Here));
    }
}

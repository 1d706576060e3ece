//! How much memory a process has.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::demo::failure::{Failure, Outcome};

/// Resident bytes of this process, what it shares with peers included, once they have stopped to change.
pub(super) fn settled_memory() -> Outcome<f64> {
    const PAUSE: Duration = Duration::from_millis(20);
    const PAUSES: u32 = 100;
    let mut last = memory()?;
    for _ in 0..PAUSES {
        std::thread::sleep(PAUSE);
        let now = memory()?;
        if now == last {
            break;
        }
        last = now;
    }
    Ok(last)
}

fn memory() -> Outcome<f64> {
    let path = "/proc/self/smaps";
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{path} cannot be read: {error}")))?;
    Ok(resident(&text))
}

/// Bytes that are resident by such a file, but for pages of programs and libraries: of those the kernel maps what lies around
/// code that runs for the first time.
fn resident(maps: &str) -> f64 {
    let (mut kibibytes, mut counts) = (0.0, true);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Rss:") if counts => {
                kibibytes += words.next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
            }
            // A line with a range begins the next mapping; rights, offset, device and inode stand before its name.
            Some(word) if !word.ends_with(':') => {
                let name = words.nth(4).unwrap_or_default();
                counts = !name.starts_with('/') || name.starts_with("/memfd:") || name.starts_with("/dev/");
            }
            _ => {}
        }
    }
    1024.0 * kibibytes
}

/// What entries take of a table in shared memory: its pages stay when entries go, so it is told as it was when there were so many for
/// the first time.
pub(super) struct Table {
    before: f64,
    shares: BTreeMap<usize, f64>,
}

impl Table {
    /// One with no entries.
    pub(super) fn new() -> Outcome<Self> {
        Ok(Self { before: shared_memory()?, shares: BTreeMap::new() })
    }

    /// Bytes of one of so many entries, which are there now.
    pub(super) fn share(&mut self, entries: usize) -> Outcome<f64> {
        if let Some(share) = self.shares.get(&entries) {
            return Ok(*share);
        }
        let share = (shared_memory()? - self.before) / entries as f64;
        self.shares.insert(entries, share);
        Ok(share)
    }
}

/// Bytes that this process has resident and may share with others.
fn shared_memory() -> Outcome<f64> {
    let path = "/proc/self/status";
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{path} cannot be read: {error}")))?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssShmem:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map(|count| 1024.0 * count).ok_or_else(|| Failure::new(format!("{path} has no RssShmem")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_that_of_anonymous_and_shared_mappings_and_not_of_programs() {
        let mapping = |name: &str, kibibytes: u32| {
            format!(
                "7f00aa000000-7f00aa400000 rw-s 00000000 00:01 1033  {name}\nSize: 4096 kB\nRss:  {kibibytes} kB\n"
            )
        };
        let names = [("", 1), ("[heap]", 2), ("/memfd:nonic (deleted)", 4), ("/dev/zero (deleted)", 8)];
        let maps: String = names.map(|(name, kibibytes)| mapping(name, kibibytes)).concat();
        let programs = ["/usr/bin/nonic", "/usr/lib/libc.so.6"].map(|name| mapping(name, 1000)).concat();
        assert_eq!(resident(&format!("{programs}{maps}{programs}")), 15.0 * 1024.0);
        assert!(memory().unwrap() > 0.0);
    }
}

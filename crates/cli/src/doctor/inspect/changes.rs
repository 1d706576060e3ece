//! What was changed of the devices of a process, and by whom, as it says itself when it is asked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nonic_transport::Asked;

use super::super::asking::ask;
use super::super::report::Line;
use super::process::Process;

/// How long it is waited for a process that may be stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// The changes, the oldest first, each as "SECONDS WHAT by WHO", where the seconds count from 1970. None of a process that does not
/// answer.
pub(super) fn of(process: &Process) -> Vec<String> {
    let history = |token: &u64| ask(process, *token, &Asked::History, PATIENCE).ok();
    let told: Vec<_> = process.changing.iter().filter_map(history).collect();
    told.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

pub(super) fn lines(changes: &[String]) -> Vec<Line> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    changes.iter().map(|change| Line::ok("change", words(change, now))).collect()
}

fn words(change: &str, now: u64) -> String {
    let told = change.split_once(' ').and_then(|(seconds, what)| Some((seconds.parse::<u64>().ok()?, what)));
    match told {
        Some((seconds, what)) => format!("{what}, {} s ago", now.saturating_sub(seconds)),
        None => change.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_with_its_age() {
        assert_eq!(words("100 port down by NONIC_FAULTS", 103), "port down by NONIC_FAULTS, 3 s ago");
        assert_eq!(words("nonsense", 103), "nonsense");
    }
}

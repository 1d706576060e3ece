//! The file that `NONIC_FAULTS` names: a change of the device on each line, behind the time after which it is made. What stands behind
//! a `#` is for people.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::change::Change;

/// Bytes of such a file at most.
const LENGTH_MAX: u64 = 1 << 20;

/// Reads such a file; an error is why it cannot be followed, in words for people.
pub fn read_faults(path: &Path) -> Result<Vec<(Duration, Change)>, String> {
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    if found.len() > LENGTH_MAX {
        return Err(format!("it has more than {LENGTH_MAX} bytes"));
    }
    parse_faults(&fs::read_to_string(path).map_err(|error| error.to_string())?)
}

/// What such a file says: each change with the time after which it is made, in the order of the lines.
pub fn parse_faults(text: &str) -> Result<Vec<(Duration, Change)>, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.split_once('#').map_or(line, |(words, _)| words).trim();
        if words.is_empty() {
            continue;
        }
        let wrong = |why: String| format!("line {number}: {why}");
        let (time, change) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let after = time_of(time).ok_or_else(|| {
            wrong(format!("\"{}\" is no time: a number with us, ms or s behind it", time.escape_debug()))
        })?;
        lines.push((after, change.parse().map_err(|error| wrong(format!("{error}")))?));
    }
    Ok(lines)
}

fn time_of(word: &str) -> Option<Duration> {
    let (digits, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit())?);
    let number = digits.parse().ok()?;
    match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        for (text, named) in [
            ("port down", "line 1: \"port\" is no time"),
            ("\n100 port down", "line 2: \"100\" is no time"),
            ("1h port down", "line 1: \"1h\" is no time"),
            ("1s", "line 1: \"\" is no change"),
            ("1s port", "line 1: \"port\" is no change"),
            ("1s lid 0", "line 1: \"0\" is not a local identifier"),
        ] {
            let error = parse_faults(text).unwrap_err();
            assert!(error.starts_with(named), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_no_file_with_words_is_not_read() {
        assert!(read_faults(Path::new("/")).unwrap_err().contains("no file"));
        assert!(read_faults(Path::new("/dev/zero")).unwrap_err().contains("no file"));
        assert!(read_faults(Path::new("/nowhere/at/all")).is_err());
    }
}

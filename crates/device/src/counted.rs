//! What the processes of a user have counted, found by what they have open, as `nonic doctor --pid` finds one.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nonic_sys::numbers_in;
use nonic_transport::{Counters, SEGMENT_NAME, read_segment_counters};

/// The sum of what all living processes have counted that this one may look at (those of its user) and that are in its network
/// namespace, where its devices are. A process that has ended takes along what it counted.
pub fn counters_of_user() -> Counters {
    let link: OsString = format!("/memfd:{SEGMENT_NAME} (deleted)").into();
    let here = fs::read_link("/proc/self/ns/net").ok();
    let mut seen = HashSet::new();
    let mut sum = Counters::default();
    for process in numbers_in("/proc").unwrap_or_default() {
        // Somebody else's folder cannot be read, nor can that of one that has ended.
        let folder = format!("/proc/{process}/fd");
        let Ok(numbers) = numbers_in(&folder) else { continue };
        let named =
            |path: &Path| fs::read_link(path).is_ok_and(|to| to.as_os_str().as_bytes() == link.as_bytes());
        let paths = numbers.iter().map(|number| Path::new(&folder).join(number.to_string()));
        for path in paths.filter(|path| named(path)) {
            if fs::read_link(format!("/proc/{process}/ns/net")).ok() != here {
                break;
            }
            // Asked before it is opened: anything can go by any name. Children have their parent's open.
            let Some(found) = fs::metadata(&path).ok().filter(fs::Metadata::is_file) else { continue };
            if seen.insert((found.dev(), found.ino()))
                && let Some(counted) =
                    File::open(&path).ok().and_then(|file| read_segment_counters(&file).ok())
            {
                sum = sum.plus(&counted);
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_transport::{Counter, Segment};

    #[test]
    fn what_a_segment_of_this_user_counts_is_in_the_sum_once_however_often_it_is_open() {
        let segment = Segment::create().unwrap();
        let _again = segment.as_fd().try_clone_to_owned().unwrap();
        let before = counters_of_user().get(Counter::Refused);
        segment.counters(5).add(Counter::Refused, 1 << 40);
        let now = counters_of_user().get(Counter::Refused);
        assert!((1 << 40..1 << 41).contains(&(now - before)), "{now} after {before}");
    }
}

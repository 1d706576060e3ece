//! The file that `NONIC_FAULTS` names: changes of the device with the times at which they are made, counted from when the process
//! first opened a device.

use std::path::Path;
use std::time::{Duration, Instant};

use nonic_transport::{Change, read_faults};

/// What is still to be done, the next one last.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    left: Vec<(Instant, Change)>,
}

impl Faults {
    /// What the file says, from a time on at which the process began. Nothing if it cannot be read, or makes no sense in any line: that
    /// is said, and a program that was to meet faults does not meet half of them.
    pub(crate) fn read(path: &Path, began: Instant, now: Instant) -> Self {
        match read_faults(path) {
            Ok(lines) => Self::from(lines, began, now),
            Err(error) => {
                let path = path.display();
                tracing::error!(%path, error, "NONIC_FAULTS is not followed");
                Self::default()
            }
        }
    }

    fn from(mut lines: Vec<(Duration, Change)>, began: Instant, now: Instant) -> Self {
        // Those of the same time keep their order.
        lines.reverse();
        lines.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
        let at = |(after, change)| Some((began.checked_add(after)?, change));
        let left = lines.into_iter().filter_map(at).filter(|(at, _)| began == now || *at > now).collect();
        Self { left }
    }

    /// The next one if it is due, and when it is if it is not.
    pub(crate) fn take_due(&mut self, now: Instant) -> (Option<Instant>, Option<Change>) {
        match self.left.last() {
            None => (None, None),
            Some((at, _)) if *at > now => (Some(*at), None),
            Some(_) => (None, self.left.pop().map(|(_, change)| change)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_transport::parse_faults as parse;

    const TEXT: &str = "\
# A link that flaps.
300ms port up
100ms port down   # for 200 ms

100ms lid 7
0s    pkey remove 0
2s    fatal
";

    #[test]
    fn lines_come_in_the_order_of_their_times_and_else_of_the_file() {
        let began = Instant::now();
        let mut faults = Faults::from(parse(TEXT).unwrap(), began, began);
        assert_eq!(faults.take_due(began), (None, Some(Change::PkeyRemove(0))));
        let first = began + Duration::from_millis(100);
        assert_eq!(faults.take_due(began), (Some(first), None));
        let mut due = || faults.take_due(began + Duration::from_millis(300)).1;
        let found = [due(), due(), due(), due()];
        assert_eq!(found, [Some(Change::PortDown), Some(Change::Lid(7)), Some(Change::PortUp), None]);
        assert_eq!(faults.take_due(began + Duration::from_secs(9)), (None, Some(Change::Fatal)));
        assert_eq!(faults.take_due(began + Duration::from_secs(9)), (None, None));
    }

    #[test]
    fn a_device_that_is_there_anew_meets_only_what_is_still_to_come() {
        let began = Instant::now();
        let now = began + Duration::from_millis(100);
        let mut faults = Faults::from(parse(TEXT).unwrap(), began, now);
        let first = faults.take_due(began + Duration::from_secs(9)).1;
        assert_eq!(first, Some(Change::PortUp));
    }
}

//! What registering memory costs, and giving it back.

use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use super::super::job::{Registration, Sample};
use super::super::worker::Side;
use super::{Stage, now};
use crate::demo::failure::{Failure, Outcome};
use crate::verbs::{Buffer, Rights};

const PAGE: usize = 4096;

/// Pages that hold data.
const DATA: usize = 1024 * PAGE;

/// Memory that was never touched.
const UNTOUCHED: usize = 64 << 20;

/// Where the covered region lies.
const COVERED: Range<usize> = 64 * PAGE..80 * PAGE;

/// Median of what some registrations took, in the initiator; the target only waits. Nothing where the memory stayed as it
/// was: then this is no measure of what making it reachable costs.
pub(super) fn registration(stage: &mut Stage<'_>, what: Registration) -> Outcome<Option<Sample>> {
    stage.peer.meet()?;
    let times = match stage.side {
        Side::Initiator if is_adopted(stage)? => Some(measure(stage, what)?),
        Side::Initiator | Side::Target => None,
    };
    stage.peer.meet()?;
    Ok(times.map(Sample::of_times))
}

/// Whether the device makes private memory shared when it is registered, as the kernel sees it.
fn is_adopted(stage: &Stage<'_>) -> Outcome<bool> {
    let buffer = Rc::new(Buffer::new(DATA));
    let _region = stage.session.register(&buffer, Rights::Remote)?;
    let maps = std::fs::read_to_string("/proc/self/maps");
    let maps = maps.map_err(|error| Failure::new(format!("/proc/self/maps cannot be read: {error}")))?;
    Ok(maps.lines().any(|line| is_shared_at(line, buffer.as_ptr().addr())))
}

/// Whether a line of that file is a shared mapping that holds the address.
fn is_shared_at(line: &str, address: usize) -> bool {
    let mut fields = line.split_whitespace();
    let (range, rights) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    let bound = |text| usize::from_str_radix(text, 16).ok();
    let ends = range.split_once('-').and_then(|(from, to)| Some(bound(from)?..bound(to)?));
    rights.ends_with('s') && ends.is_some_and(|range| range.contains(&address))
}

fn measure(stage: &Stage<'_>, what: Registration) -> Outcome<Vec<f64>> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || begun.elapsed() < stage.order.budget {
        times.push(match what {
            Registration::Data => with_data(stage)?.0,
            Registration::GiveBack => with_data(stage)?.1,
            Registration::Untouched => untouched(stage)?,
            Registration::Covered => covered(stage)?,
        });
    }
    Ok(times)
}

/// Registers pages that were written, and ends that; nanoseconds a page of either.
fn with_data(stage: &Stage<'_>) -> Outcome<(f64, f64)> {
    let buffer = Rc::new(Buffer::untouched(DATA));
    for page in (0..DATA).step_by(PAGE) {
        buffer.store(page, page as u64 + 1);
    }
    let begun = now();
    let region = stage.session.register(&buffer, Rights::Remote)?;
    let registered = now();
    drop(region);
    let pages = (DATA / PAGE) as f64;
    Ok(((registered - begun) / pages, (now() - registered) / pages))
}

fn untouched(stage: &Stage<'_>) -> Outcome<f64> {
    let buffer = Rc::new(Buffer::untouched(UNTOUCHED));
    let begun = now();
    let region = stage.session.register(&buffer, Rights::Remote)?;
    let time = now() - begun;
    drop(region);
    Ok(time)
}

fn covered(stage: &Stage<'_>) -> Outcome<f64> {
    let buffer = Rc::new(Buffer::new(DATA));
    let _outer = stage.session.register(&buffer, Rights::Remote)?;
    let begun = now();
    let region = stage.session.register_part(&buffer, COVERED, Rights::Remote)?;
    let time = now() - begun;
    drop(region);
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_mapping_is_known_by_its_rights() {
        let line = "7f00aa000000-7f00aa400000 rw-s 00000000 00:01 1033  /memfd:nonic (deleted)";
        assert!(is_shared_at(line, 0x7f00_aa00_0000));
        assert!(!is_shared_at(line, 0x7f00_aa40_0000));
        assert!(!is_shared_at(&line.replace("rw-s", "rw-p"), 0x7f00_aa00_0000));
    }
}

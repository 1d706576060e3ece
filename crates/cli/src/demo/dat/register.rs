//! Memory: what was not asked for is not there, and another region on the same memory has rights of its own.

use super::Stage;
use crate::dat::{Privileges, Region, Remote};
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::{Figure, LARGE, median_time};
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// Registers memory for this side alone, then the same memory for the peer too.
fn both(stage: &Stage, seed: u64) -> Outcome<(Region, Region)> {
    let buffer = Buffer::new(LARGE);
    buffer.fill(0..LARGE, seed);
    let private = Region::new(&stage.line.adapter, buffer, Privileges::LOCAL)?;
    ensure(private.remote().context == 0, || {
        "a region without remote privileges has a context for peers".to_owned()
    })?;
    let shared = private.share(Privileges::ALL)?;
    ensure(shared.remote().context != 0, || {
        "a region with remote privileges has no context for peers".to_owned()
    })?;
    Ok((private, shared))
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let (private, shared) = both(stage, 1)?;
    let remote: Remote = stage.exchange.hear()?;
    // From a region that peers cannot reach, to the other process's second region.
    stage.line.write(&private, 0, remote)?;
    stage.exchange.meet()?; // The target has seen the bytes in its first region.
    stage.exchange.meet()?;
    private.buffer().clear(0..LARGE);
    stage.line.read(&shared, 0, remote)?;
    private.buffer().check(0..LARGE, 3, 0)?;
    let again = median_time(|_| Ok(private.share(Privileges::ALL).map(drop)?))?;
    stage.exchange.meet()?;
    Ok(Done {
        what: "1 MiB of both registered for themselves, then the same memory once more for the peer: written to and \
               read from through the second region, seen in the first"
            .to_owned(),
        figures: vec![Figure::latency("region on region and back", again)],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let (private, shared) = both(stage, 2)?;
    stage.exchange.tell(&shared.remote())?;
    stage.exchange.meet()?;
    private.buffer().check(0..LARGE, 1, 0)?;
    private.buffer().fill(0..LARGE, 3);
    stage.exchange.meet()?;
    // The regions stay until the initiator has read.
    stage.exchange.meet()
}

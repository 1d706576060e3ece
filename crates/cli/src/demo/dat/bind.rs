//! A remote memory region: bound to a part of a region, and told to the peer by the message right behind the bind.

use super::Stage;
use crate::dat::{Privileges, Region, Window};
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::{Figure, LARGE, median_time};
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// The part that is bound.
const HALF: usize = LARGE / 2;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let line = &stage.line;
    let buffer = Buffer::new(LARGE);
    buffer.fill(0..HALF, 4);
    let region = Region::new(&line.adapter, buffer, Privileges::LOCAL)?;
    let remote = line.hear_advertisement()?;
    line.write(&region, 0, remote)?;
    line.post_advertisement(remote)?; // Any message says that the write is there.
    line.finish()?;

    let window = Window::new(&line.adapter)?;
    let mut last = 0;
    let time = median_time(|_| {
        let bound = line.endpoint.post_bind(&window, &region, (0, HALF), Privileges::REMOTE_WRITE)?;
        line.finish()?;
        ensure(bound.context != last, || "two binds in a row have one context".to_owned())?;
        last = bound.context;
        Ok(())
    })?;
    drop(window);
    stage.exchange.meet()?;
    Ok(Done {
        what: "a bind and a message with its context posted at once: the write that the message allowed landed in the \
               bound half of 1 MiB, though the region itself has nothing for peers"
            .to_owned(),
        figures: vec![Figure::latency("bind, to its event", time)],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let line = &stage.line;
    let buffer = Buffer::new(LARGE);
    buffer.fill(0..LARGE, 5);
    let region = Region::new(&line.adapter, buffer, Privileges::LOCAL)?;
    let window = Window::new(&line.adapter)?;
    let remote = line.endpoint.post_bind(&window, &region, (HALF, HALF), Privileges::REMOTE_WRITE)?;
    line.post_advertisement(remote)?;
    line.finish()?; // The bind,
    line.finish()?; // and the message.
    line.hear_advertisement()?;
    region.buffer().check(HALF..LARGE, 4, 0)?;
    region.buffer().check(0..HALF, 5, 0)?;
    drop(window);
    stage.exchange.meet()
}

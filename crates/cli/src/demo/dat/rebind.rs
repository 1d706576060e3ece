//! Taking back: after the next bind the context of the one before leads nowhere, and using it costs the connection.

use super::Stage;
use crate::dat::{Privileges, Region, Status, Window};
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::LARGE;
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// The parts that are bound in turn.
const HALF: usize = LARGE / 2;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let line = &stage.line;
    let region = Region::new(&line.adapter, Buffer::new(LARGE), Privileges::LOCAL)?;
    region.buffer().fill(0..HALF, 7);
    let old = line.hear_advertisement()?;
    line.write(&region, 0, old)?;
    stage.exchange.meet()?;
    let new = line.hear_advertisement()?; // The target has bound again.
    ensure(new.context != old.context, || "the context stayed the same".to_owned())?;
    line.write(&region, 0, new)?;
    stage.exchange.meet()?; // The target looks, and puts other bytes there.
    stage.exchange.meet()?;

    line.endpoint.post_write(&region, 0, old)?;
    let status = line.ending()?;
    ensure(status == Status::REMOTE_ACCESS, || {
        format!("a write through the old context ended with {}", status.name())
    })?;
    line.endpoint.recover()?;
    line.join()?;
    stage.exchange.meet()?; // No byte has changed.
    line.write(&region, 0, new)?;
    stage.exchange.meet()?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "bound to one half, then to the other: the new context {:#x} works, a write through the old one, {:#x}, ended \
             with {}, moved nothing and broke the connection; connected again, the new one still works",
            new.context,
            old.context,
            Status::REMOTE_ACCESS.name()
        ),
        figures: Vec::new(),
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let line = &stage.line;
    let region = Region::new(&line.adapter, Buffer::new(LARGE), Privileges::LOCAL)?;
    let window = Window::new(&line.adapter)?;
    let bind = |from: usize| -> Outcome<()> {
        let remote = line.endpoint.post_bind(&window, &region, (from, HALF), Privileges::REMOTE_WRITE)?;
        line.post_advertisement(remote)?;
        line.finish()?;
        line.finish()
    };
    bind(0)?;
    stage.exchange.meet()?;
    region.buffer().check(0..HALF, 7, 0)?;
    bind(HALF)?;
    stage.exchange.meet()?;
    region.buffer().check(HALF..LARGE, 7, 0)?;
    region.buffer().fill(0..LARGE, 8);
    stage.exchange.meet()?;
    line.endpoint.recover()?;
    line.join()?;
    region.buffer().check(0..LARGE, 8, 0)?;
    stage.exchange.meet()?;
    stage.exchange.meet()?;
    region.buffer().check(0..HALF, 8, 0)?;
    region.buffer().check(HALF..LARGE, 7, 0)?;
    stage.exchange.meet()
}

//! How fast: writes and reads through a context, while the other program only waits.

use super::Stage;
use crate::dat::{Privileges, Region, Remote};
use crate::demo::failure::Outcome;
use crate::demo::measure::{Figure, LARGE, median_time, rate_of_calls};
use crate::demo::step::Done;
use crate::verbs::Buffer;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let line = &stage.line;
    let region = Region::new(&line.adapter, Buffer::new(LARGE), Privileges::LOCAL)?;
    region.buffer().fill(0..LARGE, 6);
    let remote: Remote = stage.exchange.hear()?;
    let short = remote.part(0, 8);
    let figures = vec![
        Figure::latency("write 8 B, to its event", median_time(|_| line.write(&region, 0, short))?),
        Figure::latency("read 8 B, to its event", median_time(|_| line.read(&region, 0, short))?),
        rate_of_calls("write 1 MiB", || line.write(&region, 0, remote))?,
        rate_of_calls("read 1 MiB", || line.read(&region, 0, remote))?,
    ];
    stage.exchange.meet()?;
    stage.exchange.meet()?;
    Ok(Done {
        what: "1 MiB written to and read from the other process by this one alone, every byte as sent"
            .to_owned(),
        figures,
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let region = Region::new(&stage.line.adapter, Buffer::new(LARGE), Privileges::ALL)?;
    stage.exchange.tell(&region.remote())?;
    stage.exchange.meet()?; // The initiator has measured.
    region.buffer().check(0..LARGE, 6, 0)?;
    stage.exchange.meet()
}

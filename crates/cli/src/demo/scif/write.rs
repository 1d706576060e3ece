//! Remote writes and reads: the card's program does nothing meanwhile.

use super::Stage;
use crate::demo::failure::Outcome;
use crate::demo::measure::{Figure, LARGE, median_time, rate_of_calls};
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// Short writes between two looks at the clock.
const SEVERAL: u32 = 64;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let buffer = Buffer::new(LARGE);
    buffer.fill(0..LARGE, 3);
    let window = stage.endpoint.register(&buffer)?;
    let card: i64 = stage.exchange.hear()?;

    stage.endpoint.write(&window, LARGE, card, true)?;
    stage.exchange.meet()?; // The card has seen every byte, and has put others there.
    stage.exchange.meet()?;
    buffer.clear(0..LARGE);
    stage.endpoint.read(&window, LARGE, card)?;
    buffer.check(0..LARGE, 4, 0)?;

    let endpoint = &stage.endpoint;
    // Reading the clock takes longer than one of them.
    let several = median_time(|_| {
        (0..SEVERAL).try_for_each(|_| endpoint.write(&window, 8, card, true))?;
        Ok(())
    })?;
    let figures = vec![
        Figure::latency("write 8 B", several / SEVERAL),
        rate_of_calls("write 1 MiB", || Ok(endpoint.write(&window, LARGE, card, true)?))?,
        rate_of_calls("read 1 MiB", || Ok(endpoint.read(&window, LARGE, card)?))?,
    ];
    stage.exchange.meet()?;
    Ok(Done {
        what: "1 MiB written to and read from the card's window by the host alone".to_owned(),
        figures,
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let buffer = Buffer::new(LARGE);
    let window = stage.endpoint.register(&buffer)?;
    stage.exchange.tell(&window.offset())?;
    stage.exchange.meet()?;
    buffer.check(0..LARGE, 3, 0)?;
    buffer.fill(0..LARGE, 4);
    stage.exchange.meet()?;
    stage.exchange.meet()
}

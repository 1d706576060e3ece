//! Fences: a value that arrives after everything before it.

use super::Stage;
use crate::demo::failure::{Outcome, Spinner};
use crate::demo::measure::{Figure, LARGE, median_time};
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// Where the value lands: on a page of its own behind the bytes.
const SIGNAL: usize = LARGE;

/// Writes under way at once.
const WRITES: usize = 8;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let buffer = Buffer::new(LARGE + 4096);
    let window = stage.endpoint.register(&buffer)?;
    let card: i64 = stage.exchange.hear()?;
    buffer.fill(0..LARGE, 5);
    // The last of them counts; nobody waits in between.
    for _ in 0..WRITES {
        stage.endpoint.write(&window, LARGE, card, false)?;
    }
    stage.endpoint.signal(card + SIGNAL as i64, 1)?;
    stage.exchange.meet()?; // The card saw the value, and then every byte.
    stage.endpoint.fence()?;
    let time = median_time(|_| {
        stage.endpoint.write(&window, 8, card, false)?;
        Ok(stage.endpoint.fence()?)
    })?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "{WRITES} writes of 1 MiB started, then a signal: the card, which only looked at one word, found every \
             byte there"
        ),
        figures: vec![Figure::latency("write 8 B, mark, wait", time)],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let buffer = Buffer::new(LARGE + 4096);
    let window = stage.endpoint.register(&buffer)?;
    stage.exchange.tell(&window.offset())?;
    let mut spinner = Spinner::new("the signal");
    while buffer.load(SIGNAL) != 1 {
        spinner.turn()?;
    }
    buffer.check(0..LARGE, 5, 0)?;
    stage.exchange.meet()?;
    stage.exchange.meet()
}

//! A remote mapping: the card's own pages in the host, where loads and stores are all it takes.

use std::sync::atomic::Ordering;

use super::Stage;
use crate::demo::failure::{Outcome, Spinner, ensure};
use crate::demo::measure::{Figure, median_time};
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// Bytes of the mapping.
const LENGTH: usize = 64 << 10;

/// Where the host stores, and where the card answers: on lines of their own.
const FROM_HOST: usize = 0;
const FROM_CARD: usize = 64;

/// Ends the ping-pong.
const STOP: u64 = u64::MAX;

/// What the card leaves behind after it has closed its window.
const LAST: u64 = 0x6e6f_6e69_6373_6366;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let card: i64 = stage.exchange.hear()?;
    let mapping = stage.endpoint.map(card, LENGTH)?;
    let ask = |value: u64| {
        mapping.word(FROM_HOST).store(value, Ordering::Release);
        let mut spinner = Spinner::new("the card to store its answer");
        while mapping.word(FROM_CARD).load(Ordering::Acquire) != value {
            spinner.turn()?;
        }
        Ok(())
    };
    let round_trip = median_time(|turn| ask(turn + 1))?;
    ask(STOP)?;
    stage.exchange.meet()?;
    stage.exchange.meet()?; // The card has unregistered, and has stored once more.
    ensure(mapping.is_filled_with(LAST), || "the mapping lost the card's pages".to_owned())?;
    stage.exchange.meet()?;
    Ok(Done {
        what: "64 KiB of the card mapped into the host, both stored there in turn; after the card had closed the window \
               the mapping still showed its pages"
            .to_owned(),
        figures: vec![Figure::latency("store, half round trip", round_trip / 2)],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let buffer = Buffer::new(LENGTH);
    let window = stage.endpoint.register(&buffer)?;
    stage.exchange.tell(&window.offset())?;
    let mut seen = 0;
    while seen != STOP {
        let mut spinner = Spinner::new("the host to store a number");
        seen = loop {
            match buffer.load(FROM_HOST) {
                next if next != seen => break next,
                _ => spinner.turn()?,
            }
        };
        buffer.store(FROM_CARD, seen);
    }
    stage.exchange.meet()?;
    drop(window);
    (0..LENGTH).step_by(8).for_each(|at| buffer.store(at, LAST));
    stage.exchange.meet()?;
    stage.exchange.meet()
}

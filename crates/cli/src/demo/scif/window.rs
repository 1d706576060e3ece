//! Windows: memory of both in their registered address spaces, and a place where none is.

use super::Stage;
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::LARGE;
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// A page.
const PAGE: usize = 4096;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let buffer = Buffer::new(LARGE);
    let window = stage.endpoint.register(&buffer)?;
    let theirs: i64 = stage.exchange.swap(&window.offset())?;

    // The page behind a window is in none: the copy must be refused, as a whole.
    buffer.fill(0..LARGE, 1);
    let beyond = theirs + (LARGE - PAGE) as i64;
    match stage.endpoint.write(&window, 2 * PAGE, beyond, true) {
        Err(error) if error.errno() == Some(libc::ENXIO) => {}
        Err(error) => {
            ensure(false, || format!("a write beyond the window should fail with ENXIO, but {error}"))?
        }
        Ok(()) => ensure(false, || "a write beyond the window was done".to_owned())?,
    }
    stage.exchange.meet()?; // The card looks at its bytes.
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "1 MiB of both registered, the host's at {:#x}, the card's at {theirs:#x}; a write of two pages, one of \
             them behind the window, was refused and moved nothing",
            window.offset()
        ),
        figures: Vec::new(),
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let buffer = Buffer::new(LARGE);
    buffer.fill(0..LARGE, 2);
    let window = stage.endpoint.register(&buffer)?;
    let _: i64 = stage.exchange.swap(&window.offset())?;
    stage.exchange.meet()?;
    buffer.check(0..LARGE, 2, 0)?;
    stage.exchange.meet()
}

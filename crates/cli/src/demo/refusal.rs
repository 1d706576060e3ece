//! Protection: a key that was given back opens nothing, and the device lives on.

use std::rc::Rc;

use super::endpoint::Endpoint;
use super::failure::{Outcome, ensure};
use super::step::{Done, Stage};
use crate::verbs::{Buffer, Operation, Piece, RemoteMemory, Rights};

/// `IBV_WC_REM_ACCESS_ERR`.
const REMOTE_ACCESS_ERROR: u32 = 10;

/// Bytes of the memory in question.
const LENGTH: usize = 4096;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let region = stage.session.register(&Buffer::new(LENGTH).into(), Rights::Local)?;
    region.buffer().fill(0..LENGTH, 8);
    let piece = Piece::new(&region, 0, LENGTH);
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let stale: RemoteMemory = stage.exchange.hear()?;

    let status = endpoint.attempt(Operation::Write(stale), piece)?;
    let words = stage.session.library.status_words(status);
    ensure(status == REMOTE_ACCESS_ERROR, || {
        format!(
            "a write with a key that was given back ended with \"{words}\" and not with a remote access error"
        )
    })?;
    stage.exchange.meet()?; // The target looks at its bytes.

    drop(endpoint);
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let fresh: RemoteMemory = stage.exchange.hear()?;
    endpoint.perform(Operation::Write(fresh), piece)?;
    stage.exchange.meet()?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "a write with a key that was given back ended with \"{words}\", no byte changed, and a new connection works"
        ),
        figures: Vec::new(),
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let buffer = Rc::new(Buffer::new(LENGTH));
    buffer.fill(0..LENGTH, 7);
    let region = stage.session.register(&buffer, Rights::Remote)?;
    let stale = RemoteMemory::of(&region);
    drop(region);
    let endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    stage.exchange.tell(&stale)?;
    stage.exchange.meet()?;
    buffer.check(0..LENGTH, 7, 0)?;

    drop(endpoint);
    let _endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let region = stage.session.register(&buffer, Rights::Remote)?;
    stage.exchange.tell(&RemoteMemory::of(&region))?;
    stage.exchange.meet()?;
    buffer.check(0..LENGTH, 8, 0)?;
    stage.exchange.meet()
}

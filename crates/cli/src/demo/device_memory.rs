//! Device memory: memory of the device itself, which peers reach like any region and programs only by copying.

use super::endpoint::Endpoint;
use super::failure::{Failure, Outcome};
use super::measure::{Figure, LARGE, median_time, rate};
use super::step::{Done, Stage};
use crate::verbs::{Buffer, CallError, Operation, Piece, Region, RemoteMemory, Rights};

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let region = stage.session.register(&Buffer::new(LARGE).into(), Rights::Local)?;
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let target: RemoteMemory = stage.exchange.hear()?;
    let large = Piece::new(&region, 0, LARGE);

    endpoint.perform(Operation::Read(target), large)?;
    region.buffer().check(0..LARGE, 5, 0)?;
    region.buffer().fill(0..LARGE, 6);
    endpoint.perform(Operation::Write(target), large)?;
    stage.exchange.meet()?;
    stage.exchange.meet()?; // The target has seen every byte.

    let small = Piece::new(&region, 0, 8);
    let write = median_time(|_| endpoint.perform(Operation::Write(target), small))?;
    let figures = vec![
        Figure::latency("write 8 B", write),
        rate(&mut endpoint, "write 1 MiB", Operation::Write(target), large)?,
        rate(&mut endpoint, "read 1 MiB", Operation::Read(target), large)?,
    ];
    stage.exchange.meet()?;
    Ok(Done {
        what: "1 MiB allocated, filled, read and written by the other process, copied out; registrations that are not \
               zero based or reach beyond the end were refused"
            .to_owned(),
        figures,
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let memory = stage.session.allocate_device_memory(LARGE).map_err(|error| {
        Failure::new(format!(
            "1 MiB of device memory cannot be had: {error} (is NONIC_DEVICE_MEMORY too small?)"
        ))
    })?;
    let _initiator = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let copy = Buffer::new(LARGE);
    copy.fill(0..LARGE, 5);
    memory.copy_in(0, &copy)?;

    must_be_refused("not zero based", stage.session.register_device_memory(&memory, 0, LARGE, false))?;
    must_be_refused("4 bytes beyond the end", stage.session.register_device_memory(&memory, 4, LARGE, true))?;
    let region = stage.session.register_device_memory(&memory, 0, LARGE, true)?;
    stage.exchange.tell(&RemoteMemory::of(&region))?;
    stage.exchange.meet()?;

    copy.clear(0..LARGE);
    memory.copy_out(&copy, 0)?;
    copy.check(0..LARGE, 6, 0)?;
    stage.exchange.meet()?;
    stage.exchange.meet()
}

/// `ibv_reg_dm_mr(3)` must have said EINVAL.
fn must_be_refused(what: &str, result: Result<Region, CallError>) -> Outcome<()> {
    match result {
        Err(error) if error.errno() == Some(libc::EINVAL) => Ok(()),
        Err(error) => {
            Err(Failure::new(format!("a registration {what} should fail with EINVAL, but {error}")))
        }
        Ok(_) => Err(Failure::new(format!("a registration {what} was accepted"))),
    }
}

//! RDMA: the initiator writes to and reads from the target's memory; the target only looks.

use super::endpoint::Endpoint;
use super::failure::{Outcome, Spinner};
use super::measure::{Figure, LARGE, median_time, rate};
use super::step::{Done, Stage};
use crate::verbs::{Buffer, Operation, Piece, Region, RemoteMemory, Rights, pattern};

/// Ends the ping-pong.
const STOP: u64 = u64::MAX;

/// Where the eight bytes of the ping-pong are made and where they land; the large area begins behind them.
const OUT: usize = 0;
const IN: usize = 64;
const AREA: usize = 4096;

fn region(stage: &Stage) -> Outcome<Region> {
    Ok(stage.session.register(&Buffer::new(AREA + LARGE).into(), Rights::Remote)?)
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let region = region(stage)?;
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let target = stage.exchange.swap(&RemoteMemory::of(&region))?;
    let large = Piece::new(&region, AREA, LARGE);

    region.buffer().fill(AREA..AREA + LARGE, 3);
    endpoint.perform(Operation::Write(target.at(AREA)), large)?;
    stage.exchange.meet()?; // The target has seen every byte, and has put others there.
    region.buffer().clear(AREA..AREA + LARGE);
    endpoint.perform(Operation::Read(target.at(AREA)), large)?;
    region.buffer().check(AREA..AREA + LARGE, 4, AREA)?;

    let round_trip = median_time(|turn| write_and_wait(&mut endpoint, &region, target, turn + 1))?;
    write_and_wait(&mut endpoint, &region, target, STOP)?;
    let small = Piece::new(&region, OUT, 8);
    let read = median_time(|_| endpoint.perform(Operation::Read(target.at(IN)), small))?;
    // The target sleeps from here on: what moves now moves without it.
    let figures = vec![
        Figure::latency("write 8 B, half round trip", round_trip / 2),
        Figure::latency("read 8 B", read),
        rate(&mut endpoint, "write 1 MiB", Operation::Write(target.at(AREA)), large)?,
        rate(&mut endpoint, "read 1 MiB", Operation::Read(target.at(AREA)), large)?,
    ];
    stage.exchange.meet()?;
    Ok(Done {
        what: "1 MiB written to and read from the other process, which only looked".to_owned(),
        figures,
    })
}

/// Writes a number into the peer's memory and waits until the peer has written it back.
fn write_and_wait(endpoint: &mut Endpoint, region: &Region, target: RemoteMemory, value: u64) -> Outcome<()> {
    region.buffer().store(OUT, value);
    endpoint.start_inline(Operation::Write(target.at(IN)), Piece::new(region, OUT, 8))?;
    let mut spinner = Spinner::new("eight bytes to be written back");
    while region.buffer().load(IN) != value {
        endpoint.progress()?;
        spinner.turn()?;
    }
    Ok(())
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let region = region(stage)?;
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let initiator = stage.exchange.swap(&RemoteMemory::of(&region))?;

    // As many programs do: wait for the last byte, then trust that all before it are there.
    let last = AREA + LARGE - 1;
    let expected = pattern(3, last - 7).to_le_bytes()[7];
    let mut spinner = Spinner::new("the last byte of an RDMA write");
    while region.buffer().load_byte(last) != expected {
        spinner.turn()?;
    }
    region.buffer().check(AREA..AREA + LARGE, 3, AREA)?;
    region.buffer().fill(AREA..AREA + LARGE, 4);
    stage.exchange.meet()?;

    let mut seen = 0;
    while seen != STOP {
        let mut spinner = Spinner::new("the next number to be written");
        seen = loop {
            match region.buffer().load(IN) {
                next if next != seen => break next,
                _ => endpoint.progress()?,
            }
            spinner.turn()?;
        };
        region.buffer().store(OUT, seen);
        endpoint.start_inline(Operation::Write(initiator.at(IN)), Piece::new(&region, OUT, 8))?;
    }
    endpoint.finish()?;
    stage.exchange.meet()
}

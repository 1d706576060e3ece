//! How long one operation takes.

use super::super::job::{Sample, Verb};
use super::super::worker::{Side, wait_until};
use super::{Connection, RECEIVES, Stage, first, now, operation, warm_up};
use crate::demo::failure::Outcome;
use crate::verbs::{Entries, Operation, Piece, Receive, Request};

/// Ping-pong by writes: each side waits for the last byte of what the other writes. Half of a round trip.
pub(super) fn write(stage: &mut Stage<'_>, size: usize) -> Outcome<Sample> {
    let input = size.next_multiple_of(4096);
    let region = stage.region(2 * input)?;
    let (connection, remote) = stage.connect(&region, false)?;
    let mut request = Request::new(Operation::Write(remote.at(input)), Piece::new(&region, 0, size));
    let buffer = region.buffer();
    let mut entries = Entries::default();
    let mut ping = |number: u64| {
        buffer.store_byte(size - 1, number as u8);
        connection.queue_pair.post_again(&mut request, true)?;
        wait_until("the end of a write", || Ok(connection.requests.take(&mut entries)?.0 > 0))
    };
    let pong = |number: u64| {
        wait_until("a byte to be written", || Ok(buffer.load_byte(input + size - 1) == number as u8))
    };
    let side = stage.side;
    let turn = |number| match side {
        Side::Initiator => ping(number).and_then(|()| pong(number)),
        Side::Target => pong(number).and_then(|()| ping(number)),
    };
    let times = stage.in_step(warm_up(stage.order.budget), turn, now)?;
    stage.peer.meet()?;
    Ok(half(times))
}

/// Ping-pong by sends, both sides polling, or sleeping until an event comes. Half of a round trip.
pub(super) fn send(stage: &mut Stage<'_>, size: usize, events: bool) -> Outcome<Sample> {
    let input = size.next_multiple_of(4096);
    let region = stage.region(2 * input)?;
    let (connection, _) = stage.connect(&region, events)?;
    let mut request = Request::new(Operation::Send, Piece::new(&region, 0, size));
    let mut receive = Receive::new(Piece::new(&region, input, size));
    for _ in 0..RECEIVES / 2 {
        connection.queue_pair.post_receive_again(&mut receive)?;
    }
    stage.peer.meet()?;
    let (mut sent, mut arrived) = (Entries::default(), Entries::default());
    let mut ping = || {
        connection.queue_pair.post_again(&mut request, true)?;
        wait_until("the end of a send", || Ok(connection.requests.take(&mut sent)?.0 > 0))
    };
    let mut pong = || {
        await_message(&connection, &mut arrived, events)?;
        Ok(connection.queue_pair.post_receive_again(&mut receive)?)
    };
    let side = stage.side;
    let turn = |_| match side {
        Side::Initiator => ping().and_then(|()| pong()),
        Side::Target => pong().and_then(|()| ping()),
    };
    let times = stage.in_step(warm_up(stage.order.budget), turn, now)?;
    stage.peer.meet()?;
    Ok(half(times))
}

/// One message: taken if it is there; else, with events, asked for, looked for once more, and slept for.
fn await_message(connection: &Connection, entries: &mut Entries, events: bool) -> Outcome<()> {
    if !events {
        return wait_until("a message", || Ok(connection.receives.take(entries)?.0 > 0));
    }
    loop {
        connection.receives.arm()?;
        if connection.receives.take(entries)?.0 > 0 {
            return Ok(());
        }
        connection.receives.sleep()?;
        if connection.receives.take(entries)?.0 > 0 {
            return Ok(());
        }
    }
}

/// Reads and atomics: from post to completion. The target does nothing.
pub(super) fn fetch(stage: &mut Stage<'_>, verb: Verb, size: usize) -> Outcome<Sample> {
    let region = stage.region(size)?;
    let (connection, remote) = stage.connect(&region, false)?;
    stage.peer.meet()?;
    let mut entries = Entries::default();
    let mut request = Request::new(operation(verb, remote), first(&region, size));
    let side = stage.side;
    let turn = |_| match side {
        Side::Initiator => {
            connection.queue_pair.post_again(&mut request, true)?;
            wait_until("the end of a request", || Ok(connection.requests.take(&mut entries)?.0 > 0))
        }
        Side::Target => Ok(()),
    };
    let times = stage.in_step(warm_up(stage.order.budget), turn, now)?;
    stage.peer.meet()?;
    Ok(Sample::of_times(times))
}

fn half(mut times: Vec<f64>) -> Sample {
    times.iter_mut().for_each(|time| *time /= 2.0);
    Sample::of_times(times)
}

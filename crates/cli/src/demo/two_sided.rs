//! Send and receive: the target says where messages go, the initiator what they hold.

use std::time::Instant;

use super::endpoint::Endpoint;
use super::failure::{Outcome, ensure};
use super::measure::{DEPTH, Figure, LARGE, median_time, rate_of, repeat_large};
use super::step::{Done, Stage};
use crate::verbs::{Buffer, Operation, Piece, Region, Rights};

/// Sent with the first message, each way.
const IMMEDIATE: [u32; 2] = [0x0123_4567, 0x89ab_cdef];

/// Ends the ping-pong.
pub(super) const STOP: u64 = u64::MAX;

/// Receives that the target keeps posted while messages stream in.
const RECEIVES: u32 = 2 * DEPTH;

/// Where the small messages of the ping-pong go out and come in; the large area begins behind them.
pub(super) const OUT: usize = 0;
pub(super) const IN: usize = 64;
pub(super) const AREA: usize = 4096;

fn region(stage: &Stage) -> Outcome<Region> {
    Ok(stage.session.register(&Buffer::new(AREA + LARGE).into(), Rights::Local)?)
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let region = region(stage)?;
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;

    region.buffer().fill(AREA..AREA + LARGE, 1);
    let large = Piece::new(&region, AREA, LARGE);
    endpoint.perform(Operation::SendImmediate(IMMEDIATE[0]), large)?;
    region.buffer().clear(AREA..AREA + LARGE);
    endpoint.post_receive(large)?;
    stage.exchange.meet()?;
    check_arrival(&mut endpoint, &region, IMMEDIATE[1], 2)?;

    endpoint.post_receive(Piece::new(&region, IN, 8))?;
    stage.exchange.meet()?;
    let round_trip = median_time(|turn| ping(&mut endpoint, &region, turn))?;
    ping(&mut endpoint, &region, STOP)?;

    let begun = Instant::now();
    let (count, _) = repeat_large(|_| {
        endpoint.wait_below(DEPTH)?;
        endpoint.start(Operation::Send, large)
    })?;
    endpoint.perform(Operation::SendImmediate(count as u32), large)?;
    let time = begun.elapsed();
    stage.exchange.meet()?;
    Ok(Done {
        what: "1 MiB with immediate data sent and received each way, every byte as sent".to_owned(),
        figures: vec![
            Figure::latency("send 8 B, half round trip", round_trip / 2),
            rate_of("send 1 MiB", count + 1, time),
        ],
    })
}

/// Sends eight bytes and waits for the same eight to come back. A receive is posted already.
pub(super) fn ping(endpoint: &mut Endpoint, region: &Region, value: u64) -> Outcome<()> {
    region.buffer().store(OUT, value);
    endpoint.start_inline(Operation::Send, Piece::new(region, OUT, 8))?;
    endpoint.receive()?;
    let echoed = region.buffer().load(IN);
    ensure(echoed == value, || format!("sent {value}, and {echoed} came back"))?;
    endpoint.post_receive(Piece::new(region, IN, 8))
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let region = region(stage)?;
    let large = Piece::new(&region, AREA, LARGE);
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;

    endpoint.post_receive(large)?;
    check_arrival(&mut endpoint, &region, IMMEDIATE[0], 1)?;
    region.buffer().fill(AREA..AREA + LARGE, 2);
    endpoint.post_receive(Piece::new(&region, IN, 8))?;
    stage.exchange.meet()?;
    endpoint.perform(Operation::SendImmediate(IMMEDIATE[1]), large)?;
    stage.exchange.meet()?;

    loop {
        endpoint.receive()?;
        let value = region.buffer().load(IN);
        let next = if value == STOP { (RECEIVES, large) } else { (1, Piece::new(&region, IN, 8)) };
        for _ in 0..next.0 {
            endpoint.post_receive(next.1)?;
        }
        region.buffer().store(OUT, value);
        endpoint.start_inline(Operation::Send, Piece::new(&region, OUT, 8))?;
        if value == STOP {
            break;
        }
    }
    let mut arrived = 0;
    loop {
        let arrival = endpoint.receive()?;
        if let Some(count) = arrival.immediate {
            ensure(count == arrived, || format!("{arrived} messages arrived and {count} were sent"))?;
            return stage.exchange.meet();
        }
        arrived += 1;
        endpoint.post_receive(large)?;
    }
}

/// Waits for the large message and looks at all of it.
fn check_arrival(endpoint: &mut Endpoint, region: &Region, immediate: u32, seed: u64) -> Outcome<()> {
    let arrival = endpoint.receive()?;
    ensure(arrival.byte_count as usize == LARGE, || {
        format!("{} bytes arrived of {LARGE}", arrival.byte_count)
    })?;
    ensure(arrival.immediate == Some(immediate), || {
        format!("immediate data {immediate:#010x} was sent, and {:x?} arrived", arrival.immediate)
    })?;
    Ok(region.buffer().check(AREA..AREA + LARGE, seed, AREA)?)
}

//! The byte stream: eight bytes there and back, and more than fits at once.

use super::Stage;
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::{Figure, median_time};
use crate::demo::step::Done;

/// More than the 4095 bytes that fit into a direction, so that both sides wait for each other.
const LONG: usize = 100_000;

/// Ends the ping-pong.
const STOP: u64 = u64::MAX;

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    stage.endpoint.send(&long())?;
    let mut reversed = vec![0; LONG];
    stage.endpoint.receive(&mut reversed)?;
    reversed.reverse();
    ensure(reversed == long(), || format!("{LONG} bytes came back changed"))?;

    let round_trip = median_time(|turn| echo(stage, turn))?;
    echo(stage, STOP)?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!("connected, {LONG} bytes sent and sent back reversed through a stream that holds 4095"),
        figures: vec![Figure::latency("send 8 B, half round trip", round_trip / 2)],
    })
}

fn echo(stage: &Stage, value: u64) -> Outcome<()> {
    let mut bytes = value.to_ne_bytes();
    stage.endpoint.send(&bytes)?;
    stage.endpoint.receive(&mut bytes)?;
    ensure(u64::from_ne_bytes(bytes) == value, || format!("sent {value}, and {bytes:?} came back"))
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let mut bytes = vec![0; LONG];
    stage.endpoint.receive(&mut bytes)?;
    bytes.reverse();
    stage.endpoint.send(&bytes)?;

    let mut word = [0; 8];
    while u64::from_ne_bytes(word) != STOP {
        stage.endpoint.receive(&mut word)?;
        stage.endpoint.send(&word)?;
    }
    stage.exchange.meet()
}

fn long() -> Vec<u8> {
    (0..LONG).map(|index| (index % 251) as u8).collect()
}

//! A bad network: packets are lost, and no byte is.

use std::process::Command;

use crate::demo::endpoint::Endpoint;
use crate::demo::failure::{Failure, Outcome, ensure};
use crate::demo::measure::{LARGE, rate};
use crate::demo::step::{Done, Stage};
use crate::library::own_program;
use crate::verbs::{Buffer, Operation, Piece, Region, RemoteMemory, Rights};

/// What of the packets is lost, each way.
const LOSS: &str = "1%";

/// Writes that the target looks at, byte for byte.
const WRITES: u64 = 4;

/// Seed of the first one's bytes.
const SEED: u64 = 20;

fn region(stage: &Stage) -> Outcome<Region> {
    Ok(stage.session.register(&Buffer::new(LARGE).into(), Rights::Remote)?)
}

/// Has the command make the network of this process a bad one, or a good one again.
pub(crate) fn lose(share: &str) -> Outcome<()> {
    let wrong = |words: String| Failure::new(format!("nonic ctl loss {share}: {words}"));
    let program = own_program().map_err(|error| wrong(error.to_string()))?;
    let pid = std::process::id().to_string();
    let output = Command::new(program).args(["ctl", "--pid", &pid, "loss", share]).output();
    let output = output.map_err(|error| wrong(error.to_string()))?;
    ensure(output.status.success(), || {
        let words = String::from_utf8_lossy(&output.stderr);
        format!("nonic ctl loss {share} ended with {}: {}", output.status, words.trim())
    })
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let region = region(stage)?;
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let target: RemoteMemory = stage.exchange.hear()?;
    let piece = Piece::new(&region, 0, LARGE);
    lose(LOSS)?;
    for seed in SEED..SEED + WRITES {
        region.buffer().fill(0..LARGE, seed);
        endpoint.perform(Operation::Write(target), piece)?;
        stage.exchange.meet()?; // The target looks.
        stage.exchange.meet()?;
    }
    let figure = rate(&mut endpoint, "write 1 MiB", Operation::Write(target), piece)?;
    lose("0")?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "1 MiB written {WRITES} times, every byte as it should be, while {LOSS} of the packets were lost each way \
             (nonic ctl loss {LOSS})"
        ),
        figures: vec![figure],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let region = region(stage)?;
    let _initiator = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    stage.exchange.tell(&RemoteMemory::of(&region))?;
    for seed in SEED..SEED + WRITES {
        stage.exchange.meet()?;
        region.buffer().check(0..LARGE, seed, 0)?;
        stage.exchange.meet()?;
    }
    stage.exchange.meet()
}

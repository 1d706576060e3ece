//! Memory that is not coherent: what a peer wrote is not seen until the program asks for it, and what the program stored is
//! not read until it says so.

use super::{Line, NONCOHERENT, Stage};
use crate::dat::{Privileges, Region, Remote};
use crate::demo::failure::{Outcome, ensure};
use crate::demo::measure::LARGE;
use crate::demo::peer::Role;
use crate::demo::step::Done;
use crate::verbs::Buffer;

/// The part that is made visible first.
const PART: usize = 64 << 10;

fn open(stage: &mut Stage, role: Role) -> Outcome<Line> {
    let line = Line::open(&stage.library, NONCOHERENT, role, &mut stage.exchange)?;
    for (adapter, coherent) in [(&stage.line.adapter, true), (&line.adapter, false)] {
        let says = adapter.is_coherent()?;
        ensure(says == coherent, || format!("lmr_sync_req says {}, and should not", !says))?;
    }
    Ok(line)
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let line = open(stage, Role::Initiator)?;
    let region = Region::new(&line.adapter, Buffer::new(LARGE), Privileges::LOCAL)?;
    region.buffer().fill(0..LARGE, 9);
    let remote: Remote = stage.exchange.hear()?;
    line.write(&region, 0, remote)?;
    line.post_advertisement(remote)?; // The message comes after the bytes.
    line.finish()?;
    stage.exchange.meet()?; // The target has stored other bytes, and has told nobody.
    line.read(&region, 0, remote)?;
    region.buffer().check(0..LARGE, 9, 0)?;
    stage.exchange.meet()?;
    stage.exchange.meet()?;
    line.read(&region, 0, remote)?;
    region.buffer().check(0..LARGE, 11, 0)?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "on the adapter {NONCOHERENT} 1 MiB written, and a message behind it: the target saw none of the bytes, \
             after dat_lmr_sync_rdma_write of 64 KiB those and no others, then all; what it stored itself was not \
             read before dat_lmr_sync_rdma_read"
        ),
        figures: Vec::new(),
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let line = open(stage, Role::Target)?;
    let buffer = Buffer::new(LARGE);
    buffer.fill(0..LARGE, 10);
    let region = Region::new(&line.adapter, buffer, Privileges::ALL)?;
    stage.exchange.tell(&region.remote())?;
    line.hear_advertisement()?;
    region.buffer().check(0..LARGE, 10, 0)?;
    region.sync_writes(0, PART)?;
    region.buffer().check(0..PART, 9, 0)?;
    region.buffer().check(PART..LARGE, 10, PART)?;
    region.sync_writes(0, LARGE)?;
    region.buffer().check(0..LARGE, 9, 0)?;
    region.buffer().fill(0..LARGE, 11);
    stage.exchange.meet()?;
    stage.exchange.meet()?;
    region.sync_reads(0, LARGE)?;
    stage.exchange.meet()?;
    stage.exchange.meet()
}

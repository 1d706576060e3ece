//! Atomics: both processes change the same eight bytes at the same time, and nothing is lost.

use super::endpoint::Endpoint;
use super::failure::{Outcome, ensure};
use super::measure::{Figure, median_time};
use super::step::{Done, Stage};
use crate::verbs::{Buffer, Operation, Piece, Region, RemoteMemory, Rights, Session};

/// Additions by each process, of 1 by the initiator and of 2^32 by the target.
const ADDITIONS: u64 = 2000;
const STRIDES: [u64; 2] = [1, 1 << 32];

/// Increments by each process with compare and swap, repeated until they take.
const SWAPS: u64 = 500;

/// The words in the target's memory.
const ADDED: usize = 0;
const SWAPPED: usize = 64;
const MEASURED: usize = 128;

fn region(session: &std::rc::Rc<Session>) -> Outcome<Region> {
    Ok(session.register(&Buffer::new(4096).into(), Rights::Remote)?)
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let region = region(&stage.session)?;
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let target: RemoteMemory = stage.exchange.hear()?;
    stage.exchange.meet()?;
    let lost = contend(&mut endpoint, &region, target, STRIDES[0])?;
    let others: u64 = stage.exchange.swap(&lost)?;

    let result = Piece::new(&region, 0, 8);
    let fetch_add = median_time(|_| endpoint.perform(Operation::FetchAdd(target.at(MEASURED), 1), result))?;
    let swap = median_time(|_| endpoint.perform(Operation::CompareSwap(target.at(MEASURED), 0, 0), result))?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "{} additions and {} exchanges by two processes at once on the same words, none lost ({} exchanges met \
             the other's and were repeated)",
            2 * ADDITIONS,
            2 * SWAPS,
            lost + others
        ),
        figures: vec![Figure::latency("fetch and add", fetch_add), Figure::latency("compare and swap", swap)],
    })
}

pub(super) fn serve(stage: &mut Stage) -> Outcome<()> {
    let region = region(&stage.session)?;
    let _initiator = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    // The target is a client of its own memory too: a second open device, connected to the first, in this process.
    let second = Session::open(&stage.session.library, 0)?;
    let (mut endpoint, _other_end) = Endpoint::pair(&second, &stage.session)?;
    let result = self::region(&second)?;
    let memory = RemoteMemory::of(&region);
    stage.exchange.tell(&memory)?;
    stage.exchange.meet()?;
    let lost = contend(&mut endpoint, &result, memory, STRIDES[1])?;
    let _others: u64 = stage.exchange.swap(&lost)?;

    let (added, swapped) = (region.buffer().load(ADDED), region.buffer().load(SWAPPED));
    let sum = ADDITIONS * (STRIDES[0] + STRIDES[1]);
    ensure(added == sum, || format!("the additions make {added:#x} and should make {sum:#x}"))?;
    ensure(swapped == 2 * SWAPS, || format!("the exchanges make {swapped} and should make {}", 2 * SWAPS))?;
    stage.exchange.meet()
}

/// Adds and exchanges, against whoever does the same; how many exchanges came too late.
fn contend(endpoint: &mut Endpoint, region: &Region, target: RemoteMemory, stride: u64) -> Outcome<u64> {
    let result = Piece::new(region, 0, 8);
    // What this side has added stands in its half of the word, so each old value must show exactly that.
    for done in 0..ADDITIONS {
        endpoint.perform(Operation::FetchAdd(target.at(ADDED), stride), result)?;
        let mine = (region.buffer().load(0) / stride) & u64::from(u32::MAX);
        ensure(mine == done, || {
            format!("the old value shows {mine} additions of this process after {done}")
        })?;
    }
    let (mut guess, mut lost) = (0, 0);
    let mut done = 0;
    while done < SWAPS {
        endpoint.perform(Operation::CompareSwap(target.at(SWAPPED), guess, guess + 1), result)?;
        let found = region.buffer().load(0);
        if found == guess {
            done += 1;
            guess += 1;
        } else {
            ensure(found > guess, || format!("an exchange found {found} after {guess} had been seen"))?;
            lost += 1;
            guess = found;
        }
    }
    Ok(lost)
}

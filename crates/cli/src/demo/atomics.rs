//! Atomics: both processes change the same eight bytes at the same time, and nothing is lost.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::failure::{Outcome, ensure};
use super::measure::{Figure, median_time};
use super::step::{Done, Stage};
use crate::verbs::{Buffer, Operation, Piece, Region, RemoteMemory, Rights, Session};

/// What each addition adds: the initiator counts in the lower half of the word, the target in the upper one.
const STRIDES: [u64; 2] = [1, 1 << 32];

/// How long both contend. Several slices of a processor's time, so that they do even where they share one.
const TIME: Duration = Duration::from_millis(60);

/// An exchange for so many additions.
const ADDITIONS_AN_EXCHANGE: u64 = 4;

/// The words in the target's memory.
const ADDED: usize = 0;
const EXCHANGED: usize = 64;
const MEASURED: usize = 128;

/// What one process has done.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Tally {
    additions: u64,
    exchanges: u64,
    /// Exchanges that came after the other's and were tried again.
    late: u64,
}

fn region(session: &Rc<Session>) -> Outcome<Region> {
    Ok(session.register(&Buffer::new(4096).into(), Rights::Remote)?)
}

pub(super) fn initiate(stage: &mut Stage) -> Outcome<Done> {
    let region = region(&stage.session)?;
    let mut endpoint = Endpoint::connect(&stage.session, &mut stage.exchange)?;
    let target: RemoteMemory = stage.exchange.hear()?;
    stage.exchange.meet()?;
    let mine = contend(&mut endpoint, &region, target, STRIDES[0])?;
    let theirs = stage.exchange.swap(&mine)?;

    let result = Piece::new(&region, 0, 8);
    let fetch_add = median_time(|_| endpoint.perform(Operation::FetchAdd(target.at(MEASURED), 1), result))?;
    let swap = median_time(|_| endpoint.perform(Operation::CompareSwap(target.at(MEASURED), 0, 0), result))?;
    stage.exchange.meet()?;
    Ok(Done {
        what: format!(
            "{} and {} additions, {} and {} exchanges by two processes at once on the same words, none lost \
             ({} exchanges came too late and were tried again)",
            mine.additions,
            theirs.additions,
            mine.exchanges,
            theirs.exchanges,
            mine.late + theirs.late
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
    let mine = contend(&mut endpoint, &result, memory, STRIDES[1])?;
    let theirs: Tally = stage.exchange.swap(&mine)?;

    let (added, exchanged) = (region.buffer().load(ADDED), region.buffer().load(EXCHANGED));
    let sum = theirs.additions * STRIDES[0] + mine.additions * STRIDES[1];
    ensure(added == sum, || format!("the additions make {added:#x} and should make {sum:#x}"))?;
    let count = mine.exchanges + theirs.exchanges;
    ensure(exchanged == count, || format!("the exchanges make {exchanged} and should make {count}"))?;
    stage.exchange.meet()
}

/// Adds and exchanges for a while, against whoever does the same.
fn contend(endpoint: &mut Endpoint, region: &Region, target: RemoteMemory, stride: u64) -> Outcome<Tally> {
    let result = Piece::new(region, 0, 8);
    let mut tally = Tally::default();
    let mut guess = 0;
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        endpoint.perform(Operation::FetchAdd(target.at(ADDED), stride), result)?;
        // What this side has added stands in its half of the word, so each old value must show exactly that.
        let (shown, done) = ((region.buffer().load(0) / stride) & u64::from(u32::MAX), tally.additions);
        ensure(shown == done, || {
            format!("the old value shows {shown} additions of this process after {done}")
        })?;
        tally.additions += 1;
        if tally.additions.is_multiple_of(ADDITIONS_AN_EXCHANGE) {
            tally.late += increment_by_exchange(endpoint, region, target.at(EXCHANGED), &mut guess)?;
            tally.exchanges += 1;
        }
    }
    Ok(tally)
}

/// Exchanges a word for the next number until that takes; how many attempts came too late. `guess` is what the word may
/// hold, and afterwards what it holds unless the other process was there again.
fn increment_by_exchange(
    endpoint: &mut Endpoint,
    region: &Region,
    target: RemoteMemory,
    guess: &mut u64,
) -> Outcome<u64> {
    let mut late = 0;
    loop {
        endpoint.perform(Operation::CompareSwap(target, *guess, *guess + 1), Piece::new(region, 0, 8))?;
        let found = region.buffer().load(0);
        if found == *guess {
            *guess += 1;
            return Ok(late);
        }
        ensure(found > *guess, || format!("an exchange found {found} after {guess} had been seen"))?;
        late += 1;
        *guess = found;
    }
}

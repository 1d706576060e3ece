//! Both processes add to one word at the same time.

use super::super::job::{Sample, Unit};
use super::super::worker::{Side, wait_until};
use super::{Connection, Stage, first, now};
use crate::demo::failure::Outcome;
use crate::verbs::{Entries, Operation, RemoteMemory, Request, Session};

/// Additions under way at once: what a connection allows.
const DEPTH: u64 = 16;

/// Time of one addition by the initiator, while the target, a client of its own memory, does the same.
pub(super) fn contention(stage: &mut Stage<'_>) -> Outcome<Sample> {
    let region = stage.region(4096)?;
    let (connection, remote) = stage.connect(&region, false)?;
    stage.peer.meet()?;
    if stage.side == Side::Initiator {
        return add(stage, &connection, remote);
    }
    let second = Session::open(&stage.session.library, 0)?;
    let (near, far) = (Connection::create(&second, false)?, Connection::create(stage.session, false)?);
    near.queue_pair.join(&far.queue_pair)?;
    let mut own = Stage { session: &second, side: stage.side, order: stage.order, peer: stage.peer };
    add(&mut own, &near, RemoteMemory::of(&region))
}

fn add(stage: &mut Stage<'_>, connection: &Connection, target: RemoteMemory) -> Outcome<Sample> {
    let result = stage.region(4096)?;
    let mut request = Request::new(Operation::FetchAdd(target, 1), first(&result, 8));
    let mut entries = Entries::default();
    stage.peer.meet()?;
    let mut run = |nanoseconds: f64| -> Outcome<f64> {
        let begun = now();
        let (mut posted, mut ended) = (0_u64, 0_u64);
        while now() - begun < nanoseconds {
            while posted - ended < DEPTH {
                connection.queue_pair.post_again(&mut request, true)?;
                posted += 1;
            }
            ended += connection.requests.take(&mut entries)?.0 as u64;
        }
        let time = now() - begun;
        let counted = ended.max(1);
        wait_until("the last addition", || {
            ended += connection.requests.take(&mut entries)?.0 as u64;
            Ok(ended == posted)
        })?;
        Ok(time / counted as f64)
    };
    // The other side begins before and ends after what counts.
    let budget = stage.order.budget.as_nanos() as f64;
    let each = match stage.side {
        Side::Initiator => {
            run(budget / 4.0)?;
            run(budget)?
        }
        Side::Target => run(1.5 * budget)?,
    };
    stage.peer.meet()?;
    Ok(Sample::of(each, Unit::Nanoseconds))
}

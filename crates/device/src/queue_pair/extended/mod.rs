//! Queue pairs of extended reliable connections (XRC): those that receive have no receives, but peers name a shared receive queue
//! of the domain with every request (IBTA vol. 1, annex A14).

mod opened;
mod target;

pub use opened::OpenedQueuePair;
pub(crate) use target::{Asked, ReceivesFrom, Target};

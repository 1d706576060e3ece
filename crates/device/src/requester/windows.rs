//! Requests about memory windows. Binding and taking out of use happen here and not at the peer.

use nonic_protocol::{LocalTurn, Operation, Slot};

use crate::error::WindowError;
use crate::memory_window::{Binding, Turn};
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// Carries out a request of which nothing happens at the peer.
    #[cold]
    pub(crate) fn turn(&self, operation: &Operation) -> LocalTurn {
        match self.turn_of(operation) {
            Ok(Turn::Done) => LocalTurn::Done,
            Ok(Turn::Wait) => LocalTurn::Wait,
            Err(error) => {
                tracing::debug!(%error, number = self.number.0, "a request about a memory window failed");
                LocalTurn::Failed
            }
        }
    }

    fn turn_of(&self, operation: &Operation) -> Result<Turn, WindowError> {
        let windows = &self.engine().windows;
        match *operation {
            Operation::Bind { window, key, region, address, length, access, zero_based } => {
                let found = windows.find_both(key, region).filter(|(found, _)| found.id() == window);
                let (found, to) = found.ok_or(WindowError::Gone)?;
                let binding = Binding { key, region, address, length, access, zero_based };
                found.bind(self.number, self.zone.id(), &binding, to)
            }
            Operation::Invalidate { key } => {
                windows.find(key).ok_or(WindowError::NotBoundHere { key })?.invalidate(self.number, key)
            }
            _ => Err(WindowError::Gone),
        }
    }

    /// A request that ends without success: if it is a bind its key is not used.
    #[cold]
    pub(crate) fn give_up(&self, slot: &Slot) {
        if let Operation::Bind { window, key, .. } = slot.operation
            && let Some(found) = self.engine().windows.find(key).filter(|found| found.id() == window)
        {
            found.give_up(key);
        }
    }

    /// The same for every request that has not ended.
    pub(crate) fn give_up_all(&self, inner: &Inner) {
        for number in inner.send.finished..inner.send.posted {
            self.give_up(inner.send.slot(number));
        }
    }
}

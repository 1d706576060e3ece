//! Requests about memory windows. Binding and taking out of use happen here and not at the peer; they wait for everything
//! older, and everything newer waits for them.

use std::time::Duration;

use nonic_memory::Key;
use nonic_protocol::{InvalidateFragment, Operation, Request, Slot, Status, WaitReason};

use super::Step;
use crate::error::WindowError;
use crate::memory_window::{Binding, Turn};
use crate::queue_pair::{Inner, Path, QueuePair};

/// When to look again whether those who were inside an operation have left.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

impl QueuePair {
    /// Carries out a request of which nothing happens at the peer.
    #[cold]
    pub(super) fn start_locally(&self, inner: &mut Inner, slot: &Slot) -> Step {
        if !inner.send.nothing_in_flight() {
            return Step::Later;
        }
        match self.turn_of(&slot.operation) {
            Ok(Turn::Done) => Step::Finished,
            Ok(Turn::Wait) => {
                self.wait(inner, LOOK_AGAIN, WaitReason::Occupied);
                Step::Later
            }
            Err(error) => {
                tracing::debug!(%error, number = self.number.0, "a request about a memory window failed");
                Step::Failed(Status::WindowBind)
            }
        }
    }

    /// The connection ends while a request waits for those inside. Whoever ended it has left, so the request may be done by
    /// now, and is then not flushed with the others.
    #[cold]
    pub(crate) fn take_last_turn(&self, inner: &mut Inner) {
        let slot = inner.send.slot(inner.send.finished);
        if let Ok(Turn::Done) = self.turn_of(&slot.operation) {
            inner.requester.wait = None;
            self.finish(inner, Status::Success);
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

    fn turn_of(&self, operation: &Operation) -> Result<Turn, WindowError> {
        let windows = &self.engine().windows;
        match *operation {
            Operation::Bind { window, key, region, address, length, access, zero_based } => {
                let found = windows.find(key).filter(|found| found.id() == window);
                let binding = Binding { key, region, address, length, access, zero_based };
                found.ok_or(WindowError::Gone)?.bind(self.number, self.zone.id(), &binding)
            }
            Operation::Invalidate { key } => {
                windows.find(key).ok_or(WindowError::NotBoundHere { key })?.invalidate(self.number, key)
            }
            _ => Err(WindowError::Gone),
        }
    }

    /// Sends a message that takes a key of the peer's out of use. What this side still reads may be read through that key,
    /// so it waits for that.
    #[cold]
    pub(super) fn start_send_invalidate(
        &self,
        inner: &mut Inner,
        path: &Path,
        number: u64,
        slot: &Slot,
        key: Key,
    ) -> Step {
        if inner.requester.reads > 0 {
            return Step::Later;
        }
        let sent = self.with_source(inner, number, slot, |inner, source| {
            let solicited = slot.flags.solicited;
            self.push_fragments(inner, &path.link, slot.total as u32, source, |extent| {
                Request::SendInvalidate(InvalidateFragment { extent, key, solicited })
            })
        });
        sent.unwrap_or(Step::Failed(Status::LocalProtection))
    }
}

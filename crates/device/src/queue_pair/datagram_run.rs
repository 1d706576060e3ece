//! Datagrams of a queue pair on their way to other hosts: a program that sends many before it looks at the wire again has them go in runs,
//! since the kernel takes a run of packets about as fast as one.

use std::sync::Arc;

use nonic_wire::{Outgoing, Pushed, Wire};

/// So many go at once after each look at the wire. What is more is a stream, of which those that are posted until the next look make runs.
const AT_ONCE: u32 = 4;

/// What waits for the next look, and how much was sent since the last.
#[derive(Debug, Default)]
pub(crate) struct DatagramRun {
    outgoing: Option<(Arc<Wire>, Outgoing)>,
    /// Which look that was.
    look: u32,
    sent: u32,
}

/// What came of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InRun {
    /// It has gone, or goes with one that waits.
    Sent,
    /// It waits, the first.
    Waits,
    /// Its bytes cannot be had.
    Gone,
}

impl DatagramRun {
    /// Sends the datagram that `push` adds to a run, now or with those that follow it. `look` is the number of the last look at the wire.
    pub(crate) fn send(
        &mut self,
        wire: &Arc<Wire>,
        look: u32,
        mut push: impl FnMut(&mut Outgoing) -> Pushed,
    ) -> InRun {
        if self.look != look {
            (self.look, self.sent) = (look, 0);
        }
        let was_empty = self.outgoing.is_none();
        let (_, outgoing) = self.outgoing.get_or_insert_with(|| (Arc::clone(wire), wire.outgoing()));
        let mut pushed = push(outgoing);
        if pushed == Pushed::NoRoom {
            outgoing.forget();
            pushed = push(outgoing);
        }
        self.sent += 1;
        if pushed != Pushed::Pushed {
            self.flush();
            return InRun::Gone;
        }
        if self.sent <= AT_ONCE {
            self.flush();
        } else if was_empty {
            return InRun::Waits;
        }
        InRun::Sent
    }

    /// Sends what waits. What the kernel has no room for is lost, as on any wire.
    pub(crate) fn flush(&mut self) {
        if let Some((wire, mut outgoing)) = self.outgoing.take() {
            outgoing.flush();
            wire.put_back(outgoing);
        }
    }
}

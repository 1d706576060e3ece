//! Datagrams of a queue pair on their way to other hosts: a program that sends many before it looks at the wire again has them go in runs,
//! since the kernel takes a run of packets about as fast as one.

use std::sync::Arc;

use nonic_wire::{Outgoing, Pushed, Wire};

use crate::engine::lock;
use crate::queue_pair::QueuePair;

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

impl DatagramRun {
    /// Sends what waits. What the kernel has no room for is lost, as on any wire.
    fn flush(&mut self) {
        if let Some((wire, mut outgoing)) = self.outgoing.take() {
            outgoing.flush();
            wire.put_back(outgoing);
        }
    }
}

impl QueuePair {
    /// Sends the datagram that `push` adds to a run, now or with those that follow it; false if its bytes cannot be had.
    pub(super) fn send_in_run(
        &self,
        wire: &Arc<Wire>,
        mut push: impl FnMut(&mut Outgoing) -> Pushed,
    ) -> bool {
        let mut run = lock(&self.datagrams);
        let look = self.engine().looks_at_wire();
        if run.look != look {
            (run.look, run.sent) = (look, 0);
        }
        let was_empty = run.outgoing.is_none();
        let (_, outgoing) = run.outgoing.get_or_insert_with(|| (Arc::clone(wire), wire.outgoing()));
        let mut pushed = push(outgoing);
        if pushed == Pushed::NoRoom {
            outgoing.forget();
            pushed = push(outgoing);
        }
        run.sent += 1;
        if run.sent <= AT_ONCE || pushed != Pushed::Pushed {
            run.flush();
        } else if was_empty {
            self.engine().hold_on_wire(self.number());
            self.engine().have_agent_look();
        }
        pushed == Pushed::Pushed
    }

    /// Sends datagrams that wait for others.
    pub(crate) fn flush_datagrams(&self) {
        lock(&self.datagrams).flush();
    }
}

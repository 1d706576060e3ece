//! The requester: carries out the requests of a send queue, in order.
//!
//! A one-sided request runs directly, on the peer's memory, if nothing older is under way and the peer's tables allow it
//! beyond doubt. Everything else travels as a message through the ring; the peer's responder judges it, and the
//! completer takes the answer.

mod connected;
mod datagram;
mod express;
mod local;
mod one_sided;
mod pulled;
mod windows;

pub(crate) use local::cut;
pub(crate) use one_sided::DIRECT_CHUNK;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use nonic_memory::SharedSlice;
use nonic_protocol::{AfterWait, QpState, QpType, Status, WaitReason};
use nonic_transport::{FRAGMENT, Link};

use crate::async_event::AsyncEventKind;
use crate::happening::Happening;
use crate::limits::PIECES_MAX;
use crate::queue_pair::{Inner, QueuePair};

/// The local bytes of a request, one slice a piece.
pub(crate) type Slices<'a> = ArrayVec<SharedSlice<'a>, PIECES_MAX>;

/// What starting a request came to.
enum Step {
    /// Done.
    Finished,
    /// On its way; the peer answers.
    InFlight,
    /// The ring is full.
    Blocked,
    /// Something older must end first.
    Later,
    /// Failed here.
    Failed(Status),
    /// Nobody to send it to.
    Unreachable,
    /// The peer's memory is not there.
    Fault,
}

impl QueuePair {
    /// Starts everything that can start.
    pub(crate) fn pump(&self, inner: &mut Inner) {
        // What is owed goes first, or with the first message: a peer that gets a reply has the acknowledgement of what it
        // replies to, as on a wire.
        let mut rings = std::mem::take(&mut inner.requester.rings);
        if !inner.next_says_what_is_owed(self.transport, FRAGMENT as u64) {
            rings |= self.push_owed(inner);
        }
        let mut pushed = None;
        while inner.has_next() {
            let number = inner.send.started;
            let slot = *inner.send.slot(number);
            let step = if self.transport == QpType::UnreliableDatagram {
                let (step, link) = self.start_datagram(inner, number, &slot);
                ring_other(&mut pushed, link);
                step
            } else {
                self.start_connected(inner, number, &slot)
            };
            rings |= matches!(step, Step::InFlight | Step::Blocked)
                || self.transport == QpType::UnreliableConnection;
            match step {
                Step::Finished => {
                    inner.send.started += 1;
                    inner.requester.has_copied();
                    self.finish(inner, Status::Success);
                }
                Step::InFlight => {
                    self.witness.sees(Happening::Started { psn: inner.requester.next });
                    inner.has_sent();
                }
                Step::Blocked | Step::Later => break,
                Step::Failed(_) if !inner.send.nothing_in_flight() => break,
                Step::Failed(status) => {
                    self.fail_oldest(inner, status);
                    break;
                }
                Step::Fault => {
                    self.take_fault(inner);
                    break;
                }
                Step::Unreachable => {
                    if inner.send.nothing_in_flight() {
                        self.wait_for_answer(inner);
                    }
                    break;
                }
            }
        }
        rings |= self.push_owed(inner);
        if rings && let Some(path) = &inner.path {
            path.link.ring_bell();
        }
        if let Some(link) = pushed {
            link.ring_bell();
        }
        if inner.has_just_drained() {
            self.raise(AsyncEventKind::SendQueueDrained);
        }
    }

    /// Ends the oldest request with a failure, and what that entails for the others (IBTA vol. 1, 10.3.1).
    pub(crate) fn fail_oldest(&self, inner: &mut Inner, status: Status) {
        if inner.send.finished < inner.send.posted {
            self.finish(inner, status);
        }
        if self.transport == QpType::ReliableConnection {
            self.enter_error(inner);
        } else {
            inner.attributes.state = QpState::SendQueueError;
            inner.requester.stop();
            self.flush_sends(inner);
        }
    }

    // Waiting.

    /// Nobody answers: waits for the timeout, then repeats.
    pub(crate) fn wait_for_answer(&self, inner: &mut Inner) {
        let wait = inner.answer_wait();
        self.wait(inner, wait, WaitReason::NoAnswer);
    }

    /// Sends nothing for `wait`.
    pub(crate) fn wait(&self, inner: &mut Inner, wait: Duration, reason: WaitReason) {
        let until = inner.requester.wait(Instant::now(), wait, reason);
        self.engine().schedule(until, self.number);
    }

    /// Goes on after a wait, or gives up.
    pub(crate) fn take_time(&self, inner: &mut Inner, now: Instant) {
        match inner.take_time(now) {
            AfterWait::Nothing => {}
            AfterWait::Repeat => {
                self.witness.sees(Happening::Repeated);
                self.pump(inner);
            }
            AfterWait::Fail(status) => self.fail_oldest(inner, status),
        }
    }
}

/// Remembers whose bell to ring; rings the last one's when another follows.
fn ring_other(pushed: &mut Option<Arc<Link>>, link: Option<Arc<Link>>) {
    let Some(link) = link else { return };
    match pushed {
        Some(before) if Arc::ptr_eq(before, &link) => {}
        _ => {
            if let Some(before) = pushed.replace(link) {
                before.ring_bell();
            }
        }
    }
}

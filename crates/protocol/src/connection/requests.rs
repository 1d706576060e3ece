//! What a request becomes on the way to the one peer of a connected queue pair: it runs directly on the peer's memory, if nothing
//! older is under way and that is possible beyond doubt; else it travels as messages (IBTA vol. 1, 9.4, 9.7.3, 9.7.6, 10.8.3).

use super::Connection;
use crate::access::Access;
use crate::completion::Status;
use crate::flush::FlushRequest;
use crate::happening::Happening;
use crate::key::Key;
use crate::message::{
    AtomicChange, AtomicRequest, BaseHeader, Body, Extent, InvalidateFragment, Message, ReadRequest, Request,
    SendFragment, SendPull, WriteFragment, WriteNotify,
};
use crate::number::RemoteRange;
use crate::requester::WaitReason;
use crate::responder::MESSAGE_MAX;
use crate::send_queue::Slot;
use crate::state::QpType;
use crate::surroundings::{Direct, LocalTurn, Step, Surroundings};
use crate::timer::Moment;
use crate::work_request::Operation;

/// Bytes of the word that an atomic changes.
const WORD: u64 = AtomicRequest::LENGTH as u64;

impl<P, T: Moment> Connection<P, T> {
    /// Starts request `number`, the next one.
    pub(super) fn start<S: Surroundings<P, T>>(&mut self, around: &mut S, number: u64, slot: &Slot) -> Step {
        if slot.operation.is_local() {
            return self.start_locally(around, slot);
        }
        around.find_path(self);
        // Taken out for as long as the request needs it, so that its counts need not change; then put back.
        let Some(path) = self.path.take() else { return self.unreachable(around) };
        let step = if around.has_ended(&path) {
            self.unreachable(around)
        } else {
            self.start_on(around, &path, number, slot)
        };
        self.path = Some(path);
        step
    }

    /// Nobody is there. An unreliable service never knows; if it had sent a part, the rest is lost as well.
    fn unreachable<S: Surroundings<P, T>>(&mut self, around: &S) -> Step {
        if around.service() == QpType::ReliableConnection {
            return Step::Unreachable;
        }
        self.requester.sent = 0;
        Step::Finished
    }

    /// Carries out a request of which nothing happens at the peer. It waits for everything older, and everything newer waits for
    /// it (10.8.3.3).
    #[cold]
    fn start_locally<S: Surroundings<P, T>>(&mut self, around: &mut S, slot: &Slot) -> Step {
        if !self.send.nothing_in_flight() {
            return Step::Later;
        }
        match around.take_turn(&slot.operation) {
            LocalTurn::Done => Step::Finished,
            LocalTurn::Wait => {
                self.wait(around, super::waiting::LOOK_AGAIN, WaitReason::Occupied);
                Step::Later
            }
            LocalTurn::Failed => Step::Failed(Status::WindowBind),
        }
    }

    fn start_on<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        number: u64,
        slot: &Slot,
    ) -> Step {
        if slot.total > u64::from(MESSAGE_MAX) {
            return Step::Failed(Status::LocalLength);
        }
        // 10.8.3.3: a fence waits for reads and atomics.
        if slot.flags.fence && self.requester.reads > 0 {
            return Step::Later;
        }
        match slot.operation {
            Operation::Send { immediate } => self.start_send(around, path, number, slot, immediate),
            Operation::Write { remote, immediate } => {
                self.start_write(around, path, number, slot, remote, immediate)
            }
            // The last aligned word of what is written is stored at once, and this is no more than that.
            Operation::AtomicWrite { remote } => self.start_write(around, path, number, slot, remote, None),
            Operation::Read { remote } => self.start_read(around, path, number, slot, remote),
            Operation::CompareSwap { remote, .. } | Operation::FetchAdd { remote, .. } => {
                self.start_atomic(around, path, number, slot, remote)
            }
            Operation::Flush { flush } => self.start_flush(around, path, flush),
            Operation::SendInvalidate { key } => self.start_send_invalidate(around, path, number, slot, key),
            Operation::Bind { .. } | Operation::Invalidate { .. } => self.start_locally(around, slot),
        }
    }

    /// What the next request to the peer begins with.
    #[inline]
    pub fn base<S: Surroundings<P, T>>(&self, around: &S) -> BaseHeader {
        let destination = self.attributes.destination_qp;
        let (psn, attempt) = (self.requester.next, self.requester.attempt);
        let queue = self.send.destination_queue(self.send.started);
        BaseHeader::new(destination, around.number(), psn, attempt).for_queue(queue)
    }

    /// A send (9.4.1).
    fn start_send<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        number: u64,
        slot: &Slot,
        immediate: Option<u32>,
    ) -> Step {
        let sent = around.with_source(self, number, slot, |around, connection, source| {
            let (solicited, total) = (slot.flags.solicited, slot.total as u32);
            // A message that is sent whole and has no immediate data can say what is owed besides.
            let says_more = immediate.is_none() && slot.total <= S::FRAGMENT.into();
            let acknowledges = if says_more { connection.responder.acknowledge() } else { None };
            // Once a fragment is on its way the rest must follow it there.
            let pull = SendPull { total, immediate, solicited, acknowledges };
            let pulled = if connection.requester.sent == 0 {
                around.push_to_be_pulled(connection, path, number, slot, pull)
            } else {
                None
            };
            let step = match pulled {
                Some(true) => sent(around),
                Some(false) => blocked(around, path),
                None => connection.push_fragments(around, path, total, source, |extent| {
                    Request::Send(SendFragment { extent, immediate, solicited, acknowledges })
                }),
            };
            if acknowledges.is_some() && step != Step::Blocked {
                connection.responder.has_acknowledged();
            }
            step
        });
        sent.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    /// A message that takes a key of the peer's out of use (9.4.1.1.3). What this side still reads may be read through that key, so
    /// it waits for that.
    #[cold]
    fn start_send_invalidate<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        number: u64,
        slot: &Slot,
        key: Key,
    ) -> Step {
        if self.requester.reads > 0 {
            return Step::Later;
        }
        let sent = around.with_source(self, number, slot, |around, connection, source| {
            let solicited = slot.flags.solicited;
            connection.push_fragments(around, path, slot.total as u32, source, |extent| {
                Request::SendInvalidate(InvalidateFragment { extent, key, solicited })
            })
        });
        sent.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    /// An RDMA Write (9.4.3).
    fn start_write<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
        immediate: Option<u32>,
    ) -> Step {
        let (total, solicited) = (slot.total as u32, slot.flags.solicited);
        let reliable = around.service() == QpType::ReliableConnection;
        let step = around.with_source(self, number, slot, |around, connection, source| {
            // Once a fragment is on its way the rest must follow it there.
            if connection.requester.sent == 0 && slot.total > 0 {
                // An unreliable message is done for its sender once it was given to the carrier, so for those the peer must
                // have taken what was given.
                let is_next =
                    connection.send.nothing_in_flight() && (reliable || around.everything_was_taken(path));
                if is_next {
                    match around.write_directly(path, remote, slot.total, source) {
                        Direct::Done => {
                            around.sees(Happening::Moved { bytes: slot.total });
                            let Some(immediate) = immediate else { return Step::Finished };
                            let notice = WriteNotify { total, immediate, solicited };
                            return connection.push_whole(around, path, Request::WriteNotify(notice));
                        }
                        Direct::Fault => return fault(around),
                        Direct::Declined | Direct::Failed(_) => {}
                    }
                } else if slot.total > S::FRAGMENT.into()
                    && around.reaches(path, remote, slot.total, Access::REMOTE_WRITE)
                {
                    // An unreliable queue pair has nothing under way whose answer would start it again: the peer calls when it
                    // has taken everything.
                    return if reliable { Step::Later } else { blocked(around, path) };
                }
            }
            let step = connection.push_fragments(around, path, total, source, |extent| {
                Request::Write(WriteFragment { extent, remote, immediate, solicited })
            });
            if matches!(step, Step::InFlight | Step::Finished) {
                around.sees(Happening::Asked);
            }
            step
        });
        step.unwrap_or(Step::Failed(Status::LocalProtection))
    }

    /// An RDMA Read (9.4.4).
    fn start_read<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Step {
        if self.attributes.max_rd_atomic == 0 {
            return Step::Failed(Status::LocalQpOperation);
        }
        if slot.total > 0 {
            if self.send.nothing_in_flight() {
                let direct = around.read_directly(self, path, number, slot, remote);
                if let Some(step) = step_of(around, direct, slot.total) {
                    return step;
                }
            } else if around.reaches(path, remote, slot.total, Access::REMOTE_READ) {
                return Step::Later;
            }
        }
        let read = ReadRequest { remote, total: slot.total as u32 };
        self.ask(around, path, Request::Read(read))
    }

    /// An atomic (9.4.5).
    fn start_atomic<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        number: u64,
        slot: &Slot,
        remote: RemoteRange,
    ) -> Step {
        if self.attributes.max_rd_atomic == 0 {
            return Step::Failed(Status::LocalQpOperation);
        }
        if slot.total != WORD {
            return Step::Failed(Status::LocalLength);
        }
        // Elsewhere it is judged by the peer: its refusal names the cause.
        if remote.address.is_multiple_of(WORD) {
            if self.send.nothing_in_flight() {
                let direct = around.change_directly(self, path, number, slot, remote);
                if let Some(step) = step_of(around, direct, WORD) {
                    return step;
                }
            } else if around.reaches(path, remote, WORD, Access::REMOTE_ATOMIC) {
                return Step::Later;
            }
        }
        let change = match slot.operation {
            // The peer judges first, and then this side has no place for the result: the word must not change.
            _ if !around.takes_result(self, number) => AtomicChange::FetchAdd { add: 0 },
            Operation::CompareSwap { compare, swap, .. } => AtomicChange::CompareSwap { compare, swap },
            Operation::FetchAdd { add, .. } => AtomicChange::FetchAdd { add },
            _ => return Step::Failed(Status::LocalQpOperation),
        };
        self.ask(around, path, Request::Atomic(AtomicRequest { remote, change }))
    }

    /// A flush (annex A19.4.1). Whoever carries out what comes from here has carried out what was sent before.
    #[cold]
    fn start_flush<S: Surroundings<P, T>>(&mut self, around: &mut S, path: &P, flush: FlushRequest) -> Step {
        if self.attributes.max_rd_atomic == 0 {
            return Step::Failed(Status::LocalQpOperation);
        }
        self.ask(around, path, Request::Flush(flush))
    }

    /// Sends a request that is answered with data. No more of them are under way than were agreed on (9.7.3.1).
    fn ask<S: Surroundings<P, T>>(&mut self, around: &mut S, path: &P, request: Request) -> Step {
        if self.requester.reads >= self.attributes.max_rd_atomic {
            return Step::Later;
        }
        let message = Message { base: self.base(around), body: Body::Request(request) };
        if !around.push(path, &message) {
            return blocked(around, path);
        }
        around.sees(Happening::Asked);
        Step::InFlight
    }

    /// Sends a request without bytes.
    fn push_whole<S: Surroundings<P, T>>(&mut self, around: &mut S, path: &P, request: Request) -> Step {
        let message = Message { base: self.base(around), body: Body::Request(request) };
        if around.push(path, &message) { sent(around) } else { blocked(around, path) }
    }

    /// Sends a message in fragments, from where the last attempt stopped.
    fn push_fragments<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        length: u32,
        source: S::Source<'_>,
        request: impl Fn(Extent) -> Request,
    ) -> Step {
        let (base, total) = (self.base(around), u64::from(length));
        loop {
            let offset = self.requester.sent;
            assert!(offset <= total, "{offset} bytes are sent of a message of {total}");
            let count = (total - offset).min(S::FRAGMENT.into());
            let extent = Extent { total: length, offset: offset as u32 };
            let message = Message { base, body: Body::Request(request(extent)) };
            if !around.push_bytes(path, &message, source, offset, count) {
                return blocked(around, path);
            }
            self.requester.sent += count;
            if self.requester.sent >= total {
                self.requester.sent = 0;
                return sent(around);
            }
        }
    }
}

/// What a request comes to once all of it was given to the carrier.
#[inline]
fn sent<P, T: Moment, S: Surroundings<P, T>>(around: &S) -> Step {
    if around.service() == QpType::ReliableConnection { Step::InFlight } else { Step::Finished }
}

/// What a read or an atomic comes to that was tried directly. `None`: the peer has to be asked.
#[inline]
fn step_of<P, T: Moment, S: Surroundings<P, T>>(around: &mut S, direct: Direct, bytes: u64) -> Option<Step> {
    match direct {
        Direct::Done => {
            around.sees(Happening::Moved { bytes });
            Some(Step::Finished)
        }
        Direct::Failed(status) => Some(Step::Failed(status)),
        Direct::Fault => Some(fault(around)),
        Direct::Declined => None,
    }
}

/// There is no room.
fn blocked<P, T: Moment, S: Surroundings<P, T>>(around: &mut S, path: &P) -> Step {
    around.await_room(path);
    Step::Blocked
}

/// The peer's memory was found gone. An unreliable service never knows.
fn fault<P, T: Moment, S: Surroundings<P, T>>(around: &S) -> Step {
    if around.service() == QpType::ReliableConnection { Step::Fault } else { Step::Finished }
}

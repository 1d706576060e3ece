//! What this process does for another that has a queue pair of the same domain, on behalf of that queue pair's peer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use nonic_protocol::{AtomicChange, AttributeMask, Extent, NotChanged, QpNumber, Receive, SrqNumber};

use super::SharedReceiveQueue;
use super::fellow::Opener;
use super::members::Members;
use super::pair_words::event_of;
use super::words::{Answer, End, Place, Question, flush_of};
use crate::completion_queue::SendCredit;
use crate::peer_access::{PeerAccess, fill};

/// A conversation, and what was taken in it.
#[derive(Debug)]
pub(super) struct Service {
    /// Which of this process.
    conversation: u64,
    /// Whose processes are asked in turn.
    user: Option<u32>,
    /// What comes of the change of a queue pair that was asked for last.
    modified: Option<Arc<OnceLock<bool>>>,
    /// Receives that are neither filled nor given back, under the numbers that the other side knows them by.
    taken: BTreeMap<u64, Taken>,
    next: u64,
}

#[derive(Debug)]
struct Taken {
    receive: Receive,
    /// Of the queue that had this number then.
    number: SrqNumber,
    queue: Weak<SharedReceiveQueue>,
}

impl Taken {
    /// Does something with its queue and itself, if the queue is still in the domain.
    fn with_queue<R>(
        self,
        members: &Members,
        work: impl FnOnce(&SharedReceiveQueue, Receive) -> R,
    ) -> Option<R> {
        let Self { receive, number, queue } = self;
        let is_it = |found: &SharedReceiveQueue| std::ptr::eq(queue.as_ptr(), found);
        members.with_queue(number, |found| is_it(found).then(|| work(found, receive))).flatten()
    }
}

impl Service {
    /// One that was just begun by a process of this user.
    pub(super) fn new(user: Option<u32>) -> Self {
        static CONVERSATIONS: AtomicU64 = AtomicU64::new(0);
        Self {
            conversation: CONVERSATIONS.fetch_add(1, Ordering::Relaxed),
            user,
            modified: None,
            taken: BTreeMap::new(),
            next: 0,
        }
    }

    /// The answer, if one is expected. Each is given while the queue stays in the domain.
    pub(super) fn serve(&mut self, members: &Members, question: Question) -> Option<Answer> {
        let at_queue = |queue: u32, work: &mut dyn FnMut(&SharedReceiveQueue) -> Answer| {
            members.with_queue(SrqNumber(queue), |queue| work(queue)).unwrap_or(Answer::No)
        };
        let in_memory = |at: Place, work: &mut dyn FnMut(&PeerAccess<'_>) -> Answer| {
            members.with_queue(at.queue(), |queue| work(&access(queue))).unwrap_or(Answer::No)
        };
        Some(match question {
            Question::Find { queue } => at_queue(queue, &mut |_| Answer::Yes),
            Question::Has { queue } => at_queue(queue, &mut |queue| Answer::of(!queue.is_empty())),
            Question::Take { queue } => {
                let taken = &mut *self;
                at_queue(queue, &mut |found| taken.take(SrqNumber(queue), found))
            }
            Question::GiveBack { receive } => {
                self.give_back(members, receive);
                return None;
            }
            Question::Complete { receive, end } => {
                self.complete(members, receive, &end);
                Answer::Yes
            }
            Question::Fill { receive, offset, bytes } => {
                let Some(Taken { receive, number, queue }) = self.taken.get(&receive) else {
                    return Some(Answer::No);
                };
                let placed = members.with_queue(*number, |found| {
                    let memory = &found.zone().context().engine().party().memory;
                    std::ptr::eq(queue.as_ptr(), found) && fill(memory, receive, offset, &bytes[..])
                });
                Answer::of(placed == Some(true))
            }
            Question::Write { at, total, offset, bytes } => {
                let is_within =
                    (offset as usize).checked_add(bytes.len()).is_some_and(|end| end <= total as usize);
                let extent = Extent { total, offset };
                in_memory(at, &mut |memory| {
                    Answer::of(is_within && memory.write(at.remote(), extent, &bytes[..]))
                })
            }
            Question::MayRead { at, length } => {
                in_memory(at, &mut |memory| Answer::of(memory.may_read(at.remote(), length)))
            }
            Question::Read { at, length } => in_memory(at, &mut |memory| {
                let mut bytes = vec![0; length as usize].into_boxed_slice();
                if memory.read(at.remote(), &mut bytes) { Answer::Bytes(bytes) } else { Answer::No }
            }),
            Question::MayFlush { at, length, placement, selectivity } => {
                let flush = flush_of(at, length, placement, selectivity);
                in_memory(at, &mut |memory| {
                    Answer::of(flush.as_ref().is_some_and(|flush| memory.may_flush(flush)))
                })
            }
            Question::FetchAdd { at, add } => {
                in_memory(at, &mut |memory| change(memory, at, AtomicChange::FetchAdd { add }))
            }
            Question::CompareSwap { at, compare, swap } => {
                in_memory(at, &mut |memory| change(memory, at, AtomicChange::CompareSwap { compare, swap }))
            }
            Question::OpenPair { pair, block } => Answer::of(self.open(members, QpNumber(pair), block)),
            Question::ClosePair { pair } => {
                if let Some(pair) = members.pair(QpNumber(pair)) {
                    pair.close_for(self.conversation, false);
                }
                return None;
            }
            Question::QueryPair { pair } => members.pair(QpNumber(pair)).map_or(Answer::No, |pair| {
                let attributes = pair.try_attributes();
                attributes.map_or(Answer::Later, |attributes| Answer::Attributes((&attributes).into()))
            }),
            Question::ModifyPair { pair, mask, attributes } => {
                let (pair, attributes) = (members.pair(QpNumber(pair)), attributes.attributes());
                let (Some(pair), Some(attributes)) = (pair, attributes) else { return Some(Answer::No) };
                // One after the other.
                if self.modified.as_ref().is_some_and(|done| done.get().is_none()) {
                    return Some(Answer::No);
                }
                self.modified = Some(pair.modify_soon(attributes, AttributeMask(mask)));
                Answer::Later
            }
            Question::IsModified => match self.modified.as_ref().map(|done| done.get()) {
                Some(None) => Answer::Later,
                Some(Some(done)) => Answer::of(*done),
                None => Answer::No,
            },
            Question::Happened { pair, event } => {
                if let Some(kind) = event_of(event) {
                    members.hear(QpNumber(pair), kind);
                }
                return None;
            }
        })
    }

    fn open(&self, members: &Members, pair: QpNumber, block: u32) -> bool {
        let Some(pair) = members.pair(pair) else { return false };
        let fellow = members.file.as_ref().and_then(|file| file.fellow(block, self.user));
        fellow.is_some_and(|fellow| pair.open_for(Opener { conversation: self.conversation, fellow }))
    }

    /// The conversation is over: whatever was taken for it is the next again, in its order, and nothing is open for it.
    pub(super) fn end(&mut self, members: &Members) {
        members.pairs().iter().for_each(|pair| pair.close_for(self.conversation, true));
        while let Some((_, taken)) = self.taken.pop_last() {
            taken.with_queue(members, SharedReceiveQueue::give_back);
        }
    }

    fn take(&mut self, number: SrqNumber, queue: &SharedReceiveQueue) -> Answer {
        if !queue.zone().context().is_usable() {
            return Answer::No;
        }
        let Some(receive) = queue.take() else { return Answer::No };
        let length = receive.pieces.length();
        self.next += 1;
        self.taken.insert(self.next, Taken { receive, number, queue: queue.weak() });
        Answer::Receive { receive: self.next, length }
    }

    fn give_back(&mut self, members: &Members, receive: u64) {
        if let Some(taken) = self.taken.remove(&receive) {
            taken.with_queue(members, SharedReceiveQueue::give_back);
        }
    }

    fn complete(&mut self, members: &Members, receive: u64, end: &End) {
        let Some(taken) = self.taken.remove(&receive) else { return };
        taken.with_queue(members, |queue, receive| {
            queue.taken_is_over();
            let Some(part) = queue.extended() else { return };
            part.completions.push(SendCredit::NONE, end.is_solicited(), |completion| {
                end.write_to(completion, receive.id);
            });
        });
    }
}

/// What a peer of the other process's queue pair may reach: what it could through a queue pair of this one that no memory window is
/// bound for.
fn access(queue: &SharedReceiveQueue) -> PeerAccess<'_> {
    let zone = queue.zone();
    let memory = &zone.context().engine().party().memory;
    PeerAccess { memory, zone: zone.id(), through: QpNumber(0) }
}

fn change(memory: &PeerAccess<'_>, at: Place, change: AtomicChange) -> Answer {
    match memory.change(at.remote(), change) {
        Ok(old) => Answer::Word(old),
        Err(NotChanged::NoWord) => Answer::NoWord,
        Err(NotChanged::NotAllowed) => Answer::No,
    }
}

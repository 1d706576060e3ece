//! Taking events.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_device::{Completion, QpNumber};

use super::EventDispatcher;
use crate::endpoint::{Ended, Endpoint};
use crate::error::{DatError, DatResult, StateKind, Subtype};
use crate::event::{Event, Kept};

/// The end at which events are taken.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// Completions taken out of the queue.
    taken: u64,
    /// The endpoint of the last completion.
    last: Option<(QpNumber, Arc<Endpoint>)>,
    /// The endpoints that feed the dispatcher.
    endpoints: HashMap<QpNumber, Arc<Endpoint>>,
    /// Completions that were taken too early, oldest first.
    parked: VecDeque<Parked>,
}

/// A completion that goes behind some of the other events.
#[derive(Debug)]
struct Parked {
    completion: Completion,
    /// How many of those that wait go before it.
    before: usize,
}

impl Front {
    /// The endpoint with this queue pair.
    #[inline]
    fn endpoint(&mut self, number: QpNumber) -> Option<&Arc<Endpoint>> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            self.last = Some((number, Arc::clone(self.endpoints.get(&number)?)));
        }
        self.last.as_ref().map(|(_, endpoint)| endpoint)
    }

    /// Whether a success is not to be shown.
    pub(super) fn hides(&self, completion: &Completion) -> bool {
        let endpoint = self.endpoints.get(&completion.qp_number);
        endpoint.is_none_or(|endpoint| endpoint.hides(completion))
    }

    /// Whether a completion is of a request that was posted not to notify.
    pub(super) fn is_silent(&self, completion: &Completion) -> bool {
        let endpoint = self.endpoints.get(&completion.qp_number);
        endpoint.is_some_and(|endpoint| endpoint.is_silent(completion))
    }
}

/// What the front holds next.
enum Next {
    Nothing,
    Completion(Completion),
    Other(Kept),
}

impl EventDispatcher {
    /// Takes the oldest event. `QUEUE_EMPTY` if there is none, `INVALID_STATE` if a thread waits or an event was lost.
    ///
    /// `deliver` is called inside the dispatcher: it must not call back.
    #[inline]
    pub fn dequeue(&self, deliver: impl FnOnce(&Event<'_>)) -> DatResult<()> {
        if self.watch.has_waiter() {
            return Err(DatError::state(Subtype::State(StateKind::EvdWaiter)));
        }
        self.take(deliver)
    }

    /// Takes the oldest event.
    #[inline]
    pub(super) fn take(&self, deliver: impl FnOnce(&Event<'_>)) -> DatResult<()> {
        let mut front = self.front.lock();
        loop {
            match self.next(&mut front)? {
                Next::Nothing => {
                    self.check_alive()?;
                    return Err(DatError::QUEUE_EMPTY);
                }
                Next::Other(event) => {
                    drop(front);
                    deliver(&event.event());
                    return Ok(());
                }
                Next::Completion(completion) => {
                    let Some(endpoint) = front.endpoint(completion.qp_number) else {
                        // Of an endpoint that has gone meanwhile.
                        continue;
                    };
                    if endpoint.is_plain(&completion) {
                        deliver(&endpoint.plain_event(&completion));
                        return Ok(());
                    }
                    let endpoint = Arc::clone(endpoint);
                    drop(front);
                    match endpoint.end_transfer(&completion) {
                        Ended::Shown(ended) => {
                            deliver(&ended.event(&endpoint));
                            return Ok(());
                        }
                        Ended::Hidden => {}
                        Ended::Later => {
                            // Another thread may have parked one, too.
                            front = self.front.lock();
                            let before = self.others().len();
                            self.park(&mut front, completion, before);
                            continue;
                        }
                    }
                    front = self.front.lock();
                }
            }
        }
    }

    /// What comes next, taken out.
    #[inline]
    fn next(&self, front: &mut Front) -> DatResult<Next> {
        if self.others_waiting.load(Ordering::Acquire) > 0 || !front.parked.is_empty() {
            return self.next_merged(front);
        }
        if let Some(completion) = self.next_completion(front)? {
            return Ok(self.in_order(front, completion));
        }
        // Looking for completions drives the device, and that may have brought other events.
        if self.others_waiting.load(Ordering::Acquire) > 0 {
            self.next_merged(front)
        } else {
            Ok(Next::Nothing)
        }
    }

    #[inline]
    fn next_completion(&self, front: &mut Front) -> DatResult<Option<Completion>> {
        if self.has_overflowed() {
            return Err(DatError::state(Subtype::None));
        }
        let Some(queue) = &self.completions else { return Ok(None) };
        let mut found = None;
        if queue.poll(|completion| found = Some(*completion), 1).is_err() {
            return Err(DatError::state(Subtype::None));
        }
        front.taken += u64::from(found.is_some());
        Ok(found)
    }

    /// The same while events of other streams wait.
    #[cold]
    fn next_merged(&self, front: &mut Front) -> DatResult<Next> {
        if self.has_overflowed() {
            return Err(DatError::state(Subtype::None));
        }
        if let Some(before) = front.parked.front().map(|parked| parked.before) {
            let other = if before > 0 { self.take_other(front) } else { None };
            let next = other.or_else(|| {
                let parked = front.parked.pop_front()?;
                Some(Next::Completion(parked.completion))
            });
            self.parked.store(front.parked.len() as u32, Ordering::Release);
            return Ok(next.unwrap_or(Next::Nothing));
        }
        let Some(stamp) = self.others().front().map(|(stamp, _)| *stamp) else {
            let completion = self.next_completion(front)?;
            return Ok(completion.map_or(Next::Nothing, |completion| self.in_order(front, completion)));
        };
        let queue = self.completions.as_ref();
        let gone = queue.map_or(0, |queue| queue.forgotten());
        if front.taken + gone < stamp
            && queue.is_some_and(|queue| queue.waiting() > 0)
            && let Some(completion) = self.next_completion(front)?
        {
            return Ok(Next::Completion(completion));
        }
        Ok(self.take_other(front).unwrap_or(Next::Nothing))
    }

    /// A completion that was taken while no other event was seen. Between that look and the taking one may have come, and the
    /// completion after it.
    #[inline]
    fn in_order(&self, front: &mut Front, completion: Completion) -> Next {
        if self.others_waiting.load(Ordering::Acquire) == 0 {
            return Next::Completion(completion);
        }
        self.behind_those_before(front, completion)
    }

    #[cold]
    fn behind_those_before(&self, front: &mut Front, completion: Completion) -> Next {
        let gone = self.completions.as_ref().map_or(0, |queue| queue.forgotten());
        // How many completions were there before this one.
        let place = front.taken + gone - 1;
        let before = self.others().iter().take_while(|(stamp, _)| *stamp <= place).count();
        let Some(other) = (before > 0).then(|| self.take_other(front)).flatten() else {
            return Next::Completion(completion);
        };
        self.park(front, completion, before - 1);
        other
    }

    fn take_other(&self, front: &mut Front) -> Option<Next> {
        let mut others = self.others();
        let (_, event) = others.pop_front()?;
        self.others_waiting.store(others.len() as u32, Ordering::Release);
        for parked in &mut front.parked {
            parked.before = parked.before.saturating_sub(1);
        }
        Some(Next::Other(event))
    }

    /// Keeps a completion that was taken too early.
    fn park(&self, front: &mut Front, completion: Completion, before: usize) {
        front.parked.push_back(Parked { completion, before });
        self.parked.store(front.parked.len() as u32, Ordering::Release);
    }

    /// Completions of this queue pair are the endpoint's from now on.
    pub(crate) fn add_endpoint(&self, number: QpNumber, endpoint: &Arc<Endpoint>) {
        self.front.lock().endpoints.insert(number, Arc::clone(endpoint));
    }

    /// The queue pair goes.
    pub(crate) fn remove_endpoint(&self, number: QpNumber) {
        let mut front = self.front.lock();
        let gone = front.endpoints.remove(&number);
        let last = front.last.take_if(|(last, _)| *last == number);
        front.parked.retain(|parked| parked.completion.qp_number != number);
        self.parked.store(front.parked.len() as u32, Ordering::Release);
        drop(front);
        // The last trace of an object is not dropped under the lock.
        drop((gone, last));
    }
}

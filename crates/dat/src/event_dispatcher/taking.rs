//! Taking events.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nonic_device::{Completion, QpNumber};
use nonic_sys::BiasedGuard;

use super::EventDispatcher;
use crate::endpoint::Endpoint;
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
    /// Completions that were taken out and have to be looked at more closely, each with the count of those before it.
    parked: VecDeque<(u64, Completion)>,
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
        !self.endpoints.contains_key(&completion.qp_number) || Endpoint::hides(completion)
    }

    /// Whether a completion is of a request that was posted not to notify.
    pub(super) fn is_silent(&self, completion: &Completion) -> bool {
        let endpoint = self.endpoints.get(&completion.qp_number);
        endpoint.is_some_and(|endpoint| endpoint.is_silent(completion))
    }
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
        let Some(queue) = &self.completions else { return self.take_closely(front, deliver) };
        if !front.parked.is_empty() || self.has_overflowed() {
            return self.take_closely(front, deliver);
        }
        let mut deliver = Some(deliver);
        let mut unusual = None;
        let polled = queue.poll(
            |completion| {
                // The state is read before it is looked whether other events wait: ESTABLISHED is among those before the state
                // is CONNECTED.
                if let Some(endpoint) = front.endpoint(completion.qp_number)
                    && let Some(event) = endpoint.plain_event(completion)
                    && self.others_waiting.load(Ordering::Acquire) == 0
                    && let Some(deliver) = deliver.take()
                {
                    endpoint.plain_is_shown(completion);
                    deliver(&event);
                } else {
                    unusual = Some(*completion);
                }
            },
            1,
        );
        front.taken += u64::from(matches!(polled, Ok(1)));
        let Some(deliver) = deliver else { return Ok(()) };
        if let Some(completion) = unusual {
            self.park(&mut front, completion);
        } else if polled == Ok(0) && self.others_waiting.load(Ordering::Acquire) == 0 && !self.is_ended() {
            return Err(DatError::QUEUE_EMPTY);
        }
        self.take_closely(front, deliver)
    }

    /// The next completion, out of its queue.
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

    fn park(&self, front: &mut Front, completion: Completion) {
        let gone = self.completions.as_ref().map_or(0, |queue| queue.forgotten());
        front.parked.push_back((front.taken - 1 + gone, completion));
        self.parked.store(front.parked.len() as u32, Ordering::Release);
    }

    /// Takes what is oldest among parked completions and other events.
    #[cold]
    fn take_closely<'a>(
        &'a self,
        mut front: BiasedGuard<'a, Front>,
        deliver: impl FnOnce(&Event<'_>),
    ) -> DatResult<()> {
        loop {
            if self.has_overflowed() {
                return Err(DatError::state(Subtype::None));
            }
            if front.parked.is_empty()
                && let Some(completion) = self.next_completion(&mut front)?
            {
                self.park(&mut front, completion);
            }
            let Some((before, completion)) = front.parked.front().copied() else {
                let Some(event) = self.take_other(u64::MAX) else { break };
                drop(front);
                deliver(&event.event());
                return Ok(());
            };
            let endpoint = front.endpoint(completion.qp_number).cloned();
            // It is established before it is looked whether that event comes first.
            if let Some(endpoint) = &endpoint
                && endpoint.establishes(&completion)
            {
                drop(front);
                endpoint.establish();
                front = self.front.lock();
                continue;
            }
            if let Some(event) = self.take_other(before) {
                drop(front);
                deliver(&event.event());
                return Ok(());
            }
            front.parked.pop_front();
            self.parked.store(front.parked.len() as u32, Ordering::Release);
            // Without an endpoint it is of one that has gone meanwhile.
            if let Some(endpoint) = endpoint {
                drop(front);
                if let Some(shown) = endpoint.end_transfer(&completion) {
                    deliver(&shown.event(&endpoint));
                    return Ok(());
                }
                front = self.front.lock();
            }
        }
        drop(front);
        self.check_alive()?;
        Err(DatError::QUEUE_EMPTY)
    }

    /// Takes completions that are not to be shown, as long as they are the oldest, so that they take up no room.
    pub(crate) fn take_hidden(&self) {
        let Some(queue) = &self.completions else { return };
        loop {
            let mut front = self.front.lock();
            if !front.parked.is_empty() {
                return;
            }
            let Some(completion) = queue.take_if(Endpoint::hides) else { return };
            front.taken += 1;
            let endpoint = front.endpoint(completion.qp_number).cloned();
            drop(front);
            if let Some(endpoint) = endpoint {
                endpoint.end_transfer(&completion);
            }
        }
    }

    /// The oldest of the other events, if it goes before a completion that has this many before it.
    fn take_other(&self, before: u64) -> Option<Kept> {
        let mut others = self.others();
        if others.front()?.0 > before {
            return None;
        }
        let (_, event) = others.pop_front()?;
        if !others.is_empty() {
            self.number_others();
        }
        self.others_waiting.store(others.len() as u32, Ordering::Release);
        Some(event)
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
        self.drop_parked(&mut front, number);
        drop(front);
        // The last trace of an object is not dropped under the lock.
        drop((gone, last));
    }

    /// The queue pair was reset.
    pub(crate) fn forget_completions(&self, number: QpNumber) {
        self.drop_parked(&mut self.front.lock(), number);
    }

    fn drop_parked(&self, front: &mut Front, number: QpNumber) {
        front.parked.retain(|(_, completion)| completion.qp_number != number);
        self.parked.store(front.parked.len() as u32, Ordering::Release);
    }
}

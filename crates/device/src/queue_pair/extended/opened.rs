//! Queue pairs of a domain that several have open (`ibv_open_qp(3)`): each may move it on and is told its events, and it ends with
//! the last of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nonic_protocol::QpNumber;

use super::target::Target;
use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::context::Context;
use crate::engine::lock;
use crate::error::CreateError;
use crate::events::EventAccount;
use crate::queue_pair::QueuePair;
use crate::shared_receive_queue::ExtendedDomain;

/// Who has a queue pair open.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    /// Whoever created it has destroyed it.
    creator_left: bool,
    /// Those who opened it.
    opened: Vec<Arc<OpenedQueuePair>>,
}

/// A queue pair as somebody has it who did not create it.
#[derive(Debug)]
pub struct OpenedQueuePair {
    pair: Arc<QueuePair>,
    domain: Arc<ExtendedDomain>,
    cookie: usize,
    async_events: EventAccount,
    closed: AtomicBool,
}

impl ExtendedDomain {
    /// Opens a queue pair of the domain that somebody in this process created. `cookie` is the face's mark.
    pub fn open_queue_pair(
        self: &Arc<Self>,
        number: QpNumber,
        cookie: usize,
    ) -> Result<Arc<OpenedQueuePair>, CreateError> {
        self.context().check_current()?;
        let nobody =
            CreateError::Invalid { what: "the number of a queue pair that is not in this XRC domain" };
        let Some(pair) = self.context().engine().find_pair(number) else { return Err(nobody) };
        let in_domain = |target: &&Target| Arc::ptr_eq(target.domain.members(), self.members());
        let Some(target) = pair.target().filter(in_domain) else { return Err(nobody) };
        if !self.users.acquire() {
            return Err(CreateError::Closed);
        }
        let opened = Arc::new(OpenedQueuePair {
            pair: Arc::clone(&pair),
            domain: Arc::clone(self),
            cookie,
            async_events: EventAccount::default(),
            closed: AtomicBool::new(false),
        });
        let mut openings = lock(&target.openings);
        if openings.creator_left && openings.opened.is_empty() {
            // The last one is leaving at this moment.
            self.users.release();
            return Err(nobody);
        }
        openings.opened.push(Arc::clone(&opened));
        Ok(opened)
    }
}

impl OpenedQueuePair {
    /// The queue pair.
    pub fn pair(&self) -> &Arc<QueuePair> {
        &self.pair
    }

    /// The face's mark.
    pub fn cookie(&self) -> usize {
        self.cookie
    }

    pub(crate) fn async_account(&self) -> &EventAccount {
        &self.async_events
    }

    /// Acknowledges an asynchronous event.
    pub fn acknowledge_async_event(&self) {
        self.async_events.acknowledge(1);
    }

    /// Closes it; the last one destroys the queue pair. Blocks until every asynchronous event got from it was acknowledged.
    pub fn close(&self) {
        if self.close_now() {
            self.async_events.wait_for_all();
        }
    }

    /// The same without waiting for acknowledgements; false if it was closed before.
    fn close_now(&self) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        let Some(target) = self.pair.target() else { return true };
        let mut openings = lock(&target.openings);
        openings.opened.retain(|opened| !std::ptr::eq(Arc::as_ptr(opened), self));
        let is_last = openings.creator_left && openings.opened.is_empty();
        drop(openings);
        self.domain.context().forget_events(|element| {
            matches!(element, AsyncElement::OpenedQueuePair(opened) if std::ptr::eq(Arc::as_ptr(opened), self))
        });
        if is_last {
            self.pair.destroy_now();
        }
        self.domain.users.release();
        true
    }
}

impl QueuePair {
    /// Whoever created it is done with it; whether it is to be destroyed, since nobody else has it open. `None`: that was said
    /// before.
    pub(crate) fn creator_leaves(&self) -> Option<bool> {
        let Some(target) = self.target() else { return Some(true) };
        let mut openings = lock(&target.openings);
        if std::mem::replace(&mut openings.creator_left, true) {
            return None;
        }
        let is_last = openings.opened.is_empty();
        drop(openings);
        self.forget_own_events();
        target.domain.users.release();
        Some(is_last)
    }

    /// A context that may have it open closes.
    pub(crate) fn lose_context(&self, context: &Context) {
        let is = |other: &Arc<Context>| std::ptr::eq(Arc::as_ptr(other), context);
        if let Some(target) = self.target() {
            let opened = lock(&target.openings).opened.clone();
            opened.iter().filter(|opened| is(opened.domain.context())).for_each(|opened| {
                opened.close_now();
            });
        }
        if is(self.context()) && self.creator_leaves() == Some(true) {
            self.destroy_now();
        }
    }

    /// Its device has failed, for all who have it open.
    pub(crate) fn lose_device(&self) {
        if let Some(target) = self.target() {
            let opened = lock(&target.openings).opened.clone();
            opened.iter().for_each(|opened| {
                opened.close_now();
            });
        }
        if self.creator_leaves() == Some(true) {
            self.destroy_now();
        }
    }

    /// Tells all who have it open of an event; whether its creator is among them.
    pub(crate) fn tell_openers(&self, kind: AsyncEventKind) -> bool {
        let Some(target) = self.target() else { return true };
        let openings = lock(&target.openings);
        for opened in &openings.opened {
            let element = AsyncElement::OpenedQueuePair(Arc::clone(opened));
            opened.domain.context().raise(kind, element);
        }
        !openings.creator_left
    }
}

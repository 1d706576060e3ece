//! Queue pairs of a domain that several have open (`ibv_open_qp(3)`): each may move it on and is told its events, and it ends with
//! the last of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nonic_protocol::{AttributeMask, QpAttributes, QpNumber};

use super::target::Target;
use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::context::Context;
use crate::engine::lock;
use crate::error::{CreateError, ModifyError};
use crate::events::EventAccount;
use crate::queue_pair::QueuePair;
use crate::shared_receive_queue::{ExtendedDomain, ForeignPair, HearsOfPair, Opener};

/// Who has a queue pair open.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    /// Whoever created it has destroyed it.
    creator_left: bool,
    /// Those who opened it.
    opened: Vec<Arc<OpenedQueuePair>>,
    /// Those of other processes.
    elsewhere: Vec<Opener>,
}

impl Openings {
    /// Whether nobody has it any more.
    fn are_over(&self) -> bool {
        self.creator_left && self.opened.is_empty() && self.elsewhere.is_empty()
    }

    /// Another process opens it. False: the last one is leaving at this moment.
    pub(super) fn add_elsewhere(&mut self, opener: Opener) -> bool {
        if self.are_over() {
            return false;
        }
        self.elsewhere.push(opener);
        true
    }

    /// A process closes it, or `wholly`, as often as it has it open. Whether that was the last.
    pub(super) fn close_elsewhere(&mut self, conversation: u64, wholly: bool) -> bool {
        let mut closes = true;
        let before = self.elsewhere.len();
        self.elsewhere.retain(|opener| {
            let goes = closes && opener.speaks_in(conversation);
            closes &= wholly || !goes;
            !goes
        });
        self.elsewhere.len() < before && self.are_over()
    }
}

/// A queue pair as somebody has it who did not create it.
#[derive(Debug)]
pub struct OpenedQueuePair {
    this: Weak<Self>,
    pair: Whose,
    domain: Arc<ExtendedDomain>,
    cookie: usize,
    async_events: EventAccount,
    closed: AtomicBool,
}

/// Where it is.
#[derive(Debug)]
enum Whose {
    Here(Arc<QueuePair>),
    /// Of another process; until it is closed.
    Elsewhere(Mutex<Option<Arc<ForeignPair>>>, QpNumber),
}

impl ExtendedDomain {
    /// Opens a queue pair of the domain that somebody created who has the domain open, here or in another process. `cookie` is the
    /// face's mark.
    pub fn open_queue_pair(
        self: &Arc<Self>,
        number: QpNumber,
        cookie: usize,
    ) -> Result<Arc<OpenedQueuePair>, CreateError> {
        self.context().check_current()?;
        let nobody =
            CreateError::Invalid { what: "the number of a queue pair that is not in this XRC domain" };
        let Some(pair) = self.context().engine().find_pair(number) else {
            return self.open_elsewhere(number, cookie).ok_or(nobody);
        };
        let in_domain = |target: &&Target| Arc::ptr_eq(target.domain.members(), self.members());
        let Some(target) = pair.target().filter(in_domain) else { return Err(nobody) };
        if !self.users.acquire() {
            return Err(CreateError::Closed);
        }
        let opened = self.opened(Whose::Here(Arc::clone(&pair)), cookie);
        let mut openings = lock(&target.openings);
        if openings.are_over() {
            // The last one is leaving at this moment.
            self.users.release();
            return Err(nobody);
        }
        openings.opened.push(Arc::clone(&opened));
        Ok(opened)
    }

    fn open_elsewhere(self: &Arc<Self>, number: QpNumber, cookie: usize) -> Option<Arc<OpenedQueuePair>> {
        let pair = Arc::new(self.members().open_foreign_pair(number, self.context().engine())?);
        if !self.users.acquire() {
            return None;
        }
        let opened = self.opened(Whose::Elsewhere(Mutex::new(Some(Arc::clone(&pair))), number), cookie);
        let hears: Weak<OpenedQueuePair> = Arc::downgrade(&opened);
        pair.tell(hears);
        Some(opened)
    }

    fn opened(self: &Arc<Self>, pair: Whose, cookie: usize) -> Arc<OpenedQueuePair> {
        Arc::new_cyclic(|this| OpenedQueuePair {
            this: Weak::clone(this),
            pair,
            domain: Arc::clone(self),
            cookie,
            async_events: EventAccount::default(),
            closed: AtomicBool::new(false),
        })
    }
}

impl OpenedQueuePair {
    /// The queue pair, if this process has it.
    pub fn pair(&self) -> Option<&Arc<QueuePair>> {
        match &self.pair {
            Whose::Here(pair) => Some(pair),
            Whose::Elsewhere(..) => None,
        }
    }

    /// Its number.
    pub fn number(&self) -> QpNumber {
        match &self.pair {
            Whose::Here(pair) => pair.number(),
            Whose::Elsewhere(_, number) => *number,
        }
    }

    fn foreign(&self) -> Result<Arc<ForeignPair>, ModifyError> {
        self.domain.context().check_current().map_err(|_| ModifyError::Gone)?;
        match &self.pair {
            Whose::Elsewhere(pair, _) => lock(pair).clone().ok_or(ModifyError::Destroyed),
            Whose::Here(_) => Err(ModifyError::Destroyed),
        }
    }

    /// Everything that was set. An error if it is another process's, which has ended or does not answer.
    pub fn attributes(&self) -> Result<QpAttributes, ModifyError> {
        match &self.pair {
            Whose::Here(pair) => Ok(pair.attributes()),
            Whose::Elsewhere(..) => self.foreign()?.attributes().ok_or(ModifyError::Gone),
        }
    }

    /// Changes state and attributes, as [`QueuePair::modify`].
    pub fn modify(&self, attributes: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
        match &self.pair {
            Whose::Here(pair) => pair.modify(attributes, mask),
            Whose::Elsewhere(..) => self.foreign()?.modify(attributes, mask),
        }
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
        let is_last = self.pair().and_then(|pair| pair.target()).is_some_and(|target| {
            let mut openings = lock(&target.openings);
            openings.opened.retain(|opened| !std::ptr::eq(Arc::as_ptr(opened), self));
            openings.are_over()
        });
        self.domain.context().forget_events(|element| {
            matches!(element, AsyncElement::OpenedQueuePair(opened) if std::ptr::eq(Arc::as_ptr(opened), self))
        });
        match &self.pair {
            Whose::Here(pair) if is_last => {
                pair.destroy_now();
            }
            Whose::Here(_) => {}
            Whose::Elsewhere(pair, _) => {
                let closed = lock(pair).take();
                drop(closed);
            }
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
        let is_last = openings.are_over();
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
            let mut openings = lock(&target.openings);
            openings.elsewhere.clear();
            let opened = openings.opened.clone();
            drop(openings);
            opened.iter().for_each(|opened| {
                opened.close_now();
            });
        }
        // Its creator may have left before, and others have kept it.
        let are_over = |target: &Target| lock(&target.openings).are_over();
        if self.creator_leaves().unwrap_or_else(|| self.target().is_some_and(are_over)) {
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
        let (elsewhere, creator_left) = (openings.elsewhere.clone(), openings.creator_left);
        // Without the lock, which whoever answers other processes wants: to be told they may have to answer first.
        drop(openings);
        elsewhere.iter().for_each(|opener| opener.tell(self.number, kind));
        !creator_left
    }
}

impl HearsOfPair for OpenedQueuePair {
    fn number(&self) -> QpNumber {
        OpenedQueuePair::number(self)
    }

    fn happened(&self, kind: AsyncEventKind) {
        if !self.closed.load(Ordering::Acquire)
            && let Some(this) = self.this.upgrade()
        {
            self.domain.context().raise(kind, AsyncElement::OpenedQueuePair(this));
        }
    }

    fn lose_context(&self, context: Option<&Context>) {
        let own = Arc::as_ptr(self.domain.context());
        if context.is_none_or(|context| std::ptr::eq(own, context)) {
            self.close_now();
        }
    }
}

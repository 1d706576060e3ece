//! A connected queue pair, with its completions sorted into ends of requests and arrivals.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::exchange::Exchange;
use super::failure::{Deadline, Failure, Outcome, Spinner, ensure};
use crate::verbs::{Address, Completion, Operation, Piece, QueuePair, REQUESTS_MAX, Session};

/// Marks the completion of a receive.
const ARRIVAL: u64 = 1 << 63;

/// One end of a connection. It is the only user of its session's completion queue.
pub(crate) struct Endpoint {
    session: Rc<Session>,
    queue_pair: QueuePair,
    outstanding: u32,
    last: Option<Completion>,
    arrivals: VecDeque<Completion>,
}

impl Endpoint {
    /// Connects to whoever does the same at the other end of the exchange.
    pub(crate) fn connect(session: &Rc<Session>, exchange: &mut Exchange) -> Outcome<Self> {
        let endpoint = Self::create(session)?;
        let peer = exchange.swap(&endpoint.queue_pair.address()?)?;
        endpoint.queue_pair.connect(&peer)?;
        exchange.meet()?; // Neither sends before the other is ready to receive.
        Ok(endpoint)
    }

    /// Of a queue pair that somebody else connects, the one that completes to that session's queue.
    pub(crate) fn over(session: &Rc<Session>, queue_pair: QueuePair) -> Self {
        Self {
            session: Rc::clone(session),
            queue_pair,
            outstanding: 0,
            last: None,
            arrivals: VecDeque::new(),
        }
    }

    /// Two ends of one connection in this process.
    pub(crate) fn pair(left: &Rc<Session>, right: &Rc<Session>) -> Outcome<(Self, Self)> {
        let (left, right) = (Self::create(left)?, Self::create(right)?);
        let addresses: (Address, Address) = (left.queue_pair.address()?, right.queue_pair.address()?);
        left.queue_pair.connect(&addresses.1)?;
        right.queue_pair.connect(&addresses.0)?;
        Ok((left, right))
    }

    fn create(session: &Rc<Session>) -> Outcome<Self> {
        Ok(Self::over(session, QueuePair::create(session)?))
    }

    /// Number of its queue pair.
    pub(crate) fn number(&self) -> u32 {
        self.queue_pair.number()
    }

    /// Starts a request, after waiting for room if all that may be are outstanding.
    pub(crate) fn start(&mut self, operation: Operation, piece: Piece<'_>) -> Outcome<()> {
        self.start_with(operation, piece, false)
    }

    /// Starts a request whose few bytes travel in the request itself.
    pub(crate) fn start_inline(&mut self, operation: Operation, piece: Piece<'_>) -> Outcome<()> {
        self.start_with(operation, piece, true)
    }

    fn start_with(&mut self, operation: Operation, piece: Piece<'_>, inline: bool) -> Outcome<()> {
        self.wait_below(REQUESTS_MAX)?;
        self.queue_pair.post(0, operation, piece, inline)?;
        self.outstanding += 1;
        Ok(())
    }

    /// Performs a request from beginning to end.
    pub(crate) fn perform(&mut self, operation: Operation, piece: Piece<'_>) -> Outcome<()> {
        self.start(operation, piece)?;
        self.finish()
    }

    /// Performs a request and returns its status, whatever it is. Nothing else may be outstanding.
    pub(crate) fn attempt(&mut self, operation: Operation, piece: Piece<'_>) -> Outcome<u32> {
        self.finish()?;
        self.queue_pair.post(0, operation, piece, false)?;
        self.outstanding = 1;
        let mut spinner = Spinner::new("the end of a request");
        while self.outstanding > 0 {
            if !self.take_any_status()? {
                spinner.turn()?;
            }
        }
        let completion =
            self.last.take().ok_or_else(|| Failure::new("a request ended without a completion"))?;
        Ok(completion.status)
    }

    /// Waits until every request has ended, and well.
    pub(crate) fn finish(&mut self) -> Outcome<()> {
        self.wait_below(1)
    }

    /// Waits until every request has ended, at most that long; whether they have.
    pub(crate) fn finish_within(&mut self, patience: Duration) -> Outcome<bool> {
        let deadline = Deadline::after(patience);
        while self.outstanding > 0 && deadline.remaining().is_some() {
            self.take()?;
        }
        Ok(self.outstanding == 0)
    }

    /// Waits until fewer than `limit` requests are outstanding.
    pub(crate) fn wait_below(&mut self, limit: u32) -> Outcome<()> {
        let mut spinner = Spinner::new("the end of a request");
        while self.outstanding >= limit {
            if !self.take()? {
                spinner.turn()?;
            }
        }
        Ok(())
    }

    /// Posts a receive.
    pub(crate) fn post_receive(&mut self, piece: Piece<'_>) -> Outcome<()> {
        Ok(self.queue_pair.post_receive(ARRIVAL, piece)?)
    }

    /// Waits for the next arrival.
    pub(crate) fn receive(&mut self) -> Outcome<Completion> {
        let mut spinner = Spinner::new("a message");
        loop {
            if let Some(arrival) = self.arrivals.pop_front() {
                return Ok(arrival);
            }
            if !self.take()? {
                spinner.turn()?;
            }
        }
    }

    /// Takes the completions that are there.
    pub(crate) fn progress(&mut self) -> Outcome<()> {
        while self.take()? {}
        Ok(())
    }

    /// Takes one completion, if there is one, which must be a success.
    fn take(&mut self) -> Outcome<bool> {
        let taken = self.take_any_status()?;
        let status = self.last.take().map_or(0, |completion| completion.status);
        ensure(status == 0, || {
            format!("a request ended with \"{}\"", self.session.library.status_words(status))
        })?;
        Ok(taken)
    }

    fn take_any_status(&mut self) -> Outcome<bool> {
        let Some(completion) = self.session.poll()? else { return Ok(false) };
        if completion.id == ARRIVAL && completion.status == 0 {
            self.arrivals.push_back(completion);
        } else {
            self.outstanding = self.outstanding.saturating_sub(u32::from(completion.id != ARRIVAL));
            self.last = Some(completion);
        }
        Ok(true)
    }
}

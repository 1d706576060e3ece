//! Sending what is owed to the peer: data in order, then the acknowledgement or refusal (IBTA vol. 1, 9.7.5).

use super::Connection;
use crate::message::{Answer, BaseHeader, Body, Extent, Message};
use crate::number::{Psn, RemoteRange};
use crate::responder::{AffiliatedError, OwedRefusal, Response};
use crate::surroundings::{ReadPushed, Surroundings};
use crate::timer::Moment;

/// The memory that an answer is read from is there no more.
struct Gone;

impl<P, T: Moment> Connection<P, T> {
    /// Sends what is owed.
    pub fn answer<S: Surroundings<P, T>>(&mut self, around: &mut S) {
        if self.push_owed(around)
            && let Some(path) = &self.path
        {
            around.call_peer(path);
        }
    }

    /// Gives what is owed to the carrier, as far as there is room; whether the peer is to be called to it.
    pub(super) fn push_owed<S: Surroundings<P, T>>(&mut self, around: &mut S) -> bool {
        if !self.responder.owes() {
            return false;
        }
        // Taken out meanwhile, so that its counts need not change; then put back.
        let Some(path) = self.path.take() else { return false };
        let sent = self.push_responses(around, &path);
        if sent.is_err() {
            // The region went while it was being read.
            self.responder.cannot_respond();
        }
        if matches!(sent, Ok(false)) || !self.push_verdict(around, &path) {
            around.await_room(&path);
        }
        self.path = Some(path);
        if sent.is_err() {
            self.end_refused(around, Some(AffiliatedError::AccessViolation));
        }
        true
    }

    /// Sends answers with data in their order; whether all of them. An error: the first that is left can no longer be given.
    fn push_responses<S: Surroundings<P, T>>(&mut self, around: &mut S, path: &P) -> Result<bool, Gone> {
        while let Some(response) = self.responder.first_response().copied() {
            let sent = match response {
                Response::Atomic { psn, attempt, old } => {
                    self.push_answer(around, path, psn, attempt, Answer::AtomicResponse { old })
                }
                Response::Read { .. } => self.push_read(around, path, response)?,
            };
            if !sent {
                return Ok(false);
            }
            self.responder.has_responded();
        }
        Ok(true)
    }

    /// Sends the bytes of a read; whether all of them.
    fn push_read<S: Surroundings<P, T>>(
        &mut self,
        around: &mut S,
        path: &P,
        response: Response,
    ) -> Result<bool, Gone> {
        let Response::Read { psn, attempt, queue, remote, total, mut sent } = response else {
            return Ok(true);
        };
        loop {
            let count = (total - sent).min(S::FRAGMENT);
            let from = RemoteRange { address: remote.address.wrapping_add(sent.into()), key: remote.key };
            let answer = Answer::ReadResponse(Extent { total, offset: sent });
            let message = self.answer_message(around, psn, attempt, answer);
            match around.push_read(path, &message, queue, from, count) {
                ReadPushed::Pushed => sent += count,
                ReadPushed::Gone => return Err(Gone),
                ReadPushed::NoRoom => {
                    if let Some(first) = self.responder.first_response() {
                        *first = Response::Read { psn, attempt, queue, remote, total, sent };
                    }
                    return Ok(false);
                }
            }
            if sent == total {
                return Ok(true);
            }
        }
    }

    /// Sends the word that requests are taken, the acknowledgement and the refusal, if they are owed; whether there was room for them.
    fn push_verdict<S: Surroundings<P, T>>(&mut self, around: &mut S, path: &P) -> bool {
        if self.responder.owes_readiness() {
            if !self.push_answer(around, path, self.responder.expected(), 0, Answer::Ready) {
                return false;
            }
            self.responder.has_said_ready();
        }
        if let Some(psn) = self.responder.acknowledge() {
            if !self.push_answer(around, path, psn, 0, Answer::Acknowledge) {
                return false;
            }
            self.responder.has_acknowledged();
        }
        if let Some(OwedRefusal { psn, attempt, refusal }) = self.responder.owed_refusal() {
            if !self.push_answer(around, path, psn, attempt, Answer::Refuse(refusal)) {
                return false;
            }
            self.responder.has_refused();
        }
        true
    }

    fn push_answer<S: Surroundings<P, T>>(
        &self,
        around: &mut S,
        path: &P,
        psn: Psn,
        attempt: u8,
        answer: Answer,
    ) -> bool {
        let message = self.answer_message(around, psn, attempt, answer);
        around.push(path, &message)
    }

    fn answer_message<S: Surroundings<P, T>>(
        &self,
        around: &S,
        psn: Psn,
        attempt: u8,
        answer: Answer,
    ) -> Message {
        let destination = self.attributes.destination_qp;
        let base = BaseHeader::new(destination, around.number(), psn, attempt);
        Message { base, body: Body::Answer(answer) }
    }
}

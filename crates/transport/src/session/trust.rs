//! Whether the peer is trusted: it has proved that the kernel lets it at this process, or people said that it may.

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use nonic_trust::{Answer, Challenge, Question, TrustedUsers, answer};

use super::Session;
use crate::link_record::{Answered, Standing};

impl Session {
    /// Whether the peer has proved that it could reach this process's memory anyway, or people said that it may.
    #[inline]
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted.load(Ordering::SeqCst)
    }

    /// What the peer is to answer; nothing if its user is trusted by name.
    pub(crate) fn ask(&self, by_name: &TrustedUsers) -> Option<Question> {
        if by_name.contain(self.credentials.uid) {
            self.trust(Standing::Named);
            return None;
        }
        let challenge = Challenge::new(self.credentials);
        let question = challenge.question();
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(challenge);
        Some(question)
    }

    /// Answers what the peer asked, if the kernel lets this process.
    pub(crate) fn reply(&self, question: Option<Question>) -> Option<Answer> {
        let (question, far) = question.zip(self.far.as_ref())?;
        let answered = answer(&question, &far.peer);
        let pid = self.credentials.pid;
        match &answered {
            Ok((_, route)) => tracing::debug!(pid, ?route, "a peer was shown that it can be reached"),
            Err(silence) => tracing::debug!(pid, %silence, "a peer cannot be shown that it can be reached"),
        }
        self.note(|facts| facts.answered = Answered::from(&answered));
        answered.ok().map(|(answer, _)| answer)
    }

    /// Takes the peer's answer. There is one, and a wrong one is a lie.
    pub(crate) fn take_answer(&self, answer: &Answer) -> io::Result<()> {
        let challenge = self.challenge.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !challenge.is_some_and(|challenge| challenge.is_answered_by(answer)) {
            return Err(io::Error::other("an answer that is none"));
        }
        self.trust(Standing::Proved);
        Ok(())
    }

    fn trust(&self, standing: Standing) {
        self.trusted.store(true, Ordering::SeqCst);
        self.note(|facts| facts.standing = standing);
    }

    /// Whether the peer is to be shown this process's memory now: it is trusted, and has not been. From now on it counts as
    /// shown.
    pub(crate) fn begin_to_show(&self) -> bool {
        self.is_trusted() && !self.shown.swap(true, Ordering::SeqCst)
    }

    /// Whether the peer may have been shown this process's memory.
    pub(crate) fn has_shown(&self) -> bool {
        self.shown.load(Ordering::SeqCst)
    }
}

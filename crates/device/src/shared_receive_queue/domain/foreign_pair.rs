//! A queue pair of the domain that another process has, and this one has opened.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_protocol::{AttributeMask, QpAttributes, QpNumber};
use nonic_sys::nap;
use nonic_transport::BLOCK_SIZE;

use super::fellow::Fellow;
use super::members::{HearsOfPair, Members};
use super::words::{Answer, Question};
use crate::engine::Engine;
use crate::error::ModifyError;

/// How long the other process may take to change it, or to be done with what keeps it from saying what it is.
const PATIENCE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_micros(50);

/// The queue pair. It is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct ForeignPair {
    fellow: Arc<Fellow>,
    members: Arc<Members>,
    number: QpNumber,
}

impl Members {
    /// Opens a queue pair that another process has.
    pub(crate) fn open_foreign_pair(
        self: &Arc<Self>,
        number: QpNumber,
        engine: &Engine,
    ) -> Option<ForeignPair> {
        let file = self.file.as_ref()?;
        let fellow = file.fellow(number.0 / BLOCK_SIZE, engine.own_user())?;
        let question = Question::OpenPair { pair: number.0, block: file.block() };
        let is_open = fellow.confirms(&question);
        is_open.then(|| ForeignPair { fellow, members: Arc::clone(self), number })
    }
}

impl ForeignPair {
    /// Has what happens to it told.
    pub(crate) fn tell(&self, whom: Weak<dyn HearsOfPair>) {
        self.members.add_hearer(whom);
    }

    /// What was set; `None` if its process is gone, or does not answer.
    pub(crate) fn attributes(&self) -> Option<QpAttributes> {
        match self.ask_on(&Question::QueryPair { pair: self.number.0 })? {
            Answer::Attributes(attributes) => attributes.attributes(),
            _ => None,
        }
    }

    /// Changes it. Why that is refused the other process knows.
    pub(crate) fn modify(&self, attributes: &QpAttributes, mask: AttributeMask) -> Result<(), ModifyError> {
        let question =
            Question::ModifyPair { pair: self.number.0, mask: mask.0, attributes: attributes.into() };
        let begun = self.fellow.ask(&question).ok_or(ModifyError::Gone)?;
        let answer = match begun {
            Answer::Later => self.ask_on(&Question::IsModified).ok_or(ModifyError::Gone)?,
            other => other,
        };
        match answer {
            Answer::Yes => Ok(()),
            _ => Err(ModifyError::Elsewhere),
        }
    }

    /// Asks until there is an answer.
    fn ask_on(&self, question: &Question) -> Option<Answer> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.fellow.ask(question)? {
                Answer::Later if Instant::now() < until => {
                    nap(PAUSE);
                }
                Answer::Later => return None,
                answer => return Some(answer),
            }
        }
    }
}

impl Drop for ForeignPair {
    fn drop(&mut self) {
        self.fellow.tell(&Question::ClosePair { pair: self.number.0 });
    }
}

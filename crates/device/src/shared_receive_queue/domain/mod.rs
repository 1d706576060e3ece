//! Domains of extended reliable connections: which shared receive queues the peers of their queue pairs may name (IBTA vol. 1,
//! annex A14).

mod door;
mod fellow;
mod file;
mod foreign_pair;
mod members;
mod pair_words;
mod service;
#[cfg(test)]
mod tests;
mod words;

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use nonic_protocol::SrqNumber;
use nonic_sys::{BorrowedFd, UseCount, file_identity};

use super::SharedReceiveQueue;
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::engine::lock;
use crate::error::{Busy, CreateError};
use crate::zone::Zone;
pub(crate) use fellow::{ForeignQueue, Opener};
use file::SharedFile;
pub(crate) use foreign_pair::ForeignPair;
pub(crate) use members::{HearsOfPair, Members, PairOfDomain};

/// The file that a domain is known by, and what is asked of it (`oflags` of `ibv_open_xrcd(3)`).
#[derive(Clone, Copy, Debug)]
pub struct DomainFile<'a> {
    /// Any descriptor of the file.
    pub descriptor: BorrowedFd<'a>,
    /// Make a domain if the file has none (`O_CREAT`).
    pub create: bool,
    /// Refuse if it has one (`O_EXCL`).
    pub exclusive: bool,
}

/// Error returned by [`Context::open_extended_domain`].
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The file has no domain, and none was to be made.
    #[error(
        "no XRC domain is open for this file by a process of this user, and none was to be created (O_CREAT)"
    )]
    NoneThere,
    /// The file has one, and a new one was wanted.
    #[error("an XRC domain is open for this file already (O_EXCL)")]
    Exists,
    /// The descriptor names no file.
    #[error("the descriptor names no file: {0}")]
    File(#[from] io::Error),
    /// As for any object.
    #[error(transparent)]
    Create(#[from] CreateError),
}

/// The domains of an engine.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    /// Those of files, as long as somebody has them open.
    files: Mutex<Vec<Arc<Members>>>,
    next: AtomicU32,
}

impl Domains {
    /// A number for a shared receive queue of a domain that no other process has open, which no queue there `has`; it comes up again
    /// after all others.
    fn free_number(&self, has: impl Fn(SrqNumber) -> bool) -> SrqNumber {
        loop {
            let number = SrqNumber::masked(self.next.fetch_add(1, Ordering::Relaxed));
            if number.0 != 0 && number != SrqNumber::NOBODY && !has(number) {
                return number;
            }
        }
    }
}

impl Domains {
    /// The domain of a file ends with the last that has it open in this process, or that has a queue pair of it open in another.
    pub(crate) fn end_if_over(&self, members: &Arc<Members>) {
        let mut files = lock(&self.files);
        if members.openings.load(Ordering::Relaxed) == 0 && members.pairs().is_empty() {
            files.retain(|known| !Arc::ptr_eq(known, members));
            members.end();
        }
    }

    /// A context closes, or, if none is named, the device has failed: queue pairs of other processes that were opened are closed.
    pub(crate) fn lose_context(&self, context: Option<&Context>) {
        let files = lock(&self.files).clone();
        files.iter().for_each(|members| members.lose_context(context));
    }
}

/// An XRC domain as one context has it open (`ibv_open_xrcd(3)`).
#[derive(Debug)]
pub struct ExtendedDomain {
    /// Of its queue pairs, which have no zone of their own; no memory is registered in it.
    zone: Arc<Zone>,
    /// Of its queue pairs, too; nothing completes there.
    completions: Arc<CompletionQueue>,
    members: Arc<Members>,
    pub(crate) users: UseCount,
}

impl Context {
    /// Opens the XRC domain of a file, or a new one that nobody else can open. All that have the domain of a file open share it: in
    /// this process, and processes of this user in this network namespace.
    pub fn open_extended_domain(
        self: &Arc<Self>,
        file: Option<DomainFile<'_>>,
    ) -> Result<Arc<ExtendedDomain>, DomainError> {
        self.check_current()?;
        let zone = self.allocate_zone()?;
        let completions = self.create_completion_queue(1, 0, None, 0)?;
        let mut files = lock(&self.engine().domains.files);
        let members = match file {
            None => Arc::new(Members::default()),
            Some(file) => {
                let identity = file_identity(file.descriptor)?;
                let known = |members: &&Arc<Members>| {
                    members.file.as_ref().is_some_and(|known| known.identity == identity)
                };
                match files.iter().find(known) {
                    Some(_) if file.exclusive => return Err(DomainError::Exists),
                    Some(members) => Arc::clone(members),
                    None => {
                        let owner = self.engine_owner();
                        let members = Arc::new(Members::of_file(SharedFile::open(&file, owner)?));
                        members.begin(owner.engine())?;
                        files.push(Arc::clone(&members));
                        members
                    }
                }
            }
        };
        members.openings.fetch_add(1, Ordering::Relaxed);
        drop(files);
        Ok(Arc::new(ExtendedDomain { zone, completions, members, users: UseCount::default() }))
    }
}

impl ExtendedDomain {
    /// Its device context.
    pub fn context(&self) -> &Arc<Context> {
        self.zone.context()
    }

    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// What its queue pairs have in place of a zone and of queues of their own.
    pub(crate) fn stand_ins(&self) -> (&Arc<Zone>, &Arc<CompletionQueue>) {
        (&self.zone, &self.completions)
    }

    /// Closes it for this context; refused while queue pairs or shared receive queues that were made or opened through it are
    /// there.
    pub fn close(&self) -> Result<(), Busy> {
        if self.users.is_closed() {
            return Ok(());
        }
        Busy::unless_closed(&self.users, "XRC domain")?;
        self.leave();
        let _ = self.zone.release();
        Ok(())
    }

    fn leave(&self) {
        let domains = &self.context().engine().domains;
        let files = lock(&domains.files);
        self.members.openings.fetch_sub(1, Ordering::Relaxed);
        drop(files);
        domains.end_if_over(&self.members);
    }
}

impl Drop for ExtendedDomain {
    fn drop(&mut self) {
        if self.users.close_anyway() {
            self.leave();
        }
    }
}

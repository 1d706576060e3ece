//! Domains of extended reliable connections: which shared receive queues the peers of their queue pairs may name (IBTA vol. 1,
//! annex A14).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use nonic_protocol::{QpNumber, SrqNumber};
use nonic_sys::{BorrowedFd, FileIdentity, OwnedFd, UseCount, file_identity};

use super::SharedReceiveQueue;
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::engine::lock;
use crate::error::{Busy, CreateError};
use crate::zone::Zone;

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
    #[error("no XRC domain is open for this file in this process, and none was to be created (O_CREAT)")]
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
    /// A number for a shared receive queue; it comes up again after all others.
    pub(super) fn next_number(&self) -> SrqNumber {
        loop {
            let number = SrqNumber::masked(self.next.fetch_add(1, Ordering::Relaxed));
            if number.0 != 0 && number != SrqNumber::NOBODY {
                return number;
            }
        }
    }
}

/// A queue pair that takes its receives from the queues of a domain.
pub(crate) trait TakesFromDomain: Send + Sync + std::fmt::Debug {
    /// Its number.
    fn number(&self) -> QpNumber;
    /// A queue goes: when this returns it takes no receive from there any more, nor completes one that it has taken.
    fn turn_away_from(&self, queue: &Arc<SharedReceiveQueue>);
}

/// What is in a domain, however many have it open.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// The file it is known by, which is open as long as the domain is, so that no other file gets its number.
    file: Option<(FileIdentity, OwnedFd)>,
    /// How many have it open; changes under the lock of the engine's list.
    openings: AtomicU32,
    queues: RwLock<HashMap<SrqNumber, Weak<SharedReceiveQueue>>>,
    /// Its queue pairs that receive.
    pairs: Mutex<Vec<Weak<dyn TakesFromDomain>>>,
}

impl Members {
    pub(crate) fn queue(&self, number: SrqNumber) -> Option<Arc<SharedReceiveQueue>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).get(&number)?.upgrade()
    }

    /// Enters a new queue, which `make` builds from its number.
    pub(crate) fn add_queue(
        &self,
        domains: &Domains,
        make: impl FnOnce(SrqNumber) -> Arc<SharedReceiveQueue>,
    ) -> Arc<SharedReceiveQueue> {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let number = loop {
            let number = domains.next_number();
            if !queues.contains_key(&number) {
                break number;
            }
        };
        let queue = make(number);
        queues.insert(number, Arc::downgrade(&queue));
        queue
    }

    /// A queue goes: when this returns nobody takes receives from it any more, nor completes any.
    pub(crate) fn remove_queue(&self, number: SrqNumber) {
        let removed = self.queues.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        let Some(queue) = removed.as_ref().and_then(Weak::upgrade) else { return };
        let pairs: Vec<_> = lock(&self.pairs).iter().filter_map(Weak::upgrade).collect();
        for pair in pairs {
            pair.turn_away_from(&queue);
        }
    }

    /// Whether messages of its queue pairs may complete there.
    pub(crate) fn completes_to(&self, completions: &Arc<CompletionQueue>) -> bool {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues
            .values()
            .filter_map(Weak::upgrade)
            .any(|queue| queue.extended().is_some_and(|part| Arc::ptr_eq(&part.completions, completions)))
    }

    pub(crate) fn add_pair(&self, pair: Weak<dyn TakesFromDomain>) {
        lock(&self.pairs).push(pair);
    }

    pub(crate) fn remove_pair(&self, number: QpNumber) {
        lock(&self.pairs).retain(|pair| pair.upgrade().is_some_and(|pair| pair.number() != number));
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
    /// Opens the XRC domain of a file, or a new one that nobody else can open. All that have the domain of a file open in this
    /// process share it.
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
                    members.file.as_ref().is_some_and(|(known, _)| *known == identity)
                };
                match files.iter().find(known) {
                    Some(_) if file.exclusive => return Err(DomainError::Exists),
                    Some(members) => Arc::clone(members),
                    None if !file.create => return Err(DomainError::NoneThere),
                    None => {
                        let kept = file.descriptor.try_clone_to_owned()?;
                        let members =
                            Arc::new(Members { file: Some((identity, kept)), ..Members::default() });
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

    /// The domain of a file ends with the last that has it open.
    fn leave(&self) {
        let mut files = lock(&self.context().engine().domains.files);
        if self.members.openings.fetch_sub(1, Ordering::Relaxed) == 1 {
            files.retain(|members| !Arc::ptr_eq(members, &self.members));
        }
    }
}

impl Drop for ExtendedDomain {
    fn drop(&mut self) {
        if self.users.close_anyway() {
            self.leave();
        }
    }
}

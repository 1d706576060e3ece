//! The file that a domain is known by, and the other processes that have it open. Each listens under a name made of the file and of a
//! block of queue-pair numbers that is its own, so that a number leads to whoever gave it out.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_protocol::SrqNumber;
use nonic_sys::{FileIdentity, OwnedFd, PacketSocket, bind_abstract, file_identity, holder_of, nap};
use nonic_transport::{BLOCK_SIZE, BLOCKS, VERSION, held_blocks};

use super::door::Door;
use super::fellow::{Fellow, ForeignQueue};
use super::members::Members;
use super::{DomainError, DomainFile};
use crate::engine::{Engine, EngineOwner, lock};
use crate::error::CreateError;

/// How long others are waited for that want the domain for themselves at the same moment.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

/// The beginning of the names of all that have the domain of this file open.
fn names_of(((major, minor), inode): FileIdentity) -> String {
    format!("nonic.{VERSION}/xrcd/{major:x}.{minor:x}.{inode:x}/")
}

/// The file of a domain.
#[derive(Debug)]
pub(super) struct SharedFile {
    pub(super) identity: FileIdentity,
    /// Open as long as the domain is, so that no other file gets its number.
    _file: OwnedFd,
    block: u32,
    /// Shared receive queues that were numbered.
    numbered: AtomicU32,
    names: String,
    door: Arc<Door>,
    /// Those who were asked for queues, by the blocks that led to them.
    fellows: Mutex<HashMap<u32, Arc<Fellow>>>,
}

impl SharedFile {
    /// For a process that has not got the domain open yet: if it may, by what others have.
    pub(super) fn open(file: &DomainFile<'_>, owner: &EngineOwner) -> Result<Self, DomainError> {
        let identity = file_identity(file.descriptor)?;
        let names = names_of(identity);
        // So that of two who want it for themselves one gets it.
        let _alone = file.exclusive.then(|| bind_alone(&names)).flatten();
        if (file.exclusive || !file.create) && is_open_elsewhere(&names, owner.engine()) {
            if file.exclusive {
                return Err(DomainError::Exists);
            }
        } else if !file.create {
            return Err(DomainError::NoneThere);
        }
        // Of the block's numbers the agent answers for those of queue pairs.
        owner.ensure_agent().map_err(CreateError::from)?;
        let block = owner.engine().any_block()?;
        let door = Door::open(&name(&names, block)).map_err(CreateError::from)?;
        Ok(Self {
            identity,
            _file: file.descriptor.try_clone_to_owned()?,
            block,
            numbered: AtomicU32::new(0),
            names,
            door: Arc::new(door),
            fellows: Mutex::default(),
        })
    }

    /// Answers others from now on.
    pub(super) fn begin(&self, members: Weak<Members>, engine: &Engine) -> io::Result<()> {
        self.door.begin(members, engine.own_user())
    }

    /// Nobody is answered any more.
    pub(super) fn close(&self) {
        self.door.close();
    }

    /// A number of this process's block that no queue `has`, and that none had for as long as possible.
    pub(super) fn free_number(&self, has: impl Fn(SrqNumber) -> bool) -> Result<SrqNumber, CreateError> {
        for _ in 0..BLOCK_SIZE {
            let place = self.numbered.fetch_add(1, Ordering::Relaxed) % BLOCK_SIZE;
            let number = SrqNumber(self.block * BLOCK_SIZE + place);
            if number != SrqNumber::NOBODY && !has(number) {
                return Ok(number);
            }
        }
        let what = "shared receive queues of an XRC domain that is known by a file";
        Err(CreateError::TooMany { what, limit: u64::from(BLOCK_SIZE) })
    }

    /// The queue of another process that has this number.
    pub(super) fn find_queue(&self, number: SrqNumber, user: Option<u32>) -> Option<ForeignQueue> {
        ForeignQueue::find(&self.fellow(number.0 / BLOCK_SIZE, user)?, number)
    }

    /// The block of numbers that leads to this process.
    pub(super) fn block(&self) -> u32 {
        self.block
    }

    /// The other process of this user that a block of numbers leads to.
    pub(super) fn fellow(&self, block: u32, user: Option<u32>) -> Option<Arc<Fellow>> {
        if block == self.block {
            return None;
        }
        let mut fellows = lock(&self.fellows);
        if let Some(known) = fellows.get(&block).filter(|known| !known.has_ended()) {
            return Some(Arc::clone(known));
        }
        fellows.remove(&block);
        let met = Fellow::meet(&name(&self.names, block), user)?;
        fellows.insert(block, Arc::clone(&met));
        Some(met)
    }
}

/// The name of whoever gave out this number.
#[cfg(test)]
pub(super) fn name_in_domain(file: FileIdentity, number: SrqNumber) -> String {
    name(&names_of(file), number.0 / BLOCK_SIZE)
}

fn name(names: &str, block: u32) -> String {
    format!("{names}{block:03x}")
}

/// A name that only one process has at a time; `None` if another has it and keeps it.
fn bind_alone(names: &str) -> Option<PacketSocket> {
    let until = Instant::now() + PATIENCE;
    loop {
        match bind_abstract(&format!("{names}alone")) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                nap(PAUSE);
            }
            bound => return bound.ok(),
        }
    }
}

/// Whether a process of this user has the domain open whose holders' names begin so.
fn is_open_elsewhere(names: &str, engine: &Engine) -> bool {
    let blocks = held_blocks(names).unwrap_or_else(|| (1..=BLOCKS).collect());
    blocks.into_iter().any(|block| match holder_of(&name(names, block)) {
        Ok(holder) => holder.is_some_and(|holder| engine.is_own_user(holder.uid)),
        // Somebody has it, who takes no connections now.
        Err(_) => true,
    })
}

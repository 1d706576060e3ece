//! Whether another process may have shared anonymous memory that this one has mapped.
//!
//! Such memory has no name and no descriptor: another process has it by a fork only, and then it has everything else that was
//! shared then. So there is a *sign*, a page of a file that this process has mapped and that says of itself whether somebody else
//! has. It answers for memory that was not there yet when the sign was put up, and so another is put up after each fork.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nonic_sys::{
    AreaMap, AsFd, Backing, FileIdentity, ForkLayer, PAGE, Protection, SharedMapping, SharedMemory,
    file_identity, nameless_device, on_fork,
};

use super::fork::Watcher;

/// Signs at most: the first, and those of the last forks.
const SIGNS: usize = 4;

/// A moment of this process.
#[derive(Debug)]
struct Sign {
    memory: Option<SharedMemory>,
    identity: FileIdentity,
    mapping: Option<SharedMapping>,
    /// The shared memory that was there already.
    before: Vec<FileIdentity>,
}

/// What is known of the processes that this one has forked.
#[derive(Debug)]
pub(super) struct Offspring {
    signs: Vec<Sign>,
    /// This is a child, and the signs are its parent's.
    inherited: bool,
}

static OFFSPRING: Mutex<Offspring> = Mutex::new(Offspring { signs: Vec::new(), inherited: false });

/// Takes notice of forks from now on. Shared anonymous memory that is mapped later can be told to be this process's alone.
pub fn watch_offspring() {
    let mut offspring = offspring();
    if offspring.signs.is_empty() {
        on_fork(ForkLayer::Memory, &Watcher);
        offspring.put_up();
    }
}

pub(super) fn offspring() -> MutexGuard<'static, Offspring> {
    let mut offspring = OFFSPRING.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut offspring.inherited) {
        offspring.signs.clear();
    }
    offspring
}

impl Sign {
    fn put_up() -> Option<Self> {
        let memory = SharedMemory::create("nonic-offspring", PAGE).ok()?;
        let identity = file_identity(memory.as_fd()).ok()?;
        let mapping = Some(memory.map(Protection::ReadWrite).ok()?);
        let mut before = Vec::new();
        for area in AreaMap::open().ok()?.walk(0) {
            if let Backing::SharedFile { device, inode, .. } = area.ok()?.backing
                && Some(device) == nameless_device()
                && !before.contains(&(device, inode))
            {
                before.push((device, inode));
            }
        }
        Some(Self { memory: Some(memory), identity, mapping, before })
    }

    /// Whether its number is still its own: a program may have closed it.
    fn has_its_number(&mut self) -> bool {
        let Some(memory) = &self.memory else { return false };
        let is_it = file_identity(memory.as_fd()).is_ok_and(|identity| identity == self.identity);
        if !is_it {
            std::mem::forget(self.memory.take());
        }
        is_it
    }

    /// Whether nobody else has it. It can be asked once if the answer is yes. Nobody forks meanwhile.
    fn is_alone(&mut self) -> bool {
        if !self.has_its_number() {
            return false;
        }
        let Some(memory) = &self.memory else { return false };
        drop(self.mapping.take());
        if memory.seal_writes().is_ok() {
            return true;
        }
        self.mapping = memory.map(Protection::ReadWrite).ok();
        if self.mapping.is_none() {
            // Who is forked from now on would not have it.
            self.memory = None;
        }
        false
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        self.has_its_number();
    }
}

impl Offspring {
    fn put_up(&mut self) {
        self.signs.extend(Sign::put_up());
    }

    /// There is a child.
    pub(super) fn has_forked(&mut self) {
        if self.signs.is_empty() {
            return;
        }
        if self.signs.len() == SIGNS {
            self.signs.remove(SIGNS - 1);
        }
        self.put_up();
    }

    /// Whether no other process has the shared anonymous memory that is known by this. Nobody forks meanwhile.
    pub(super) fn is_without(&mut self, shared: FileIdentity) -> bool {
        for index in 0..self.signs.len() {
            let sign = &mut self.signs[index];
            if sign.before.contains(&shared) || !sign.is_alone() {
                continue;
            }
            let before = std::mem::take(&mut sign.before);
            // Nobody has what was put up since either.
            self.signs.truncate(index);
            self.signs.extend(Sign::put_up().map(|mut sign| {
                sign.before = before;
                sign
            }));
            return true;
        }
        false
    }

    /// This is the child now: it has the signs of its parent, as long as it lives, without their numbers. Frees nothing.
    pub(super) fn become_child(&mut self) {
        for sign in &mut self.signs {
            std::mem::forget(sign.mapping.take());
            sign.has_its_number();
            drop(sign.memory.take());
        }
        self.inherited = true;
    }
}

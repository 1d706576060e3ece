//! Connections to the victim, and the memory that is handed over them.

use std::io;
use std::sync::atomic::Ordering;

use nonic_sys::{AtomicU64, OwnedFd, PacketSocket, Protection, SharedMapping, SharedMemory};
use nonic_transport::VERSION;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::wire::{LINK, MAGIC};

/// One end of a connection to the victim.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: PacketSocket,
    /// A link's memory.
    pub(super) memory: Option<SharedMapping>,
}

impl Connection {
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        self.memory.as_ref().expect("a link has memory").word(offset)
    }
}

/// Memory as the victim wants it.
pub(super) fn proper_memory() -> io::Result<(SharedMemory, SharedMapping)> {
    let memory = SharedMemory::create("nonic-link", LINK)?;
    let mapping = memory.map(Protection::ReadWrite)?;
    mapping.word(8).store(u64::from(VERSION), Ordering::Relaxed);
    mapping.word(0).store(MAGIC, Ordering::Release);
    Ok((memory, mapping))
}

/// Memory that can shrink.
pub(super) fn unsealed(length: usize) -> io::Result<OwnedFd> {
    let file = memfd_create("unsealed", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, length as u64)?;
    Ok(file)
}

//! The side that wants to know: a secret, and where it can be read.

use std::io;

use nonic_sys::{AsFd, AsRawFd, Credentials, SharedMemory, forget_in_children, keep_in_children, random_u64};

use crate::answer::Answer;

/// First bytes of what is shown, so that whoever answers gives nothing away of memory that was never meant for it.
pub(crate) const MARK: [u8; 16] = *b"nonic challenge\0";
/// Bytes of what is shown: the mark, the process it is shown to, the secret.
pub(crate) const LENGTH: usize = 48;

/// What a process shows one peer to find out whether the kernel lets that peer at it. Fresh for each.
#[derive(Debug)]
pub struct Challenge {
    shown: Box<[u8; LENGTH]>,
    /// The same in a file, which can be opened where memory may not be read. None where no descriptor was left.
    file: Option<SharedMemory>,
}

/// Where the peer may read. It goes to the peer as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Address in the asking process's memory.
    pub address: u64,
    /// Number of one of its descriptors; `u32::MAX`: there is none.
    pub descriptor: u32,
}

nonic_message::parts!(Question { address, descriptor });

impl Challenge {
    /// A new one for `peer`.
    pub fn new(peer: Credentials) -> Self {
        let mut shown = Box::new([0u8; LENGTH]);
        shown[..16].copy_from_slice(&MARK);
        // Nobody else can have it answered for himself: who answers looks whether it is meant.
        shown[16..20].copy_from_slice(&peer.pid.to_le_bytes());
        shown[32..40].copy_from_slice(&random_u64().to_le_bytes());
        shown[40..].copy_from_slice(&random_u64().to_le_bytes());
        let file = Self::file(&shown[..]).ok();
        Self { shown, file }
    }

    fn file(shown: &[u8]) -> io::Result<SharedMemory> {
        let file = SharedMemory::create("nonic-challenge", LENGTH)?;
        file.write_first(shown)?;
        // A child may belong to another user soon, and it is not asked.
        forget_in_children(file.as_fd());
        Ok(file)
    }

    /// What to ask the peer.
    pub fn question(&self) -> Question {
        let descriptor = self.file.as_ref().map(|file| file.as_fd().as_raw_fd() as u32);
        Question { address: self.shown.as_ptr() as u64, descriptor: descriptor.unwrap_or(u32::MAX) }
    }

    /// Whether `answer` can only come from somebody who has read what is shown.
    pub fn is_answered_by(&self, answer: &Answer) -> bool {
        Answer::from_shown(&self.shown) == *answer
    }
}

impl Drop for Challenge {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            keep_in_children(file.as_fd());
        }
    }
}

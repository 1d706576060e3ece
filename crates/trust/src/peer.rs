//! The process at the other end of a socket.

use std::io;
use std::time::Duration;

use nonic_sys::{
    AsFd, BorrowedFd, Credentials, OwnedFd, effective_user, open_process, peer_credentials, peer_process,
    wait_readable,
};

/// Who is at the other end of a Unix socket, as the kernel says: who connected, or who listened.
#[derive(Debug)]
pub struct Peer {
    credentials: Credentials,
    process: Option<OwnedFd>,
}

impl Peer {
    /// Asks the kernel. The process that connects or listens must be the one that speaks; else
    /// see [`Self::who_sent`].
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let credentials = peer_credentials(socket)?;
        Ok(Self { credentials, process: peer_process(socket, credentials) })
    }

    /// The process that sent a message, where another one may have connected or listened: a child of that one. The kernel has
    /// said with the message who it is.
    pub fn who_sent(credentials: Credentials) -> Self {
        Self { credentials, process: open_process(credentials.pid) }
    }

    /// Its process id as seen from here, 0 if it has none, and its user in this process's user namespace.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// Whether it may be of this process's user, as far as its number says: if not, there is no use in asking it for proof.
    pub fn may_be_own(&self) -> bool {
        self.credentials.uid == effective_user()
    }

    /// A descriptor that is readable when it has ended, where the kernel offers one.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// The same, to keep.
    pub fn into_process(self) -> Option<OwnedFd> {
        self.process
    }

    /// Whether it has ended, and its number may be another process's.
    pub fn has_ended(&self) -> bool {
        self.process().is_some_and(|process| wait_readable(process, Some(Duration::ZERO)))
    }
}

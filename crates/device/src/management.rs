//! Datagrams of queue pair 1, by which connection managers of other hosts talk (IBTA vol. 1, 13.4, 13.5.1): who is told of them.

use nonic_protocol::QpNumber;

/// Is told of management datagrams that come. It may be dropped where it is called, so it owns nothing whose end calls the engine.
pub trait ManagementObserver: Send + Sync {
    /// One came. Called under locks of the engine, by whichever thread drives: it must not block, nor call anything of the engine but
    /// [`crate::WaitBell::ring`]. It hands a copy on to a thread that answers.
    fn received(&self, arrival: &ManagementArrival<'_>);

    /// The peer of a connected queue pair on the wire has sent its first message: it is connected, though it may not have said so. Called as
    /// `received` is.
    fn is_connected(&self, _pair: QpNumber) {}

    /// The peer of a connected queue pair on the wire has not answered for as long as it may (`NONIC_WIRE_SILENCE`): the queue pair is in error.
    /// Called as `received` is.
    fn is_silent(&self, _pair: QpNumber) {}

    /// Addresses of this host have come or gone, after [`crate::ManagementPort::watch_addresses`]. Called as `received` is.
    fn addresses_changed(&self) {}
}

/// A management datagram that came, whose check was right and whose Q_Key is that of queue pair 1.
#[derive(Clone, Copy, Debug)]
pub struct ManagementArrival<'a> {
    /// GID of the host it comes from, as its header of IP says.
    pub source: [u8; 16],
    /// GID of this host that it came to.
    pub destination: [u8; 16],
    /// Queue pair it comes from.
    pub source_qp: QpNumber,
    /// Its payload, of any length up to the path MTU: nothing in it was looked at.
    pub bytes: &'a [u8],
    /// It came to another process of this user. Every process that opened [`crate::Context::open_management`] is told of each datagram, and what
    /// is in it says whom it concerns; who refuses what concerns nobody is the one for whom this is false. If the kernel gave it to a process
    /// that opened nothing, one of those that did is chosen.
    pub was_handed_on: bool,
}

/// Why there are no management datagrams.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagementError {
    /// The setting forbids it.
    #[error("NONIC_WIRE=off: no other host is talked with")]
    Forbidden,
    /// The entry of the GID table is not an address of an interface.
    #[error("entry {index} of the GID table is no address that other hosts reach")]
    Index {
        /// The index.
        index: u32,
    },
    /// The socket could not be opened.
    #[error("{reason}")]
    NotOpen {
        /// Why.
        reason: String,
    },
    /// Sixteen processes of this user take management datagrams already.
    #[error("too many processes take management datagrams")]
    TooMany,
    /// The agent cannot be started.
    #[error("no thread can be started that takes what comes")]
    NoAgent,
}

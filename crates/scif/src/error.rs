//! Why a call was refused.

/// A refused call. Each variant is one condition; the C face gives each its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScifError {
    /// `EINVAL`, as [`ScifError::NotAnEndpoint`].
    #[error("the number is no open descriptor")]
    NotOpen,
    /// `EINVAL`.
    #[error("the descriptor is no SCIF endpoint")]
    NotAnEndpoint,
    /// `EINVAL`.
    #[error("{0}")]
    Invalid(&'static str),
    /// `EACCES`: a port below the limit.
    #[error("port {port} is below {limit}, which needs CAP_SYS_ADMIN; NONIC_SCIF_PORT_MIN lowers the limit")]
    Privileged {
        /// The port asked for.
        port: u16,
        /// The lowest port everybody may bind.
        limit: u16,
    },
    /// `EACCES`: the window's rights do not allow it.
    #[error("the window does not allow this access")]
    Protected,
    /// `EISCONN`.
    #[error("the endpoint is connected, connecting or listening")]
    Connected,
    /// `ENOTCONN`.
    #[error("the endpoint is not connected")]
    NotConnected,
    /// `ECONNRESET`.
    #[error("the peer has closed the connection")]
    Reset,
    /// `ECONNREFUSED`.
    #[error("nobody accepts connections on that port")]
    Refused,
    /// `EINPROGRESS`.
    #[error("the connection is not decided yet")]
    InProgress,
    /// `EOPNOTSUPP`.
    #[error("a listening endpoint cannot connect")]
    Listening,
    /// `EAGAIN`.
    #[error("{0}")]
    TryAgain(&'static str),
    /// `EINTR`.
    #[error("a signal came first")]
    Interrupted,
    /// `ENODEV`.
    #[error("no such node, or it is lost")]
    NoNode,
    /// `ENODEV`: the peer is on another host.
    #[error("memory of another host cannot be mapped")]
    NotMappable,
    /// `EOPNOTSUPP`: the peer is on another host, and another process has the relay.
    #[error("copies to and from another host are made only by the process that connected, or that listened")]
    RelayElsewhere,
    /// `ENXIO`.
    #[error("some of the range is in no window")]
    NoWindow,
    /// `EADDRINUSE`.
    #[error("some of the range is registered already, or beyond 2^62")]
    OffsetsTaken,
    /// `EFAULT`.
    #[error("the memory at {address:#x} is not mapped, or not as it has to be")]
    BadMemory {
        /// First address that is wrong, or of the range.
        address: usize,
    },
    /// `ENOMEM`.
    #[error("not enough memory, address space or room for windows")]
    NoMemory,
    /// `ENOSPC`.
    #[error("no port is free")]
    NoPort,
    /// `EMFILE`, `ENFILE`, `ENOBUFS` and what else the kernel answers.
    #[error("the kernel refused: error {0}")]
    System(i32),
}

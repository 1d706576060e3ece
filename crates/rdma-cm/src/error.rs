//! Why a call fails.

use std::io;
use std::net::IpAddr;

use crate::State;

/// Why a call of this crate fails; then nothing has changed. In parentheses the errno of the C interface.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The identifier is in a state in which there is no such call (`EINVAL`).
    #[error("an identifier in state {0:?} cannot do that")]
    State(State),
    /// An argument makes no sense (`EINVAL`).
    #[error("{0}")]
    Argument(&'static str),
    /// The address is not one of this host (`EADDRNOTAVAIL`).
    #[error("{0} is not an address of this host")]
    AddressNotOwn(IpAddr),
    /// The port is bound already, for more addresses or for fewer (`EADDRNOTAVAIL`).
    #[error("port {0} is bound already for an address that overlaps")]
    AddressOverlaps(u16),
    /// Address and port are bound already (`EADDRINUSE`).
    #[error("port {0} is in use")]
    AddressInUse(u16),
    /// No port is free (`EADDRNOTAVAIL`).
    #[error("no port is free")]
    NoPort,
    /// The port is kept for the privileged (`EACCES`).
    #[error("port {0} is kept for processes with CAP_NET_BIND_SERVICE")]
    Denied(u16),
    /// There is no route to the address (`ENETUNREACH`).
    #[error("there is no route to {0}")]
    Unreachable(IpAddr),
    /// The service is none of the ports that the identifier may have (`EPROTONOSUPPORT`).
    #[error("service {0:#x} is none of the ports of the identifier's space")]
    ForeignService(u64),
    /// There is no device (`ENODEV`).
    #[error("there is no device for that")]
    NoDevice,
    /// The device that the identifier was bound to has failed (`ENXIO`).
    #[error("the device of the identifier is gone: destroy it")]
    Removed,
    /// There is no such option (`ENOSYS`).
    #[error("there is no such option")]
    NoSuchOption,
    /// The identifier belongs to a process this one was forked from (`ENOENT`).
    #[error("the identifier is of the parent process")]
    Forked,
    /// The kernel says so: its errno, and `EAGAIN` or `EINTR` of a wait.
    #[error(transparent)]
    System(#[from] io::Error),
}

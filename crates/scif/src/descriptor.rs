//! An endpoint as programs name it: by the number of its descriptor.

use nonic_sys::{AsRawFd, RawFd};

use crate::{Initiator, PortId, Protection, RmaFlags, ScifError};

/// An endpoint named by its number. It may be no endpoint at all, or a closed one: every call looks.
///
/// Every call refuses a number that is not open ([`ScifError::NotOpen`]) or that is something else
/// ([`ScifError::NotAnEndpoint`]). The calls on registered memory also refuse an endpoint that is not connected
/// ([`ScifError::NotConnected`]) or whose peer is gone ([`ScifError::Reset`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor(RawFd);

impl Descriptor {
    /// The endpoint with this number, if it is one.
    pub fn from_number(number: i32) -> Self {
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Takes a port of this node: `port`, or a free one from 1089 up if it is 0. Returns the port.
    pub fn bind(self, port: u16) -> Result<u16, ScifError> {
        let _ = port;
        Err(ScifError::NotOpen)
    }

    /// Lets others connect; at most `backlog` requests wait to be accepted, and never more than 1024.
    pub fn listen(self, backlog: i32) -> Result<(), ScifError> {
        let _ = backlog;
        Err(ScifError::NotOpen)
    }

    /// Connects, binding itself to a free port first if it has none; returns its own port. Waits until the other side
    /// accepts, unless the descriptor is `O_NONBLOCK`: then [`ScifError::InProgress`], the descriptor is writable when it is
    /// decided, and another call collects.
    pub fn connect(self, peer: PortId) -> Result<u16, ScifError> {
        let _ = peer;
        Err(ScifError::NotOpen)
    }

    /// Takes the next request; returns the new, connected endpoint, which programs this one starts inherit, and who asked.
    /// If none is there, waits for one or refuses with [`ScifError::TryAgain`].
    pub fn accept(self, wait: bool) -> Result<(Endpoint, PortId), ScifError> {
        let _ = wait;
        Err(ScifError::NotOpen)
    }

    /// Closes the number. With the last copy of the endpoint its windows end and the peer is disconnected.
    pub fn close(self) -> Result<(), ScifError> {
        Err(ScifError::NotOpen)
    }

    /// Sends bytes of the program: all of them if `block`, else as many as there is room for. Returns how many.
    pub fn send(self, address: usize, length: usize, block: bool) -> Result<usize, ScifError> {
        let _ = (address, length, block);
        Err(ScifError::NotOpen)
    }

    /// Receives bytes into memory of the program: all of them if `block`, else as many as are there. Returns how many.
    pub fn receive(self, address: usize, length: usize, block: bool) -> Result<usize, ScifError> {
        let _ = (address, length, block);
        Err(ScifError::NotOpen)
    }

    /// Opens a window on `length` bytes at `address`; returns its offset in the registered address space, which is `offset`
    /// if `fixed`.
    pub fn register(
        self,
        address: usize,
        length: usize,
        offset: i64,
        protection: Protection,
        fixed: bool,
    ) -> Result<i64, ScifError> {
        let _ = (address, length, offset, protection, fixed);
        Err(ScifError::NotOpen)
    }

    /// Closes all windows that lie in a range.
    pub fn unregister(self, offset: i64, length: usize) -> Result<(), ScifError> {
        let _ = (offset, length);
        Err(ScifError::NotOpen)
    }

    /// Maps the peer's windows into this process; returns where.
    pub fn map(
        self,
        address: usize,
        length: usize,
        protection: Protection,
        fixed: bool,
        offset: i64,
    ) -> Result<usize, ScifError> {
        let _ = (address, length, protection, fixed, offset);
        Err(ScifError::NotOpen)
    }

    /// Copies from the peer's windows at `remote` to own windows at `local`.
    pub fn read_from(self, local: i64, length: usize, remote: i64, flags: RmaFlags) -> Result<(), ScifError> {
        let _ = (local, length, remote, flags);
        Err(ScifError::NotOpen)
    }

    /// Copies from own windows at `local` to the peer's windows at `remote`.
    pub fn write_to(self, local: i64, length: usize, remote: i64, flags: RmaFlags) -> Result<(), ScifError> {
        let _ = (local, length, remote, flags);
        Err(ScifError::NotOpen)
    }

    /// Copies from the peer's windows at `remote` to memory of the program.
    pub fn read_into(
        self,
        address: usize,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        let _ = (address, length, remote, flags);
        Err(ScifError::NotOpen)
    }

    /// Copies from memory of the program to the peer's windows at `remote`.
    pub fn write_out(
        self,
        address: usize,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        let _ = (address, length, remote, flags);
        Err(ScifError::NotOpen)
    }

    /// Marks the remote reads and writes that a side has started so far.
    pub fn fence_mark(self, initiator: Initiator) -> Result<i32, ScifError> {
        let _ = initiator;
        Err(ScifError::NotOpen)
    }

    /// Waits until all that was marked is complete.
    pub fn fence_wait(self, mark: i32) -> Result<(), ScifError> {
        let _ = mark;
        Err(ScifError::NotOpen)
    }

    /// Stores 8 bytes into own windows, then into the peer's (each an offset and the value), when all remote reads and writes
    /// that a side has started so far are complete.
    pub fn fence_signal(
        self,
        local: Option<(i64, u64)>,
        remote: Option<(i64, u64)>,
        initiator: Initiator,
    ) -> Result<(), ScifError> {
        let _ = (local, remote, initiator);
        Err(ScifError::NotOpen)
    }
}

/// An endpoint of a Rust program: closed when it goes.
#[derive(Debug)]
pub struct Endpoint {
    descriptor: Descriptor,
}

impl Endpoint {
    /// A new one, which programs this one starts do not inherit.
    pub fn open() -> Result<Self, ScifError> {
        Err(ScifError::NotOpen)
    }

    /// Gives the number away: whoever has it closes it.
    pub fn into_number(self) -> i32 {
        let number = self.descriptor.0;
        std::mem::forget(self);
        number
    }
}

impl std::ops::Deref for Endpoint {
    type Target = Descriptor;

    fn deref(&self) -> &Descriptor {
        &self.descriptor
    }
}

impl AsRawFd for Endpoint {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.0
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.descriptor.close();
    }
}

/// Ends mappings, made by [`Descriptor::map`] or otherwise: `munmap(2)`.
pub fn unmap(address: usize, length: usize) -> Result<(), ScifError> {
    let _ = (address, length);
    Err(ScifError::NotOpen)
}

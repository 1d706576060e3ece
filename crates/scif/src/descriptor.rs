//! An endpoint as programs name it: by the number of its descriptor.

use std::os::fd::IntoRawFd;
use std::sync::Arc;

use nonic_device::watch_offspring;
use nonic_sys::{AsRawFd, BorrowedFd, ErrnoKept, RawFd, open_stream};

use crate::accepting;
use crate::connecting::{self, system};
use crate::far_memory::{FarMemory, Near};
use crate::identity::cookie_of;
use crate::lease::with_connection;
use crate::memory::RegisteredMemory;
use crate::program_memory::checked_bytes;
use crate::stream_socket::StreamSocket;
use crate::wire::Relayed;
use crate::{Initiator, PortId, Protection, RmaFlags, ScifError};
use crate::{closing, memory, registry};

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

    /// Whether it is an endpoint at all, in whatever state.
    pub fn verify(self) -> Result<(), ScifError> {
        let _errno = ErrnoKept::new();
        registry::find(self.0).map(|_| ())
    }

    /// Takes a port of this node: `port`, or a free one from 1089 up if it is 0. Returns the port.
    pub fn bind(self, port: u16) -> Result<u16, ScifError> {
        let _errno = ErrnoKept::new();
        connecting::bind(self.0, port)
    }

    /// Lets others connect; at most `backlog` requests wait to be accepted, and never more than 1024.
    pub fn listen(self, backlog: i32) -> Result<(), ScifError> {
        let _errno = ErrnoKept::new();
        connecting::listen(self.0, backlog)?;
        closing::open_door(open_number(self.0), self.0, backlog);
        Ok(())
    }

    /// Connects, binding itself to a free port first if it has none; returns its own port. Waits until the other side
    /// accepts, unless the descriptor is `O_NONBLOCK`: then [`ScifError::InProgress`], the descriptor is writable when it is
    /// decided, and another call collects.
    pub fn connect(self, peer: PortId) -> Result<u16, ScifError> {
        let _errno = ErrnoKept::new();
        connecting::connect(self.0, peer)
    }

    /// Takes the next request; returns the new, connected endpoint and who asked. If none is there, waits for one or refuses
    /// with [`ScifError::TryAgain`].
    ///
    /// Children of `fork` share the endpoint. A program started by `exec` inherits the descriptor (it is not close-on-exec), but
    /// not the memory behind it: there it is [`ScifError::NotAnEndpoint`].
    pub fn accept(self, wait: bool) -> Result<(Endpoint, PortId), ScifError> {
        let _errno = ErrnoKept::new();
        let (descriptor, peer) = accepting::accept(self.0, wait)?;
        Ok((Endpoint { descriptor: Self(descriptor.into_raw_fd()) }, peer))
    }

    /// Closes the number. With the last copy of the endpoint its windows end and the peer is disconnected.
    pub fn close(self) -> Result<(), ScifError> {
        let _errno = ErrnoKept::new();
        closing::close(self.0)
    }

    /// Sends bytes of the program: all of them if `block`, else as many as there is room for. Returns how many.
    pub fn send(self, address: usize, length: usize, block: bool) -> Result<usize, ScifError> {
        if length == 0 {
            return self.verify().map(|()| 0);
        }
        let _errno = ErrnoKept::new();
        with_connection(self.0, true, |connection| {
            let bytes = checked_bytes(address, length, false)?;
            connection.send(StreamSocket(self.0), bytes, block)
        })
    }

    /// Receives bytes into memory of the program: all of them if `block`, else as many as are there. Returns how many.
    pub fn receive(self, address: usize, length: usize, block: bool) -> Result<usize, ScifError> {
        if length == 0 {
            return self.verify().map(|()| 0);
        }
        let _errno = ErrnoKept::new();
        with_connection(self.0, false, |connection| {
            let bytes = checked_bytes(address, length, true)?;
            connection.receive(StreamSocket(self.0), bytes, block)
        })
    }

    /// Calls `act` with the registered memory of both sides, if the endpoint is connected and its peer is there.
    #[inline]
    fn with_memory<R>(
        self,
        act: impl FnOnce(&Arc<RegisteredMemory>) -> Result<R, ScifError>,
    ) -> Result<R, ScifError> {
        let _errno = ErrnoKept::new();
        with_connection(self.0, true, |connection| act(connection.memory()))
    }

    /// Calls `near` with the registered memory of both sides, or `far` if the peer is on another host.
    #[inline]
    fn with_both<R>(
        self,
        near: impl FnOnce(&Arc<RegisteredMemory>) -> Result<R, ScifError>,
        far: impl FnOnce(FarMemory<'_>) -> Result<R, ScifError>,
    ) -> Result<R, ScifError> {
        let _errno = ErrnoKept::new();
        with_connection(self.0, true, |connection| match connection.relayed() {
            None => near(connection.memory()),
            Some(Relayed::Here(link)) if link.is_here() => {
                far(FarMemory { memory: connection.memory(), link })
            }
            Some(_) => Err(ScifError::RelayElsewhere),
        })
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
        let _errno = ErrnoKept::new();
        // What no state could make right is refused before the state is looked at.
        if let Err(refused) = memory::check_registration(address, length, offset, fixed) {
            registry::find(self.0)?;
            return Err(refused);
        }
        self.with_memory(|memory| {
            let endpoint = open_number(self.0);
            let offset = memory.register(endpoint, address, length, offset, protection, fixed)?;
            closing::watch_windows(endpoint, self.0);
            Ok(offset)
        })
    }

    /// Closes all windows that lie in a range.
    pub fn unregister(self, offset: i64, length: usize) -> Result<(), ScifError> {
        self.with_memory(|memory| memory.unregister(open_number(self.0), offset, length))
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
        let _errno = ErrnoKept::new();
        with_connection(self.0, true, |connection| match connection.relayed() {
            None => connection.memory().map(address, length, protection, fixed, offset),
            Some(_) => Err(ScifError::NotMappable),
        })
    }

    /// Copies from the peer's windows at `remote` to own windows at `local`.
    pub fn read_from(self, local: i64, length: usize, remote: i64, flags: RmaFlags) -> Result<(), ScifError> {
        self.with_both(
            |memory| memory.read_from(local, length, remote, flags),
            |far| far.read(Near::Windows(local), length, remote, flags),
        )
    }

    /// Copies from own windows at `local` to the peer's windows at `remote`.
    pub fn write_to(self, local: i64, length: usize, remote: i64, flags: RmaFlags) -> Result<(), ScifError> {
        self.with_both(
            |memory| memory.write_to(local, length, remote, flags),
            |far| far.write(Near::Windows(local), length, remote, flags),
        )
    }

    /// Copies from the peer's windows at `remote` to memory of the program.
    pub fn read_into(
        self,
        address: usize,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        self.with_both(
            |memory| memory.read_into(address, length, remote, flags),
            |far| far.read(Near::Program(address), length, remote, flags),
        )
    }

    /// Copies from memory of the program to the peer's windows at `remote`.
    pub fn write_out(
        self,
        address: usize,
        length: usize,
        remote: i64,
        flags: RmaFlags,
    ) -> Result<(), ScifError> {
        self.with_both(
            |memory| memory.write_out(address, length, remote, flags),
            |far| far.write(Near::Program(address), length, remote, flags),
        )
    }

    /// Marks the remote reads and writes that a side has started so far.
    pub fn fence_mark(self, initiator: Initiator) -> Result<i32, ScifError> {
        self.with_both(|memory| memory.fence_mark(initiator), |far| far.fence_mark(initiator))
    }

    /// Waits until all that was marked is complete.
    pub fn fence_wait(self, mark: i32) -> Result<(), ScifError> {
        self.with_both(|memory| memory.fence_wait(mark), |far| far.fence_wait(mark))
    }

    /// Stores 8 bytes into own windows, then into the peer's (each an offset and the value), when all remote reads and writes
    /// that a side has started so far are complete.
    pub fn fence_signal(
        self,
        local: Option<(i64, u64)>,
        remote: Option<(i64, u64)>,
        initiator: Initiator,
    ) -> Result<(), ScifError> {
        self.with_both(
            |memory| memory.fence_signal(local, remote, initiator),
            |far| far.fence_signal(local, remote, initiator),
        )
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
        let _errno = ErrnoKept::new();
        // Early: windows may be on memory that is mapped later.
        watch_offspring();
        let socket = open_stream().map_err(|error| system(&error))?;
        let cookie = cookie_of(socket.as_raw_fd())?;
        registry::lock().insert(cookie, socket.as_raw_fd());
        Ok(Self { descriptor: Descriptor(socket.into_raw_fd()) })
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
    let _errno = ErrnoKept::new();
    memory::unmap(address, length)
}

/// The number as the crates below take it. It was looked at during this call.
#[allow(unsafe_code)]
fn open_number<'a>(number: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the number was an open endpoint when this call began; a program that closes it meanwhile gets an error of the
    // kernel, or a change of what it has put there that only endpoints notice (a record lock).
    unsafe { BorrowedFd::borrow_raw(number) }
}

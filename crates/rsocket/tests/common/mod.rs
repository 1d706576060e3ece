//! Sockets as tests use them: closed when they go, with bytes as slices.

#![allow(dead_code)] // Each test is a crate of its own and uses its part.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use nonic_rsocket::{Error, PollEntry, SharedSlice};
use nonic_sys::RawFd;

pub(crate) type Result<T> = std::result::Result<T, i32>;

pub(crate) const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn errno<T>(result: nonic_rsocket::Result<T>) -> Result<T> {
    result.map_err(Error::errno)
}

/// A stream socket.
#[derive(Debug)]
pub(crate) struct Stream(pub(crate) RawFd);

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = nonic_rsocket::close(self.0);
    }
}

impl Stream {
    pub(crate) fn new() -> Self {
        nonic_device::log_to_standard_error();
        Self(nonic_rsocket::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap())
    }

    /// One that listens, and where.
    pub(crate) fn listener() -> (Self, SocketAddr) {
        let listener = Self::new();
        nonic_rsocket::bind(listener.0, ANY).unwrap();
        nonic_rsocket::listen(listener.0, 10).unwrap();
        let address = nonic_rsocket::name(listener.0).unwrap();
        (listener, address)
    }

    pub(crate) fn connect(&self, address: SocketAddr) -> Result<()> {
        errno(nonic_rsocket::connect(self.0, address))
    }

    pub(crate) fn accept(&self) -> Result<Self> {
        errno(nonic_rsocket::accept(self.0)).map(|(number, _)| Self(number))
    }

    /// Two that are connected.
    pub(crate) fn pair() -> (Self, Self) {
        Self::pair_with(|_| (), |_| ())
    }

    /// The same with options for the one that listens and the one that connects.
    pub(crate) fn pair_with(passive: impl FnOnce(&Self), active: impl FnOnce(&Self)) -> (Self, Self) {
        let (listener, address) = Self::listener();
        passive(&listener);
        let near = Self::new();
        active(&near);
        near.connect(address).unwrap();
        (near, listener.accept().unwrap())
    }

    pub(crate) fn send_with(&self, bytes: &[u8], flags: i32) -> Result<usize> {
        let mut bytes = bytes.to_vec();
        errno(nonic_rsocket::send(self.0, &[SharedSlice::of_private(&mut bytes)], flags))
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<usize> {
        self.send_with(bytes, 0)
    }

    pub(crate) fn receive_with(&self, most: usize, flags: i32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; most];
        let count = errno(nonic_rsocket::receive(self.0, SharedSlice::of_private(&mut bytes), flags))?;
        bytes.truncate(count);
        Ok(bytes)
    }

    pub(crate) fn receive(&self, most: usize) -> Result<Vec<u8>> {
        self.receive_with(most, 0)
    }

    /// Exactly so many.
    pub(crate) fn receive_all(&self, length: usize) -> Result<Vec<u8>> {
        self.receive_with(length, libc::MSG_WAITALL)
    }

    pub(crate) fn shut_down(&self, how: i32) -> Result<()> {
        errno(nonic_rsocket::shut_down(self.0, how))
    }

    pub(crate) fn set(&self, level: i32, name: i32, value: i32) -> Result<()> {
        errno(nonic_rsocket::set_option(self.0, level, name, &value.to_ne_bytes()))
    }

    pub(crate) fn get(&self, level: i32, name: i32) -> Result<i32> {
        let value = errno(nonic_rsocket::option(self.0, level, name))?;
        Ok(i32::from_ne_bytes(value.bytes()[..4].try_into().unwrap()))
    }

    pub(crate) fn set_nonblocking(&self) {
        nonic_rsocket::set_nonblocking(self.0, true).unwrap();
    }

    /// What of `events` comes within a time.
    pub(crate) fn poll(&self, events: i16, timeout: Duration) -> i16 {
        let mut entries = [PollEntry { number: self.0, events, revents: 0 }];
        let count = nonic_rsocket::poll(&mut entries, Some(timeout)).unwrap();
        assert_eq!(count, usize::from(entries[0].revents != 0));
        entries[0].revents
    }

    /// The same, which must come.
    pub(crate) fn wait_for(&self, events: i16) -> i16 {
        let found = self.poll(events, PATIENCE);
        assert_ne!(found, 0, "nothing of {events:#x} came");
        found
    }
}

/// Bytes of which each tells where it stands.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
}

/// Maps memory for the peer to write to.
pub(crate) fn map(number: RawFd, mapping: &nonic_sys::SharedMapping, offset: i64) -> Result<i64> {
    // SAFETY: a test looks at the mapping through shared bytes only, and keeps it as long as the socket.
    let address = unsafe { nonic_rsocket::ProgramAddress::new(mapping.as_ptr() as usize) };
    errno(nonic_rsocket::map_memory(number, address, mapping.length(), libc::PROT_WRITE, offset))
}

//! Receiving and sending.

use std::net::SocketAddr;
use std::sync::Arc;

use nonic_memory::SharedSlice;

use super::header::SourceHeader;
use super::port::{Port, SLOT};
use super::{Arrived, Datagram, State};
use crate::gather::Gather;
use crate::waiting::{Patience, wait};
use crate::{Error, Result};

impl Datagram {
    /// The next datagram and from whom: what of it `target` has room for, the rest is lost.
    pub(crate) fn receive(
        self: &Arc<Self>,
        target: SharedSlice<'_>,
        flags: i32,
    ) -> Result<(usize, SocketAddr)> {
        let nonblocking = self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        let patience = if nonblocking { Patience::None } else { Patience::Endless };
        self.open(&mut self.lock())?;
        wait(&**self, patience, &mut |look| {
            let mut state = self.lock();
            self.update(&mut state, look);
            if state.is_closed {
                return Some(Err(Error::new(libc::EBADF)));
            }
            state.receive(target, flags & libc::MSG_PEEK != 0).map(Ok)
        })?
    }

    /// Sends the program's bytes as one datagram, to an address or to the peer that was set. `EMSGSIZE` if they are too many,
    /// `EDESTADDRREQ` without either.
    pub(crate) fn send(
        self: &Arc<Self>,
        slices: &[SharedSlice<'_>],
        flags: i32,
        to: Option<SocketAddr>,
    ) -> Result<usize> {
        let nonblocking = self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        let patience = if nonblocking { Patience::None } else { Patience::Endless };
        let mut bytes = Gather::new(slices);
        let length = bytes.left();
        let (to, from) = {
            let mut state = self.lock();
            self.open(&mut state)?;
            let to = to.or(state.peer).ok_or(Error::new(libc::EDESTADDRREQ))?;
            (to, self.name_towards(&mut state, to)?)
        };
        if length + SourceHeader(from).length() > SLOT as usize {
            return Err(Error::new(libc::EMSGSIZE));
        }
        wait(&**self, patience, &mut |look| {
            let mut state = self.lock();
            self.update(&mut state, look);
            self.send_now(&mut state, &mut bytes, from, to).transpose()
        })??;
        Ok(length)
    }

    /// `None` if there is no room.
    fn send_now(
        &self,
        state: &mut State,
        bytes: &mut Gather<'_>,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<Option<()>> {
        let Some(number) = state.known.get(&to).copied() else {
            let mut data = vec![0; bytes.left()];
            bytes.copy_to(SharedSlice::of_private(&mut data));
            return self.send_named(state, to, Some(&data)).map(Some);
        };
        let port = state.port.as_mut().ok_or(Error::new(libc::EBADF))?;
        if !port.can_send() {
            return Ok(None);
        }
        port.send(from, number, bytes).map(Some)
    }
}

impl State {
    /// The oldest datagram, if there is one.
    fn receive(&mut self, target: SharedSlice<'_>, peek: bool) -> Option<(usize, SocketAddr)> {
        let got = match self.arrived.front_mut()? {
            Arrived::ByDevice(received) => {
                let source = self.port.as_ref()?.bytes(received);
                let length = source.length().min(target.length());
                target.part(0, length).copy_near_from(source.part(0, length));
                (length, received.from)
            }
            Arrived::ByUdp(bytes, from) => {
                let length = bytes.len().min(target.length());
                target.part(0, length).write(&bytes[..length]);
                (length, *from)
            }
        };
        if !peek
            && let Some(Arrived::ByDevice(received)) = self.arrived.pop_front()
            && let Some(Err(error)) = self.port.as_ref().map(|port: &Port| port.give_back(received.slot))
        {
            tracing::debug!(%error, "a slot is lost");
        }
        Some(got)
    }
}

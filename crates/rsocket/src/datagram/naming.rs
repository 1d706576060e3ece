//! What goes by UDP: first datagrams, and answers that tell of queue pairs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_sys::{AsFd, BorrowedFd, is_own_address, receive_datagram, send_datagram, source_towards};

use super::header::NamingHeader;
use super::port::{Port, SLOT};
use super::{Arrived, Datagram, State};
use crate::service::Watched;
use crate::waiting::Look;
use crate::{Error, Result};

/// Peers remembered at most. Who asks for more is asked again.
const KNOWN_MOST: usize = 4096;
/// Datagrams that wait at most of those that came by UDP; those of the device wait in their slots.
const WAITING_MOST: usize = 64;
/// Datagrams taken in one turn.
const TURN: usize = 64;

impl Datagram {
    /// Its own address as a peer sees it.
    pub(super) fn name_towards(&self, state: &mut State, to: SocketAddr) -> Result<SocketAddr> {
        if let Some(own) = state.own_names.get(&to.ip()) {
            return Ok(*own);
        }
        let mut own = self.name()?;
        if own.ip().is_unspecified() {
            own.set_ip(source_towards(to)?.ip());
        }
        if state.own_names.len() >= KNOWN_MOST {
            state.own_names.clear();
        }
        state.own_names.insert(to.ip(), own);
        Ok(own)
    }

    /// Sends by UDP.
    pub(super) fn send_named(&self, state: &mut State, to: SocketAddr, data: Option<&[u8]>) -> Result<()> {
        let queue_pair = state.port.as_ref().map(Port::number).ok_or(Error::new(libc::EBADF))?;
        let address = self.name_towards(state, to)?.ip();
        let mut bytes = Vec::with_capacity(NamingHeader::LENGTH_MAX + data.map_or(0, <[u8]>::len));
        NamingHeader { has_data: data.is_some(), queue_pair, address }.emit(&mut bytes);
        bytes.extend(data.unwrap_or_default());
        Ok(send_datagram(&self.udp, &bytes, to)?)
    }

    /// Handles what came by UDP.
    fn take_named(&self, state: &mut State, bytes: &[u8], from: SocketAddr) {
        let Some((header, data)) = NamingHeader::parse(bytes) else { return };
        // Numbers of queue pairs mean something on this host only.
        if is_own_address(from.ip()) {
            if state.known.len() >= KNOWN_MOST && !state.known.contains_key(&from) {
                state.known.clear();
            }
            state.known.insert(from, header.queue_pair);
        }
        if !header.has_data {
            return;
        }
        if let Err(error) = self.send_named(state, from, None) {
            tracing::debug!(%error, %from, "a datagram is not answered");
        }
        if state.arrived.len() < WAITING_MOST + state.sizes.receive_queue as usize {
            state.arrived.push_back(Arrived::ByUdp(data.into(), from));
        }
    }
}

impl Watched for Datagram {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }

    fn turn(self: Arc<Self>) -> bool {
        let mut bytes = [0; SLOT as usize + NamingHeader::LENGTH_MAX];
        let mut state = self.lock();
        if state.is_closed {
            return false;
        }
        // What came by the device before is older.
        self.update(&mut state, Look::Glance);
        // What fails tells of an earlier datagram that nobody took.
        for _ in 0..TURN {
            let Ok((length, from)) = receive_datagram(&self.udp, &mut bytes) else { break };
            self.take_named(&mut state, &bytes[..length], from);
        }
        drop(state);
        self.wakeup.ring();
        true
    }

    fn keep_alive(&self, _now: Instant) -> Option<Duration> {
        None
    }
}

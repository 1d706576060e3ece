//! Packets on their way out, gathered into runs: datagrams of one length to one host, which the kernel takes in one call.

use std::sync::Arc;

use nonic_roce::{ICRC_LENGTH, PORT, Packet};
use nonic_sys::{DATAGRAM_RUN_MAX, DATAGRAM_SEGMENTS_MAX};

use crate::station::{Route, Station, envelope};

/// What came of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the run, or was lost on purpose.
    Pushed,
    /// The kernel has no room for what was pushed before.
    NoRoom,
    /// Its bytes could not be had, or no packet goes this way.
    Gone,
}

/// A run that is being gathered.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// As long as the longest run so far: what is behind `length` is left from others, and written over.
    bytes: Vec<u8>,
    length: usize,
    /// Length of each datagram but the last.
    segment: usize,
    count: usize,
    /// The last one was shorter: nothing follows it.
    is_closed: bool,
    way: Option<(Arc<Station>, Route)>,
}

impl Outgoing {
    /// Adds a packet with so many bytes of payload, which `fill` puts into their place: false if they cannot be had. The check is
    /// over what was put there. Sends what was gathered before if the packet does not go with it.
    pub fn push(
        &mut self,
        station: &Arc<Station>,
        route: &Route,
        packet: &Packet,
        payload: u32,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> Pushed {
        if station.loses_one() {
            return Pushed::Pushed;
        }
        let headers = packet.headers(payload);
        let (head, padding, payload) = (headers.as_slice(), headers.padding(), payload as usize);
        let length = head.len() + payload + padding.len() + ICRC_LENGTH;
        if !self.goes_with(station, route, length) && !self.flush() {
            return Pushed::NoRoom;
        }
        let Some(envelope) = envelope(station.address(), route.to, PORT, self.count) else {
            return Pushed::Gone;
        };
        let (start, end) = (self.length, self.length + length);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let (checked, check) = self.bytes[start..end].split_at_mut(length - ICRC_LENGTH);
        let (to_head, rest) = checked.split_at_mut(head.len());
        let (to_payload, to_padding) = rest.split_at_mut(payload);
        to_head.copy_from_slice(head);
        to_padding.copy_from_slice(padding);
        if payload > 0 && !fill(to_payload) {
            return Pushed::Gone;
        }
        check.copy_from_slice(&packet.check(&envelope, checked));
        self.length = end;
        if self.count == 0 {
            self.segment = length;
            self.way = Some((Arc::clone(station), *route));
        }
        self.count += 1;
        self.is_closed = length < self.segment;
        Pushed::Pushed
    }

    /// Whether a datagram of so many bytes may follow.
    fn goes_with(&self, station: &Arc<Station>, route: &Route, length: usize) -> bool {
        let Some((known, way)) = &self.way else { return true };
        Arc::ptr_eq(known, station)
            && way == route
            && !self.is_closed
            && length <= self.segment
            && self.count < DATAGRAM_SEGMENTS_MAX
            && self.length + length <= DATAGRAM_RUN_MAX
            && station.sends_runs()
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sends what was gathered; false if there is no room, and then it is kept.
    pub fn flush(&mut self) -> bool {
        let Some((station, route)) = &self.way else { return true };
        if !station.send(route, &self.bytes[..self.length], self.segment) {
            return false;
        }
        self.forget();
        true
    }

    /// Forgets what was gathered.
    pub fn forget(&mut self) {
        (self.length, self.count, self.is_closed, self.way) = (0, 0, false, None);
    }
}

//! What is between two hosts: it loses datagrams, doubles them, lets one overtake another, changes bits, and marks some that met
//! congestion. Datagrams are bytes on it, checked and read again by whoever gets them.

use std::time::Duration;

use nonic_roce::{Envelope, Packet, Route};

use crate::chance::Chance;

/// How bad it is: each happens once in so many datagrams; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A datagram is lost.
    pub lost: u32,
    /// It comes twice.
    pub doubled: u32,
    /// It takes longer than others.
    pub late: u32,
    /// One of its bits is another one.
    pub changed: u32,
    /// It met congestion.
    pub congested: u32,
    /// It and all behind it in its direction are lost, for a while.
    pub silent: u32,
    /// The socket takes nothing, so that what is sent waits.
    pub busy: u32,
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    /// When it arrives.
    pub(super) at: Duration,
    /// Which end it is for.
    pub(super) to: usize,
    pub(super) congested: bool,
    bytes: Vec<u8>,
}

/// Time on the way.
const WAY: Duration = Duration::from_micros(10);
/// Time on the way of one that is late, at most.
const LATE: u32 = 300;
/// How long a direction is silent, in microseconds, at most.
const SILENCE: u32 = 5000;

/// The way from the end of this number.
fn envelope(from: usize) -> Envelope {
    let address = |end: usize| [192, 0, 2, end as u8];
    let route = Route::V4 {
        source: address(from),
        destination: address(1 - from),
        identification: 0,
        dont_fragment: true,
    };
    Envelope { route, source_port: 0xc000 }
}

/// All datagrams that are on their way.
#[derive(Debug, Default)]
pub(super) struct Medium {
    pub(super) faults: Faults,
    datagrams: Vec<Datagram>,
    /// Until when nothing comes that an end sends.
    silent_until: [Duration; 2],
    /// Datagrams that were lost, or came otherwise than they were sent.
    pub(super) harms: u64,
}

impl Medium {
    /// Takes a packet of the end `from`.
    pub(super) fn carry(
        &mut self,
        chance: &mut Chance,
        now: Duration,
        from: usize,
        packet: &Packet,
        payload: &[u8],
    ) {
        let headers = packet.headers(payload.len() as u32);
        let mut bytes = [headers.as_slice(), payload, headers.padding()].concat();
        bytes.extend(packet.check(&envelope(from), &bytes));
        let happens = |chance: &mut Chance, times: u32| times > 0 && chance.once_in(times);
        if happens(chance, self.faults.silent) {
            self.silent_until[from] = now + Duration::from_micros(chance.below(SILENCE).into());
        }
        if now < self.silent_until[from] || happens(chance, self.faults.lost) {
            self.harms += 1;
            return;
        }
        let mut at = now + WAY;
        if happens(chance, self.faults.late) {
            self.harms += 1;
            at += Duration::from_micros(chance.below(LATE).into());
        }
        let congested = happens(chance, self.faults.congested);
        let datagram = Datagram { at, to: 1 - from, congested, bytes };
        if happens(chance, self.faults.doubled) {
            self.harms += 1;
            let again = at + Duration::from_micros(chance.below(LATE).into());
            self.datagrams.push(Datagram { at: again, ..datagram.clone() });
        }
        let mut datagram = datagram;
        if happens(chance, self.faults.changed) {
            self.harms += 1;
            // Not the byte that routers may change: what it says is not in the check.
            let at = chance.below(datagram.bytes.len() as u32 - 1) as usize;
            let at = if at >= 4 { at + 1 } else { at };
            datagram.bytes[at] ^= 1 << chance.below(8);
        }
        self.datagrams.push(datagram);
    }

    /// When the next one arrives.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.datagrams.iter().map(|datagram| datagram.at).min()
    }

    /// The next one. Those of one moment arrive in the order in which they were sent.
    pub(super) fn take_next(&mut self) -> Option<Datagram> {
        let at = self.next_at()?;
        let first = self.datagrams.iter().position(|datagram| datagram.at == at)?;
        Some(self.datagrams.remove(first))
    }
}

impl Datagram {
    /// The packet and its payload, if it is as it was sent.
    pub(super) fn read(&self) -> Option<(Packet, &[u8])> {
        Packet::receive(&envelope(1 - self.to), &self.bytes).ok()
    }
}

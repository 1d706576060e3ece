//! Packets: what they say and whom they concern. Their payload travels beside them (IBTA vol. 1, chapter 9).
//!
//! A [`Packet`] is only what a packet can be: the opcode, the headers and the padding follow from it. [`Packet::parse`] takes any
//! bytes and gives one or says why not; what is reserved it does not look at. How long the payloads of a message are together,
//! and how long each, is for the queue pair to judge, which knows the path.

mod acknowledgement;
mod base;
mod body;
mod cursor;
mod opcode;

pub use acknowledgement::{Aeth, Credits, FiveBits, Msn, Nak, Syndrome};
pub use base::{Base, DEFAULT_P_KEY};
pub use body::{
    Answer, Body, Datagram, Flush, FlushCheck, Part, ReadPart, Request, Reth, Tail, UnreliableRequest,
};

use crate::icrc::{Envelope, ICRC_LENGTH, icrc, icrc_twice};
use crate::malformed::Malformed;
use cursor::{Reader, Writer};
use opcode::{CONGESTION_PAYLOAD, FLUSH};

/// Bytes of headers at most: of an atomic on an extended connection.
pub const HEADERS_MAX: usize = Base::LENGTH + 4 + 28;

/// A packet without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Whom it concerns.
    pub base: Base,
    /// What it says.
    pub body: Body,
}

/// The headers of a packet, as they are sent.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    bytes: [u8; HEADERS_MAX],
    length: usize,
    padding: usize,
}

impl Headers {
    /// They.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The zeros behind the payload.
    pub fn padding(&self) -> &'static [u8] {
        &[0; 3][..self.padding]
    }
}

impl Packet {
    /// Takes the payload of a UDP datagram: the packet and its bytes, if the check at the end is right.
    pub fn receive<'a>(envelope: &Envelope, datagram: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (packet, check) = split(datagram)?;
        if icrc(envelope, packet) == *check {
            return Self::parse(packet);
        }
        if !is_flush(packet) || icrc_twice(envelope, packet) != *check {
            return Err(Malformed::Check);
        }
        let (mut read, payload) = Self::parse(packet)?;
        if let Some(flush) = read.body.flush_mut() {
            flush.check = FlushCheck::Twice;
        }
        Ok((read, payload))
    }

    /// The check over all of it, which lies in one piece.
    pub fn check(&self, envelope: &Envelope, packet: &[u8]) -> [u8; ICRC_LENGTH] {
        match self.body.flush().map(|flush| flush.check) {
            Some(FlushCheck::Twice) => icrc_twice(envelope, packet),
            Some(FlushCheck::Once) | None => icrc(envelope, packet),
        }
    }

    /// Reads a packet whose check was looked at: it, and its payload. `bytes` begin with its base header and end with its padding.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut reader = Reader(bytes);
        let (base, opcode, padding) = Base::parse(&reader.take("BTH")?)?;
        let body = Body::parse(opcode, &mut reader)?;
        let rest = reader.0;
        if body == Body::Congestion {
            // What the bytes are that come with it is reserved.
            let expected = rest.len() == CONGESTION_PAYLOAD && padding == 0 && base.backward_congestion;
            return if expected {
                Ok((Self { base, body }, &[]))
            } else {
                Err(Malformed::Payload { length: rest.len() })
            };
        }
        if padding > rest.len() || !rest.len().is_multiple_of(4) {
            return Err(Malformed::Padding { length: rest.len(), padding });
        }
        let payload = &rest[..rest.len() - padding];
        if !rest.is_empty() && !body.has_payload() {
            return Err(Malformed::Payload { length: rest.len() });
        }
        if padding > 0 && body.is_followed() {
            return Err(Malformed::PaddedBeforeEnd { padding });
        }
        Ok((Self { base, body }, payload))
    }

    /// Its headers, before a payload of `length` bytes. What has no payload has none, whatever is said.
    pub fn headers(&self, length: u32) -> Headers {
        let padding = if self.body.has_payload() { (4 - length as usize % 4) % 4 } else { 0 };
        let mut bytes = [0; HEADERS_MAX];
        let mut base = self.base;
        base.backward_congestion |= self.body == Body::Congestion;
        bytes[..Base::LENGTH].copy_from_slice(&base.emit(self.body.opcode(), padding));
        let mut writer = Writer { bytes: &mut bytes, length: Base::LENGTH };
        self.body.emit(&mut writer);
        let length = writer.length;
        Headers { bytes, length, padding }
    }
}

/// Whether a packet, which is long enough for its base header, is a flush by its opcode, and no longer than one.
pub(crate) fn is_flush(packet: &[u8]) -> bool {
    packet[0] & 0x1f == FLUSH && packet.len() <= HEADERS_MAX
}

/// A datagram's packet, and the check at its end.
fn split(datagram: &[u8]) -> Result<(&[u8], &[u8; ICRC_LENGTH]), Malformed> {
    const SHORTEST: usize = Base::LENGTH + ICRC_LENGTH;
    let short = Malformed::Short { header: "BTH", needed: SHORTEST, length: datagram.len() };
    if datagram.len() < SHORTEST {
        return Err(short);
    }
    datagram.split_last_chunk().ok_or(short)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod vectors;

//! The base transport header, with which every packet begins (IBTA vol. 1, 9.2).

use nonic_protocol::{Psn, QpNumber};

use crate::malformed::Malformed;

/// The P_Key of the default partition, with full membership (10.9.1).
pub const DEFAULT_P_KEY: u16 = 0xffff;

/// Version of the transport headers (9.2.5).
const VERSION: u8 = 0;

const SOLICITED: u8 = 1 << 7;
const MIGRATED: u8 = 1 << 6;
const FECN: u8 = 1 << 7;
const BECN: u8 = 1 << 6;
const ACK_REQUEST: u8 = 1 << 7;

/// What stands in the base transport header beside the opcode and the length of the padding, which follow from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Queue pair it is for (9.2.7).
    pub destination: QpNumber,
    /// Its number (9.2.10).
    pub psn: Psn,
    /// Partition (9.2.6).
    pub p_key: u16,
    /// Wake a receiver that waits for solicited events only (9.2.3). Counts in the last packet of a message.
    pub solicited: bool,
    /// State of path migration: whether the sender's path is settled (9.2.4).
    pub migrated: bool,
    /// The sender wants an answer (9.2.9).
    pub ack_request: bool,
    /// It met congestion on its way (FECN). Not in the check.
    pub forward_congestion: bool,
    /// The other direction met congestion (BECN). Not in the check.
    pub backward_congestion: bool,
}

impl Base {
    /// Its bytes.
    pub const LENGTH: usize = 12;

    /// A header as this library sends it: default partition, path settled, nothing asked for.
    pub const fn new(destination: QpNumber, psn: Psn) -> Self {
        Self {
            destination,
            psn,
            p_key: DEFAULT_P_KEY,
            solicited: false,
            migrated: true,
            ack_request: false,
            forward_congestion: false,
            backward_congestion: false,
        }
    }

    /// Reads the header: it, the opcode, and the bytes of padding. What is reserved is not looked at.
    pub(super) fn parse(bytes: &[u8; Self::LENGTH]) -> Result<(Self, u8, usize), Malformed> {
        let [opcode, flags, p0, p1, congestion, d0, d1, d2, ack, s0, s1, s2] = *bytes;
        if flags & 0xf != VERSION {
            return Err(Malformed::Version { version: flags & 0xf });
        }
        let base = Self {
            destination: QpNumber(u32::from_be_bytes([0, d0, d1, d2])),
            psn: Psn(u32::from_be_bytes([0, s0, s1, s2])),
            p_key: u16::from_be_bytes([p0, p1]),
            solicited: flags & SOLICITED != 0,
            migrated: flags & MIGRATED != 0,
            ack_request: ack & ACK_REQUEST != 0,
            forward_congestion: congestion & FECN != 0,
            backward_congestion: congestion & BECN != 0,
        };
        Ok((base, opcode, usize::from(flags >> 4 & 3)))
    }

    /// Writes it.
    pub(super) fn emit(&self, opcode: u8, padding: usize) -> [u8; Self::LENGTH] {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let [_, d0, d1, d2] = self.destination.0.to_be_bytes();
        let [_, s0, s1, s2] = self.psn.0.to_be_bytes();
        let [p0, p1] = self.p_key.to_be_bytes();
        let flags = bit(self.solicited, SOLICITED)
            | bit(self.migrated, MIGRATED)
            | (padding as u8 & 3) << 4
            | VERSION;
        let congestion = bit(self.forward_congestion, FECN) | bit(self.backward_congestion, BECN);
        [opcode, flags, p0, p1, congestion, d0, d1, d2, bit(self.ack_request, ACK_REQUEST), s0, s1, s2]
    }
}

//! What a queue pair shows its peers, so that a one-sided operation can run without its process.

use nonic_memory::{Access, ZoneId};
use nonic_protocol::{QpNumber, QpType};

/// The one word a queue pair publishes. Zero: takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSlot {
    /// Zone whose regions its peer may reach.
    pub zone: ZoneId,
    /// The only peer it talks to.
    pub peer: QpNumber,
    /// What that peer may do.
    pub access: Access,
    /// Whether it answers reads and atomics at all (`max_dest_rd_atomic` above 0).
    pub answers_reads: bool,
    /// Its service.
    pub transport: QpType,
}

const READY: u64 = 1 << 61;
const READS: u64 = 1 << 62;
const UNRELIABLE: u64 = 1 << 63;

impl QpSlot {
    /// As a word: zone in bits 0 to 31, peer in 32 to 55, rights in 56 to 60, then three flags.
    pub fn pack(&self) -> u64 {
        let flag = |on, bit| if on { bit } else { 0 };
        u64::from(self.zone.0)
            | u64::from(self.peer.0 & QpNumber::MASK) << 32
            | u64::from(self.access.bits() & 0x1f) << 56
            | READY
            | flag(self.answers_reads, READS)
            | flag(self.transport == QpType::UnreliableConnection, UNRELIABLE)
    }

    /// From a word a peer published; `None` if the queue pair takes nothing.
    #[inline(always)]
    pub fn unpack(word: u64) -> Option<Self> {
        if word & READY == 0 {
            return None;
        }
        Some(Self {
            zone: ZoneId(word as u32),
            peer: QpNumber::masked((word >> 32) as u32),
            access: Access::from_bits((word >> 56) as u32 & 0x1f)?,
            answers_reads: word & READS != 0,
            transport: if word & UNRELIABLE != 0 {
                QpType::UnreliableConnection
            } else {
                QpType::ReliableConnection
            },
        })
    }
}

impl QpSlot {
    /// Whether a queue pair of service `transport` and number `source` may do `want` here.
    #[inline(always)]
    pub fn allows(&self, source: QpNumber, transport: QpType, want: Access) -> bool {
        self.peer == source
            && self.transport == transport
            && self.access.contains(want)
            && (self.answers_reads || want == Access::REMOTE_WRITE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_survives_its_word() {
        for transport in [QpType::ReliableConnection, QpType::UnreliableConnection] {
            let slot = QpSlot {
                zone: ZoneId(u32::MAX),
                peer: QpNumber(0xff_ffff),
                access: Access::LOCAL_WRITE | Access::REMOTE_ATOMIC | Access::WINDOW_BIND,
                answers_reads: transport == QpType::ReliableConnection,
                transport,
            };
            assert_eq!(QpSlot::unpack(slot.pack()), Some(slot));
        }
        assert_eq!(QpSlot::unpack(0), None);
    }
}

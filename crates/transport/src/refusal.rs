//! Why a peer did not do what it was asked.

/// Why a request was refused, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No receive is posted; try again after this RNR timer code.
    NotReady {
        /// 0 to 31.
        timer: u8,
    },
    /// No such queue pair in a state that receives. A network would be silent; the requester treats it as silence.
    NoAnswer,
    /// A number other than the expected one came.
    OutOfSequence,
    /// The target cannot do this.
    InvalidRequest,
    /// Key, range, zone or right.
    Access,
    /// The target's own memory or queue failed it.
    Operation,
    /// The requester's memory could not be read.
    RequesterMemory,
    /// The target has no way to the requester's memory: the bytes must travel in the message.
    CannotPull,
}

impl Refusal {
    /// As a number on the ring.
    pub fn to_number(self) -> u32 {
        match self {
            Self::NotReady { timer } => u32::from(timer) << 8 | 1,
            Self::NoAnswer => 2,
            Self::OutOfSequence => 3,
            Self::InvalidRequest => 4,
            Self::Access => 5,
            Self::Operation => 6,
            Self::RequesterMemory => 7,
            Self::CannotPull => 8,
        }
    }

    /// From a number on the ring.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match (number & 0xff, number >> 8) {
            (1, timer @ 0..=31) => Self::NotReady { timer: timer as u8 },
            (2, 0) => Self::NoAnswer,
            (3, 0) => Self::OutOfSequence,
            (4, 0) => Self::InvalidRequest,
            (5, 0) => Self::Access,
            (6, 0) => Self::Operation,
            (7, 0) => Self::RequesterMemory,
            (8, 0) => Self::CannotPull,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_survives_the_ring() {
        let all = [
            Refusal::NotReady { timer: 31 },
            Refusal::NoAnswer,
            Refusal::OutOfSequence,
            Refusal::InvalidRequest,
            Refusal::Access,
            Refusal::Operation,
            Refusal::RequesterMemory,
            Refusal::CannotPull,
        ];
        for refusal in all {
            assert_eq!(Refusal::from_number(refusal.to_number()), Some(refusal));
        }
        assert_eq!(Refusal::from_number(0), None);
        assert_eq!(Refusal::from_number(32 << 8 | 1), None);
        assert_eq!(Refusal::from_number(9), None);
    }
}

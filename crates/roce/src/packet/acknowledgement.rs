//! The acknowledge extended transport header, which begins what a responder says (IBTA vol. 1, 9.3.5, 9.7.5).

use crate::malformed::Malformed;

/// Five bits of a syndrome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiveBits(u8);

impl FiveBits {
    /// The low five bits of `raw`.
    pub const fn masked(raw: u8) -> Self {
        Self(raw & 0x1f)
    }

    /// They.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Number of the last message that the responder has completed, 24 bits, counted from 0 (9.7.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Msn(u32);

impl Msn {
    /// The low 24 bits of `raw`.
    pub const fn masked(raw: u32) -> Self {
        Self(raw & 0xff_ffff)
    }

    /// They.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The next one.
    pub const fn next(self) -> Self {
        Self::masked(self.0.wrapping_add(1))
    }

    /// How far this is ahead of `other`: negative if behind.
    pub const fn ahead_of(self, other: Self) -> i32 {
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }
}

/// What is said of a request (9.7.5.1, table 44).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Done; how many more messages that need a receive may follow, if it is said.
    Acknowledge(Credits),
    /// No receive is there; try again after the time of this code (9.7.5.2.8).
    NotReady(FiveBits),
    /// Refused.
    Refuse(Nak),
}

/// Receives that are there for messages behind the last one that was completed (9.7.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits(FiveBits);

impl Credits {
    /// Nothing is said of them.
    pub const UNKNOWN: Self = Self(FiveBits(31));

    /// Those of this code.
    pub const fn from_code(code: FiveBits) -> Self {
        Self(code)
    }

    /// How many; `None` if nothing is said (table 45).
    pub fn messages(self) -> Option<u32> {
        const MESSAGES: [u32; 31] = [
            0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
            3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
        ];
        MESSAGES.get(usize::from(self.0.get())).copied()
    }
}

/// Why a request is refused (9.7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nak {
    /// A number other than the expected one came; that one is the packet's own.
    Sequence,
    /// The responder cannot do this.
    InvalidRequest,
    /// Key, range or right.
    RemoteAccess,
    /// The responder failed.
    RemoteOperation,
    /// A code without a meaning here.
    Other,
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// What is said.
    pub syndrome: Syndrome,
    /// Messages that the responder has completed.
    pub msn: Msn,
}

impl Aeth {
    /// Its bytes.
    pub const LENGTH: usize = 4;

    pub(super) fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Malformed> {
        let [syndrome, m0, m1, m2] = *bytes;
        let low = FiveBits::masked(syndrome);
        let syndrome = match (syndrome >> 5, low.get()) {
            (0, _) => Syndrome::Acknowledge(Credits(low)),
            (1, _) => Syndrome::NotReady(low),
            (3, 0) => Syndrome::Refuse(Nak::Sequence),
            (3, 1) => Syndrome::Refuse(Nak::InvalidRequest),
            (3, 2) => Syndrome::Refuse(Nak::RemoteAccess),
            (3, 3) => Syndrome::Refuse(Nak::RemoteOperation),
            (3, _) => Syndrome::Refuse(Nak::Other),
            // The highest bit is reserved, and two is.
            _ => return Err(Malformed::Syndrome { syndrome }),
        };
        Ok(Self { syndrome, msn: Msn::masked(u32::from_be_bytes([0, m0, m1, m2])) })
    }

    pub(super) fn emit(&self) -> [u8; Self::LENGTH] {
        let syndrome = match self.syndrome {
            Syndrome::Acknowledge(Credits(credits)) => credits.get(),
            Syndrome::NotReady(timer) => 0x20 | timer.get(),
            Syndrome::Refuse(nak) => {
                0x60 | match nak {
                    Nak::Sequence => 0,
                    Nak::InvalidRequest => 1,
                    Nak::RemoteAccess => 2,
                    Nak::RemoteOperation => 3,
                    Nak::Other => 0x1f,
                }
            }
        };
        let [_, m0, m1, m2] = self.msn.get().to_be_bytes();
        [syndrome, m0, m1, m2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_syndrome_says_nothing() {
        for syndrome in 0..=u8::MAX {
            let parsed = Aeth::parse(&[syndrome, 0, 0, 9]);
            match syndrome >> 5 {
                0 | 1 | 3 => assert_eq!(parsed.map(|aeth| aeth.msn), Ok(Msn::masked(9))),
                _ => assert_eq!(parsed, Err(Malformed::Syndrome { syndrome })),
            }
        }
    }

    #[test]
    fn credits_are_those_of_the_specification() {
        let credits = |code| Credits::from_code(FiveBits::masked(code)).messages();
        assert_eq!((credits(0), credits(5), credits(30), credits(31)), (Some(0), Some(6), Some(32768), None));
    }

    #[test]
    fn numbers_of_messages_wrap_at_24_bits() {
        let last = Msn::masked(0xff_ffff);
        assert_eq!((last.next(), last.next().ahead_of(last), last.ahead_of(last.next())), (Msn(0), 1, -1));
    }
}

//! What processes tell each other. A request for a service goes over a socket of its own, by the name of the service, or over
//! the *channel* that the two processes have, if the other offered the service the last time; everything after it goes over
//! the channel, and says by its number which connection it is about. Numbers are random, so that only who was told one can
//! speak of it.

use bytes::{Buf, BufMut, TryGetError};

use crate::{DATA_MAX, FACTS_MAX};

/// Begins every message: `nonic-cm`, in memory order.
const MAGIC: u64 = u64::from_le_bytes(*b"nonic-cm");
/// Of the messages and of the names.
pub(crate) const VERSION: u32 = 3;
/// Bytes of the longest name of a service, as an abstract socket can have it.
const NAME_MAX: usize = 107;
/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 16 + 2 + NAME_MAX + 16 + 8 + 2 + FACTS_MAX + 2 + DATA_MAX;

/// Where a process takes channels: a part of a socket's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessName(pub(crate) [u64; 2]);

/// Why a request was refused by something else than the program it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Refusal {
    /// Nobody listens there.
    #[error("nobody listens there")]
    NobodyListens = 1,
    /// Too many requests wait for an answer.
    #[error("too many requests wait for an answer there")]
    NoRoom = 2,
    /// The listener cannot serve it.
    #[error("the listener cannot serve the request")]
    Unable = 3,
}

impl Refusal {
    fn from_number(number: u32) -> Option<Self> {
        [Self::NobodyListens, Self::NoRoom, Self::Unable].into_iter().find(|reason| *reason as u32 == number)
    }
}

/// Who asks for a service, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inquiry {
    /// The process that asks.
    pub(crate) process: ProcessName,
    /// Its number for the connection.
    pub(crate) number: u64,
    /// Of the layer above.
    pub(crate) facts: Box<[u8]>,
    /// The program's.
    pub(crate) data: Box<[u8]>,
}

/// A message. `to` is the receiver's number of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// First on an attempt's socket: asks for a connection.
    Request(Inquiry),
    /// The answer on that socket: what follows comes over a channel, on which [`Message::Taken`] waits already.
    Moved,
    /// The other answer on that socket (`to` is 0), or over the channel: no connection.
    Refused { to: u64, reason: Refusal },
    /// The listener's process has the request; its number is `own`.
    Taken { to: u64, own: u64 },
    /// The program accepts.
    Reply { to: u64, facts: Box<[u8]>, data: Box<[u8]> },
    /// The program rejects.
    Reject { to: u64, data: Box<[u8]> },
    /// Who asked has seen the reply.
    Confirm { to: u64 },
    /// The connection, or what was to become one, is over.
    Disconnect { to: u64 },
    /// The connection has failed.
    Break { to: u64 },
    /// The sender's process ends in order, and with it every connection over this channel.
    Goodbye,
    /// Over a channel, to the process that opened it: asks for a connection to the service of this name.
    Ask { service: Box<[u8]>, inquiry: Inquiry },
    /// The answer to that, if it was not taken nor refused: this process does not offer the service.
    Elsewhere { to: u64 },
    /// Who asked over the channel has given up; the number is its own.
    Withdraw { number: u64 },
    /// A word of the layer above, between two that are connected.
    Word { to: u64, data: Box<[u8]> },
}

/// A message that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// It ends early.
    #[error("a message that ends early: {left} bytes are left where {needed} have to follow")]
    Short { needed: usize, left: usize },
    /// It goes on too long.
    #[error("a message that goes on for {surplus} bytes behind its end")]
    Long { surplus: usize },
    /// Not ours.
    #[error("a message that does not begin with nonic's mark")]
    Mark,
    /// Ours, of another version.
    #[error(
        "the other process uses version {theirs} of nonic's connections, this one {VERSION}: use one nonic for both"
    )]
    Version { theirs: u32 },
    /// No such kind.
    #[error("a message of unknown kind {kind}")]
    Kind { kind: u32 },
    /// No such reason.
    #[error("a refusal for the unknown reason {reason}")]
    Reason { reason: u32 },
    /// More bytes than there can be.
    #[error("a message with {count} bytes of what there are {limit} at most")]
    Count { count: usize, limit: usize },
}

impl From<TryGetError> for Malformed {
    fn from(error: TryGetError) -> Self {
        Self::Short { needed: error.requested, left: error.available }
    }
}

/// Some bytes behind their number, which was judged when they were given.
fn put_counted(message: &mut Vec<u8>, bytes: &[u8]) {
    message.put_u16_le(bytes.len() as u16);
    message.put_slice(bytes);
}

fn take_counted(message: &mut &[u8], limit: usize) -> Result<Box<[u8]>, Malformed> {
    let count = usize::from(message.try_get_u16_le()?);
    if count > limit {
        return Err(Malformed::Count { count, limit });
    }
    let mut bytes = vec![0; count].into_boxed_slice();
    message.try_copy_to_slice(&mut bytes)?;
    Ok(bytes)
}

fn put_inquiry(message: &mut Vec<u8>, Inquiry { process, number, facts, data }: &Inquiry) {
    message.put_u64_le(process.0[0]);
    message.put_u64_le(process.0[1]);
    message.put_u64_le(*number);
    put_counted(message, facts);
    put_counted(message, data);
}

fn take_inquiry(message: &mut &[u8]) -> Result<Inquiry, Malformed> {
    Ok(Inquiry {
        process: ProcessName([message.try_get_u64_le()?, message.try_get_u64_le()?]),
        number: message.try_get_u64_le()?,
        facts: take_counted(message, FACTS_MAX)?,
        data: take_counted(message, DATA_MAX)?,
    })
}

impl Message {
    /// As bytes.
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.put_u64_le(MAGIC);
        bytes.put_u32_le(VERSION);
        bytes.put_u32_le(self.kind());
        match self {
            Self::Request(inquiry) => put_inquiry(&mut bytes, inquiry),
            Self::Ask { service, inquiry } => {
                put_counted(&mut bytes, service);
                put_inquiry(&mut bytes, inquiry);
            }
            Self::Moved | Self::Goodbye => {}
            Self::Refused { to, reason } => {
                bytes.put_u64_le(*to);
                bytes.put_u32_le(*reason as u32);
            }
            Self::Taken { to, own } => {
                bytes.put_u64_le(*to);
                bytes.put_u64_le(*own);
            }
            Self::Reply { to, facts, data } => {
                bytes.put_u64_le(*to);
                put_counted(&mut bytes, facts);
                put_counted(&mut bytes, data);
            }
            Self::Reject { to, data } | Self::Word { to, data } => {
                bytes.put_u64_le(*to);
                put_counted(&mut bytes, data);
            }
            Self::Confirm { to: number }
            | Self::Disconnect { to: number }
            | Self::Break { to: number }
            | Self::Elsewhere { to: number }
            | Self::Withdraw { number } => bytes.put_u64_le(*number),
        }
        bytes
    }

    fn kind(&self) -> u32 {
        match self {
            Self::Request(_) => 1,
            Self::Moved => 2,
            Self::Refused { .. } => 3,
            Self::Taken { .. } => 4,
            Self::Reply { .. } => 5,
            Self::Reject { .. } => 6,
            Self::Confirm { .. } => 7,
            Self::Disconnect { .. } => 8,
            Self::Break { .. } => 9,
            Self::Goodbye => 10,
            Self::Ask { .. } => 11,
            Self::Elsewhere { .. } => 12,
            Self::Withdraw { .. } => 13,
            Self::Word { .. } => 14,
        }
    }

    /// From bytes that came from another process.
    pub(crate) fn parse(mut bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.try_get_u64_le()? != MAGIC {
            return Err(Malformed::Mark);
        }
        let theirs = bytes.try_get_u32_le()?;
        if theirs != VERSION {
            return Err(Malformed::Version { theirs });
        }
        let message = match bytes.try_get_u32_le()? {
            1 => Self::Request(take_inquiry(&mut bytes)?),
            2 => Self::Moved,
            3 => {
                let (to, reason) = (bytes.try_get_u64_le()?, bytes.try_get_u32_le()?);
                Self::Refused {
                    to,
                    reason: Refusal::from_number(reason).ok_or(Malformed::Reason { reason })?,
                }
            }
            4 => Self::Taken { to: bytes.try_get_u64_le()?, own: bytes.try_get_u64_le()? },
            5 => Self::Reply {
                to: bytes.try_get_u64_le()?,
                facts: take_counted(&mut bytes, FACTS_MAX)?,
                data: take_counted(&mut bytes, DATA_MAX)?,
            },
            6 => Self::Reject { to: bytes.try_get_u64_le()?, data: take_counted(&mut bytes, DATA_MAX)? },
            7 => Self::Confirm { to: bytes.try_get_u64_le()? },
            8 => Self::Disconnect { to: bytes.try_get_u64_le()? },
            9 => Self::Break { to: bytes.try_get_u64_le()? },
            10 => Self::Goodbye,
            11 => {
                Self::Ask { service: take_counted(&mut bytes, NAME_MAX)?, inquiry: take_inquiry(&mut bytes)? }
            }
            12 => Self::Elsewhere { to: bytes.try_get_u64_le()? },
            13 => Self::Withdraw { number: bytes.try_get_u64_le()? },
            14 => Self::Word { to: bytes.try_get_u64_le()?, data: take_counted(&mut bytes, DATA_MAX)? },
            kind => return Err(Malformed::Kind { kind }),
        };
        if bytes.is_empty() { Ok(message) } else { Err(Malformed::Long { surplus: bytes.len() }) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn bytes(limit: usize) -> impl Strategy<Value = Box<[u8]>> {
        vec(any::<u8>(), 0..=limit).prop_map(Vec::into_boxed_slice)
    }

    fn inquiries() -> impl Strategy<Value = Inquiry> {
        let parts = (any::<[u64; 2]>(), any::<u64>(), bytes(FACTS_MAX), bytes(DATA_MAX));
        parts.prop_map(|(process, number, facts, data)| Inquiry {
            process: ProcessName(process),
            number,
            facts,
            data,
        })
    }

    fn messages() -> impl Strategy<Value = Message> {
        let reason = prop_oneof![Just(Refusal::NobodyListens), Just(Refusal::NoRoom), Just(Refusal::Unable)];
        prop_oneof![
            inquiries().prop_map(Message::Request),
            (bytes(NAME_MAX), inquiries()).prop_map(|(service, inquiry)| Message::Ask { service, inquiry }),
            any::<u64>().prop_map(|to| Message::Elsewhere { to }),
            any::<u64>().prop_map(|number| Message::Withdraw { number }),
            (any::<u64>(), bytes(DATA_MAX)).prop_map(|(to, data)| Message::Word { to, data }),
            Just(Message::Moved),
            Just(Message::Goodbye),
            (any::<u64>(), reason).prop_map(|(to, reason)| Message::Refused { to, reason }),
            (any::<u64>(), any::<u64>()).prop_map(|(to, own)| Message::Taken { to, own }),
            (any::<u64>(), bytes(FACTS_MAX), bytes(DATA_MAX)).prop_map(|(to, facts, data)| Message::Reply {
                to,
                facts,
                data
            }),
            (any::<u64>(), bytes(DATA_MAX)).prop_map(|(to, data)| Message::Reject { to, data }),
            any::<u64>().prop_map(|to| Message::Confirm { to }),
            any::<u64>().prop_map(|to| Message::Disconnect { to }),
            any::<u64>().prop_map(|to| Message::Break { to }),
        ]
    }

    proptest! {
        #[test]
        fn every_message_comes_back_as_it_went(message in messages()) {
            let bytes = message.emit();
            prop_assert!(bytes.len() <= LONGEST);
            prop_assert_eq!(Message::parse(&bytes), Ok(message));
        }

        #[test]
        fn no_message_is_understood_that_ends_early_or_goes_on(message in messages(), cut in any::<usize>()) {
            let mut bytes = message.emit();
            bytes.push(0);
            prop_assert_eq!(Message::parse(&bytes), Err(Malformed::Long { surplus: 1 }));
            bytes.truncate(cut % (bytes.len() - 1));
            let early = matches!(Message::parse(&bytes), Err(Malformed::Short { .. }));
            prop_assert!(early, "{:?}", Message::parse(&bytes));
        }

        #[test]
        fn what_a_changed_message_is_taken_for_would_be_sent_the_same_way(
            message in messages(),
            place in any::<usize>(),
            value in any::<u8>(),
        ) {
            let mut bytes = message.emit();
            let place = place % bytes.len();
            bytes[place] = value;
            if let Ok(other) = Message::parse(&bytes) {
                prop_assert_eq!(other.emit(), bytes);
            }
        }

        #[test]
        fn no_bytes_make_the_reader_fall(bytes in vec(any::<u8>(), 0..600), begins_well in any::<bool>()) {
            let mut all = Vec::new();
            if begins_well {
                all.extend_from_slice(&MAGIC.to_le_bytes());
                all.extend_from_slice(&VERSION.to_le_bytes());
                all.extend_from_slice(&[bytes.first().copied().unwrap_or(0) % 16, 0, 0, 0]);
            }
            all.extend_from_slice(&bytes);
            if let Ok(message) = Message::parse(&all) {
                prop_assert_eq!(message.emit(), all);
            }
        }
    }

    #[test]
    fn more_private_data_than_there_can_be_is_refused() {
        let mut bytes = Message::Reject { to: 1, data: vec![7; DATA_MAX].into() }.emit();
        let at = bytes.len() - DATA_MAX - 2;
        bytes[at..at + 2].copy_from_slice(&(DATA_MAX as u16 + 1).to_le_bytes());
        bytes.push(7);
        assert_eq!(Message::parse(&bytes), Err(Malformed::Count { count: DATA_MAX + 1, limit: DATA_MAX }));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Message::Moved.emit();
        bytes[8] = 9;
        assert_eq!(Message::parse(&bytes), Err(Malformed::Version { theirs: 9 }));
    }
}

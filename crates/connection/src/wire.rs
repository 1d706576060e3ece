//! What processes tell each other. A request for a service goes over a socket of its own, by the name of the service, or over
//! the *channel* that the two processes have, if the other offered the service the last time; everything after it goes over
//! the channel, and says by its number which connection it is about. Numbers are random, so that only who was told one can
//! speak of it.

use nonic_message::{Malformed, Protocol, kinds, parts};

use crate::{DATA_MAX, FACTS_MAX};

/// Of the messages and of the names.
pub(crate) const VERSION: u32 = 3;
const PROTOCOL: Protocol = Protocol::new(*b"nonic-cm", "connections").version(VERSION);
/// Bytes of the longest name of a service, as an abstract socket can have it.
const NAME_MAX: usize = 107;
/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 16 + 2 + NAME_MAX + 16 + 8 + 2 + FACTS_MAX + 2 + DATA_MAX;

/// Where a process takes channels: a part of a socket's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessName(pub(crate) [u64; 2]);

/// Why a request was refused by something else than the program it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody listens there.
    #[error("nobody listens there")]
    NobodyListens,
    /// Too many requests wait for an answer.
    #[error("too many requests wait for an answer there")]
    NoRoom,
    /// The listener cannot serve it.
    #[error("the listener cannot serve the request")]
    Unable,
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

parts!(ProcessName(words));
parts!(Inquiry { process, number, facts at most FACTS_MAX, data at most DATA_MAX });
kinds!(Refusal { 1 => NobodyListens, 2 => NoRoom, 3 => Unable });
kinds!(Message {
    1 => Request(inquiry),
    2 => Moved,
    3 => Refused { to, reason },
    4 => Taken { to, own },
    5 => Reply { to, facts at most FACTS_MAX, data at most DATA_MAX },
    6 => Reject { to, data at most DATA_MAX },
    7 => Confirm { to },
    8 => Disconnect { to },
    9 => Break { to },
    10 => Goodbye,
    11 => Ask { service at most NAME_MAX, inquiry },
    12 => Elsewhere { to },
    13 => Withdraw { number },
    14 => Word { to, data at most DATA_MAX },
});

impl Message {
    /// As bytes.
    pub(crate) fn emit(&self) -> Vec<u8> {
        PROTOCOL.emit(self)
    }

    /// From bytes that came from another process.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        PROTOCOL.parse(bytes)
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
                all.extend_from_slice(&Message::Moved.emit()[..12]);
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
    fn the_bytes_of_a_message_are_these() {
        let head = |kind: u8| [&b"nonic-cm\x03\0\0\0"[..], &[kind, 0, 0, 0]].concat();
        let number = |number: u64| number.to_le_bytes().to_vec();
        let inquiry = Inquiry {
            process: ProcessName([1, 2]),
            number: 3,
            facts: Box::from(*b"facts"),
            data: Box::default(),
        };
        let told = [number(1), number(2), number(3), b"\x05\0facts\0\0".to_vec()].concat();
        assert_eq!(Message::Request(inquiry.clone()).emit(), [head(1), told.clone()].concat());
        let ask = Message::Ask { service: Box::from(*b"name"), inquiry };
        assert_eq!(ask.emit(), [head(11), b"\x04\0name".to_vec(), told].concat());
        let refused = Message::Refused { to: 7, reason: Refusal::Unable };
        assert_eq!(refused.emit(), [head(3), number(7), vec![3, 0, 0, 0]].concat());
        let word = Message::Word { to: 9, data: Box::from(*b"word") };
        assert_eq!(word.emit(), [head(14), number(9), b"\x04\0word".to_vec()].concat());
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Message::Moved.emit();
        bytes[8] = 9;
        let named = Malformed::Version { of: "connections", theirs: 9, ours: VERSION };
        assert_eq!(Message::parse(&bytes), Err(named));
    }
}

//! What a process shows of its identifiers, for people who ask who is connected with whom: a file of records, which
//! `nonic doctor --pid` finds among the process's descriptors. No device reads it.

mod copy;
mod table;

use std::net::{IpAddr, SocketAddr};

pub use copy::{ShownIdentifiers, read_identifiers};
pub(crate) use table::Record;

use crate::PortSpace;

/// Name of the file, as `/proc` shows it.
pub const IDENTIFIERS_NAME: &str = "nonic-identifiers";

/// What the file begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"nonicid1");
/// Places in it: the owner's process id, and how many identifiers have no record.
const OWNER: usize = 8;
const BEYOND: usize = 16;
/// Where records begin, how long each is, and how many there are.
const RECORDS: usize = 64;
const RECORD: usize = 64;
const COUNT: usize = 1023;
const LENGTH: usize = RECORDS + COUNT * RECORD;

/// How far an identifier has come, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Progress {
    /// It listens.
    Listening = 1,
    /// Its connection is established.
    Connected,
    /// It has asked, or its peer has answered and it has not confirmed that.
    Asking,
    /// It was asked, and has not answered, or its peer has not confirmed the answer.
    Asked,
    /// One side has ended the connection, the other not yet.
    Ending,
    /// The connection, or the attempt at one, is over.
    Over,
    /// It has a route to its peer.
    Routed,
    /// It knows its peer's address.
    Resolved,
    /// It is bound to an address.
    Bound,
    /// It has nothing yet.
    Idle,
}

impl Progress {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Listening,
        Self::Connected,
        Self::Asking,
        Self::Asked,
        Self::Ending,
        Self::Over,
        Self::Routed,
        Self::Resolved,
        Self::Bound,
        Self::Idle,
    ];
}

/// What is shown of one identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentifierFacts {
    /// Its port space.
    pub space: PortSpace,
    /// Its addresses are of the family `AF_IB`.
    pub by_gid: bool,
    /// How far it has come.
    pub progress: Progress,
    /// Its own address, without the scope of a link-local one.
    pub source: Option<SocketAddr>,
    /// Its peer's.
    pub destination: Option<SocketAddr>,
}

/// What stands in a record, behind its stamp.
type Words = [u64; 6];

const SPACE_SHIFT: u32 = 8;
const BY_GID: u64 = 1 << 24;
const SOURCE_SHIFT: u32 = 32;
const DESTINATION_SHIFT: u32 = 40;

/// Family and bits of an address.
fn address_words(address: Option<SocketAddr>) -> (u64, [u64; 2]) {
    let Some(address) = address else { return (0, [0; 2]) };
    let (family, bits) = match address.ip() {
        IpAddr::V4(four) => (4, u128::from(u32::from(four))),
        IpAddr::V6(six) => (6, u128::from(six)),
    };
    (family, [bits as u64, (bits >> 64) as u64])
}

fn address(family: u64, [low, high]: [u64; 2], port: u64) -> Option<SocketAddr> {
    let ip: IpAddr = match family & 0xff {
        4 => std::net::Ipv4Addr::from(low as u32).into(),
        6 => std::net::Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port as u16))
}

impl IdentifierFacts {
    fn to_words(self) -> Words {
        let (source, [source_low, source_high]) = address_words(self.source);
        let (destination, [low, high]) = address_words(self.destination);
        let kind = self.progress as u64
            | (self.space as u64) << SPACE_SHIFT
            | if self.by_gid { BY_GID } else { 0 }
            | source << SOURCE_SHIFT
            | destination << DESTINATION_SHIFT;
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| u64::from(address.port()));
        [kind, port(self.source) << 16 | port(self.destination), source_low, source_high, low, high]
    }

    /// From words of another process's; `None` if they are no identifier's.
    fn from_words([kind, ports, source_low, source_high, low, high]: Words) -> Option<Self> {
        let number = (kind & 0xff) as usize;
        Some(Self {
            space: PortSpace::from_number((kind >> SPACE_SHIFT & 0xffff) as u32)?,
            by_gid: kind & BY_GID != 0,
            progress: *Progress::ALL.get(number.checked_sub(1)?)?,
            source: address(kind >> SOURCE_SHIFT, [source_low, source_high], ports >> 16),
            destination: address(kind >> DESTINATION_SHIFT, [low, high], ports),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses() -> impl Strategy<Value = Option<SocketAddr>> {
        proptest::option::of(any::<(IpAddr, u16)>().prop_map(SocketAddr::from))
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_is_read(
            space in proptest::sample::select(vec![PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::InfiniBand, PortSpace::Scif]),
            by_gid: bool,
            progress in proptest::sample::select(Progress::ALL.to_vec()),
            source in addresses(),
            destination in addresses(),
        ) {
            let facts = IdentifierFacts { space, by_gid, progress, source, destination };
            prop_assert_eq!(IdentifierFacts::from_words(facts.to_words()), Some(facts));
        }

        #[test]
        fn any_words_are_some_identifier_or_none(words: [u64; 6]) {
            let _ = IdentifierFacts::from_words(words);
        }
    }

    #[test]
    fn numbers_lead_back_to_what_they_stand_for() {
        for (place, progress) in Progress::ALL.into_iter().enumerate() {
            assert_eq!(progress as usize, place + 1);
        }
    }
}

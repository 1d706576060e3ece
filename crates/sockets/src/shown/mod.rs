//! What a process shows of its TCP sockets, for people who ask which way a connection goes: a file with a record for each number, which
//! `nonic doctor --pid` finds among the process's descriptors. Nothing else reads it.
//!
//! A record stays until its number is used again. It names the kernel's socket, so whoever finds another one under the number knows that
//! it tells of what was there before.

mod copy;
mod table;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub use copy::{ShownSockets, read_sockets};
pub(crate) use table::{begin, note};

use crate::table::NUMBERS;

/// Name of the file, as `/proc` shows it.
pub const SOCKETS_NAME: &str = "nonic-sockets";

/// What the file begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"nonicso1");
/// Places in it: the owner's process id, and which sockets are taken.
const OWNER: usize = 8;
const TAKEN: usize = 16;
/// Where records begin, how long each is, and how many there are.
const RECORDS: usize = 4096;
const RECORD: usize = 64;
const LENGTH: usize = RECORDS + NUMBERS * RECORD;

/// Which way a socket goes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Course {
    /// Connected by a stream.
    Stream = 1,
    /// Listens by a stream and by TCP.
    Listens,
    /// Listens by TCP alone, since a stream cannot listen there: see [`SocketFacts::errno`].
    ListensByTcp,
    /// Listens by TCP alone, as `NONIC_SOCKETS=connect` says.
    OnlyConnects,
    /// Goes over TCP: nobody listens by a stream where it was connected to.
    Nobody,
    /// Goes over TCP: who listens there by a stream is a user who does not listen by TCP.
    Stranger,
    /// Goes over TCP: the stream was refused, or could not be made: see [`SocketFacts::errno`].
    Refused,
    /// Goes over TCP to the process that made it, which carries it on by a stream: a child has it, too.
    Carried,
}

impl Course {
    const ALL: [Self; 8] = [
        Self::Stream,
        Self::Listens,
        Self::ListensByTcp,
        Self::OnlyConnects,
        Self::Nobody,
        Self::Stranger,
        Self::Refused,
        Self::Carried,
    ];
}

/// What is shown of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketFacts {
    /// The kernel's socket under the number, as `stat(2)` names it.
    pub inode: u64,
    /// Which way it goes.
    pub course: Course,
    /// With which error a stream was refused, else 0.
    pub errno: i32,
    /// Its own address, as the program knows it.
    pub source: Option<SocketAddr>,
    /// Its peer's.
    pub destination: Option<SocketAddr>,
}

/// What stands in a record, behind its stamp.
type Words = [u64; 7];

const HAS_SOURCE: u64 = 1 << 8;
const HAS_DESTINATION: u64 = 1 << 9;
const ERRNO_SHIFT: u32 = 32;

fn address_words(address: Option<SocketAddr>) -> [u64; 2] {
    let bits = match address.map(|address| address.ip()) {
        Some(IpAddr::V4(four)) => u128::from(four.to_ipv6_mapped()),
        Some(IpAddr::V6(six)) => u128::from(six),
        None => 0,
    };
    [bits as u64, (bits >> 64) as u64]
}

fn address(is_there: bool, [low, high]: [u64; 2], port: u64) -> Option<SocketAddr> {
    let ip = Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).to_canonical();
    is_there.then(|| SocketAddr::new(ip, port as u16))
}

impl SocketFacts {
    fn to_words(self) -> Words {
        let flag = |address: Option<_>, flag| if address.is_some() { flag } else { 0 };
        let kind = self.course as u64
            | flag(self.source, HAS_SOURCE)
            | flag(self.destination, HAS_DESTINATION)
            | u64::from(self.errno.cast_unsigned()) << ERRNO_SHIFT;
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| u64::from(address.port()));
        let [source, destination] = [self.source, self.destination].map(address_words);
        let ports = port(self.source) << 16 | port(self.destination);
        [self.inode, kind, ports, source[0], source[1], destination[0], destination[1]]
    }

    /// From words of another process's; `None` if they are no socket's.
    fn from_words([inode, kind, ports, source_low, source_high, low, high]: Words) -> Option<Self> {
        let number = (kind & 0xff) as usize;
        Some(Self {
            inode,
            course: *Course::ALL.get(number.checked_sub(1)?)?,
            errno: ((kind >> ERRNO_SHIFT) as u32).cast_signed(),
            source: address(kind & HAS_SOURCE != 0, [source_low, source_high], ports >> 16),
            destination: address(kind & HAS_DESTINATION != 0, [low, high], ports),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_is_read() {
        let [four, six] = ["127.0.0.1:7000", "[2001:db8::1]:65535"].map(|address| address.parse().ok());
        for (place, course) in Course::ALL.into_iter().enumerate() {
            assert_eq!(course as usize, place + 1);
            for (source, destination) in [(four, six), (six, None), (None, four), (None, None)] {
                let facts =
                    SocketFacts { inode: u64::MAX, course, errno: libc::EADDRINUSE, source, destination };
                assert_eq!(SocketFacts::from_words(facts.to_words()), Some(facts));
            }
        }
    }

    #[test]
    fn a_mapped_address_is_shown_as_the_one_of_ipv4_that_it_stands_for() {
        let facts = SocketFacts {
            inode: 1,
            course: Course::Stream,
            errno: 0,
            source: "[::ffff:127.0.0.1]:1".parse().ok(),
            destination: None,
        };
        let shown = SocketFacts::from_words(facts.to_words()).unwrap();
        assert_eq!(shown.source, "127.0.0.1:1".parse().ok());
    }

    #[test]
    fn words_that_are_no_sockets_are_none() {
        assert_eq!(SocketFacts::from_words([0; 7]), None);
        assert_eq!(SocketFacts::from_words([1, 9, 0, 0, 0, 0, 0]), None);
        assert_eq!(SocketFacts::from_words([1, u64::MAX, 0, 0, 0, 0, 0]), None);
    }
}

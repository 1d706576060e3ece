//! What stands before the bytes of a datagram: on the way by UDP, and on the way by the device.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nonic_device::QpNumber;

/// The first word of what goes by UDP.
const TAG: u32 = 0x5555_5555;
const DATA: u8 = 0;
const ANSWER: u8 = 7;
/// Queue pairs have numbers of 24 bits.
const NUMBER: u32 = 0xff_ffff;

/// Before what goes by UDP, to a peer whose queue pair is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamingHeader {
    /// Whether data follow; else it answers some.
    pub(crate) has_data: bool,
    /// The sender's queue pair.
    pub(crate) queue_pair: QpNumber,
    /// The address that it belongs to.
    pub(crate) address: IpAddr,
}

impl NamingHeader {
    /// The longest.
    pub(crate) const LENGTH_MAX: usize = 28;

    /// Appends it.
    pub(crate) fn emit(&self, bytes: &mut Vec<u8>) {
        let (version, length) = if self.address.is_ipv4() { (4, 16) } else { (6, 28) };
        bytes.extend(TAG.to_be_bytes());
        bytes.extend([version, if self.has_data { DATA } else { ANSWER }, length, 0]);
        bytes.extend(self.queue_pair.0.to_be_bytes());
        match self.address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }

    /// What came by UDP: the header, and what follows it. `None` if it is not from one of these sockets.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        if word(0)? != TAG {
            return None;
        }
        let [version, operation, length] = *bytes.get(4..)?.first_chunk()?;
        let address = address(version, length, (16, 28), bytes.get(12..)?)?;
        let has_data = match operation {
            DATA => true,
            ANSWER => false,
            _ => return None,
        };
        let queue_pair = QpNumber(word(8)? & NUMBER);
        Some((Self { has_data, queue_pair, address }, bytes.get(length.into()..)?))
    }
}

/// The address that a header of a version and a length carries.
fn address(version: u8, length: u8, lengths: (u8, u8), bytes: &[u8]) -> Option<IpAddr> {
    match (version, length) {
        (4, length) if length == lengths.0 => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        (6, length) if length == lengths.1 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Before what goes by the device: from whom it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceHeader(pub(crate) SocketAddr);

impl SourceHeader {
    /// The longest.
    pub(crate) const LENGTH_MAX: usize = 24;

    /// In bytes.
    pub(crate) fn length(&self) -> usize {
        if self.0.is_ipv4() { 8 } else { 24 }
    }

    /// As it is sent: [`SourceHeader::length`] bytes.
    pub(crate) fn emit(&self) -> [u8; Self::LENGTH_MAX] {
        let mut bytes = [0; Self::LENGTH_MAX];
        bytes[1] = self.length() as u8;
        bytes[2..4].copy_from_slice(&self.0.port().to_be_bytes());
        match self.0 {
            SocketAddr::V4(address) => {
                bytes[0] = 4;
                bytes[4..8].copy_from_slice(&address.ip().octets());
            }
            SocketAddr::V6(address) => {
                bytes[0] = 6;
                bytes[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
                bytes[8..].copy_from_slice(&address.ip().octets());
            }
        }
        bytes
    }

    /// That of a datagram; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let [version, length, high, low] = *bytes.first_chunk()?;
        let at = if version == 4 { 4 } else { 8 };
        let address = address(version, length, (8, 24), bytes.get(at..)?)?;
        Some(Self(SocketAddr::new(address, u16::from_be_bytes([high, low]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_on_the_way_by_udp_is_as_recorded() {
        let header = NamingHeader {
            has_data: true,
            queue_pair: QpNumber(0x11),
            address: Ipv4Addr::new(10, 0, 0, 1).into(),
        };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        assert_eq!(bytes, [0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 0, 0, 0x11, 10, 0, 0, 1]);
        bytes.extend(b"data");
        assert_eq!(NamingHeader::parse(&bytes), Some((header, &b"data"[..])));
        let answer = NamingHeader { has_data: false, address: Ipv6Addr::LOCALHOST.into(), ..header };
        let mut bytes = Vec::new();
        answer.emit(&mut bytes);
        assert_eq!((bytes.len(), bytes[5], bytes[6]), (NamingHeader::LENGTH_MAX, 7, 28));
        assert_eq!(NamingHeader::parse(&bytes), Some((answer, &b""[..])));
    }

    #[test]
    fn a_header_on_the_way_by_the_device_tells_from_whom_it_is() {
        for (text, length) in [("10.0.0.1:258", 8), ("[::1]:258", 24)] {
            let header = SourceHeader(text.parse().unwrap());
            let bytes = header.emit();
            assert_eq!((header.length(), bytes[1], &bytes[2..4]), (length, length as u8, &[1, 2][..]));
            assert_eq!(SourceHeader::parse(&bytes[..length]), Some(header));
        }
    }

    #[test]
    fn what_is_cut_short_or_of_others_is_refused() {
        let mut bytes = Vec::new();
        let header =
            NamingHeader { has_data: true, queue_pair: QpNumber(1), address: Ipv4Addr::LOCALHOST.into() };
        header.emit(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(NamingHeader::parse(&bytes[..length]), None);
        }
        for (at, value) in [(0, 0), (4, 5), (5, 1), (6, 28)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert_eq!(NamingHeader::parse(&wrong), None);
        }
        let source = SourceHeader("[::1]:1".parse().unwrap()).emit();
        for length in 0..source.len() {
            assert_eq!(SourceHeader::parse(&source[..length]), None);
        }
        assert_eq!(SourceHeader::parse(&[4, 24, 0, 1, 1, 2, 3, 4]), None);
    }
}

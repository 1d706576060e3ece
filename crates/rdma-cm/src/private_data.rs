//! Where a program's private data stand in messages, and what of a request a listener is shown (IBTA vol. 1, annex A11).
//!
//! A request has a field of fixed length. Who names addresses of IP has them in front, and the rest of the field; who names GIDs (the family
//! `AF_IB`) has all of it. Which of both a request is, its first two bytes say, as Linux has it: so the first is 0 whatever the program
//! says, and a program that names GIDs may put addresses in front by itself, to be understood by who listens at one of IP.

use std::net::SocketAddr;

use nonic_roce::{AddressHeader, Front, Naming};
use nonic_wire_connection::host_address;

use crate::facts::Facts;

/// What kind of identifier, and so of request, it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Kind {
    /// It asks where datagrams go to, not for a connection.
    pub(crate) datagrams: bool,
    /// It names its addresses by GIDs.
    pub(crate) by_gid: bool,
}

impl Kind {
    /// Length of a request's field.
    const fn field(self) -> usize {
        if self.datagrams { 216 } else { 92 }
    }

    /// Bytes of private data in a request at most.
    pub(crate) const fn request_max(self) -> usize {
        self.field() - if self.by_gid { 0 } else { AddressHeader::LENGTH }
    }

    /// Bytes of private data in a reply at most.
    pub(crate) const fn reply_max(self) -> usize {
        if self.datagrams { 136 } else { 196 }
    }

    /// Bytes of private data in a rejection at most.
    pub(crate) const fn reject_max(self) -> usize {
        if self.datagrams { 136 } else { 148 }
    }

    /// What a program says in a request, as it goes: the first byte of a field that is all the program's says that there are no addresses in
    /// front, or which follow.
    pub(crate) fn said(self, data: &[u8]) -> Box<[u8]> {
        let mut said: Box<[u8]> = data.into();
        if let Some(version) = said.first_mut().filter(|_| self.by_gid) {
            *version = 0;
        }
        said
    }

    /// Whose listeners a request of this kind is for that says this.
    pub(crate) fn naming(self, said: &[u8]) -> Naming {
        match Front::read(&padded(said, self.field())) {
            Some(Front::Nothing) if self.by_gid => Naming::Gid,
            _ => Naming::Ip,
        }
    }

    /// What a listener of this kind is shown of a request of this host. `None`: it is not for it.
    pub(crate) fn take_request(self, facts: Facts) -> Option<Facts> {
        if facts.kind.datagrams != self.datagrams {
            return None;
        }
        let said = &facts.parameters.private_data;
        let field = if facts.kind.by_gid {
            padded(said, self.field())
        } else {
            padded(&[&header(facts.source, facts.destination).emit(), &said[..]].concat(), self.field())
        };
        self.take_field(&field, facts)
    }

    /// The same of a request whose field came with it.
    pub(crate) fn take_field(self, field: &[u8], mut facts: Facts) -> Option<Facts> {
        match Front::read(field)? {
            Front::Addresses(named) => {
                facts.source.set_port(named.source_port);
                if named != header(facts.source, facts.destination) {
                    return None;
                }
            }
            Front::Nothing if self.by_gid => {}
            Front::Nothing => return None,
        }
        let start = if self.by_gid { 0 } else { AddressHeader::LENGTH };
        if self.by_gid {
            // A GID's port nobody says.
            facts.source.set_port(0);
        }
        facts.parameters.private_data = field[start..].into();
        Some(facts)
    }
}

/// Who asks whom, as it stands in front of private data.
pub(crate) fn header(source: SocketAddr, destination: SocketAddr) -> AddressHeader {
    AddressHeader {
        source_port: source.port(),
        source: host_address(source.ip()),
        destination: host_address(destination.ip()),
    }
}

/// Private data as InfiniBand's messages carry it: a field of fixed length, zeros behind what was said.
pub(crate) fn padded(said: &[u8], length: usize) -> Box<[u8]> {
    let mut field = vec![0; length].into_boxed_slice();
    let said = &said[..said.len().min(length)];
    field[..said.len()].copy_from_slice(said);
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnectionParameters;

    const IP: Kind = Kind { datagrams: false, by_gid: false };
    const GID: Kind = Kind { datagrams: false, by_gid: true };

    fn asked(kind: Kind, data: &[u8]) -> Facts {
        Facts {
            parameters: ConnectionParameters {
                private_data: kind.said(data),
                ..ConnectionParameters::default()
            },
            packet: 0,
            source: "10.0.0.1:4711".parse().unwrap(),
            destination: "10.0.0.2:7174".parse().unwrap(),
            kind,
        }
    }

    fn shown(listener: Kind, facts: Facts) -> Option<(u16, Box<[u8]>)> {
        let facts = listener.take_request(facts)?;
        Some((facts.source.port(), facts.parameters.private_data))
    }

    #[test]
    fn private_data_fills_its_field_with_zeros_and_never_overflows_it() {
        assert_eq!(*padded(b"ab", 4), *b"ab\0\0");
        assert_eq!(*padded(b"abcdef", 4), *b"abcd");
        assert_eq!(*padded(b"", 2), [0, 0]);
    }

    #[test]
    fn a_field_has_room_for_all_or_for_what_addresses_leave() {
        let datagrams = |by_gid| Kind { datagrams: true, by_gid };
        let rooms = [IP, GID, datagrams(false), datagrams(true)].map(Kind::request_max);
        assert_eq!(rooms, [56, 92, 180, 216]);
        assert_eq!([IP, GID].map(Kind::reply_max), [196; 2]);
        assert_eq!([IP, GID].map(Kind::reject_max), [148; 2]);
    }

    #[test]
    fn who_listens_by_a_gid_has_all_of_the_field_and_who_listens_by_an_address_what_is_behind_the_addresses()
    {
        assert_eq!(shown(IP, asked(IP, b"data")), Some((4711, padded(b"data", 56))));
        assert_eq!(shown(GID, asked(GID, b"\0\x7fdata")), Some((0, padded(b"\0\x7fdata", 92))));
        let (port, all) = shown(GID, asked(IP, b"data")).unwrap();
        assert_eq!((port, all.len(), &all[..2], &all[36..40]), (0, 92, &[0, 0x40][..], &b"data"[..]));
    }

    #[test]
    fn who_listens_by_an_address_is_not_asked_by_a_gid_unless_the_program_says_the_addresses() {
        assert_eq!(shown(IP, asked(GID, b"\0data")), None);
        assert_eq!(shown(IP, asked(GID, b"")), None);
        let Facts { source, destination, .. } = asked(GID, b"");
        let right = header(source, destination).emit();
        let behind = [&right[..], b"data"].concat();
        assert_eq!(shown(IP, asked(GID, &behind)), Some((4711, padded(b"data", 56))));
        // The addresses of others.
        for at in [19, 35] {
            let mut wrong = behind.clone();
            wrong[at] ^= 1;
            assert_eq!([IP, GID].map(|listener| shown(listener, asked(GID, &wrong))), [None, None]);
        }
    }

    #[test]
    fn the_first_byte_of_all_of_the_field_is_not_the_programs() {
        assert_eq!(*GID.said(b"data"), *b"\0ata");
        assert_eq!((&*GID.said(b""), &*IP.said(b"data")), (&b""[..], &b"data"[..]));
        let mut facts = asked(GID, b"data");
        facts.parameters.private_data[0] = 1;
        assert_eq!(shown(GID, facts), None, "another version");
    }

    #[test]
    fn a_request_for_a_connection_is_not_for_a_service_of_datagrams_nor_the_reverse() {
        let datagrams = Kind { datagrams: true, by_gid: false };
        assert_eq!(shown(datagrams, asked(IP, b"")), None);
        assert_eq!(shown(IP, asked(datagrams, b"")), None);
        assert_eq!(shown(datagrams, asked(datagrams, b"data")), Some((4711, padded(b"data", 180))));
    }
}

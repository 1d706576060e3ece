//! Which ports are in use on which nodes, by the names of the sockets behind them.
//!
//! A bound endpoint is a socket with the abstract name `nonic-scif/USER/FABRIC/NODE/PORT`; all that exist in the network
//! namespace are lines of `/proc/net/unix`, whoever they belong to.

use std::collections::BTreeMap;

use nonic_sys::{AsFd, Credentials, connect_stream, peer_credentials};

use crate::holders::{Holder, holders_of_socket};

/// Before a name of an endpoint; `/proc/net/unix` shows the first byte of an abstract name, which is 0, as `@`.
const PREFIX: &str = "@nonic-scif/";

/// In the column of flags: the socket listens (`__SO_ACCEPTCON`).
const LISTENS: u32 = 0x0001_0000;

/// A port in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The port.
    pub(crate) port: u16,
    /// Whether requests can be made to it.
    pub(crate) listens: bool,
    /// Inode of the socket behind it.
    inode: u64,
}

impl Listed {
    /// The processes that have it open, of those whose descriptors this one may see.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        holders_of_socket(self.inode)
    }

    /// Who listens there, as the kernel says to one who connects, whether or not this process may look at it; `None` if nobody
    /// does, or as many wait as may.
    pub(crate) fn listener(&self, place: &(u32, String, u16)) -> Option<Credentials> {
        let (user, fabric, node) = place;
        let name = format!("{}{user}/{fabric}/{node}/{}", &PREFIX[1..], self.port);
        let socket = self.listens.then(|| connect_stream(&name).ok())??;
        peer_credentials(socket.as_fd()).ok()
    }
}

/// The ports in use, ascending, by user, fabric and node.
pub(crate) type Listing = BTreeMap<(u32, String, u16), Vec<Listed>>;

/// What is in use in this network namespace now.
pub(crate) fn listing() -> std::io::Result<Listing> {
    Ok(read(&std::fs::read_to_string("/proc/net/unix")?))
}

fn read(table: &str) -> Listing {
    let mut listing = Listing::new();
    for (place, listed) in table.lines().filter_map(read_line) {
        let ports = listing.entry(place).or_default();
        // A listener's name also stands at the sockets of requests that wait.
        match ports.iter_mut().find(|known| known.port == listed.port) {
            Some(known) if listed.listens => *known = listed,
            Some(_) => {}
            None => ports.push(listed),
        }
    }
    listing.values_mut().for_each(|ports| ports.sort_unstable_by_key(|listed| listed.port));
    listing
}

/// `Num RefCount Protocol Flags Type St Inode Path`
fn read_line(line: &str) -> Option<((u32, String, u16), Listed)> {
    let mut columns = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(columns.nth(3)?, 16).ok()?;
    let inode = columns.nth(2)?.parse().ok()?;
    let name = columns.next()?.strip_prefix(PREFIX)?;
    let mut parts = name.split('/');
    let (user, fabric) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
    let (node, port) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let complete = parts.next().is_none();
    complete.then_some(((user, fabric, node), Listed { port, listens: flags & LISTENS != 0, inode }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000003 00000000 00000000 0001 03 25001 /run/dbus/socket
0000000000000000: 00000002 00000000 00010000 0001 01 25002 @nonic-scif/1000/0/1/2050
0000000000000000: 00000003 00000000 00000000 0001 02 25003 @nonic-scif/1000/0/1/2050
0000000000000000: 00000003 00000000 00000000 0001 03 25004 @nonic-scif/1000/0/1/1089
0000000000000000: 00000002 00000000 00010000 0001 01 25005 @nonic-scif/0/test/0/40
0000000000000000: 00000002 00000000 00010000 0001 01 25006 @nonic-scif/0/test/0
0000000000000000: 00000002 00000000 00010000 0001 01 25007 @nonic-scif/0/test/0/99999
0000000000000000: 00000002 00000000 00000000 0001 01 25008
";

    #[test]
    fn names_of_endpoints_are_read_and_others_are_not() {
        let listing = read(TABLE);
        assert_eq!(listing.len(), 2);
        let card = &listing[&(1000, "0".to_owned(), 1)];
        assert_eq!(
            card,
            &[
                Listed { port: 1089, listens: false, inode: 25004 },
                Listed { port: 2050, listens: true, inode: 25002 }
            ]
        );
        let host = &listing[&(0, "test".to_owned(), 0)];
        assert_eq!(host, &[Listed { port: 40, listens: true, inode: 25005 }]);
    }
}

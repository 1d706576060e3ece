//! TCP sockets as the kernel lists them: of a network namespace all, of which those of one process are wanted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The files below `/proc/PID`.
const TABLES: [&str; 2] = ["net/tcp", "net/tcp6"];
/// States as the kernel numbers them (`TCP_ESTABLISHED`, `TCP_LISTEN`).
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// What the kernel says of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpSocket {
    state: u8,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

impl TcpSocket {
    pub(super) fn listens(&self) -> bool {
        self.state == LISTEN
    }

    #[cfg(test)]
    pub(super) fn connected(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { state: ESTABLISHED, source, destination }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state == ESTABLISHED
    }
}

/// The sockets with these inodes, by inode, as the process in that folder of `/proc` sees them.
pub(super) fn sockets(place: &Path, wanted: &[u64]) -> BTreeMap<u64, TcpSocket> {
    let mut found = BTreeMap::new();
    for file in TABLES.iter().filter_map(|table| File::open(place.join(table)).ok()) {
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        found.extend(lines.filter_map(|line| parse(&line)).filter(|(inode, _)| wanted.contains(inode)));
    }
    found
}

/// A line: number, own address, peer's, state, and as the tenth field the inode.
fn parse(line: &str) -> Option<(u64, TcpSocket)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (source, destination) = (address(fields.next()?)?, address(fields.next()?)?);
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    let inode = fields.nth(5)?.parse().ok()?;
    Some((inode, TcpSocket { state, source, destination }))
}

/// Words of 32 bits, each in the order of the machine, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_each_family_is_read_and_what_is_none_is_not() {
        let line = "   0: 0100007F:1B59 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 479 1";
        let (inode, socket) = parse(line).unwrap();
        assert_eq!((inode, socket.source.to_string().as_str()), (479, "127.0.0.1:7001"));
        assert!(socket.listens() && !socket.is_connected());
        let line = "   1: 00000000000000000000000001000000:0050 0000000000000000FFFF00000100007F:C350 01 00000000:00000000 \
                    00:00000000 00000000 0 0 81 1";
        let (_, socket) = parse(line).unwrap();
        assert_eq!(
            (socket.source.to_string(), socket.destination.to_string()),
            ("[::1]:80".into(), "127.0.0.1:50000".into())
        );
        assert!(socket.is_connected());
        for nonsense in [
            "",
            "  sl  local_address rem_address   st",
            "0: 01:02 03:04 01 a b c d e f",
            "0: é100007F:1 0:0 0A",
        ] {
            assert_eq!(parse(nonsense), None);
        }
    }
}

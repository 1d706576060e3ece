//! TCP ports for the programs' own handshakes, each held by one test at a time, across all test processes.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::suite::{Verdict, failed};

/// Below the range from which the kernel takes ports for outgoing connections, so that none of those collides.
const FIRST: u16 = 20_000;
const COUNT: u32 = 12_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port that no other test uses while this value lives.
///
/// The claim is an abstract Unix socket named for the port: exclusive, and gone with its owner.
#[derive(Debug)]
pub struct TcpPort {
    number: u16,
    _claim: UnixListener,
}

impl TcpPort {
    /// Claims a free port.
    pub fn claim() -> Verdict<Self> {
        let start = std::process::id().wrapping_mul(61);
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = FIRST + (start.wrapping_add(step) % COUNT) as u16;
            let name = SocketAddr::from_abstract_name(format!("nonic-interop-port-{number}"));
            let Ok(claim) = name.and_then(|name| UnixListener::bind_addr(&name)) else { continue };
            if nobody_listens(number) {
                return Ok(Self { number, _claim: claim });
            }
        }
        failed(format!("none of the TCP ports {FIRST} to {} is free", u32::from(FIRST) + COUNT - 1))
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

fn nobody_listens(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
        && match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
            Ok(_) => true,
            // Without IPv6 nobody can listen there.
            Err(e) => e.kind() != std::io::ErrorKind::AddrInUse,
        }
}

/// Whether somebody listens on this port in the network namespace of process `pid`.
pub fn is_listening(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        fs::read_to_string(format!("/proc/{pid}/net/{table}")).is_ok_and(|text| lists_listener(&text, port))
    })
}

/// Whether somebody has this port of UDP in the network namespace of process `pid`, which is to have another one than the test: until it is
/// there, nobody has.
pub fn is_bound(pid: u32, port: u16) -> bool {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    if network("self") == network(&pid.to_string()) {
        return false;
    }
    let has = |line: &str| {
        line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&format!(":{port:04X}")))
    };
    ["udp", "udp6"].iter().any(|table| {
        fs::read_to_string(format!("/proc/{pid}/net/{table}")).is_ok_and(|text| text.lines().skip(1).any(has))
    })
}

/// Datagrams of UDP that have come to sockets in the network namespace of process `pid`.
pub fn datagrams_of(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/net/snmp")).unwrap_or_default();
    let numbers = text.lines().filter(|line| line.starts_with("Udp:")).nth(1);
    numbers.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Whether somebody listens on this port of a space of the RDMA connection manager in the network namespace of process `pid`.
pub fn is_offered(pid: u32, space: &str, port: u16) -> bool {
    fs::read_to_string(format!("/proc/{pid}/net/unix")).is_ok_and(|table| lists_service(&table, space, port))
}

/// Reads the kernel's table: `num refcount protocol flags type state inode name`; a listener has the flag `00010000`.
fn lists_service(table: &str, space: &str, port: u16) -> bool {
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(3);
        let listens = fields.next() == Some("00010000");
        let name = fields.nth(3).unwrap_or_default();
        listens && name.contains(&format!("/rdma-{space}.")) && name.ends_with(&format!("/{port}"))
    })
}

/// Reads the kernel's table: `sl local_address rem_address st …`, addresses as `HEX:PORT`, state `0A` is LISTEN.
fn lists_listener(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        let state = fields.nth(1).unwrap_or_default();
        state == "0A" && local.rsplit(':').next() == Some(&format!("{port:04X}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:4E21 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
";

    #[test]
    fn a_listening_port_is_found_in_the_kernels_table() {
        assert!(lists_listener(TABLE, 20_000));
    }

    #[test]
    fn a_connected_port_is_not_taken_for_a_listening_one() {
        assert!(!lists_listener(TABLE, 20_001));
        assert!(!lists_listener(TABLE, 8080));
    }

    #[test]
    fn a_service_is_found_by_its_space_and_port_once_somebody_listens() {
        let line = |flags| {
            format!("0000: 00000002 00000000 {flags} 0005 01 123 @nonic-connection.3/rdma-tcp.v4/7471")
        };
        assert!(lists_service(&line("00010000"), "tcp", 7471));
        assert!(!lists_service(&line("00000000"), "tcp", 7471));
        assert!(!lists_service(&line("00010000"), "udp", 7471));
        assert!(!lists_service(&line("00010000"), "tcp", 471));
    }

    #[test]
    fn two_claims_are_two_ports() {
        let (one, two) = (TcpPort::claim().unwrap(), TcpPort::claim().unwrap());
        assert_ne!(one.number(), two.number());
    }
}

//! Whether a stream is asked for at an address.
//!
//! Names of services are anybody's to take, ports of TCP are not: who listens by a stream where another user listens by TCP must
//! not get that user's connections. So the stream of another user is asked for only if TCP's port is that user's, too.

use std::net::{IpAddr, SocketAddr};

use nonic_rdma_cm::{PortSpace, listening_user};
use nonic_sys::{effective_user, is_own_address};

use crate::shown::Course;

/// The tables of the kernel's sockets, of both families.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// A socket that listens, as they say it.
const LISTENS: &str = "0A";

/// Whether somebody listens there by a stream who may; the error is the way that the connection goes instead.
pub(crate) fn may_be_asked(address: SocketAddr) -> Result<(), Course> {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    // Whoever connects to no address in particular means this host.
    let meant = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let meant = SocketAddr::new(meant, address.port());
    let user = listening_user(PortSpace::Tcp, meant).ok_or(Course::Nobody)?;
    if !is_own_address(meant.ip()) {
        return Err(Course::Nobody);
    }
    if user == 0 || user == effective_user() || listens_by_tcp(user, address.port()) {
        return Ok(());
    }
    tracing::warn!(%address, user, "a user listens there by a stream and not by TCP: the connection goes over TCP");
    Err(Course::Stranger)
}

fn listens_by_tcp(user: u32, port: u16) -> bool {
    TABLES.iter().any(|path| {
        let table = std::fs::read_to_string(path).unwrap_or_default();
        table.lines().any(|line| is_listener(line, user, port))
    })
}

/// Whether a line of the table is about a socket of this user that listens on this port.
fn is_listener(line: &str, user: u32, port: u16) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1).and_then(|local| local.rsplit_once(':'));
    let is_port = local.is_some_and(|(_, text)| u16::from_str_radix(text, 16) == Ok(port));
    let listens = fields.nth(1) == Some(LISTENS);
    is_port && listens && fields.nth(3).is_some_and(|text| text.parse() == Ok(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_by_its_port_its_state_and_its_user() {
        let line = "   0: 0100007F:1B59 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 479 1";
        assert!(is_listener(line, 1000, 7001));
        assert!(!is_listener(line, 1001, 7001) && !is_listener(line, 1000, 7002));
        assert!(!is_listener(&line.replace(" 0A ", " 01 "), 1000, 7001));
        assert!(!is_listener("  sl  local_address rem_address   st tx_queue rx_queue", 1000, 7001));
    }

    #[test]
    fn what_nobody_listens_at_is_not_asked() {
        assert_eq!(may_be_asked("127.0.0.1:1".parse().unwrap()), Err(Course::Nobody));
        assert_eq!(may_be_asked("192.0.2.1:80".parse().unwrap()), Err(Course::Nobody));
    }
}

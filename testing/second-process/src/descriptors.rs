//! Descriptors of a process.

use std::collections::HashSet;
use std::fs;

/// Where packets from other hosts come to.
const WIRE_PORT: u16 = 4791;

/// How many descriptors a process has open, but for its sockets at the port of RoCEv2: whether it gets those is up to other programs
/// that have the port, such as the tests that run meanwhile, and it may get them later.
pub fn descriptors(pid: u32) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open: Vec<_> = open.map(|entry| fs::read_link(entry.path()).unwrap_or_default()).collect();
    let of_wire: HashSet<String> = ["udp", "udp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .flat_map(|table| table.lines().filter_map(wire_socket).collect::<Vec<_>>())
        .collect();
    open.iter().filter(|target| target.to_str().is_none_or(|target| !of_wire.contains(target))).count()
}

/// What a descriptor of the socket in a line of the kernel's table is a link to, if it is one at the wire's port.
fn wire_socket(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, port) = words.get(1)?.rsplit_once(':')?;
    (u16::from_str_radix(port, 16) == Ok(WIRE_PORT))
        .then(|| format!("socket:[{}]", words.get(9).unwrap_or(&"")))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;

    #[test]
    fn sockets_at_the_wires_port_are_not_counted_and_others_are() {
        let own = std::process::id();
        let before = descriptors(own);
        let [.., high, middle, low] = own.to_be_bytes();
        let here = Ipv4Addr::new(127, high | 0x80, middle, low);
        let at_wire = UdpSocket::bind((here, WIRE_PORT)).expect("nobody has it at this address");
        assert_eq!(descriptors(own), before);
        let elsewhere = UdpSocket::bind((here, 0)).unwrap();
        assert_eq!(descriptors(own), before + 1);
        drop((at_wire, elsewhere));
        assert_eq!(descriptors(own), before);
    }
}

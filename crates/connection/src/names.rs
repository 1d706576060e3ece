//! Abstract socket names: unique in a network namespace, and gone with their owner, however it ends.

use std::io;
use std::sync::Arc;

use nonic_meeting::Namespace;
use nonic_sys::{Credentials, PacketSocket, holder_of};

use crate::wire::{ProcessName, VERSION};

/// A service that some process of this host offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// Whose numbers these are: the layer above (`dat`).
    pub space: String,
    /// Its number.
    pub number: u64,
    /// Inode of its socket, by which `/proc/<pid>/fd` leads to its owner.
    pub inode: u64,
}

impl Service {
    /// Who listens on it, whichever user that is, as the kernel says; `None` if nobody does any more, or as many wait there as
    /// may.
    pub fn holder(&self) -> Option<Credentials> {
        holder_of(&service_name(&self.space, self.number)).ok().flatten()
    }
}

/// The user who listens on a service; `None` if nobody does. An error if that is not to be known now: as many wait there as may, or this
/// process has no descriptor left.
pub fn service_user(space: &str, number: u64) -> io::Result<Option<u32>> {
    Ok(holder_of(&service_name(space, number))?.map(|holder| holder.uid))
}

fn prefix() -> String {
    format!("nonic-connection.{VERSION}/")
}

/// The name on which a service takes requests.
pub(crate) fn service_name(space: &str, number: u64) -> Arc<str> {
    format!("{}{space}/{number}", prefix()).into()
}

/// The name by which a service in another network namespace is asked for.
pub(crate) fn met_service_name(namespace: Namespace, space: &str, number: u64) -> Arc<str> {
    format!("{MET}{:016x}/{space}/{number}", namespace.0).into()
}

/// How such names begin, as no name of this namespace does.
const MET: &str = "met/";

/// Whether a service is in another network namespace.
pub(crate) fn is_met(service: &str) -> bool {
    service.starts_with(MET)
}

/// Connects to whoever takes requests for a service. `ConnectionRefused` if nobody does.
pub(crate) fn connect_to_service(service: &str) -> io::Result<PacketSocket> {
    let Some(rest) = service.strip_prefix(MET) else { return PacketSocket::connect_abstract(service) };
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
    let (namespace, name) = rest.split_once('/').ok_or_else(refused)?;
    let namespace = u64::from_str_radix(namespace, 16).map_err(|_| refused())?;
    let place = nonic_meeting::place().ok_or_else(refused)?;
    place.connect(Namespace(namespace), &file_of_service(name))
}

/// The name of a service in the folder in which other network namespaces are met.
pub(crate) fn file_of_service(name: &str) -> String {
    format!("cm.{VERSION}.{}", name.replace('/', ":"))
}

/// The name there by which a process takes channels.
pub(crate) fn file_of_process(process: ProcessName) -> String {
    format!("cm.{VERSION}.process.{:016x}", process.0[1])
}

/// Connects to the process that asked for something, wherever it is.
pub(crate) fn connect_to_process(process: ProcessName) -> io::Result<PacketSocket> {
    match (PacketSocket::connect_abstract(&process_name(process)), nonic_meeting::place()) {
        (Err(error), Some(place)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            place.connect_to_process(process.0[0], &file_of_process(process))
        }
        (connected, _) => connected,
    }
}

/// The name on which a process takes channels.
pub(crate) fn process_name(process: ProcessName) -> String {
    format!("{}process.{:016x}{:016x}", prefix(), process.0[0], process.0[1])
}

/// Every service that processes of this network namespace offer, in order.
pub fn services() -> Vec<Service> {
    let listed = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<_> = listed.lines().filter_map(listed_service).collect();
    found.sort();
    found.dedup();
    found
}

/// The service a line of `/proc/net/unix` is about, if it is a listening socket of one: sockets that were made by accepting
/// have the name too.
fn listed_service(line: &str) -> Option<Service> {
    const ACCEPTS: u32 = 1 << 16;
    let mut fields = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
    let inode = fields.nth(2)?.parse().ok()?;
    let name = fields.next()?.strip_prefix('@')?.strip_prefix(prefix().as_str())?;
    let (space, number) = name.split_once('/')?;
    let number = number.parse().ok()?;
    (flags & ACCEPTS != 0).then(|| Service { space: space.to_owned(), number, inode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_elsewhere_is_told_from_one_here_and_its_file_is_one_name() {
        let there = met_service_name(Namespace(0xabc), "rdma-tcp.fd77::1", 7471);
        assert!(is_met(&there) && !is_met(&service_name("rdma-tcp.fd77::1", 7471)));
        assert_eq!(file_of_service("rdma-tcp.fd77::1/7471"), "cm.3.rdma-tcp.fd77::1:7471");
        // Nobody is met here.
        assert_eq!(connect_to_service(&there).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn the_kernels_list_is_read_for_listening_services_only() {
        let name = service_name("dat", 45_248);
        let line = |flags| format!("0000000000000000: 00000002 00000000 {flags} 0005 01 12345 @{name}");
        let service = Service { space: "dat".to_owned(), number: 45_248, inode: 12_345 };
        assert_eq!(listed_service(&line("00010000")), Some(service));
        assert_eq!(listed_service(&line("00000000")), None);
        let process = process_name(ProcessName([1, 2]));
        assert_eq!(listed_service(&format!("0: 2 0 00010000 0005 01 1 @{process}")), None);
        assert_eq!(listed_service("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }
}

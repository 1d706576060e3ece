//! Abstract socket names: unique in a network namespace, and gone with their owner, however it ends.

use std::sync::Arc;

use nonic_sys::{Credentials, holder_of};

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
        holder_of(&service_name(&self.space, self.number))
    }
}

/// The user who listens on a service; `None` if nobody does, or as many wait there as may.
pub fn service_user(space: &str, number: u64) -> Option<u32> {
    holder_of(&service_name(space, number)).map(|holder| holder.uid)
}

fn prefix() -> String {
    format!("nonic-connection.{VERSION}/")
}

/// The name on which a service takes requests.
pub(crate) fn service_name(space: &str, number: u64) -> Arc<str> {
    format!("{}{space}/{number}", prefix()).into()
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

//! What of the network matters: how processes find each other, and which addresses name the device.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use nonic_sys::Credentials;
use nonic_transport::{BLOCKS, BlockHolders};

use super::meeting;
use super::report::Line;
use super::wire;
use crate::system::{self, InterfaceAddress};

/// All findings about the network.
pub(super) fn examine() -> Vec<Line> {
    let addresses = system::interface_addresses().unwrap_or_default();
    let mut lines = vec![
        abstract_sockets(),
        queue_pair_numbers(&nonic_transport::block_holders()),
        loopback(&addresses),
        host_addresses(&addresses),
        wire::examine(),
        real_devices(),
    ];
    lines.extend(meeting::examine());
    lines
}

/// Whether two processes could meet: binding an abstract name, refusing it to a second, connecting to it.
fn abstract_sockets() -> Line {
    let meet = || -> std::io::Result<()> {
        let name = SocketAddr::from_abstract_name(format!("nonic-doctor-{}", std::process::id()))?;
        let listener = UnixListener::bind_addr(&name)?;
        if UnixListener::bind_addr(&name).is_ok() {
            return Err(std::io::Error::other("the same name was given out twice"));
        }
        let mut client = UnixStream::connect_addr(&name)?;
        let (mut server, _) = listener.accept()?;
        client.write_all(b"n")?;
        server.set_read_timeout(Some(Duration::from_secs(1)))?;
        server.read_exact(&mut [0])
    };
    match meet() {
        Ok(()) => Line::ok("abstract sockets", "yes: processes of this network namespace find each other"),
        Err(error) => Line::problem(
            "abstract sockets",
            format!("refused: {error}; processes cannot find each other"),
            "allow AF_UNIX sockets (seccomp profile; systemd: RestrictAddressFamilies; AppArmor: unix rules)",
        ),
    }
}

/// Who holds the names by which queue pairs are found: anybody can take one that is free.
fn queue_pair_numbers(holders: &BlockHolders) -> Line {
    const NAME: &str = "queue-pair numbers";
    let own = nonic_sys::effective_user();
    let foreign = |(holder, _): &&(Credentials, usize)| holder.uid != own && holder.uid != 0;
    let others: usize = holders.known.iter().filter(foreign).map(|(_, count)| count).sum();
    let (held, unknown) = (holders.count(), holders.unknown);
    let text = match held {
        0 => format!("nobody holds any of the {BLOCKS} blocks there are"),
        _ => format!("{held} of {BLOCKS} blocks are held: {holders}"),
    };
    if held >= BLOCKS as usize {
        return Line::problem(
            NAME,
            text,
            "have the processes that hold them end: no queue pair can be created",
        );
    }
    if others + unknown > BLOCKS as usize / 2 {
        return Line::note(NAME, text).fix("ask the users of these processes what they need so many for");
    }
    Line::ok(NAME, text)
}

fn loopback(addresses: &[InterfaceAddress]) -> Line {
    let up = addresses.iter().any(|entry| entry.address.is_loopback() && entry.up);
    if up {
        Line::ok("loopback", "up")
    } else {
        Line::note(
            "loopback",
            "down: devices work, but programs that exchange addresses by TCP cannot reach localhost",
        )
        .fix("ip link set lo up")
    }
}

fn host_addresses(addresses: &[InterfaceAddress]) -> Line {
    let up = addresses.iter().filter(|entry| entry.up);
    let shown: Vec<_> = up.map(|entry| format!("{} ({})", entry.address, entry.interface)).collect();
    if shown.is_empty() {
        Line::note("addresses", "none: the port has only the GID made from its own number")
    } else {
        Line::ok("addresses", shown.join(", "))
    }
}

fn real_devices() -> Line {
    let entries = std::fs::read_dir("/sys/class/infiniband").into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if names.is_empty() {
        Line::ok("RDMA hardware", "none, and none is needed")
    } else {
        Line::ok("RDMA hardware", format!("{}; programs under nonic run do not see it", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_of_numbers_are_named_and_a_problem_when_none_is_left() {
        let holder = |count| (Credentials { pid: 77, uid: 4711 }, count);
        let line =
            |known: Vec<_>, unknown| format!("{:?}", queue_pair_numbers(&BlockHolders { known, unknown }));
        assert!(line(vec![], 0).contains("nobody holds any of the 4095 blocks"));
        let few = line(vec![holder(3)], 1);
        assert!(few.contains("4 of 4095 blocks are held: 3 by process 77 of user 4711"), "{few}");
        assert!(few.contains("Ok"), "{few}");
        assert!(line(vec![holder(3000)], 0).contains("Note"));
        let all = line(vec![holder(4000)], 95);
        assert!(all.contains("Problem") && all.contains("no queue pair can be created"), "{all}");
    }
}

//! What of the network matters: how processes find each other, and which addresses name the device.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use super::report::Line;
use crate::system::{self, InterfaceAddress};

/// All findings about the network.
pub(super) fn examine() -> Vec<Line> {
    let addresses = system::interface_addresses().unwrap_or_default();
    vec![abstract_sockets(), loopback(&addresses), host_addresses(&addresses), real_devices()]
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

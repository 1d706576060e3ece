//! The RDMA connection manager: who listens where.

use std::path::Path;

use nonic_connection::Service;

use super::report::Line;
use super::{BY_GID, services};
use crate::library::LibraryFolder;
use crate::preload;

/// All findings about it.
pub(super) fn examine() -> Vec<Line> {
    // Where there is no folder it is said above, where the verbs library is looked for.
    let folder = LibraryFolder::find().ok();
    let mut lines: Vec<Line> = folder.iter().map(|folder| preload(&folder.sockets_library())).collect();
    lines.extend(services::list("listeners", listener));
    lines
}

/// The library that leads TCP connections here.
fn preload(file: &Path) -> Line {
    const NAME: &str = "libnonic-sockets.so";
    if file.exists() {
        let loaded = std::env::var_os(preload::VARIABLE);
        let is_loaded =
            preload::without(loaded.as_deref(), file) != preload::without(loaded.as_deref(), Path::new(""));
        Line::ok(NAME, words(is_loaded))
    } else {
        Line::note(NAME, format!("{} is missing: nonic run --sockets is refused", file.display()))
            .fix("build again: cargo build --release --workspace")
    }
}

fn words(is_loaded: bool) -> String {
    let how = if is_loaded {
        "is loaded into every program of this environment (LD_PRELOAD), whose TCP connections go over RDMA where both sides have it"
    } else {
        "is there: nonic run --sockets, and for all programs of a shell nonic env --sockets, leads TCP connections over RDMA"
    };
    format!("{how}; which of a process do: nonic doctor --pid PID")
}

/// The port of a service, if it is one of the RDMA connection manager: its name says the space and the address.
fn listener(service: &Service) -> Option<String> {
    let (space, address) = service.space.strip_prefix("rdma-")?.split_once('.')?;
    let (address, family) = match address.strip_prefix("gid") {
        Some("") => ("v6", BY_GID),
        Some(gid) => (gid.strip_prefix('.')?, BY_GID),
        None => (address, ""),
    };
    let address = match address {
        "v4" => "0.0.0.0".to_owned(),
        "v6" => "[::]".to_owned(),
        six if six.contains(':') => format!("[{six}]"),
        four => four.to_owned(),
    };
    Some(format!("{space} {address}:{}{family}", service.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_shown_as_programs_name_them_and_other_services_are_not() {
        let shown = |space: &str| listener(&Service { space: space.to_owned(), number: 7471, inode: 1 });
        assert_eq!(shown("rdma-tcp.v4").as_deref(), Some("tcp 0.0.0.0:7471"));
        assert_eq!(shown("rdma-udp.v6").as_deref(), Some("udp [::]:7471"));
        assert_eq!(shown("rdma-tcp.127.0.0.1").as_deref(), Some("tcp 127.0.0.1:7471"));
        assert_eq!(shown("rdma-ib.fe80::1").as_deref(), Some("ib [fe80::1]:7471"));
        assert_eq!(shown("rdma-tcp.gid").as_deref(), Some("tcp [::]:7471 by GID"));
        assert_eq!(shown("rdma-tcp.gid.10.0.0.1").as_deref(), Some("tcp 10.0.0.1:7471 by GID"));
        assert_eq!(shown("rdma-udp.gid.fd77::1").as_deref(), Some("udp [fd77::1]:7471 by GID"));
        assert_eq!(shown("dat"), None);
    }
}

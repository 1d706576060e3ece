//! The RDMA connection manager: who listens where.

use nonic_connection::Service;

use super::report::Line;
use super::services;

/// All findings about it.
pub(super) fn examine() -> Vec<Line> {
    services::list("listeners", listener)
}

/// The port of a service, if it is one of the RDMA connection manager: its name says the space and the address.
fn listener(service: &Service) -> Option<String> {
    let (space, address) = service.space.strip_prefix("rdma-")?.split_once('.')?;
    let address = match address {
        "v4" => "0.0.0.0".to_owned(),
        "v6" => "[::]".to_owned(),
        six if six.contains(':') => format!("[{six}]"),
        four => four.to_owned(),
    };
    Some(format!("{space} {address}:{}", service.number))
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
        assert_eq!(shown("dat"), None);
    }
}

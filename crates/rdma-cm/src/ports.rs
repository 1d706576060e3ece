//! Ports that are bound: in this process by a table, among processes by the names of services.
//!
//! A name stands for a port of a space at one address, or at all addresses of a family (`v4`, `v6`). It is held from binding on
//! and gone with the process. That a wildcard and an address overlap no name says, so each side looks for the other's.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_connection::{Listener, Reservation, ServiceSink, listen_all};
use nonic_sys::{PerProcess, may_bind_any_port, random_u64};
use nonic_wire_connection::{name_of_ports, wildcard_of};

use crate::address::own_addresses;
use crate::{Error, PortSpace};

/// Ports tried at most before none counts as free.
const TRIES: usize = 1024;

/// How long it may take until a change of the kernel's range of ports is seen.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What is bound to a port of a space.
#[derive(Debug)]
struct Bound {
    token: u64,
    address: IpAddr,
    /// An IPv6 wildcard that does not stand for IPv4; any IPv4 address.
    one_family: bool,
    reuse: bool,
    listens: bool,
    names: Arc<Vec<Reservation>>,
}

#[derive(Debug, Default)]
struct Table {
    ports: HashMap<(PortSpace, u16), Vec<Bound>>,
    next: u64,
    last_given: u16,
    /// Those that are given to who asks for any, and when the kernel was asked which these are.
    any: Option<(Instant, RangeInclusive<u16>)>,
}

static TABLE: PerProcess<Mutex<Table>> = PerProcess::new();

fn table() -> MutexGuard<'static, Table> {
    TABLE.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that an identifier has bound, until this is dropped.
#[derive(Debug)]
pub(crate) struct Binding {
    space: PortSpace,
    port: u16,
    token: u64,
}

/// What is to be bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) space: PortSpace,
    pub(crate) address: SocketAddr,
    pub(crate) one_family: bool,
    pub(crate) reuse: bool,
}

/// Why an address that is bound already cannot be bound: Linux tells those that stand for any device's, which are the wildcard
/// and loopback, from others.
fn taken(ip: IpAddr, port: u16) -> Error {
    if ip.is_unspecified() || ip.is_loopback() {
        Error::AddressOverlaps(port)
    } else {
        Error::AddressInUse(port)
    }
}

/// The name of a space's ports at an address.
pub(crate) fn service_space(space: PortSpace, ip: IpAddr) -> String {
    let space = match space {
        PortSpace::Ipoib => "ipoib",
        PortSpace::Tcp => "tcp",
        PortSpace::Udp => "udp",
        PortSpace::InfiniBand => "ib",
        PortSpace::Scif => "scif",
    };
    name_of_ports(space, ip)
}

/// The user who listens at an address of a space; `None` if nobody does now, or that is not to be known.
pub fn listening_user(space: PortSpace, address: SocketAddr) -> Option<u32> {
    let ip = address.ip();
    let user = |ip| {
        let found = nonic_connection::service_user(&service_space(space, ip), address.port().into());
        found.ok().flatten()
    };
    user(ip).or_else(|| user(wildcard_of(ip)))
}

impl Wanted {
    /// The wildcards whose names it holds, if it is one.
    fn wildcards(&self) -> Vec<IpAddr> {
        let own = self.address.ip();
        if own.is_ipv6() && !self.one_family {
            vec![own, wildcard_of([0, 0, 0, 0].into())]
        } else {
            vec![own]
        }
    }

    /// Why it cannot be bound beside another identifier of this process.
    fn conflict(&self, other: &Bound, port: u16) -> Option<Error> {
        let (own, theirs) = (self.address.ip(), other.address);
        if self.reuse && other.reuse && !other.listens {
            return None;
        }
        if self.one_family && other.one_family && own.is_ipv4() != theirs.is_ipv4() {
            return None;
        }
        if own == theirs {
            return Some(taken(own, port));
        }
        (own.is_unspecified() || theirs.is_unspecified()).then_some(Error::AddressOverlaps(port))
    }

    /// Takes the names of a port.
    fn take_names(&self, port: u16) -> Result<Vec<Reservation>, Error> {
        let ip = self.address.ip();
        let number = u64::from(port);
        let reserve = |ip| Reservation::make(&service_space(self.space, ip), number);
        let in_use = |error: io::Error, reason: Error| match error.kind() {
            io::ErrorKind::AddrInUse => reason,
            _ => Error::System(error),
        };
        if !ip.is_unspecified() {
            let own = reserve(ip).map_err(|error| in_use(error, taken(ip, port)))?;
            // Looked at and given back.
            reserve(wildcard_of(ip)).map_err(|error| in_use(error, Error::AddressOverlaps(port)))?;
            return Ok(vec![own]);
        }
        let wildcards = self.wildcards();
        let held = wildcards.iter().map(|ip| reserve(*ip)).collect::<io::Result<Vec<_>>>();
        let held = held.map_err(|error| in_use(error, Error::AddressOverlaps(port)))?;
        for ip in own_addresses(|found| wildcards.iter().any(|any| any.is_ipv4() == found.is_ipv4())) {
            reserve(ip).map_err(|error| in_use(error, Error::AddressOverlaps(port)))?;
        }
        Ok(held)
    }
}

/// A number of a file of the kernel's settings.
fn setting<const COUNT: usize>(name: &str) -> Option<[u16; COUNT]> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    let numbers: Vec<u16> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

/// The ports that are given to who asks for any.
fn any_ports() -> RangeInclusive<u16> {
    match setting::<2>("ip_local_port_range") {
        Some([first, last]) if first <= last && first > 0 => first..=last,
        _ => 32768..=60999,
    }
}

fn check_privilege(port: u16) -> Result<(), Error> {
    let [first_free] = setting::<1>("ip_unprivileged_port_start").unwrap_or([1024]);
    if port < first_free && !may_bind_any_port() { Err(Error::Denied(port)) } else { Ok(()) }
}

impl Table {
    fn take(&mut self, wanted: &Wanted, port: u16) -> Result<Binding, Error> {
        let others = self.ports.entry((wanted.space, port)).or_default();
        if let Some(error) = others.iter().find_map(|other| wanted.conflict(other, port)) {
            return Err(error);
        }
        // Who may share a port with another of this process shares its names.
        let same = others.iter().find(|other| other.address == wanted.address.ip());
        let names = match same {
            Some(other) => Arc::clone(&other.names),
            None => match wanted.take_names(port) {
                Ok(names) => Arc::new(names),
                Err(error) => {
                    self.forget_if_empty(wanted.space, port);
                    return Err(error);
                }
            },
        };
        self.next += 1;
        let token = self.next;
        self.ports.entry((wanted.space, port)).or_default().push(Bound {
            token,
            address: wanted.address.ip(),
            one_family: wanted.one_family,
            reuse: wanted.reuse,
            listens: false,
            names,
        });
        Ok(Binding { space: wanted.space, port, token })
    }

    fn forget_if_empty(&mut self, space: PortSpace, port: u16) {
        if self.ports.get(&(space, port)).is_some_and(Vec::is_empty) {
            self.ports.remove(&(space, port));
        }
    }

    /// The ports that are given to who asks for any. To ask the kernel takes ten times as long as all the rest of that.
    fn any_ports(&mut self) -> RangeInclusive<u16> {
        let now = Instant::now();
        match &self.any {
            Some((asked, range)) if now.duration_since(*asked) < ASK_AGAIN => range.clone(),
            _ => self.any.insert((now, any_ports())).1.clone(),
        }
    }

    /// A port that nobody in this process has, and not the one given last.
    fn choose(&mut self, space: PortSpace) -> Result<u16, Error> {
        let range = self.any_ports();
        let span = u64::from(range.end() - range.start()) + 1;
        let begin = random_u64() % span;
        let mut ports = (0..span).map(|step| range.start() + ((begin + step) % span) as u16);
        let last = self.last_given;
        let free = |port: &u16| !self.ports.contains_key(&(space, *port)) && (*port != last || span == 1);
        let port = ports.find(free).ok_or(Error::NoPort)?;
        self.last_given = port;
        Ok(port)
    }
}

/// Binds a port; 0 stands for any that is free.
pub(crate) fn bind(wanted: &Wanted) -> Result<Binding, Error> {
    let port = wanted.address.port();
    let mut table = table();
    if port != 0 {
        // SCIF has judged its ports by its own limit.
        if wanted.space != PortSpace::Scif {
            check_privilege(port)?;
        }
        return table.take(wanted, port);
    }
    for _ in 0..TRIES {
        let port = table.choose(wanted.space)?;
        match table.take(wanted, port) {
            Err(Error::AddressInUse(_) | Error::AddressOverlaps(_)) => {}
            taken => return taken,
        }
    }
    Err(Error::NoPort)
}

/// A port for an identifier that asks others, and that nobody asks: no name is held for it.
pub(crate) fn source_port(space: PortSpace) -> Result<u16, Error> {
    table().choose(space)
}

impl Binding {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Others that want to share it may from now on.
    pub(crate) fn allow_reuse(&self) {
        let mut table = table();
        let all = table.ports.get_mut(&(self.space, self.port));
        if let Some(own) = all.into_iter().flatten().find(|bound| bound.token == self.token) {
            own.reuse = true;
        }
    }

    /// Listens at its names, from then on alone: `AddressInUse` if another identifier shares the port, or somebody listens
    /// already. If it fails it is bound as before.
    pub(crate) fn listen(&self, sink: &Arc<dyn ServiceSink>) -> Result<Vec<Listener>, Error> {
        // Without the table's lock, which the manager's thread takes too.
        listen_all(self.take_names()?, sink).map_err(|(names, error)| {
            self.keep_names(names);
            Error::System(error)
        })
    }

    /// Its names, with which nobody shares the port any more.
    fn take_names(&self) -> Result<Vec<Reservation>, Error> {
        let mut table = table();
        let in_use = Error::AddressInUse(self.port);
        let Some(all) = table.ports.get_mut(&(self.space, self.port)) else { return Err(in_use) };
        let Some(own) = all.iter().position(|bound| bound.token == self.token) else { return Err(in_use) };
        let address = all[own].address;
        if all[own].listens || all.iter().filter(|bound| bound.address == address).count() > 1 {
            return Err(in_use);
        }
        all[own].listens = true;
        Arc::into_inner(std::mem::take(&mut all[own].names)).ok_or(in_use)
    }

    fn keep_names(&self, names: Vec<Reservation>) {
        let mut table = table();
        let all = table.ports.get_mut(&(self.space, self.port));
        if let Some(own) = all.into_iter().flatten().find(|bound| bound.token == self.token) {
            (own.listens, own.names) = (false, Arc::new(names));
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        let mut table = table();
        if let Some(all) = table.ports.get_mut(&(self.space, self.port)) {
            all.retain(|bound| bound.token != self.token);
        }
        table.forget_if_empty(self.space, self.port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(address: &str, reuse: bool) -> Wanted {
        let address: SocketAddr = address.parse().unwrap();
        Wanted { space: PortSpace::InfiniBand, address, one_family: address.is_ipv4(), reuse }
    }

    fn at(ip: &str, port: u16, reuse: bool) -> Result<Binding, Error> {
        let ip: IpAddr = ip.parse().unwrap();
        bind(&wanted(&SocketAddr::new(ip, port).to_string(), reuse))
    }

    /// A child that another test has just forked has what was bound here until it executes its program.
    fn soon_at(ip: &str, port: u16) -> Binding {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match at(ip, port, false) {
                Err(Error::AddressOverlaps(_) | Error::AddressInUse(_)) if Instant::now() < end => {
                    std::thread::yield_now();
                }
                bound => return bound.unwrap(),
            }
        }
    }

    #[test]
    fn a_port_that_is_bound_is_in_use_and_free_again_afterwards() {
        let first = at("127.0.0.3", 0, false).unwrap();
        let port = first.port();
        assert!(matches!(at("127.0.0.3", port, false), Err(Error::AddressOverlaps(_))));
        assert!(matches!(at("0.0.0.0", port, false), Err(Error::AddressOverlaps(_))));
        drop(first);
        let wildcard = soon_at("0.0.0.0", port);
        assert!(matches!(at("127.0.0.3", port, false), Err(Error::AddressOverlaps(_))));
        drop(wildcard);
        soon_at("127.0.0.3", port);
    }

    #[test]
    fn an_ipv6_wildcard_of_one_family_stands_beside_the_ipv4_one_and_another_does_not() {
        let four = at("0.0.0.0", 0, false).unwrap();
        let mut six = wanted(&format!("[::]:{}", four.port()), false);
        assert!(matches!(bind(&six), Err(Error::AddressOverlaps(_))));
        six.one_family = true;
        bind(&six).unwrap();
    }

    #[test]
    fn a_port_is_shared_only_if_both_want_it_and_only_until_one_listens() {
        let first = at("127.0.0.3", 0, true).unwrap();
        let port = first.port();
        assert!(matches!(at("127.0.0.3", port, false), Err(Error::AddressOverlaps(_))));
        let second = at("127.0.0.3", port, true).unwrap();
        assert!(matches!(second.take_names(), Err(Error::AddressInUse(_))));
        drop(second);
        let names = first.take_names().unwrap();
        assert_eq!(names.len(), 1);
        assert!(matches!(at("127.0.0.3", port, true), Err(Error::AddressOverlaps(_))));
    }

    #[test]
    fn ports_are_given_from_the_kernels_range_and_not_twice_in_a_row() {
        let first = source_port(PortSpace::Tcp).unwrap();
        let second = source_port(PortSpace::Tcp).unwrap();
        assert_ne!(first, second);
        assert!(any_ports().contains(&first) && any_ports().contains(&second));
    }
}

//! Ports that are bound: in this process by a table, among processes by the names of services, which are held from binding on and gone
//! with the process.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_connection::{Listener, Reservation, ServiceSink, listen_all};
use nonic_roce::Naming;
use nonic_sys::{PerProcess, may_bind_any_port, random_u64};

use crate::names::{Wanted, asked};
use crate::{Error, PortSpace};

/// Ports tried at most before none counts as free.
const TRIES: usize = 1024;

/// How long it may take until a change of the kernel's range of ports is seen.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A name that this process holds.
#[derive(Debug)]
struct Held {
    name: String,
    reservation: Reservation,
}

/// What is bound to a port of a space.
#[derive(Debug)]
struct Bound {
    token: u64,
    naming: Naming,
    address: IpAddr,
    one_family: bool,
    reuse: bool,
    listens: bool,
    /// At which it is to listen; while it does, the listeners have them.
    own: Vec<Arc<Held>>,
    beside: Vec<Arc<Held>>,
}

impl Bound {
    fn held(&self) -> impl Iterator<Item = &Arc<Held>> {
        self.own.iter().chain(&self.beside)
    }

    /// What was to be bound.
    fn wanted(&self, space: PortSpace, port: u16) -> Wanted {
        let address = SocketAddr::new(self.address, port);
        Wanted { space, naming: self.naming, address, one_family: self.one_family, reuse: self.reuse }
    }
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

/// Why an address that is bound already cannot be bound: Linux tells those that stand for any device's, which are the wildcard
/// and loopback, from others.
fn taken(ip: IpAddr, port: u16) -> Error {
    if ip.is_unspecified() || ip.is_loopback() {
        Error::AddressOverlaps(port)
    } else {
        Error::AddressInUse(port)
    }
}

/// The user who listens at an address of a space; `None` if nobody does now, or that is not to be known.
pub fn listening_user(space: PortSpace, address: SocketAddr) -> Option<u32> {
    let port = u64::from(address.port());
    let names = asked(space, Naming::Ip, address.ip());
    names.iter().find_map(|name| nonic_connection::service_user(name, port).ok().flatten())
}

impl Wanted {
    /// Why it cannot be bound beside another identifier of this process.
    fn conflict(&self, other: &Bound) -> Option<Error> {
        let (own, theirs, port) = (self.address.ip(), other.address, self.address.port());
        let is_by_other = self.naming != other.naming;
        let is_of_other = is_by_other || (self.naming == Naming::Ip && own.is_ipv4() != theirs.is_ipv4());
        if self.reuse && other.reuse && !other.listens {
            return None;
        }
        if self.one_family && other.one_family && is_of_other {
            return None;
        }
        if own == theirs && (!is_by_other || own.is_loopback()) {
            return Some(taken(own, port));
        }
        (own.is_unspecified() || theirs.is_unspecified()).then_some(Error::AddressOverlaps(port))
    }

    /// Takes the names of a port, which others of this process may have that it can be bound beside.
    fn take_names(&self, others: &[Bound]) -> Result<[Vec<Arc<Held>>; 2], Error> {
        let (ip, port) = (self.address.ip(), self.address.port());
        let number = u64::from(port);
        let known = |name: &str| others.iter().flat_map(Bound::held).find(|held| held.name == name);
        let reserve = |name: &str, reason: Error| match Reservation::make(name, number) {
            Ok(reservation) => Ok(Arc::new(Held { name: name.to_owned(), reservation })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(reason),
            Err(error) => Err(Error::System(error)),
        };
        let hold = |name: &String| match known(name) {
            Some(held) => Ok(Arc::clone(held)),
            None => reserve(name, taken(ip, port)),
        };
        let names = self.names();
        let own = names.own.iter().map(hold).collect::<Result<_, _>>()?;
        let beside = names.beside.iter().map(hold).collect::<Result<_, _>>()?;
        for name in names.seen.iter().filter(|name| known(name).is_none()) {
            // Looked at and given back.
            reserve(name, Error::AddressOverlaps(port))?;
        }
        Ok([own, beside])
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
        let wanted = Wanted { address: SocketAddr::new(wanted.address.ip(), port), ..*wanted };
        let others = self.ports.entry((wanted.space, port)).or_default();
        let taken = match others.iter().find_map(|other| wanted.conflict(other)) {
            Some(error) => Err(error),
            None => wanted.take_names(others),
        };
        let [own, beside] = match taken {
            Ok(names) => names,
            Err(error) => {
                self.forget_if_empty(wanted.space, port);
                return Err(error);
            }
        };
        self.next += 1;
        let token = self.next;
        others.push(Bound {
            token,
            naming: wanted.naming,
            address: wanted.address.ip(),
            one_family: wanted.one_family,
            reuse: wanted.reuse,
            listens: false,
            own,
            beside,
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
        let (names, reservations) =
            self.take_names()?.into_iter().map(|held| (held.name, held.reservation)).unzip();
        // Without the table's lock, which the manager's thread takes too.
        listen_all(reservations, sink).map_err(|(reservations, error)| {
            self.keep_names(names, reservations);
            Error::System(error)
        })
    }

    /// The names at which it listens, with which nobody shares the port any more.
    fn take_names(&self) -> Result<Vec<Held>, Error> {
        let mut table = table();
        let in_use = Error::AddressInUse(self.port);
        let Some(all) = table.ports.get_mut(&(self.space, self.port)) else { return Err(in_use) };
        let Some(at) = all.iter().position(|bound| bound.token == self.token) else { return Err(in_use) };
        let alone = Wanted { reuse: false, ..all[at].wanted(self.space, self.port) };
        let mut others = all.iter().enumerate().filter(|(place, _)| *place != at);
        if all[at].listens || others.any(|(_, other)| alone.conflict(other).is_some()) {
            return Err(in_use);
        }
        all[at].listens = true;
        let own = std::mem::take(&mut all[at].own);
        own.into_iter().map(|held| Arc::into_inner(held).ok_or(Error::AddressInUse(self.port))).collect()
    }

    fn keep_names(&self, names: Vec<String>, reservations: Vec<Reservation>) {
        let mut table = table();
        let all = table.ports.get_mut(&(self.space, self.port));
        if let Some(own) = all.into_iter().flatten().find(|bound| bound.token == self.token) {
            let held = names.into_iter().zip(reservations);
            own.own = held.map(|(name, reservation)| Arc::new(Held { name, reservation })).collect();
            own.listens = false;
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
        let (space, naming) = (PortSpace::InfiniBand, Naming::Ip);
        Wanted { space, naming, address, one_family: address.is_ipv4(), reuse }
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

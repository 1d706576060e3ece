//! What the tests of endpoints share: pairs, second processes, waiting for what a descriptor shows.

#![allow(dead_code, unused_imports)]

use nonic_scif::{Descriptor, Endpoint, PollEntry, PortId, ScifError, node_ids, poll};
pub(crate) use nonic_second_process::{SecondProcess, role, say, told};

pub(crate) const IN: i16 = libc::POLLIN;
pub(crate) const OUT: i16 = libc::POLLOUT;
pub(crate) const ERR: i16 = libc::POLLERR;
pub(crate) const HUP: i16 = libc::POLLHUP;

/// The bytes that fit in one direction.
pub(crate) const WINDOW: usize = 4095;

/// An endpoint of this node that listens, and where.
pub(crate) fn listener(backlog: i32) -> (Endpoint, PortId) {
    let endpoint = Endpoint::open().unwrap();
    let port = endpoint.bind(0).unwrap();
    endpoint.listen(backlog).unwrap();
    (endpoint, PortId { node: node_ids().1, port })
}

/// A port that no other test of this process uses, also after it is free again; `which` is 0 to 3.
pub(crate) fn reserved_port(which: u16) -> u16 {
    20_000 + (std::process::id() % 10_000) as u16 * 4 + which
}

/// Starts the test `name` once more where no other endpoints are, and waits for its end.
pub(crate) fn run_alone(name: &str) {
    let fabric = format!("{}-{name:.20}", std::process::id());
    SecondProcess::start(name, "alone", &[("NONIC_SCIF_FABRIC", &fabric)]).finish();
}

/// Two endpoints of this process, connected: who connected, who accepted.
pub(crate) fn pair() -> (Endpoint, Endpoint) {
    let (listener, id) = listener(1);
    let connector = Endpoint::open().unwrap();
    set_nonblocking(&connector, true);
    assert_eq!(connector.connect(id), Err(ScifError::InProgress));
    let (accepted, _) = listener.accept(true).unwrap();
    connector.connect(id).unwrap();
    set_nonblocking(&connector, false);
    (connector, accepted)
}

pub(crate) fn set_nonblocking(endpoint: &Endpoint, nonblocking: bool) {
    // SAFETY: changes a flag of an open descriptor.
    unsafe {
        let flags = libc::fcntl(endpoint.number(), libc::F_GETFL);
        let flags = if nonblocking { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        assert_eq!(libc::fcntl(endpoint.number(), libc::F_SETFL, flags), 0);
    }
}

pub(crate) fn send(endpoint: &Descriptor, bytes: &[u8], block: bool) -> Result<usize, ScifError> {
    endpoint.send(bytes.as_ptr() as usize, bytes.len(), block)
}

pub(crate) fn receive(endpoint: &Descriptor, bytes: &mut [u8], block: bool) -> Result<usize, ScifError> {
    endpoint.receive(bytes.as_mut_ptr() as usize, bytes.len(), block)
}

/// What the kernel's `poll(2)` shows of a descriptor this moment.
pub(crate) fn shown(number: i32) -> i16 {
    let mut entry = libc::pollfd { fd: number, events: IN | OUT, revents: 0 };
    // SAFETY: one entry, a local.
    unsafe { libc::poll(&raw mut entry, 1, 0) };
    entry.revents
}

/// What `poll` of the library shows of an endpoint this moment.
pub(crate) fn seen(endpoint: &Endpoint) -> i16 {
    let mut entries = [PollEntry { number: endpoint.number(), events: IN | OUT, revents: 0 }];
    poll(&mut entries, 0).unwrap();
    entries[0].revents
}

/// Waits until the kernel shows one of `events`.
pub(crate) fn wait_for(number: i32, events: i16) -> i16 {
    let mut entry = libc::pollfd { fd: number, events, revents: 0 };
    // SAFETY: one entry, a local.
    let ready = unsafe { libc::poll(&raw mut entry, 1, 30_000) };
    assert_eq!(ready, 1, "nothing of {events:#x} in 30 s");
    entry.revents
}

/// Starts the test `name` once more as `role`.
pub(crate) fn start(name: &str, role: &str) -> SecondProcess {
    SecondProcess::start(name, role, &[])
}

/// An endpoint connected to a port of this node.
pub(crate) fn connect_to(port: u16) -> Endpoint {
    let endpoint = Endpoint::open().unwrap();
    endpoint.connect(PortId { node: node_ids().1, port }).unwrap();
    endpoint
}

/// An endpoint accepted from a second process, which runs the same test as `role`.
pub(crate) fn accepted_from(name: &str, role: &str) -> (Endpoint, SecondProcess) {
    let (listener, id) = listener(1);
    let mut other = start(name, role);
    other.order(&id.port.to_string());
    let (endpoint, _) = listener.accept(true).unwrap();
    (endpoint, other)
}

/// The other side of that, in the second process.
pub(crate) fn connected() -> Endpoint {
    connect_to(told().parse().unwrap())
}

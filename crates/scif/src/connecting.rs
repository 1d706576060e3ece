//! Ports, and the side of connecting that asks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use nonic_sys::{
    AsFd, AsRawFd, OwnedFd, POLL_IN, PollEntry, RawFd, Seldom, bind_name, connect_stream, give_other_end,
    is_listening, is_nonblocking, listen_for, open_stream, own_name, peer_credentials, pipe, poll, poll_now,
    send_byte, set_send_buffer, socket_cookie, want_senders,
};
use nonic_trust::Peer;

use crate::attempt::{Attempt, Stage, Standing, send_request};
use crate::helper::{self, Next};
use crate::kept_descriptor::KeptDescriptor;
use crate::node::fabric;
use crate::registry::{self, Entry};
use crate::relay::{Local, Question, ask};
use crate::segment::Segment;
use crate::side::Side;
use crate::stream_socket::StreamSocket;
use crate::{PortId, ScifError};

/// Most requests that may wait.
const BACKLOG_MOST: i32 = 1024;

pub(crate) fn system(error: &io::Error) -> ScifError {
    match error.kind() {
        io::ErrorKind::OutOfMemory => ScifError::NoMemory,
        io::ErrorKind::Interrupted => ScifError::Interrupted,
        _ => ScifError::System(error.raw_os_error().unwrap_or(0)),
    }
}

/// The port an endpoint has.
pub(crate) fn own_port(number: RawFd) -> Option<u16> {
    let name = own_name(number).ok().flatten()?;
    fabric().parse(&name).map(|id| id.port)
}

/// Gives an endpoint without a port the lowest that is free.
fn choose_port(number: RawFd) -> Result<u16, ScifError> {
    for port in fabric().chosen_ports() {
        match bind_name(number, &fabric().name(PortId { node: fabric().own, port })) {
            Ok(()) => return Ok(port),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            // Another thread was faster.
            Err(_) => return own_port(number).ok_or(ScifError::NoPort),
        }
    }
    Err(ScifError::NoPort)
}

pub(crate) fn bind(number: RawFd, port: u16) -> Result<u16, ScifError> {
    let record = registry::find(number)?;
    if port > 0 && !fabric().may_bind(port) {
        return Err(ScifError::Privileged { port, limit: fabric().lowest_port });
    }
    let mut registry = registry::lock();
    let standing = registry.entry(record.identity.cookie).map_or(Standing::Idle, Entry::standing);
    if !matches!(standing, Standing::Idle | Standing::Refused(_)) || is_listening(number) {
        return Err(ScifError::Connected);
    }
    if own_port(number).is_some() {
        return Err(ScifError::Invalid("the endpoint has a port already"));
    }
    if port == 0 {
        return choose_port(number);
    }
    match bind_name(number, &fabric().name(PortId { node: fabric().own, port })) {
        Ok(()) => Ok(port),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Err(ScifError::Invalid("the port is taken"))
        }
        Err(error) => Err(system(&error)),
    }
}

pub(crate) fn listen(number: RawFd, backlog: i32) -> Result<(), ScifError> {
    let record = registry::find(number)?;
    if backlog <= 0 {
        return Err(ScifError::Invalid("the backlog must be at least 1"));
    }
    let mut registry = registry::lock();
    let cookie = record.identity.cookie;
    let entry = registry.entry(cookie).ok_or(ScifError::NotOpen)?;
    match entry.standing() {
        Standing::Accepted | Standing::Connected if StreamSocket(number).is_hung_up() => {
            return Err(ScifError::Invalid("the endpoint was connected once"));
        }
        Standing::Idle | Standing::Refused(_) => {}
        _ => return Err(ScifError::Connected),
    }
    if is_listening(number) {
        return Err(ScifError::Connected);
    }
    let port = own_port(number).ok_or(ScifError::Invalid("the endpoint has no port"))?;
    let backlog = backlog.min(BACKLOG_MOST);
    if entry.other_end.is_none() {
        return listen_for(number, backlog).map_err(|error| system(&error));
    }
    // It has tried to connect: its socket cannot listen any more. Another takes its number and its port.
    let fresh = open_stream().map_err(|error| system(&error))?;
    registry.remove(cookie);
    let placed = nonic_sys::replace_number(number, &fresh).and_then(|()| {
        drop(fresh);
        bind_name(number, &fabric().name(PortId { node: fabric().own, port }))?;
        listen_for(number, backlog)
    });
    let cookie = socket_cookie(number).map_err(|error| system(&error))?;
    registry.insert(cookie, number);
    placed.map_err(|_| ScifError::Invalid("the port was taken meanwhile"))
}

pub(crate) fn connect(number: RawFd, target: PortId) -> Result<u16, ScifError> {
    if target.port == 0 {
        return Err(ScifError::Invalid("there is no port 0"));
    }
    let record = registry::find(number)?;
    if !fabric().knows(target.node) {
        return Err(ScifError::NoNode);
    }
    let cookie = record.identity.cookie;
    let mut registry = registry::lock();
    let entry = registry.entry(cookie).ok_or(ScifError::NotOpen)?;
    let port = own_port(number);
    match entry.standing() {
        Standing::Undecided { blocking: false } => return Err(ScifError::InProgress),
        Standing::Undecided { blocking: true } => return Err(ScifError::Connected),
        Standing::Accepted => {
            entry.attempt = None;
            return port.ok_or(ScifError::Connected);
        }
        Standing::Connected if StreamSocket(number).is_hung_up() => {
            return Err(ScifError::Invalid("the endpoint was connected once"));
        }
        Standing::Connected => return Err(ScifError::Connected),
        Standing::Refused(why) => {
            entry.attempt = None;
            return Err(why);
        }
        Standing::Idle if is_listening(number) => return Err(ScifError::Listening),
        Standing::Idle => {}
    }
    let port = match port {
        Some(port) => port,
        None => choose_port(number)?,
    };
    let blocking = !is_nonblocking(number).map_err(|error| system(&error))?;
    let notice = match request_of(number, PortId { node: fabric().own, port }, target, entry, blocking) {
        Ok(notice) => notice,
        Err(why @ ScifError::Refused) if !blocking => {
            entry.attempt = Some(Attempt::Refused(why));
            return Err(ScifError::InProgress);
        }
        Err(error) => return Err(error),
    };
    drop(registry);
    if blocking {
        return wait_for_decision(cookie, &notice).map(|()| port);
    }
    helper::add(Box::new(move || watch(cookie, &notice)));
    Err(ScifError::InProgress)
}

/// Gives an endpoint another end, and makes it unwritable until it is decided whether it is connected.
fn begin_request(number: RawFd, entry: &mut Entry) -> Result<&KeptDescriptor, ScifError> {
    let other_end = match entry.other_end.take() {
        Some(other_end) => other_end,
        None => KeptDescriptor::new(give_other_end(number).map_err(|error| system(&error))?),
    };
    // The kernel makes it its least, which two bytes fill.
    let _ = set_send_buffer(number, 1);
    for _ in 0..2 {
        let _ = send_byte(number);
    }
    Ok(entry.other_end.insert(other_end))
}

/// Sends the request to a listener of this host or another; returns what shows that it is decided.
fn request_of(
    number: RawFd,
    own: PortId,
    target: PortId,
    entry: &mut Entry,
    blocking: bool,
) -> Result<Arc<KeptDescriptor>, ScifError> {
    let hosts = fabric().hosts.as_ref();
    let Some(to) = hosts.and_then(|hosts| hosts.elsewhere(target.node)) else {
        return request(number, target, entry, blocking, 0);
    };
    let from = hosts.and_then(|hosts| hosts.address(own.node)).ok_or(ScifError::NoNode)?;
    let question = Question {
        from: SocketAddr::new(from, own.port),
        to: SocketAddr::new(to, target.port),
        node: target.node,
        fabric: fabric().word.clone(),
    };
    let other_end = begin_request(number, entry)?.descriptor().try_clone();
    let asked = (|| {
        let socket = KeptDescriptor::new(other_end?);
        let (notice, told) = pipe()?;
        let (segment, _) = Segment::create()?;
        Ok((Local { socket, segment, side: Side::Acceptor }, notice, told))
    })();
    let asked = asked.map_err(|error| system(&error)).and_then(|(local, notice, told)| {
        let segment = local.segment.clone();
        let link = ask(question, local, KeptDescriptor::new(told))?;
        Ok((segment, Arc::new(KeptDescriptor::new(notice)), link))
    });
    match asked {
        Ok((segment, notice, link)) => {
            let stage = Stage::Elsewhere(link);
            entry.attempt = Some(Attempt::Waiting { segment, notice: Arc::clone(&notice), stage, blocking });
            Ok(notice)
        }
        Err(why) => {
            entry.take_bytes_back();
            Err(why)
        }
    }
}

/// Sends the request to a listener of this host; returns the way to it. `relay`: the number of the relay that asks, 0 if none does.
pub(crate) fn request(
    number: RawFd,
    target: PortId,
    entry: &mut Entry,
    blocking: bool,
    relay: u64,
) -> Result<Arc<KeptDescriptor>, ScifError> {
    begin_request(number, entry)?;
    let sent = (|| {
        let way = connect_stream(&fabric().name(target))?;
        // Anybody can take a name. Who has this one says more before it is shown anything.
        if !Peer::of(way.as_fd())?.may_be_own() {
            name_stranger(target, &way);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        want_senders(way.as_raw_fd())?;
        let (segment, file) = Segment::create()?;
        segment.set_relay(relay);
        send_request(&way, target)?;
        Ok((way, segment, file))
    })();
    match sent {
        Ok((way, segment, file)) => {
            let notice = Arc::new(KeptDescriptor::new(way));
            let stage = Stage::Requested(KeptDescriptor::new(file));
            entry.attempt = Some(Attempt::Waiting { segment, notice: Arc::clone(&notice), stage, blocking });
            Ok(notice)
        }
        Err(error) => {
            entry.take_bytes_back();
            let error: io::Error = error;
            Err(match error.kind() {
                // Nobody listens, as many wait as may, or the listener went this moment.
                io::ErrorKind::ConnectionRefused
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => ScifError::Refused,
                _ => system(&error),
            })
        }
    }
}

fn wait_for_decision(cookie: u64, notice: &KeptDescriptor) -> Result<(), ScifError> {
    loop {
        let mut entries = [PollEntry { number: notice.number(), events: POLL_IN, revents: 0 }];
        let waited = poll(&mut entries, None);
        let mut registry = registry::lock();
        let entry = registry.entry(cookie).ok_or(ScifError::NotOpen)?;
        match entry.standing() {
            Standing::Accepted | Standing::Connected => {
                entry.attempt = None;
                return Ok(());
            }
            Standing::Undecided { .. } if waited.is_ok() => {}
            Standing::Undecided { .. } => {
                if entry.withdraw() {
                    return Err(ScifError::Interrupted);
                }
            }
            Standing::Refused(why) => {
                entry.attempt = None;
                return Err(why);
            }
            Standing::Idle => return Err(ScifError::Refused),
        }
    }
}

/// Notices the decision for a program that does not wait: without that a refusal would not make the endpoint writable, and
/// the end of a peer that accepted would not show.
fn watch(cookie: u64, notice: &KeptDescriptor) -> Next {
    if poll_now(notice.number(), POLL_IN) == 0 {
        return Next::WhenReadable(notice.number(), None);
    }
    match registry::lock().entry(cookie).map(Entry::standing) {
        Some(Standing::Undecided { .. }) => Next::WhenReadable(notice.number(), None),
        _ => Next::Done,
    }
}

/// Says who has a port's name who is no process of this user.
fn name_stranger(port: PortId, way: &OwnedFd) {
    static TAKEN: Seldom = Seldom::new();
    if let (Some(unsaid), Ok(holder)) = (TAKEN.turn(), peer_credentials(way.as_fd())) {
        tracing::warn!(node = port.node, port = port.port, %holder, unsaid, "a stranger has taken the name of a port");
    }
}

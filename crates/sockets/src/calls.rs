//! Taking sockets over, connecting, naming, and giving them back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_rsocket::{Direction, Error, Result, Stream};
use nonic_sys::RawFd;

use crate::setting::{self, Taken};
use crate::shown::{self, Course};
use crate::socket::{Socket, State};
use crate::table::{self, Object};
use crate::{Way, carrier, listener};

/// How long the end of a connection waits for what was sent to have gone. A peer that is stopped takes nothing.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Takes a new TCP socket of the program's over. Whether it is taken.
pub fn adopt(number: RawFd, v6: bool, nonblocking: bool) -> bool {
    shown::begin();
    if setting::taken() == Taken::None || !table::has_place(number) {
        return false;
    }
    drop(table::put(number, Object::Socket(Arc::new(Socket::new(v6, nonblocking)))));
    true
}

/// Connects it to a stream, if somebody takes one there. [`Way::Kernel`]: the kernel has to connect it; then [`forget`] it.
/// `bound` is the name that it was bound to.
pub fn connect(number: RawFd, address: SocketAddr, bound: Option<SocketAddr>) -> Result<Way<()>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    socket.settle(number);
    let mut state = socket.lock();
    match &*state {
        State::Connecting { .. } => return Err(Error::new(libc::EALREADY)),
        State::Connected(_) => return Err(Error::new(libc::EISCONN)),
        State::Failed(error) => {
            let error = *error;
            *state = State::Fresh;
            return Err(error);
        }
        State::Listening(_) | State::Kernel => return Ok(Way::Kernel),
        State::Fresh => {}
    }
    let by_tcp = |course, errno| {
        shown::note(number, course, errno, bound, Some(address));
        Ok(Way::Kernel)
    };
    if let Err(course) = listener::may_be_asked(address) {
        return by_tcp(course, 0);
    }
    let nonblocking = socket.is_nonblocking();
    let begun = begin(&socket, address, bound, nonblocking);
    match begun {
        Ok((stream, Ok(()))) => {
            socket.show_stream(number, &stream);
            socket.connect_to(&mut state, stream);
        }
        Ok((stream, Err(error))) if matches!(error.errno(), libc::EINPROGRESS | libc::EINTR) => {
            *state = State::Connecting { stream, address };
            drop(state);
            socket.sets().iter().for_each(|set| set.renew(number));
            return Err(error);
        }
        Ok((_, Err(error))) if error.errno() == libc::ETIMEDOUT => return Err(error),
        Ok((_, Err(error))) | Err(error) => {
            tracing::debug!(%address, %error, "nobody takes a stream: the connection goes over TCP");
            return by_tcp(Course::Refused, error.errno());
        }
    }
    drop(state);
    socket.sets().iter().for_each(|set| set.renew(number));
    Ok(Way::Done(()))
}

fn begin(
    socket: &Socket,
    address: SocketAddr,
    bound: Option<SocketAddr>,
    nonblocking: bool,
) -> Result<(Arc<Stream>, Result<()>)> {
    let unspecified = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let stream = Stream::new(unspecified.parse().map_err(|_| Error::new(libc::EINVAL))?)?;
    socket.options.lock().unwrap_or_else(std::sync::PoisonError::into_inner).apply_to(&stream);
    if let Some(bound) = bound.filter(|bound| bound.port() != 0) {
        stream.bind(bound)?;
    }
    stream.set_nonblocking(nonblocking);
    let connected = stream.connect(address);
    Ok((stream, connected))
}

/// A number is the kernel's from now on.
pub fn forget(number: RawFd) {
    if let Some(socket) = table::socket(number) {
        socket.become_kernels(number);
    }
}

/// Ends one half of a connection or both.
pub fn shut_down(number: RawFd, how: i32) -> Result<Way<()>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    let Way::Done(stream) = socket.stream(number)? else {
        if how != libc::SHUT_WR {
            socket.lock().end_listening();
        }
        return Ok(Way::Kernel);
    };
    let direction = Direction::of_number(how).ok_or(Error::new(libc::EINVAL))?;
    stream.shut_down_until(direction, Instant::now() + LAST_PATIENCE).map(Way::Done)
}

/// A number is about to be closed, or to stand for something else.
pub fn close(number: RawFd) {
    // Whoever looks for it meanwhile, because a child asks, finds it here or there.
    let mut claims = table::socket(number).filter(|socket| socket.is_inherited()).map(|_| carrier::claims());
    match table::take(number) {
        Some(Object::Socket(socket)) if socket.remove_descriptor() => {
            let goes_on = socket.is_connected()
                && claims.as_mut().is_some_and(|claims| hand_on(&socket, number, claims));
            drop(claims);
            if !goes_on {
                end(number, &socket);
            }
        }
        Some(Object::EventSet(set)) => set.end(number),
        Some(Object::Socket(_)) | None => {}
    }
}

/// The same for all numbers from `first` to `last`.
pub fn close_range(first: u32, last: u32) {
    table::numbers_in(first, last).into_iter().for_each(close);
}

fn end(number: RawFd, socket: &Arc<Socket>) {
    socket.sets().iter().for_each(|set| set.remove_socket(socket, number));
    let mut state = socket.lock();
    state.end_listening();
    let stream = match std::mem::replace(&mut *state, State::Kernel) {
        State::Connected(stream) | State::Connecting { stream, .. } => Some(stream),
        _ => None,
    };
    drop(state);
    if let Some(stream) = stream {
        stream.close_until(Instant::now() + LAST_PATIENCE);
    }
}

/// A child may use the connection, which this process is about to close.
fn hand_on(socket: &Arc<Socket>, number: RawFd, claims: &mut carrier::Claims) -> bool {
    socket.sets().iter().for_each(|set| set.remove_socket(socket, number));
    socket.hand_on(number, None, Some(claims))
}

/// Another number stands for the same from now on; what that one stood for was given back before.
pub fn duplicate(number: RawFd, other: RawFd) {
    let socket = table::socket(number);
    if let Some(socket) = socket.as_ref().filter(|socket| socket.is_foreign()) {
        // The copy may be for another program.
        let _ = socket.claim(other);
    }
    let object = socket.map(Object::Socket);
    let object = object.or_else(|| table::event_set(number).map(Object::EventSet));
    if let Some(object) = object.filter(|_| table::has_place(other)) {
        drop(table::put(other, object));
    }
}

/// Its own address.
pub fn name(number: RawFd) -> Result<Way<SocketAddr>> {
    named(number, |stream| Ok(stream.name()), |(name, _)| Ok(name))
}

/// The peer's.
pub fn peer_name(number: RawFd) -> Result<Way<SocketAddr>> {
    named(number, Stream::peer_name, |(_, peer)| peer.ok_or(Error::new(libc::ENOTCONN)))
}

fn named(
    number: RawFd,
    of: impl FnOnce(&Stream) -> Result<SocketAddr>,
    bequeathed: impl FnOnce((SocketAddr, Option<SocketAddr>)) -> Result<SocketAddr>,
) -> Result<Way<SocketAddr>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    if let Some(names) = socket.bequeathed_names() {
        return Ok(Way::Done(socket.shown(bequeathed(names)?)));
    }
    Ok(match socket.stream(number) {
        Ok(Way::Done(stream)) => Way::Done(socket.shown(of(stream)?)),
        _ => Way::Kernel,
    })
}

/// Whether calls that would wait fail instead.
pub fn set_nonblocking(number: RawFd, nonblocking: bool) {
    if let Some(socket) = table::socket(number) {
        socket.set_nonblocking(nonblocking);
    }
}

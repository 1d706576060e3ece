//! Listening two ways, and accepting whoever comes first.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use nonic_rsocket::{Error, Result, Stream, poll_found};
use nonic_sys::{POLL_IN, PollEntry, RawFd, close_number, open_tcp, poll_now};

use crate::option::Options;
use crate::setting::{self, Taken};
use crate::shown::{self, Course};
use crate::socket::{Socket, State};
use crate::table::{self, Object};
use crate::{Way, option};

/// The part of a listening socket that is not the kernel's.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Under which it began.
    number: RawFd,
    name: SocketAddr,
    backlog: i32,
    only_v6: bool,
    /// What connections inherit, as with TCP.
    options: Options,
    stream: Option<Arc<Stream>>,
    /// Whether a stream was asked for in this process.
    tried: bool,
    /// Whether this process waits for connections: it is then the one to keep the stream when it forks.
    awaited: bool,
}

impl Listening {
    fn new(number: RawFd, name: SocketAddr, backlog: i32, only_v6: bool, options: Options) -> Self {
        let mut listening =
            Self { number, name, backlog, only_v6, options, stream: None, tried: false, awaited: false };
        listening.try_to_listen();
        listening
    }

    /// Listens with a stream. Without one the socket is the kernel's like any other.
    fn try_to_listen(&mut self) {
        self.tried = true;
        let show = |course, errno| shown::note(self.number, course, errno, Some(self.name), None);
        if setting::taken() == Taken::Connecting {
            return show(Course::OnlyConnects, 0);
        }
        let begun = Stream::new(self.name).and_then(|stream| {
            let only_v6 = i32::from(self.only_v6).to_ne_bytes();
            if self.name.is_ipv6() {
                stream.set_option(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &only_v6)?;
            }
            self.options.apply_to(&stream);
            // Other hosts connect by TCP.
            stream.stay_within_host();
            stream.bind(self.name)?;
            stream.listen(self.backlog)?;
            Ok(stream)
        });
        match begun {
            Ok(stream) => {
                show(Course::Listens, 0);
                self.stream = Some(stream);
            }
            Err(error) => {
                show(Course::ListensByTcp, error.errno());
                tracing::info!(name = %self.name, %error, "no stream listens there: connections come over TCP only");
            }
        }
    }

    /// The stream, for somebody who waits for connections in this process.
    pub(crate) fn stream(&mut self) -> Option<Arc<Stream>> {
        self.awaited = true;
        if !self.tried {
            self.try_to_listen();
        }
        self.stream.clone()
    }

    /// Before a fork: whoever did not wait for connections leaves that to the child, where the next who waits listens.
    pub(crate) fn leave_to_child(&mut self) {
        if !self.awaited
            && let Some(stream) = self.stream.take()
        {
            stream.close();
            self.tried = false;
        }
    }

    /// In the child.
    pub(crate) fn leave_to_parent(&mut self) {
        std::mem::forget(self.stream.take());
        (self.tried, self.awaited) = (false, false);
    }

    fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.close();
        }
    }
}

impl State {
    /// Ends a stream that listens.
    pub(crate) fn end_listening(&mut self) {
        if let Self::Listening(listening) = self {
            listening.close();
            *self = Self::Fresh;
        }
    }
}

/// A socket is about to listen in the kernel, at `name`: a stream listens there first, if it can. Who finds the port taken in the
/// kernel finds the stream, too.
pub fn listen(number: RawFd, backlog: i32, name: SocketAddr, only_v6: bool) {
    let Some(socket) = table::socket(number) else { return };
    let mut state = socket.lock();
    if matches!(&*state, State::Fresh) {
        let options = socket.options.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *state = State::Listening(Listening::new(number, name, backlog, only_v6, options));
        drop(state);
        socket.sets().iter().for_each(|set| set.renew(number));
    }
}

/// The kernel did not let it listen, or it was shut down.
pub fn cease_to_listen(number: RawFd) {
    if let Some(socket) = table::socket(number) {
        socket.lock().end_listening();
    }
}

/// The next connection by a stream, and its peer. [`Way::Kernel`] if there is one of the kernel's, or none and nothing is waited
/// for. `nonblocking` and `inherited` are what the new socket is to be.
pub fn accept(number: RawFd, nonblocking: bool, inherited: bool) -> Result<Way<(RawFd, Option<SocketAddr>)>> {
    let Some(socket) = table::socket(number) else { return Ok(Way::Kernel) };
    loop {
        let stream = match &mut *socket.lock() {
            State::Listening(listening) => listening.stream(),
            _ => None,
        };
        let Some(stream) = stream else { return Ok(Way::Kernel) };
        match stream.try_accept() {
            Ok(Some(accepted)) => return enter(&socket, accepted, nonblocking, inherited).map(Way::Done),
            Ok(None) => {}
            // Another thread ended it.
            Err(_) => return Ok(Way::Kernel),
        }
        if socket.is_nonblocking() || poll_now(number, POLL_IN) != 0 {
            return Ok(Way::Kernel);
        }
        let timeout = option::receive_timeout(&socket);
        let mut entries = [PollEntry { number, events: POLL_IN, revents: 0 }];
        let find = |number: RawFd| socket.polled(number);
        if poll_found(&mut entries, timeout, &find)? == 0 {
            return Err(Error::new(libc::EAGAIN));
        }
    }
}

fn enter(
    listener: &Socket,
    stream: Arc<Stream>,
    nonblocking: bool,
    inherited: bool,
) -> Result<(RawFd, Option<SocketAddr>)> {
    let number = open_tcp(listener.v6, nonblocking, inherited)?;
    if !table::has_place(number) {
        let _ = close_number(number);
        stream.close();
        return Err(Error::new(libc::EMFILE));
    }
    let peer = stream.peer_name().ok().map(|peer| listener.shown(peer));
    let socket = Socket::accepted(listener.v6, nonblocking, Arc::clone(&stream));
    socket.show_stream(number, &stream);
    drop(table::put(number, Object::Socket(Arc::new(socket))));
    Ok((number, peer))
}

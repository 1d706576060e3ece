//! Options: the kernel's socket keeps them; what concerns a stream, it is told.

use std::sync::PoisonError;
use std::time::Duration;

use nonic_rsocket::{Direction, Stream};
use nonic_sys::RawFd;

use crate::socket::{Socket, State};
use crate::{Way, table};

/// What was set that concerns a stream.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    receive_timeout: Duration,
    send_timeout: Duration,
    /// The program has not said how long the receive buffer is.
    receive_buffer_grows: bool,
    /// As the program gave them, for the stream.
    numbers: Vec<(i32, i32, i32)>,
}

/// What a stream is told for its buffers, each of which becomes twice as long. Larger than those of rsockets: programs of TCP count
/// on a window in which the other side may sleep for a while, and where processors are few it sleeps for longer than it takes to
/// fill one.
const BUFFER: i32 = 1 << 19;
/// Where a peer fills its receive buffer, it becomes so long: so long that what was read has left the nearest cache before it is
/// written over, which between cores that share one is four times faster.
const RECEIVE_BUFFER_MOST: u32 = 1 << 22;

/// Options that a stream has as well.
const KNOWN: [(i32, i32); 6] = [
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
];

impl Default for Options {
    fn default() -> Self {
        let buffers = [libc::SO_SNDBUF, libc::SO_RCVBUF];
        Self {
            receive_timeout: Duration::ZERO,
            send_timeout: Duration::ZERO,
            receive_buffer_grows: true,
            numbers: buffers.map(|name| (libc::SOL_SOCKET, name, BUFFER)).to_vec(),
        }
    }
}

impl Options {
    /// Tells them to a stream.
    pub(crate) fn apply_to(&self, stream: &std::sync::Arc<Stream>) {
        stream.set_timeout(Direction::Receive, self.receive_timeout);
        stream.set_timeout(Direction::Send, self.send_timeout);
        for (level, name, value) in &self.numbers {
            // The kernel took it; what a stream makes of it is its own.
            let _ = stream.set_option(*level, *name, &value.to_ne_bytes());
        }
        if self.receive_buffer_grows {
            stream.let_receive_buffer_grow(RECEIVE_BUFFER_MOST);
        }
    }

    fn note(&mut self, level: i32, name: i32, value: &[u8]) {
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => self.receive_timeout = time(value).unwrap_or_default(),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => self.send_timeout = time(value).unwrap_or_default(),
            known if KNOWN.contains(&known) => {
                let Some(number) = value.first_chunk().copied().map(i32::from_ne_bytes) else { return };
                self.receive_buffer_grows &= known != (libc::SOL_SOCKET, libc::SO_RCVBUF);
                self.numbers.retain(|(level, name, _)| (*level, *name) != known);
                self.numbers.push((level, name, number));
            }
            _ => {}
        }
    }
}

/// A `struct timeval`.
fn time(value: &[u8]) -> Option<Duration> {
    let word = |at: usize| value.get(at..)?.first_chunk().copied().map(i64::from_ne_bytes);
    nonic_sys::time_of(word(0)?, word(8)?.checked_mul(1000)?)
}

/// An option was set in the kernel.
pub fn note_option(number: RawFd, level: i32, name: i32, value: &[u8]) {
    let Some(socket) = table::socket(number) else { return };
    let stream = socket.stream(number);
    let mut options = socket.options.lock().unwrap_or_else(PoisonError::into_inner);
    options.note(level, name, value);
    if let Ok(Way::Done(stream)) = stream {
        options.apply_to(stream);
    }
}

/// A number that an option is; [`Way::Kernel`] for those that only the kernel knows.
pub fn option(number: RawFd, level: i32, name: i32) -> Way<i32> {
    let Some(socket) = table::socket(number) else { return Way::Kernel };
    if (level, name) != (libc::SOL_SOCKET, libc::SO_ERROR) {
        return Way::Kernel;
    }
    socket.settle(number);
    let mut state = socket.lock();
    match &*state {
        State::Failed(error) => {
            let errno = error.errno();
            *state = State::Fresh;
            Way::Done(errno)
        }
        State::Connecting { .. } => Way::Done(0),
        State::Connected(stream) => Way::Done(match stream.take_error() {
            libc::EIO => libc::ECONNRESET,
            errno => errno,
        }),
        State::Fresh | State::Listening(_) | State::Kernel => Way::Kernel,
    }
}

/// How long a call waits that receives; `None`: for ever.
pub(crate) fn receive_timeout(socket: &Socket) -> Option<Duration> {
    let timeout = socket.options.lock().unwrap_or_else(PoisonError::into_inner).receive_timeout;
    (!timeout.is_zero()).then_some(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_known_numbers_are_kept_and_the_last_counts() {
        let mut options = Options::default();
        let half: Vec<u8> = [1i64, 500_000].iter().flat_map(|word| word.to_ne_bytes()).collect();
        options.note(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &half);
        assert_eq!(options.receive_timeout, Duration::from_millis(1500));
        options.note(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &half[..8]);
        assert_eq!(options.receive_timeout, Duration::ZERO);
        for number in [1i32, 0] {
            options.note(libc::IPPROTO_TCP, libc::TCP_NODELAY, &number.to_ne_bytes());
            options.note(libc::IPPROTO_TCP, libc::TCP_CORK, &number.to_ne_bytes());
        }
        let given = &options.numbers[Options::default().numbers.len()..];
        assert_eq!(given, [(libc::IPPROTO_TCP, libc::TCP_NODELAY, 0)]);
    }
}

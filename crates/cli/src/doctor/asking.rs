//! Asking a running process over its socket for changes: who is at the other end is looked at before anything is said.

use std::time::{Duration, Instant};

use nonic_sys::{AsFd, PacketSocket, Received};
use nonic_transport::{Asked, CHANGING_MESSAGE_MAX, connect_to_change};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::inspect::process::Process;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    #[error(
        "{0} cannot be asked from this network namespace, or has ended: ask inside its own (nsenter --net --target PID)"
    )]
    NoWay(String),
    #[error("the socket of {0} is held by another process: it is not asked")]
    Stranger(String),
    #[error("{0} does not answer: is it stopped?")]
    Silent(String),
    #[error("{0} hung up: it may be asked by its own user and root")]
    HungUp(String),
    /// It says why not.
    #[error("{title}: {why}")]
    Refused { title: String, why: String },
    #[error("{0} answers what makes no sense: is it of another release?")]
    Senseless(String),
}

/// What a process answers.
pub(crate) fn ask(
    process: &Process,
    token: u64,
    asked: &Asked,
    patience: Duration,
) -> Result<String, Unanswered> {
    let title = || process.seen.title();
    let socket = connect_to_change(token).map_err(|_| Unanswered::NoWay(title()))?;
    let peer = socket.peer().map_err(|_| Unanswered::HungUp(title()))?;
    if peer.uid != process.seen.uid || (peer.pid != 0 && peer.pid != process.seen.pid) {
        return Err(Unanswered::Stranger(title()));
    }
    socket.send(asked.to_string().as_bytes(), &[]).map_err(|_| Unanswered::HungUp(title()))?;
    let answer = receive(&socket, Instant::now() + patience).ok_or_else(|| Unanswered::Silent(title()))?;
    match answer.split_once(' ') {
        Some(("ok", text)) => Ok(text.to_owned()),
        Some(("refused", why)) => Err(Unanswered::Refused { title: title(), why: why.to_owned() }),
        _ if answer.is_empty() => Err(Unanswered::HungUp(title())),
        _ => Err(Unanswered::Senseless(title())),
    }
}

/// The answer, empty if the other side hangs up; `None` if none comes in time.
fn receive(socket: &PacketSocket, end: Instant) -> Option<String> {
    let mut bytes = [0; CHANGING_MESSAGE_MAX];
    loop {
        match socket.receive_bytes(&mut bytes) {
            Received::Message(length, _) => {
                return Some(String::from_utf8_lossy(&bytes[..length]).into_owned());
            }
            Received::HungUp => return Some(String::new()),
            Received::Nothing => {}
        }
        let left = end.checked_duration_since(Instant::now())?;
        let most = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let descriptor = socket.as_fd();
        let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&most));
    }
}

//! Asking another host for a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_rsocket::{PortSpace, Standing, Stream};
use nonic_sys::{POLL_HANG_UP, PollEntry, poll_now, spawn_without_signals, take_bytes};

use super::line::Line;
use super::running::{Local, SILENCE_SECONDS, start};
use crate::ScifError;
use crate::kept_descriptor::KeptDescriptor;
use crate::segment::Decision;
use crate::wire::{Frame, Header, Kind, Link, VERSION, error_of};

/// How long the other host may take to say whether anybody listens; who listens may take as long as he likes to accept.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether the program still wants the connection.
const LOOK: Duration = Duration::from_millis(50);
/// The errors of a stream that say that no way leads to the other host: ENODEV, ENETUNREACH, EHOSTUNREACH.
const NO_WAY: [i32; 3] = [19, 101, 113];
/// The error of a stream that is on its way.
const EINPROGRESS: i32 = 115;

/// What the program is told of a stream that is not connected.
fn refusal(errno: i32) -> ScifError {
    if NO_WAY.contains(&errno) { ScifError::NoNode } else { ScifError::Refused }
}

/// Whom a program asks, and who asks.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The own node's address, and the port of the endpoint.
    pub(crate) from: SocketAddr,
    /// The address of the node that is asked, and the port.
    pub(crate) to: SocketAddr,
    /// The node that is asked.
    pub(crate) node: u16,
    /// The word of the fabric.
    pub(crate) fabric: String,
}

impl Question {
    fn hello(&self) -> Frame {
        let hello = Header {
            small: self.from.port(),
            offset: self.node.into(),
            value: VERSION,
            ..Header::new(Kind::Hello)
        };
        hello.with(self.fabric.as_bytes())
    }
}

/// Has the other host asked. What is decided stands in the segment of `local`, whose socket is the other end of the program's
/// endpoint; `notice` is dropped then.
pub(crate) fn ask(question: Question, local: Local, notice: KeptDescriptor) -> Result<Arc<Link>, ScifError> {
    let any = SocketAddr::new(question.from.ip(), 0);
    let stream = Stream::in_space(PortSpace::Scif, any).map_err(|error| ScifError::System(error.errno()))?;
    let (line, link) = Line::new(stream).map_err(|error| ScifError::System(error.errno()))?;
    local.segment.set_relay(link.number());
    let own = Arc::clone(&link);
    let asking = Asking { question, local, line, link: own, notice };
    spawn_without_signals("nonic-scif-far", move || asking.run()).map_err(|_| ScifError::NoMemory)?;
    Ok(link)
}

struct Asking {
    question: Question,
    local: Local,
    line: Line,
    link: Arc<Link>,
    /// The writing end of a pipe, whose other end goes when the program gives up.
    notice: KeptDescriptor,
}

impl Asking {
    fn run(mut self) {
        if let Err(why) = self.connect().and_then(|()| self.hear()) {
            tracing::debug!(question = ?self.question, %why, "there will be no connection to another host");
            self.link.refuse(why);
            self.link.end();
            self.local.segment.decide(Decision::Off);
            return;
        }
        if !self.local.segment.decide(Decision::Accepted) {
            tracing::debug!("who asked for a connection to another host does not want it any more");
            return;
        }
        // The endpoint becomes writable.
        let _ = take_bytes(self.local.socket.number(), 64);
        let Self { local, line, link, notice, .. } = self;
        drop(notice);
        start(line, link, local);
    }

    /// Whether the program has given up, or closed its endpoint.
    fn is_given_up(&self) -> bool {
        self.local.segment.decision() != Decision::Open
            || poll_now(self.local.socket.number(), 0) & POLL_HANG_UP != 0
    }

    /// Waits for something, or a look at whether the program still wants it.
    fn wait(&self) -> Result<(), ScifError> {
        if self.is_given_up() {
            return Err(ScifError::Interrupted);
        }
        let watched = [self.local.socket.number(), self.notice.number()];
        let mut entries = watched.map(|number| PollEntry { number, events: 0, revents: 0 }).to_vec();
        self.line.wait(&mut entries, Some(Instant::now() + LOOK));
        Ok(())
    }

    fn connect(&mut self) -> Result<(), ScifError> {
        let until = Instant::now() + PATIENCE;
        let Question { from, to, .. } = self.question;
        let stream = Arc::clone(&self.line.stream);
        self.line.look(&self.link);
        if let Err(error) = stream.connect_from(Some(from.ip()), to)
            && error.errno() != EINPROGRESS
        {
            return Err(refusal(error.errno()));
        }
        loop {
            self.line.look(&self.link);
            match stream.standing() {
                Standing::Connected => break,
                Standing::Opening if Instant::now() < until => self.wait()?,
                Standing::Opening => return Err(ScifError::Refused),
                Standing::Refused(error) => return Err(refusal(error.errno())),
                Standing::Unconnected => return Err(ScifError::NoNode),
            }
        }
        self.line.is_connected();
        stream.keep_alive(SILENCE_SECONDS).map_err(|_| ScifError::NoMemory)?;
        self.link.push(self.question.hello());
        Ok(())
    }

    /// Hears what the other host decides.
    fn hear(&mut self) -> Result<(), ScifError> {
        loop {
            self.line.look(&self.link);
            self.line.flush(&self.link);
            match self.line.take() {
                Ok(Some((Header { kind: Kind::Welcome, .. }, _))) => return Ok(()),
                Ok(Some((Header { kind: Kind::Refusal, value, .. }, _))) => {
                    return Err(error_of(value).err().unwrap_or(ScifError::Refused));
                }
                Ok(Some(_)) | Err(_) => return Err(ScifError::Refused),
                Ok(None) => self.wait()?,
            }
        }
    }
}

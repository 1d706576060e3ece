//! `nonic demo dat`: a connector (the initiator) and a listener (the target), joined by two endpoints of uDAPL.

mod bind;
mod peer;
mod rebind;
mod register;
mod sync;
mod write;

use std::path::Path;
use std::process::Command;
use std::rc::Rc;

pub(crate) use peer::{PeerArguments, main as peer_main};

use super::exchange::Exchange;
use super::failure::{Outcome, Spinner, ensure};
use super::peer::Role;
use super::step::Done;
use crate::dat::{Adapter, DatLibrary, Endpoint, Listener, Privileges, Region, Remote, Status};
use crate::verbs::Buffer;

/// The steps, in order.
pub(super) const STEPS: [&str; 5] = ["register", "bind", "write", "rebind", "sync"];

/// The adapter of most steps, and the one whose memory is not coherent.
const ADAPTER: &str = "nonic";
const NONCOHERENT: &str = "nonic-noncoherent";

/// Arguments of one of the two processes.
pub(super) fn complete<'a>(command: &'a mut Command, role: Role, library: &Path) -> &'a mut Command {
    // What an adapter of that name is, the demo says itself.
    command.arg("demo-dat-peer").arg(role.name()).arg(library).env_remove("NONIC_NONCOHERENT")
}

/// What a step has to work with.
struct Stage {
    library: DatLibrary,
    line: Line,
    /// The way to the other process beside uDAPL.
    exchange: Exchange,
}

/// One side of a step.
type Part<T> = fn(&mut Stage) -> Outcome<T>;

/// Both sides of each step, in the order of [`STEPS`].
const PARTS: [(Part<Done>, Part<()>); STEPS.len()] = [
    (register::initiate, register::serve),
    (bind::initiate, bind::serve),
    (write::initiate, write::serve),
    (rebind::initiate, rebind::serve),
    (sync::initiate, sync::serve),
];

/// Who of the two asks for the connection, and where.
enum Side {
    /// Listens.
    Listener(Listener),
    /// Connects to that number.
    Connector(u64),
}

/// An endpoint with a receive posted, connected to the other process.
struct Line {
    adapter: Rc<Adapter>,
    // Before the memory that its receive is for.
    endpoint: Endpoint,
    mail: Region,
    side: Side,
}

/// Where messages arrive in the memory for them, and from where they are sent.
const INBOX: usize = 0;
const OUTBOX: usize = 64;

/// Bytes of a message: three words.
const MESSAGE: usize = 24;

impl Line {
    /// Opens the adapter and connects.
    fn open(library: &DatLibrary, name: &str, role: Role, exchange: &mut Exchange) -> Outcome<Self> {
        let adapter = Adapter::open(library, name)?;
        let side = match role {
            Role::Target => {
                let listener = Listener::new(&adapter)?;
                exchange.tell(&listener.number())?;
                Side::Listener(listener)
            }
            Role::Initiator => Side::Connector(exchange.hear()?),
        };
        let mail = Region::new(&adapter, Buffer::new(4096), Privileges::LOCAL)?;
        let line = Self { endpoint: Endpoint::new(&adapter)?, adapter, mail, side };
        line.join()?;
        Ok(line)
    }

    /// Connects the endpoint, for the first time or again.
    fn join(&self) -> Outcome<()> {
        self.endpoint.post_receive(&self.mail, INBOX, MESSAGE)?;
        match &self.side {
            Side::Listener(listener) => listener.accept(&self.endpoint)?,
            Side::Connector(number) => {
                self.endpoint.start_connecting(*number)?;
                self.endpoint.finish_connecting()?;
            }
        }
        Ok(())
    }

    /// The service number between the two.
    fn number(&self) -> u64 {
        match &self.side {
            Side::Listener(listener) => listener.number(),
            Side::Connector(number) => *number,
        }
    }

    /// Posts a message that says where memory is.
    fn post_advertisement(&self, remote: Remote) -> Outcome<()> {
        for (at, word) in remote.words().into_iter().enumerate() {
            self.mail.buffer().store(OUTBOX + at * 8, word);
        }
        Ok(self.endpoint.post_send(&self.mail, OUTBOX, MESSAGE)?)
    }

    /// Waits for such a message, asleep.
    fn hear_advertisement(&self) -> Outcome<Remote> {
        self.endpoint.received()?;
        let words = [0, 8, 16].map(|at| self.mail.buffer().load(INBOX + at));
        self.endpoint.post_receive(&self.mail, INBOX, MESSAGE)?;
        Ok(Remote::from_words(words))
    }

    /// Polls until the oldest request has ended; returns how.
    fn ending(&self) -> Outcome<Status> {
        let mut spinner = Spinner::new("the end of a request");
        loop {
            match self.endpoint.poll()? {
                Some(status) => return Ok(status),
                None => spinner.turn()?,
            }
        }
    }

    /// Polls until the oldest request has ended well.
    fn finish(&self) -> Outcome<()> {
        let status = self.ending()?;
        ensure(status.is_success(), || format!("a request ended with {}", status.name()))
    }

    /// Writes to the peer's memory, and waits for the end.
    fn write(&self, region: &Region, from: usize, remote: Remote) -> Outcome<()> {
        self.endpoint.post_write(region, from, remote)?;
        self.finish()
    }

    /// Reads the peer's memory, and waits for the end.
    fn read(&self, region: &Region, from: usize, remote: Remote) -> Outcome<()> {
        self.endpoint.post_read(region, from, remote)?;
        self.finish()
    }
}

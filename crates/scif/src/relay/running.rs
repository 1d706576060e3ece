//! The life of a relay once both programs are connected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_sys::{POLL_HANG_UP, POLL_IN, POLL_OUT, PollEntry, nap, poll_now};

use super::Why;
use super::exit::{self, Living};
use super::feed::Feed;
use super::line::Line;
use super::serving::{Serving, answer};
use super::tap::Tap;
use crate::kept_descriptor::KeptDescriptor;
use crate::segment::Segment;
use crate::side::Side;
use crate::stream_socket::StreamSocket;
use crate::wire::{ASKS, Header, Kind, Link, READ_MOST, error_of};

/// While it is not decided whether there will be a connection, a peer that was silent for so many seconds is asked whether it is there.
pub(crate) const SILENCE_SECONDS: u32 = 10;
/// A relay that was silent for so long is asked whether it is there; after so many times that it did not answer it is not: in 10 seconds,
/// as with the drivers of the cards. Times are counted, for this process may have been stopped itself.
const SILENCE: Duration = Duration::from_secs(2);
const ASKED_MOST: u32 = 4;
/// How long what was sent may take to go once the program has closed its endpoint.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// Frames that are handled before what they caused is sent.
const TURN: usize = 32;
/// Bytes that wait to go to a host that takes none: more than one that obeys ever lets wait. Nothing more of its is handled then.
const UNTAKEN_MOST: usize = 1 << 20;
/// Pause where the socket shows what is not there: a sender that was stopped has not counted its token.
const PAUSE: Duration = Duration::from_micros(50);

/// This host's side: the relay's end of the program's endpoint.
pub(crate) struct Local {
    pub(crate) socket: KeptDescriptor,
    pub(crate) segment: Segment,
    /// The relay's side.
    pub(crate) side: Side,
}

impl Local {
    fn socket(&self) -> StreamSocket {
        StreamSocket(self.socket.number())
    }
}

/// A relay.
struct Relay {
    line: Line,
    link: Arc<Link>,
    local: Local,
    tap: Tap,
    feed: Feed,
    serving: Serving,
    /// When something came last or was asked, and how often it was asked since something came.
    heard: Instant,
    asked: u32,
    /// The program has closed, and was heard.
    closing: bool,
    /// The socket is writable when the program has taken something.
    armed: bool,
    _living: Living,
}

/// Carries on a connection that both programs have, until one of them ends it. On a thread of its own.
pub(crate) fn start(line: Line, link: Arc<Link>, local: Local) {
    let Local { segment, side, .. } = &local;
    let program = match side {
        Side::Connector => Side::Acceptor,
        Side::Acceptor => Side::Connector,
    };
    let (tap, feed) = (Tap::new(segment.direction(program)), Feed::new(segment.direction(*side)));
    let serving = Serving::new(&local);
    let relay = Relay {
        line,
        link,
        local,
        tap,
        feed,
        serving,
        heard: Instant::now(),
        asked: 0,
        closing: false,
        armed: false,
        _living: Living::new(),
    };
    relay.run();
}

/// Refuses an answer to nothing that was asked.
fn expected(was_asked: bool) -> Result<(), Why> {
    if was_asked { Ok(()) } else { Err("the other host answers what it was not asked") }
}

impl Relay {
    fn run(mut self) {
        let why = loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => self.wait(),
                Err(why) => break why,
            }
        };
        tracing::debug!(why, "a connection to another host ends");
        let Self { line, link, local, serving, .. } = self;
        // The program sees the end now; what it has not read stays where it is. Then its calls that wait hear of it.
        drop((serving, local));
        link.end();
        line.stream.close_until(Instant::now() + LAST_PATIENCE);
    }

    /// Does what there is to do; whether there was anything.
    fn turn(&mut self) -> Result<bool, Why> {
        self.line.look(&self.link);
        let mut busy = false;
        for _ in 0..TURN {
            if self.link.queued() >= UNTAKEN_MOST {
                break;
            }
            let Some((header, payload)) = self.line.take()? else { break };
            busy = true;
            (self.heard, self.asked) = (Instant::now(), 0);
            self.handle(header, payload)?;
        }
        busy |= self.forward()?;
        busy |= self.report()?;
        busy |= self.serving.go_on(&self.link);
        busy |= self.ask_if_silent()?;
        busy |= self.line.flush(&self.link);
        if self.closing && !busy && self.line.is_flushed() {
            return Err("the program has closed its endpoint");
        }
        Ok(busy)
    }

    fn handle(&mut self, header: Header, mut payload: Vec<u8>) -> Result<(), Why> {
        match header.kind {
            Kind::Bytes => self.feed.put(header.number, &mut payload, self.local.socket()),
            Kind::Taken => self.tap.is_taken(header.number, self.local.socket()),
            Kind::Close => Err("the other program has closed its endpoint"),
            Kind::Write => self.serving.write(&self.link, &header, &payload),
            Kind::Read => self.serving.read(&self.link, &header, &payload),
            Kind::Check => self.serving.check(&self.link, &header),
            Kind::Store => self.serving.store(&self.link, &header),
            Kind::Mark => {
                answer(&self.link, header.number, Ok(()), self.link.mark());
                Ok(())
            }
            Kind::Wait => self.serving.wait(&self.link, &header),
            Kind::Piece => expected(self.link.has_come(header.number, payload, READ_MOST)),
            Kind::Done => {
                let outcome = error_of(header.value).map(|()| header.offset as u64);
                expected(self.link.is_answered(header.number, outcome))
            }
            Kind::Alive => {
                if header.flags & ASKS != 0 {
                    self.link.push(Header::new(Kind::Alive).alone());
                }
                Ok(())
            }
            Kind::Hello | Kind::Welcome | Kind::Refusal => Err("the other host says what it may not say now"),
        }
    }

    /// Sends what the program has sent, and that it has closed.
    fn forward(&mut self) -> Result<bool, Why> {
        if self.closing {
            return Ok(false);
        }
        // Before the look at its bytes: those that it sent before count.
        let gone = poll_now(self.local.socket.number(), 0) & POLL_HANG_UP != 0 || exit::is_under_way();
        let seen = self.tap.look(self.local.socket())?;
        let any = seen.is_some();
        if let Some((position, bytes)) = seen {
            self.link.push(Header { number: position, ..Header::new(Kind::Bytes) }.with(&bytes));
        }
        if gone {
            self.closing = true;
            self.link.push(Header::new(Kind::Close).alone());
        }
        Ok(any || gone)
    }

    /// Says what the program has taken.
    fn report(&mut self) -> Result<bool, Why> {
        let mut any = false;
        loop {
            if let Some(head) = self.feed.news()? {
                any = true;
                self.link.push(Header { number: head, ..Header::new(Kind::Taken) }.alone());
            }
            let (done, armed) = self.feed.arm(self.local.socket())?;
            if done {
                self.armed = armed;
                return Ok(any);
            }
        }
    }

    /// Asks a relay that was silent whether it is there.
    fn ask_if_silent(&mut self) -> Result<bool, Why> {
        if self.heard.elapsed() < SILENCE {
            return Ok(false);
        }
        if self.asked == ASKED_MOST {
            return Err("the other host is silent");
        }
        (self.heard, self.asked) = (Instant::now(), self.asked + 1);
        self.link.push(Header { flags: ASKS, ..Header::new(Kind::Alive) }.alone());
        Ok(true)
    }

    fn wait(&mut self) {
        let input = if self.tap.has_room() && !self.closing { POLL_IN } else { 0 };
        let output = if self.armed { POLL_OUT } else { 0 };
        let number = self.local.socket.number();
        // Once it has hung up it would be ready for ever.
        let number = if self.closing { -1 } else { number };
        let mut entries = vec![PollEntry { number, events: input | output, revents: 0 }];
        self.line.wait(&mut entries, Some(self.heard + SILENCE));
        if entries.first().is_some_and(|entry| entry.revents & POLL_IN != 0) && !self.tap.has_news() {
            let _ = nap(PAUSE);
        }
    }
}

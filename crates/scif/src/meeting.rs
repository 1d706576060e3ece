//! Requests that a listener has taken from the kernel and not yet accepted: it asks who they are from.

use std::time::{Duration, Instant};

use nonic_message::Descriptors;
use nonic_sys::{
    AsFd, OwnedFd, POLL_HANG_UP, POLL_IN, RawFd, Received, poll_now, receive_message, send_message,
    take_signed,
};
use nonic_trust::{Answer, Doubt, Peer};

use crate::kept_descriptor::KeptDescriptor;
use crate::proof::{Kind, Word, trusted_users};

/// How long whoever connects may take between two words: it only reads and writes.
const PATIENCE: Duration = Duration::from_secs(1);
/// After this time another request is looked at as well: who is silent is in nobody's way.
const SLOW: Duration = Duration::from_millis(1);
/// Requests that are looked at at once.
const MOST: usize = 64;
/// When there are so many, the one that was silent longest goes for another after this time.
const LONG: Duration = Duration::from_millis(100);

/// Why a request is over whose process went, or refused.
const HUNG_UP: &str = "whoever asked has hung up";

/// One of them.
#[derive(Debug)]
pub(crate) struct Meeting {
    way: KeptDescriptor,
    awaited: Awaited,
    /// When it last said something.
    since: Instant,
}

/// What it has to say next.
#[derive(Debug)]
enum Awaited {
    Request(Peer),
    Reply(Peer, Doubt),
    Enclosed,
}

/// What has come of it.
#[derive(Debug)]
enum Progress {
    /// Nothing yet.
    Pending,
    /// It has gone, or was refused.
    Over,
    /// It may be accepted: the other end of its endpoint, and the segment's file.
    Here(Box<[OwnedFd; 2]>),
}

impl Meeting {
    /// With whoever came; `None` if it is certainly a stranger.
    fn new(way: OwnedFd) -> Option<Self> {
        let peer = Peer::of(way.as_fd()).ok().filter(Peer::may_be_own)?;
        let way = KeptDescriptor::new(way);
        Some(Self { way, awaited: Awaited::Request(peer), since: Instant::now() })
    }

    fn number(&self) -> RawFd {
        self.way.number()
    }

    /// The way, to be answered on.
    pub(crate) fn into_way(self) -> OwnedFd {
        self.way.into_descriptor()
    }

    /// Whether it keeps those waiting that came later: one that said nothing at all has no right to that.
    fn is_slow(&self) -> bool {
        matches!(self.awaited, Awaited::Request(_)) || self.since.elapsed() >= SLOW
    }

    /// When nothing more is expected of it.
    fn until(&self) -> Instant {
        self.since + PATIENCE
    }

    /// Goes on as far as it can without waiting.
    fn advance(&mut self) -> Progress {
        match self.try_advance() {
            Ok(progress) => progress,
            Err(why) => {
                tracing::debug!(why, after = ?self.since.elapsed(), "a request is over");
                Progress::Over
            }
        }
    }

    fn try_advance(&mut self) -> Result<Progress, &'static str> {
        loop {
            if matches!(self.awaited, Awaited::Enclosed) {
                return self.take_enclosed();
            }
            let mut bytes = [0; Word::LENGTH];
            let length = match take_signed(self.number(), &mut bytes) {
                Ok((length, _)) => length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return self.pending(),
                Err(_) => return Err("the socket fails"),
            };
            if length == 0 {
                return Err(HUNG_UP);
            }
            let bytes = &bytes[..length];
            let (next, word) = match std::mem::replace(&mut self.awaited, Awaited::Enclosed) {
                Awaited::Reply(peer, doubt) => {
                    let reply = Word::from_bytes(bytes, Kind::Reply).ok_or("what came is no reply")?;
                    if !doubt.is_settled_by(&reply.answer, trusted_users()) {
                        return Err("the reply does not settle the doubt");
                    }
                    let answer = Answer::to(&reply.question, &peer);
                    (Awaited::Enclosed, Word { answer, ..Word::new(Kind::Answer) })
                }
                Awaited::Enclosed => return Err("nothing more is awaited"),
                Awaited::Request(peer) => {
                    Word::from_bytes(bytes, Kind::Request).ok_or("what came is no request")?;
                    let doubt = Doubt::about(&peer);
                    let question = doubt.question();
                    (Awaited::Reply(peer, doubt), Word { question, ..Word::new(Kind::Question) })
                }
            };
            send_message(self.way.descriptor().as_fd(), &word.to_bytes(), &[])
                .map_err(|_| "it takes no answer")?;
            (self.awaited, self.since) = (next, Instant::now());
        }
    }

    /// What comes with the last word is of somebody who may.
    fn take_enclosed(&mut self) -> Result<Progress, &'static str> {
        let mut bytes = [0; Word::LENGTH];
        match receive_message(self.way.descriptor().as_fd(), &mut bytes) {
            Received::Nothing => self.pending(),
            Received::HungUp => Err(HUNG_UP),
            Received::Message(length, descriptors) => {
                Word::from_bytes(&bytes[..length], Kind::Enclosed).ok_or("what came encloses nothing")?;
                let enclosed = Descriptors::new(descriptors)
                    .exactly()
                    .map_err(|_| "not two descriptors came, or no number was left")?;
                Ok(Progress::Here(Box::new(enclosed)))
            }
        }
    }

    fn pending(&self) -> Result<Progress, &'static str> {
        if Instant::now() < self.until() { Ok(Progress::Pending) } else { Err("it was silent for too long") }
    }
}

/// Those of one listener, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Meetings(Vec<Meeting>);

impl Meetings {
    /// Whether another request is to be looked at now.
    pub(crate) fn want_more(&self) -> bool {
        if self.0.len() >= MOST {
            return self.silent_longest().is_some_and(|index| self.0[index].since.elapsed() >= LONG);
        }
        self.0.iter().all(Meeting::is_slow)
    }

    fn silent_longest(&self) -> Option<usize> {
        (0..self.0.len()).min_by_key(|index| self.0[*index].since)
    }

    /// Whether another can be added without another going.
    pub(crate) fn have_room(&self) -> bool {
        self.0.len() < MOST
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds whoever came, if it may be one of this user's.
    pub(crate) fn add(&mut self, way: OwnedFd) {
        if self.0.len() >= MOST
            && let Some(index) = self.silent_longest()
        {
            self.0.remove(index);
        }
        self.0.extend(Meeting::new(way));
    }

    /// Adds those of another thread.
    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Drops those who came and went.
    pub(crate) fn forget_gone(&mut self) {
        self.0.retain(|meeting| poll_now(meeting.number(), POLL_IN) & POLL_HANG_UP == 0);
    }

    /// Goes on with all of them; the first that may be accepted.
    pub(crate) fn advance(&mut self) -> Option<(Meeting, Box<[OwnedFd; 2]>)> {
        let mut index = 0;
        while let Some(meeting) = self.0.get_mut(index) {
            match meeting.advance() {
                Progress::Pending => index += 1,
                Progress::Over => drop(self.0.remove(index)),
                Progress::Here(enclosed) => return Some((self.0.remove(index), enclosed)),
            }
        }
        None
    }

    /// The descriptors to wait for.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = RawFd> {
        self.0.iter().map(Meeting::number)
    }

    /// When to look again at the latest.
    pub(crate) fn until(&self) -> Option<Instant> {
        let now = Instant::now();
        let full = self.0.len() >= MOST;
        let next = |meeting: &Meeting| {
            let slow = meeting.since + if full { LONG } else { SLOW };
            if slow > now { slow } else { meeting.until() }
        };
        self.0.iter().map(next).min()
    }
}

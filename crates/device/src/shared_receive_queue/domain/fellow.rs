//! Another process that has the domain of a file open, as this one asks it; and a shared receive queue there.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nonic_memory::{Key, ZoneId};
use nonic_protocol::{
    AtomicChange, Completion, Extent, FlushRequest, NotChanged, Pieces, QpNumber, Receive, RemoteRange,
    ScatterGather, SrqNumber,
};
use nonic_sys::{AsFd, AsRawFd, POLL_OUT, PacketSocket, PollEntry, Received, Seldom, poll, wait_readable};

use super::words::{Answer, End, LONGEST, Place, Question};
use crate::async_event::AsyncEventKind;
use crate::engine::lock;

/// How long an answer is waited for. A process that was stopped makes another wait once: it is not asked again before it has answered.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process. What it is asked is asked by one thread at a time.
#[derive(Debug)]
pub(super) struct Fellow {
    socket: PacketSocket,
    talk: Mutex<Talk>,
    ended: AtomicBool,
}

#[derive(Debug)]
struct Talk {
    /// Answers that nobody waits for any more, and that have not come.
    late: u32,
    bytes: Vec<u8>,
}

/// What came in time.
enum Heard {
    Answer(Answer),
    Nothing,
    End,
}

impl Fellow {
    /// The one that has this name, if it is of this user.
    pub(super) fn meet(name: &str, user: Option<u32>) -> Option<Arc<Self>> {
        let socket = PacketSocket::find_abstract(name).ok()??;
        let peer = socket.peer().ok()?;
        if user != Some(peer.uid) {
            return None;
        }
        let talk = Mutex::new(Talk { late: 0, bytes: vec![0; LONGEST] });
        Some(Arc::new(Self { socket, talk, ended: AtomicBool::new(false) }))
    }

    /// Whether it is gone, or does not keep to what was agreed.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.socket.is_hung_up()
    }

    /// Asks it. `None` if it does not answer.
    pub(super) fn ask(&self, question: &Question) -> Option<Answer> {
        let mut talk = lock(&self.talk);
        self.take_late(&mut talk);
        // That it is gone shows when it is asked.
        if talk.late > 0 || self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let until = Instant::now() + PATIENCE;
        if !self.send(question, until) {
            return None;
        }
        match self.hear(&mut talk.bytes, until) {
            Heard::Answer(answer) => Some(answer),
            Heard::Nothing => {
                talk.late += 1;
                self.tell_people();
                None
            }
            Heard::End => None,
        }
    }

    /// Whether it says yes.
    pub(super) fn confirms(&self, question: &Question) -> bool {
        self.ask(question) == Some(Answer::Yes)
    }

    /// Tells it what needs no answer.
    pub(super) fn tell(&self, question: &Question) {
        // In turn with what is asked.
        let _talk = lock(&self.talk);
        self.send(question, Instant::now() + PATIENCE);
    }

    /// What it was asked for and nobody waits for any more goes back.
    fn take_late(&self, talk: &mut Talk) {
        while talk.late > 0 {
            match self.hear(&mut talk.bytes, Instant::now()) {
                Heard::Answer(answer) => {
                    talk.late -= 1;
                    if let Answer::Receive { receive, .. } = answer {
                        self.send(&Question::GiveBack { receive }, Instant::now() + PATIENCE);
                    }
                }
                Heard::Nothing | Heard::End => return,
            }
        }
    }

    /// Whether it was sent. It is not if the other side takes nothing: then the conversation is over.
    fn send(&self, question: &Question, until: Instant) -> bool {
        let bytes = question.emit();
        loop {
            match self.socket.send(&bytes, &[]) {
                Ok(()) => return true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.has_room_by(until) => {}
                Err(_) => {
                    self.end();
                    return false;
                }
            }
        }
    }

    fn has_room_by(&self, until: Instant) -> bool {
        let number = self.socket.as_fd().as_raw_fd();
        let mut entries = [PollEntry { number, events: POLL_OUT, revents: 0 }];
        let left = until.saturating_duration_since(Instant::now());
        !left.is_zero() && poll(&mut entries, Some(left)).is_ok()
    }

    fn hear(&self, bytes: &mut [u8], until: Instant) -> Heard {
        loop {
            match self.socket.receive_bytes(bytes) {
                Received::Nothing => {}
                Received::HungUp => {
                    self.end();
                    return Heard::End;
                }
                Received::Message(length, _) => {
                    return match Answer::parse(&bytes[..length]) {
                        Ok(answer) => Heard::Answer(answer),
                        Err(error) => {
                            tracing::warn!(%error, "a process that shares an XRC domain says what makes no sense");
                            self.end();
                            Heard::End
                        }
                    };
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !wait_readable(self.socket.as_fd(), Some(left)) {
                return Heard::Nothing;
            }
        }
    }

    /// The other side gives back what was taken of it.
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.socket.stop_sending();
    }

    #[cold]
    fn tell_people(&self) {
        static SILENT: Seldom = Seldom::new();
        if let Some(unsaid) = SILENT.turn() {
            let pid = self.socket.peer().map_or(0, |peer| peer.pid);
            tracing::warn!(
                pid,
                patience = ?PATIENCE,
                unsaid,
                "a process with a shared receive queue of an XRC domain does not answer: is it stopped? Requests that name its queues fail"
            );
        }
    }
}

/// Another process that has a queue pair of this one open.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    /// In which it said so.
    pub(super) conversation: u64,
    /// Where it hears of what happens.
    pub(super) fellow: Arc<Fellow>,
}

impl Opener {
    pub(crate) fn speaks_in(&self, conversation: u64) -> bool {
        self.conversation == conversation
    }

    pub(crate) fn tell(&self, pair: QpNumber, kind: AsyncEventKind) {
        self.fellow.tell(&Question::Happened { pair: pair.0, event: kind as u32 });
    }
}

/// A shared receive queue of another process, which a message for a queue pair of this one names.
#[derive(Clone, Debug)]
pub(crate) struct ForeignQueue {
    fellow: Arc<Fellow>,
    number: SrqNumber,
}

impl ForeignQueue {
    /// The one that has this number there.
    pub(super) fn find(fellow: &Arc<Fellow>, number: SrqNumber) -> Option<Self> {
        let is_there = fellow.confirms(&Question::Find { queue: number.0 });
        is_there.then(|| Self { fellow: Arc::clone(fellow), number })
    }

    pub(crate) fn number(&self) -> SrqNumber {
        self.number
    }

    /// Whether its process can be asked still.
    pub(crate) fn is_reachable(&self) -> bool {
        !self.fellow.has_ended()
    }

    fn at(&self, remote: RemoteRange) -> Place {
        Place::of(self.number, remote)
    }

    pub(crate) fn has_receive(&self) -> bool {
        self.fellow.confirms(&Question::Has { queue: self.number.0 })
    }

    /// Its oldest receive. Of this its mark and its length mean something here, and its mark is not the program's.
    pub(crate) fn take(&self) -> Option<Receive> {
        match self.fellow.ask(&Question::Take { queue: self.number.0 })? {
            Answer::Receive { receive, length } => {
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                let piece = ScatterGather { address: 0, length, key: Key(0) };
                Some(Receive { id: receive, pieces: Pieces::of(&[piece]), zone: ZoneId(0) })
            }
            _ => None,
        }
    }

    pub(crate) fn give_back(&self, receive: &Receive) {
        self.fellow.tell(&Question::GiveBack { receive: receive.id });
    }

    /// Places bytes in a receive; false if its keys do not allow it.
    pub(crate) fn fill(&self, receive: &Receive, offset: u64, bytes: Box<[u8]>) -> bool {
        self.fellow.confirms(&Question::Fill { receive: receive.id, offset, bytes })
    }

    /// A receive is over: the completion has its mark. It is there when this returns, before the sender is told that its message has come.
    pub(crate) fn complete(&self, completion: &Completion, solicited: bool) {
        let end = End::of(completion, solicited);
        self.fellow.confirms(&Question::Complete { receive: completion.id, end });
    }

    /// As [`crate::peer_access::PeerAccess::write`].
    pub(crate) fn write(&self, remote: RemoteRange, extent: Extent, bytes: Box<[u8]>) -> bool {
        self.fellow.confirms(&Question::write(self.at(remote), extent, bytes))
    }

    pub(crate) fn may_read(&self, remote: RemoteRange, length: u32) -> bool {
        self.fellow.confirms(&Question::MayRead { at: self.at(remote), length })
    }

    /// Bytes that a peer reads; `None` if it may not.
    pub(crate) fn read(&self, from: RemoteRange, length: u32) -> Option<Box<[u8]>> {
        match self.fellow.ask(&Question::Read { at: self.at(from), length })? {
            Answer::Bytes(bytes) if bytes.len() == length as usize => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn may_flush(&self, flush: &FlushRequest) -> bool {
        self.fellow.confirms(&Question::may_flush(self.number, flush))
    }

    pub(crate) fn change(&self, remote: RemoteRange, change: AtomicChange) -> Result<u64, NotChanged> {
        match self.fellow.ask(&Question::change(self.at(remote), change)) {
            Some(Answer::Word(old)) => Ok(old),
            Some(Answer::NoWord) => Err(NotChanged::NoWord),
            _ => Err(NotChanged::NotAllowed),
        }
    }
}

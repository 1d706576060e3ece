//! Lies on the name of a SCIF port, to the process that listens there.

use std::io;

use nonic_sys::{
    AsFd, BorrowedFd, EventFd, EventKind, OwnedFd, SharedMemory, connect_stream, open_stream,
    receive_message, send_message, wait_readable,
};

use crate::campaign::{FLOOD, Kept, Liar, Record, spoil};
use crate::chance::Chance;

/// One way to be a nuisance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Connects and says nothing.
    Silence,
    /// Connects and leaves, many times.
    Knocking,
    /// Asks as one of the user's own processes would, and says no more.
    Requests,
    /// Asks for another port, with words that are none, or in another order.
    OddWords,
    /// Says all the words there are without waiting for any, with an endpoint and memory.
    WholeMeeting,
    /// Waits for each word, and has no answer to the question.
    Patience,
    /// Says one thing again and again.
    Flood,
    /// Asks with descriptors nobody wants.
    Descriptors,
    /// Asks and leaves before anybody looks.
    LeavingInTheMiddle,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Silence,
        Self::Knocking,
        Self::Requests,
        Self::OddWords,
        Self::WholeMeeting,
        Self::Patience,
        Self::Flood,
        Self::Descriptors,
        Self::LeavingInTheMiddle,
    ];
}

const REQUEST: u32 = 1;
const REPLY: u32 = 3;
const ENCLOSED: u32 = 5;
const MAGIC: u64 = 0x6e6f_6e69_6353_5252;
const LENGTH: usize = 44;

/// Lies to the process that listens on a port.
#[derive(Debug)]
pub struct Hostile {
    /// The port's name, which ends with its node, a slash and its number.
    name: String,
    chance: Chance,
    kept: Kept<OwnedFd>,
    record: Record<Action>,
}

impl Liar for Hostile {
    type Action = Action;

    fn act(&mut self, action: Action) {
        let outcome = match action {
            Action::Silence => self.connect().map(|way| self.keep(way)),
            Action::Knocking => (0..100).try_for_each(|_| self.connect().map(drop)),
            Action::Requests => self.say(&[(REQUEST, 0)]),
            Action::OddWords => self.say_oddly(),
            Action::WholeMeeting => self.say(&[(REQUEST, 0), (REPLY, 0), (ENCLOSED, 2)]),
            Action::Patience => self.be_patient(),
            Action::Flood => self.flood(),
            Action::Descriptors => {
                let count = self.chance.one_of(&[1, 2, 24]);
                self.say(&[(REQUEST, count)])
            }
            Action::LeavingInTheMiddle => self.say_and_leave(),
        };
        self.record.note(action, &outcome);
    }

    fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    fn connections(&mut self) -> usize {
        // What the victim has closed can be read to its end.
        self.kept.left(has_ended)
    }

    fn report(&self) -> Vec<String> {
        self.record.lines().collect()
    }
}

impl Hostile {
    /// One that is after the port of a name.
    pub fn new(name: String, seed: u64) -> Self {
        Self { name, chance: Chance::new(seed), kept: Kept::new(), record: Record::default() }
    }

    fn keep(&mut self, way: OwnedFd) {
        self.kept.keep(way, &mut self.chance);
    }

    fn connect(&self) -> io::Result<OwnedFd> {
        connect_stream(&self.name)
    }

    /// One of the ways there are, or a new one.
    fn any_way(&mut self) -> io::Result<OwnedFd> {
        match self.chance.below(3) {
            0 => self.connect(),
            _ => self.kept.take(&mut self.chance).map_or_else(|| self.connect(), Ok),
        }
    }

    /// A word, written by hand; it names the port that listens, and the rest is chance.
    fn word(&mut self, kind: u32) -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        let mut place = self.name.rsplit('/');
        let (port, node) = (place.next(), place.next());
        for number in [node, port] {
            bytes.extend(number.and_then(|text| text.parse::<u16>().ok()).unwrap_or(0).to_ne_bytes());
        }
        bytes.resize_with(LENGTH, || self.chance.number() as u8);
        bytes
    }

    /// Says some words on a new way, each with so many descriptors.
    fn say(&mut self, words: &[(u32, usize)]) -> io::Result<()> {
        let way = self.connect()?;
        let (end, memory) = (open_stream()?, SharedMemory::create("nonic-scif", 1 << 20)?);
        let bell = EventFd::new(EventKind::All, true)?;
        let offered = [end.as_fd(), memory.as_fd(), bell.as_fd()];
        for (kind, count) in words {
            let enclosed: Vec<BorrowedFd<'_>> = (0..*count).map(|number| offered[number % 3]).collect();
            send_message(way.as_fd(), &self.word(*kind), &enclosed)?;
        }
        self.keep(way);
        Ok(())
    }

    fn say_oddly(&mut self) -> io::Result<()> {
        let way = self.any_way()?;
        for _ in 0..self.chance.below(8) {
            let kind = self.chance.below(7) as u32;
            let mut word = self.word(kind);
            spoil(&mut word, &mut self.chance);
            if send_message(way.as_fd(), &word, &[]).is_err() {
                break;
            }
        }
        self.keep(way);
        Ok(())
    }

    fn be_patient(&mut self) -> io::Result<()> {
        let way = self.connect()?;
        for kind in [REQUEST, REPLY, ENCLOSED] {
            send_message(way.as_fd(), &self.word(kind), &[])?;
            if wait_readable(way.as_fd(), Some(std::time::Duration::from_millis(20))) {
                let _ = receive_message(way.as_fd(), &mut [0; 64]);
            }
        }
        self.keep(way);
        Ok(())
    }

    fn flood(&mut self) -> io::Result<()> {
        let way = self.any_way()?;
        let kind = self.chance.below(7) as u32;
        let word = self.word(kind);
        for _ in 0..FLOOD {
            if send_message(way.as_fd(), &word, &[]).is_err() {
                break;
            }
        }
        self.keep(way);
        Ok(())
    }

    fn say_and_leave(&mut self) -> io::Result<()> {
        let way = self.connect()?;
        let kind = self.chance.one_of(&[REQUEST, REPLY, ENCLOSED]);
        let word = self.word(kind);
        let length = 1 + self.chance.below(LENGTH);
        send_message(way.as_fd(), &word[..length], &[])
    }
}

fn has_ended(way: &OwnedFd) -> bool {
    use nonic_sys::Received;
    loop {
        match receive_message(way.as_fd(), &mut [0; 64]) {
            Received::Message(..) => {}
            Received::Nothing => return false,
            Received::HungUp => return true,
        }
    }
}

//! Lies to the connection manager of another process: on the name of a service, and at the doors at which processes open
//! channels to each other.

use std::io;

use nonic_sys::{AsFd, EventFd, EventKind, PacketSocket, listen_abstract};

use crate::campaign::{FLOOD, Kept, Liar, Record, spoil};
use crate::chance::Chance;

/// One way to be a nuisance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Connects to the service and says nothing.
    Silence,
    /// Connects and leaves, many times.
    Knocking,
    /// Asks as anybody may, and reads no answer.
    Requests,
    /// The same by a name of its own each time.
    ManyNames,
    /// Asks with something wrong in it.
    OddRequests,
    /// Asks with descriptors.
    Descriptors,
    /// Opens channels and says nothing.
    Channels,
    /// Says anything on channels about connections that are none of its own.
    Rumours,
    /// Has itself told so often that a connection is none that the answers fill its channel.
    Unread,
    /// Asks again over the channel on which it was answered, as only processes of one user do, in its own name and in others'.
    AsksOverChannels,
    /// Asks and leaves before anybody looks.
    LeavingInTheMiddle,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Silence,
        Self::Knocking,
        Self::Requests,
        Self::ManyNames,
        Self::OddRequests,
        Self::Descriptors,
        Self::Channels,
        Self::Rumours,
        Self::Unread,
        Self::AsksOverChannels,
        Self::LeavingInTheMiddle,
    ];
}

/// What all names begin with.
const PREFIX: &str = "nonic-connection.3/";
/// Kinds of messages, the last one beyond those there are.
const KINDS: usize = 16;
const REQUEST: u32 = 1;
const TAKEN: u32 = 4;
const ASK: u32 = 11;
const WITHDRAW: u32 = 13;
/// Names of its own that it has at once.
const NAMES: usize = 100;

/// Lies to the process that offers a service.
#[derive(Debug)]
pub struct Hostile {
    /// The service: its space, a slash and its number.
    service: String,
    chance: Chance,
    kept: Kept<PacketSocket>,
    /// Doors of its own, at which the victim answers.
    own: Vec<([u64; 2], PacketSocket)>,
    record: Record<Action>,
}

impl Liar for Hostile {
    type Action = Action;

    fn act(&mut self, action: Action) {
        let outcome = match action {
            Action::Silence => self.connect().map(|socket| self.keep(socket)),
            Action::Knocking => (0..100).try_for_each(|_| self.connect().map(drop)),
            Action::Requests => self.ask(false),
            Action::ManyNames => self.open_own_door().and_then(|()| self.ask(false)),
            Action::OddRequests => self.ask(true),
            Action::Descriptors => self.ask_with_descriptors(),
            Action::Channels => self.open_channel().map(|channel| self.keep(channel)),
            Action::Rumours => self.spread_rumours(),
            Action::Unread => self.provoke(),
            Action::AsksOverChannels => self.ask_over_channel(),
            Action::LeavingInTheMiddle => self.ask_and_leave(),
        };
        self.record.note(action, &outcome);
    }

    fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    fn connections(&mut self) -> usize {
        self.kept.left(PacketSocket::is_hung_up)
    }

    fn report(&self) -> Vec<String> {
        self.record.lines().collect()
    }
}

impl Hostile {
    /// One that is after a service, by its space, a slash and its number.
    pub fn new(service: String, seed: u64) -> Self {
        let (chance, record) = (Chance::new(seed), Record::default());
        Self { service, chance, kept: Kept::new(), own: Vec::new(), record }
    }

    fn keep(&mut self, socket: PacketSocket) {
        self.kept.keep(socket, &mut self.chance);
    }

    fn connect(&self) -> io::Result<PacketSocket> {
        PacketSocket::connect_abstract(&format!("{PREFIX}{}", self.service))
    }

    fn open_own_door(&mut self) -> io::Result<()> {
        let process = [self.chance.number(), self.chance.number()];
        let door = listen_abstract(&door(process))?;
        if self.own.len() >= NAMES {
            let goes = self.chance.below(NAMES);
            self.own.swap_remove(goes);
        }
        self.own.push((process, door));
        Ok(())
    }

    fn request(&mut self) -> io::Result<Vec<u8>> {
        let which = self.own_door()?;
        let mut request = message(REQUEST, &[]);
        request.extend(self.inquiry(which));
        Ok(request)
    }

    /// A door of its own, which may be new.
    fn own_door(&mut self) -> io::Result<usize> {
        if self.own.is_empty() {
            self.open_own_door()?;
        }
        Ok(self.chance.below(self.own.len()))
    }

    /// What it asks with, by the name of one of its doors.
    fn inquiry(&mut self, which: usize) -> Vec<u8> {
        let process = self.own[which].0;
        let numbers = [process[0], process[1], self.chance.number()];
        let mut inquiry: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        for most in [65, 257] {
            let length = self.chance.below(most);
            inquiry.extend((length as u16).to_le_bytes());
            inquiry.extend((0..length).map(|_| self.chance.number() as u8));
        }
        inquiry
    }

    fn ask(&mut self, odd: bool) -> io::Result<()> {
        let mut request = self.request()?;
        if odd {
            spoil(&mut request, &mut self.chance);
        }
        let socket = self.connect()?;
        socket.send(&request, &[])?;
        self.keep(socket);
        Ok(())
    }

    fn ask_with_descriptors(&mut self) -> io::Result<()> {
        let (request, socket) = (self.request()?, self.connect()?);
        let bell = EventFd::new(EventKind::All, true)?;
        let count = self.chance.one_of(&[1, 2, 24]);
        socket.send(&request, &vec![bell.as_fd(); count])?;
        self.keep(socket);
        Ok(())
    }

    fn ask_and_leave(&mut self) -> io::Result<()> {
        let (request, socket) = (self.request()?, self.connect()?);
        socket.send(&request, &[])?;
        if self.chance.below(2) == 0 {
            socket.stop_sending();
            self.keep(socket);
        }
        Ok(())
    }

    /// A channel to some process, the victim or one that talks with it.
    fn open_channel(&mut self) -> io::Result<PacketSocket> {
        let listed = std::fs::read_to_string("/proc/net/unix")?;
        let doors: Vec<_> = listed
            .lines()
            .filter_map(|line| line.split_once('@').map(|(_, name)| name))
            .filter(|name| name.starts_with(&format!("{PREFIX}process.")))
            .filter(|name| !self.own.iter().any(|(process, _)| door(*process) == **name))
            .collect();
        if doors.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        PacketSocket::connect_abstract(self.chance.one_of(&doors))
    }

    /// One of the sockets there are, or a new channel.
    fn any_channel(&mut self) -> io::Result<PacketSocket> {
        match self.chance.below(3) {
            0 => self.open_channel(),
            _ => self.kept.take(&mut self.chance).map_or_else(|| self.open_channel(), Ok),
        }
    }

    fn spread_rumours(&mut self) -> io::Result<()> {
        let channel = self.any_channel()?;
        for _ in 0..FLOOD / 20 {
            let kind = self.chance.below(KINDS) as u32;
            let numbers: Vec<u64> = (0..self.chance.below(4)).map(|_| self.chance.number()).collect();
            let mut rumour = message(kind, &numbers);
            if self.chance.below(4) == 0 {
                spoil(&mut rumour, &mut self.chance);
            }
            if channel.send(&rumour, &[]).is_err() {
                break;
            }
        }
        self.keep(channel);
        Ok(())
    }

    fn ask_over_channel(&mut self) -> io::Result<()> {
        let which = self.own_door()?;
        let channel = self.own[which].1.accept()?;
        for _ in 0..FLOOD / 20 {
            let name = if self.chance.below(8) == 0 { self.own_door()? } else { which };
            let service = format!("{PREFIX}{}", self.service);
            let mut ask = message(ASK, &[]);
            ask.extend((service.len() as u16).to_le_bytes());
            ask.extend(service.bytes());
            ask.extend(self.inquiry(name));
            match self.chance.below(8) {
                0 => spoil(&mut ask, &mut self.chance),
                1 => ask = message(WITHDRAW, &[self.chance.number()]),
                _ => {}
            }
            if channel.send(&ask, &[]).is_err() {
                break;
            }
        }
        self.keep(channel);
        Ok(())
    }

    fn provoke(&mut self) -> io::Result<()> {
        let channel = self.open_channel()?;
        for _ in 0..FLOOD {
            let provocation = message(TAKEN, &[self.chance.number(), self.chance.number()]);
            if channel.send(&provocation, &[]).is_err() {
                break;
            }
        }
        self.keep(channel);
        Ok(())
    }
}

fn door(process: [u64; 2]) -> String {
    format!("{PREFIX}process.{:016x}{:016x}", process[0], process[1])
}

/// A message, written by hand: a liar must not be kept from anything by the manager's own types.
fn message(kind: u32, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = [&b"nonic-cm\x03\0\0\0"[..], &kind.to_le_bytes()].concat();
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

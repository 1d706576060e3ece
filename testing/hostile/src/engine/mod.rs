//! Lies to the engine of another process: over the socket of a link, in its rings, with its names.

mod filling;
mod memory;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_sys::{
    AsFd, BorrowedFd, EventFd, EventKind, Folder, PacketSocket, Received, SharedMemory, listen_abstract,
    wait_readable,
};
use nonic_transport::{BLOCK_SIZE, block_name, met_block_name};
use rustix::fs::ftruncate;

use self::filling::Filling;
use self::memory::{Connection, proper_memory, unsealed};
use crate::campaign::{FLOOD, Kept, Liar, Record, spoil};
use crate::chance::Chance;
use crate::wire::{
    CELL, CELLS, HELLO, KINDS, LINK, LOOK, WELCOME, cell, consumer_sleeps, head, introduction, message,
    operation_slot, producer_waits,
};

/// One way to be a nuisance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Action {
    /// Connects and says nothing.
    Silence,
    /// Connects and leaves, many times.
    Knocking,
    /// Makes a link in order and keeps it.
    Link,
    /// Introduces itself with too few, too many or odd descriptors.
    OddDescriptors,
    /// Introduces itself with memory that is short, can shrink, or begins with something else.
    OddMemory,
    /// Introduces itself with rubbish.
    OddIntroduction,
    /// Says on a link that operations are under way, and never ends them.
    StuckOperations,
    /// Fills the ring with anything.
    RubbishInRing,
    /// Fills the ring with messages that are well formed and for nobody.
    MessagesForNobody,
    /// Fills the ring with requests and answers for the victim's queue pair.
    MessagesForVictim,
    /// Lies about how far it has read, and says that it waits for room.
    LyingHead,
    /// Says everything there is to say on the socket, with descriptors and without, many times.
    SocketFlood,
    /// Says one thing again and again: look.
    LookFlood,
    /// Leaves with a full ring.
    LeavingInTheMiddle,
    /// Introduces itself twice, or welcomes who has not asked.
    SecondIntroduction,
    /// Takes the names of blocks of queue-pair numbers.
    Names,
}

impl Action {
    /// All but the taking of names, which keeps others from working and is asked for by name.
    pub const HARMLESS_TO_NAMES: [Self; 15] = [
        Self::Silence,
        Self::Knocking,
        Self::Link,
        Self::OddDescriptors,
        Self::OddMemory,
        Self::OddIntroduction,
        Self::StuckOperations,
        Self::RubbishInRing,
        Self::MessagesForNobody,
        Self::MessagesForVictim,
        Self::LyingHead,
        Self::SocketFlood,
        Self::LookFlood,
        Self::LeavingInTheMiddle,
        Self::SecondIntroduction,
    ];
}

/// Names that are taken at once.
const NAMES_AT_ONCE: u32 = 64;

/// Where the liar comes from.
#[derive(Clone, Debug)]
pub enum Door {
    /// The victim's own network namespace, by its abstract name.
    Name,
    /// Another one, by the folder in which both can be met.
    Folder(PathBuf),
}

/// Lies to the owner of a queue-pair number.
#[derive(Debug)]
pub struct Hostile {
    /// The queue pair it is after.
    number: u32,
    door: Door,
    chance: Chance,
    kept: Kept<Connection>,
    names: Vec<PacketSocket>,
    next_name: u32,
    record: Record<Action>,
}

impl Liar for Hostile {
    type Action = Action;

    fn act(&mut self, action: Action) {
        let outcome = match action {
            Action::Silence => self.keep_silence(),
            Action::Knocking => self.knock(),
            Action::Link => self.link().map(|link| self.keep(link)),
            Action::OddDescriptors => self.introduce_with_odd_descriptors(),
            Action::OddMemory => self.introduce_with_odd_memory(),
            Action::OddIntroduction => self.introduce_oddly(),
            Action::StuckOperations => self.stick(),
            Action::RubbishInRing => self.fill_ring(Filling::Rubbish),
            Action::MessagesForNobody => self.fill_ring(Filling::ForNobody),
            Action::MessagesForVictim => self.fill_ring(Filling::ForVictim),
            Action::LyingHead => self.lie_about_head(),
            Action::SocketFlood => self.flood_socket(),
            Action::LookFlood => self.flood_with_looks(),
            Action::LeavingInTheMiddle => self.leave_in_the_middle(),
            Action::SecondIntroduction => self.introduce_twice(),
            Action::Names => self.take_names(),
        };
        self.record.note(action, &outcome);
    }

    fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    fn connections(&mut self) -> usize {
        self.kept.left(|connection| connection.socket.is_hung_up())
    }

    fn report(&self) -> Vec<String> {
        self.record.lines().collect()
    }
}

impl Hostile {
    /// One that is after queue pair `number`.
    pub fn new(number: u32, door: Door, seed: u64) -> Self {
        let (chance, record) = (Chance::new(seed), Record::default());
        Self { number, door, chance, kept: Kept::new(), names: Vec::new(), next_name: 1, record }
    }

    /// Names it has.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    fn connect(&self) -> io::Result<PacketSocket> {
        let block = self.number / BLOCK_SIZE;
        let Door::Folder(path) = &self.door else {
            return PacketSocket::connect_abstract(&block_name(block));
        };
        let folder = Folder::open(path)?;
        let names = folder.names(usize::MAX)?.into_iter();
        let mut connected =
            names.filter_map(|name| folder.enter(&name).ok()?.connect(&met_block_name(block)).ok());
        connected.next().ok_or(io::ErrorKind::ConnectionRefused.into())
    }

    fn keep(&mut self, connection: Connection) {
        self.kept.keep(connection, &mut self.chance);
    }

    /// Introduces itself properly, as anybody can; the memory is the liar's to write.
    fn link(&mut self) -> io::Result<Connection> {
        let socket = self.connect()?;
        let (memory, mapping) = proper_memory()?;
        let hello = message(HELLO, &introduction(self.chance.number(), &[1, 2, 3]));
        socket.send(&hello, &[memory.as_fd()])?;
        Ok(Connection { socket, memory: Some(mapping) })
    }

    /// One of the links there are, or a new one.
    fn any_link(&mut self) -> io::Result<Connection> {
        let kept = &mut self.kept.0;
        let links: Vec<_> = (0..kept.len()).filter(|i| kept[*i].memory.is_some()).collect();
        if links.is_empty() || self.chance.below(3) == 0 {
            return self.link();
        }
        let which = self.chance.one_of(&links);
        Ok(self.kept.0.swap_remove(which))
    }

    fn keep_silence(&mut self) -> io::Result<()> {
        let socket = self.connect()?;
        self.keep(Connection { socket, memory: None });
        Ok(())
    }

    fn knock(&mut self) -> io::Result<()> {
        for _ in 0..100 {
            drop(self.connect()?);
        }
        Ok(())
    }

    fn introduce_with_odd_descriptors(&mut self) -> io::Result<()> {
        let socket = self.connect()?;
        let (memory, _) = proper_memory()?;
        let bell = EventFd::new(EventKind::All, true)?;
        let (read, write) = nonic_sys::pipe()?;
        let kinds = [memory.as_fd(), bell.as_fd(), read.as_fd(), write.as_fd(), socket.as_fd()];
        let count = self.chance.one_of(&[0, 1, 2, 3, 7, 23, 24]);
        let descriptors: Vec<BorrowedFd<'_>> = (0..count).map(|_| self.chance.one_of(&kinds)).collect();
        socket.send(&message(HELLO, &introduction(1, &[])), &descriptors)?;
        self.keep(Connection { socket, memory: None });
        Ok(())
    }

    fn introduce_with_odd_memory(&mut self) -> io::Result<()> {
        let socket = self.connect()?;
        let hello = message(HELLO, &introduction(2, &[]));
        match self.chance.below(4) {
            0 => {
                let short = SharedMemory::create("short", self.chance.one_of(&[8, 4096, LINK - 4096]))?;
                socket.send(&hello, &[short.as_fd()])?;
            }
            1 => {
                // Nothing keeps it from shrinking under whoever maps it.
                let file = unsealed(LINK)?;
                socket.send(&hello, &[file.as_fd()])?;
                let _ = ftruncate(&file, 0);
            }
            2 => {
                let (memory, mapping) = proper_memory()?;
                mapping.word(self.chance.one_of(&[0, 8])).store(self.chance.number(), Ordering::SeqCst);
                socket.send(&hello, &[memory.as_fd()])?;
            }
            _ => {
                let directory = std::fs::File::open("/")?;
                socket.send(&hello, &[directory.as_fd()])?;
            }
        }
        self.keep(Connection { socket, memory: None });
        Ok(())
    }

    fn introduce_oddly(&mut self) -> io::Result<()> {
        let socket = self.connect()?;
        let (memory, _) = proper_memory()?;
        let blocks: Vec<u32> = (0..self.chance.below(80)).map(|_| self.chance.number() as u32).collect();
        let mut hello = message(HELLO, &introduction(self.chance.number(), &blocks));
        if self.chance.below(4) > 0 {
            spoil(&mut hello, &mut self.chance);
        }
        socket.send(&hello, &[memory.as_fd()])?;
        self.keep(Connection { socket, memory: None });
        Ok(())
    }

    fn stick(&mut self) -> io::Result<()> {
        let link = self.any_link()?;
        for slot in 0..16 {
            for direction in 0..2 {
                link.word(operation_slot(direction, slot)).store(self.chance.number() | 1, Ordering::SeqCst);
            }
        }
        self.keep(link);
        Ok(())
    }

    fn fill_ring(&mut self, filling: Filling) -> io::Result<()> {
        let link = self.any_link()?;
        self.fill(&link, filling, 1);
        let _ = link.socket.send(&message(LOOK, &[]), &[]);
        self.keep(link);
        Ok(())
    }

    /// Writes a lap into the ring.
    fn fill(&mut self, link: &Connection, filling: Filling, lap: u64) {
        for number in (0..CELLS).rev() {
            for word in (0..CELL / 8).rev() {
                let value = filling.word(word, lap, self.number, &mut self.chance);
                link.word(cell(0, number) + word * 8).store(value, Ordering::Release);
            }
        }
    }

    fn lie_about_head(&mut self) -> io::Result<()> {
        let link = self.any_link()?;
        for _ in 0..FLOOD {
            link.word(head(1)).store(self.chance.number() >> self.chance.below(64), Ordering::SeqCst);
            link.word(producer_waits(0)).store(1, Ordering::SeqCst);
            link.word(consumer_sleeps(1)).store(self.chance.number() & 3, Ordering::SeqCst);
        }
        let _ = link.socket.send(&message(LOOK, &[]), &[]);
        self.keep(link);
        Ok(())
    }

    fn flood_socket(&mut self) -> io::Result<()> {
        let link = self.any_link()?;
        let bell = EventFd::new(EventKind::All, true)?;
        for _ in 0..FLOOD / 10 {
            // Kinds that end the link at once would end the flood.
            let kind = self.chance.below(KINDS as usize) as u32;
            let body: Vec<u8> = match kind {
                HELLO | WELCOME => continue,
                _ => (0..self.chance.one_of(&[0, 4, 8, 12, 16, 28]))
                    .map(|_| self.chance.number() as u8 & 1)
                    .collect(),
            };
            let descriptors = vec![bell.as_fd(); self.chance.one_of(&[0, 0, 0, 1, 24])];
            if link.socket.send(&message(kind, &body), &descriptors).is_err() {
                break;
            }
        }
        self.keep(link);
        Ok(())
    }

    fn flood_with_looks(&mut self) -> io::Result<()> {
        let link = self.any_link()?;
        let look = message(LOOK, &[]);
        for _ in 0..FLOOD {
            if link.socket.send(&look, &[]).is_err() {
                break;
            }
        }
        self.keep(link);
        Ok(())
    }

    fn leave_in_the_middle(&mut self) -> io::Result<()> {
        let link = self.link()?;
        let filling = self.chance.one_of(&[Filling::Rubbish, Filling::ForNobody, Filling::ForVictim]);
        self.fill(&link, filling, 1);
        if self.chance.below(2) == 0 {
            link.socket.stop_sending();
            self.keep(link);
        }
        Ok(())
    }

    fn introduce_twice(&mut self) -> io::Result<()> {
        let link = self.any_link()?;
        let (memory, _) = proper_memory()?;
        let kind = self.chance.one_of(&[HELLO, WELCOME]);
        let body = introduction(self.chance.number(), &[self.number / BLOCK_SIZE]);
        link.socket.send(&message(kind, &body), &[memory.as_fd()])?;
        self.keep(link);
        Ok(())
    }

    /// Takes names nobody has; they are taken when none is left.
    fn take_names(&mut self) -> io::Result<()> {
        let end = (self.next_name + NAMES_AT_ONCE).min(BLOCKS);
        for block in self.next_name..end {
            if let Ok(socket) = listen_abstract(&block_name(block)) {
                self.names.push(socket);
            }
        }
        self.next_name = if end == BLOCKS { 1 } else { end };
        Ok(())
    }

    /// Makes a link in order and waits for the victim's welcome; whether it came.
    pub fn is_welcome(&mut self, within: Duration) -> bool {
        let Ok(link) = self.link() else { return false };
        let deadline = Instant::now() + within;
        let mut bytes = [0; 1024];
        while Instant::now() < deadline {
            wait_readable(link.socket.as_fd(), Some(Duration::from_millis(10)));
            match link.socket.receive(&mut bytes) {
                Received::Message(length, _) if length >= 16 => {
                    let welcomed = bytes[12..16] == WELCOME.to_le_bytes();
                    self.keep(link);
                    return welcomed;
                }
                Received::Message(..) | Received::HungUp => return false,
                Received::Nothing => {}
            }
        }
        false
    }
}

/// Blocks of queue-pair numbers; the first is nobody's.
const BLOCKS: u32 = (1 << 24) / BLOCK_SIZE;

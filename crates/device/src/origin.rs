//! Where what is imported comes from: the process that made it, asked for its names and reached like any other peer.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_memory::{Access, AddressRange, ForeignMemory, ForeignPlace, SharedSlice};
use nonic_protocol::QpNumber;
use nonic_sys::{AsFd, BorrowedFd, PacketSocket, Received, SharedMemory, nap, wait_readable, yield_now};
use nonic_transport::{
    Asked, CHANGING_MESSAGE_MAX, DirectAccess, Granted, NamedMemory, NotNamed, Tier, Wanted,
    connect_to_change,
};

use crate::engine::{Engine, UsedLink, lock};
use crate::error::ImportError;
use crate::peer_address::PeerAddress;

/// How long the other process may take to answer, and again to prove who it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two questions, if it hangs up.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(5);
/// Between two looks whether it has proved it.
const NAP: Duration = Duration::from_micros(100);
/// Looks for a free operation slot before an operation fails: others hold theirs for as long as a copy takes.
const LOOKS: u32 = 10_000;
/// Bytes that are copied at a time, as long as the owner cannot take them back.
const CHUNK: usize = 4096;

/// What stands in the file of a command descriptor: the words, then two numbers. Every one has the same length.
const WORDS: &str = "nonic context";
const TEXT_LENGTH: usize = WORDS.len() + 2 * 17 + 1;

/// An open device of some process, by what its command descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// How its process is asked; 0: it cannot be.
    pub(crate) token: u64,
    /// The number of the open device there.
    pub(crate) context: u64,
}

impl Command {
    /// The file that says so, which nobody can change.
    pub(crate) fn file(self) -> std::io::Result<SharedMemory> {
        let text = format!("{WORDS} {:016x} {:016x}\n", self.token, self.context);
        let file = SharedMemory::create("nonic-context", text.len())?;
        file.write_first(text.as_bytes())?;
        file.seal_writes()?;
        Ok(file)
    }

    /// What a descriptor says; `None` if it is none of an open device.
    pub fn of(descriptor: BorrowedFd<'_>) -> Option<Self> {
        let file = SharedMemory::from_peer_whole(descriptor.try_clone_to_owned().ok()?).ok()?;
        let mut text = [0; TEXT_LENGTH];
        if file.length() != text.len() || file.read_first(&mut text).is_err() {
            return None;
        }
        let numbers = std::str::from_utf8(&text).ok()?.strip_prefix(WORDS)?.strip_suffix('\n')?;
        let (token, context) = numbers.strip_prefix(' ')?.split_once(' ')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Self { token: number(token)?, context: number(context)? })
    }

    /// Asks the process. The answer comes with the number of the process.
    pub(crate) fn ask(self, wanted: Wanted) -> Result<(Granted, i32), ImportError> {
        if self.token == 0 {
            return Err(ImportError::Unreachable);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let socket = connect_to_change(self.token).map_err(|_| ImportError::Gone)?;
            let owner = socket.peer().map_err(|_| ImportError::Gone)?;
            let asked = Asked::Import(self.context, wanted).to_string();
            let answer = match socket.send(asked.as_bytes(), &[]) {
                Ok(()) => receive(&socket, end)?,
                Err(_) => None,
            };
            let Some(answer) = answer else {
                // It hangs up on other users, and on anybody while too many ask.
                if Instant::now() >= end {
                    return Err(ImportError::Untrusted);
                }
                nap(BETWEEN_QUESTIONS);
                continue;
            };
            // A process of another release answers that it does not understand.
            let granted = answer.strip_prefix("ok ").and_then(|words| words.parse().ok());
            return Ok((granted.ok_or(ImportError::Unreachable)?, owner.pid));
        }
    }
}

/// The answer; `None` if the other side hangs up.
fn receive(socket: &PacketSocket, end: Instant) -> Result<Option<String>, ImportError> {
    let mut bytes = [0; CHANGING_MESSAGE_MAX];
    if !wait_readable(socket.as_fd(), Some(end.saturating_duration_since(Instant::now()))) {
        return Err(ImportError::Silent);
    }
    Ok(match socket.receive_bytes(&mut bytes) {
        Received::Message(length, _) => Some(String::from_utf8_lossy(&bytes[..length]).into_owned()),
        Received::Nothing | Received::HungUp => None,
    })
}

/// The process behind an imported device.
#[derive(Debug)]
pub(crate) struct Origin {
    command: Command,
    link: UsedLink,
    /// What stands here for its zones, by their numbers there.
    twins: Mutex<HashMap<u32, Weak<dyn Any + Send + Sync>>>,
}

impl Origin {
    /// Meets the process, of which a queue pair would have this number.
    pub(crate) fn meet(
        engine: &Engine,
        command: Command,
        (number, pid): (u32, i32),
    ) -> Result<Self, ImportError> {
        if engine.party().tier == Tier::Ring {
            return Err(ImportError::Unreachable);
        }
        let address = PeerAddress::ThisHost(QpNumber(number));
        let link = engine.living_link_to(address).ok_or(ImportError::Gone)?;
        if link.credentials().pid != pid {
            return Err(ImportError::Gone);
        }
        // What it shows comes when both have proved to each other that the kernel lets them at each other.
        let end = Instant::now() + PATIENCE;
        while link.view().is_none() {
            if link.is_dead() {
                return Err(ImportError::Gone);
            }
            if Instant::now() >= end {
                return Err(ImportError::Untrusted);
            }
            nap(NAP);
        }
        Ok(Self { command, link, twins: Mutex::default() })
    }

    /// The open device there.
    pub(crate) fn command(&self) -> Command {
        self.command
    }

    /// What stands here for a zone there, made if there is nothing that `suits`.
    pub(crate) fn twin<T: Any + Send + Sync, E>(
        &self,
        zone: u32,
        suits: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        let mut twins = lock(&self.twins);
        let known = twins.get(&zone).and_then(Weak::upgrade).and_then(|twin| twin.downcast().ok());
        if let Some(known) = known.filter(|known| suits(known)) {
            return Ok(known);
        }
        let made = make()?;
        twins.retain(|_, twin| twin.strong_count() > 0);
        let twin: Arc<dyn Any + Send + Sync> = Arc::clone(&made) as _;
        twins.insert(zone, Arc::downgrade(&twin));
        Ok(made)
    }
}

/// Memory of that process under addresses of this one.
#[derive(Debug)]
pub(crate) struct ForeignBytes {
    bytes: Arc<OwnersBytes>,
    place: ForeignPlace,
}

#[derive(Debug)]
struct OwnersBytes {
    origin: Arc<Origin>,
    memory: NamedMemory,
    base: u64,
    writable: bool,
}

impl ForeignBytes {
    /// `length` bytes of what has these names there, from its first byte on. An error if they cannot be reached from here.
    pub(crate) fn find(
        origin: &Arc<Origin>,
        memory: NamedMemory,
        base: u64,
        length: u64,
        access: Access,
    ) -> Result<Self, ImportError> {
        let writable = access.contains(Access::LOCAL_WRITE);
        let bytes = Arc::new(OwnersBytes { origin: Arc::clone(origin), memory, base, writable });
        let want = if writable { Access::LOCAL_WRITE } else { Access::LOCAL_READ };
        if length > 0 {
            bytes.await_way(length, want)?;
        }
        let place = ForeignPlace::of(Arc::clone(&bytes) as Arc<dyn ForeignMemory>, length);
        Ok(Self { bytes, place: place.ok_or(ImportError::Unreachable)? })
    }

    /// The first of its addresses here.
    pub(crate) fn start(&self) -> usize {
        self.place.start()
    }

    /// Copies from there, as many bytes as `to` has room for; false if they cannot be had any more.
    pub(crate) fn copy_out(&self, offset: u64, to: SharedSlice<'_>) -> bool {
        let mut buffer = [0; CHUNK];
        chunks(to).all(|(at, part)| {
            let bytes = &mut buffer[..part.length()];
            let there = self.bytes.read(offset + at, bytes);
            if there {
                part.write(bytes);
            }
            there
        })
    }

    /// Copies there; false if the bytes cannot be had any more.
    pub(crate) fn copy_in(&self, offset: u64, from: SharedSlice<'_>) -> bool {
        let mut buffer = [0; CHUNK];
        chunks(from).all(|(at, part)| {
            let bytes = &mut buffer[..part.length()];
            part.read(bytes);
            self.bytes.write(offset + at, bytes)
        })
    }
}

/// The parts of a slice, each with its offset.
fn chunks(slice: SharedSlice<'_>) -> impl Iterator<Item = (u64, SharedSlice<'_>)> {
    let whole = slice.length();
    (0..whole).step_by(CHUNK).map(move |at| (at as u64, slice.part(at, CHUNK.min(whole - at))))
}

impl OwnersBytes {
    /// Tried again for a moment where there is no slot: they are few, for threads that are inside at a time.
    fn enter(&self, offset: u64, length: u64, want: Access) -> Result<DirectAccess<'_>, NotNamed> {
        let start = self.base.checked_add(offset).ok_or(NotNamed::TakenBack)?;
        let range = AddressRange::new(start, length);
        for _ in 0..LOOKS {
            match self.origin.link.named(self.memory, range, want) {
                Err(NotNamed::Crowded) => yield_now(),
                other => return other,
            }
        }
        Err(NotNamed::Crowded)
    }

    /// Waits until the first `length` bytes can be reached, if they can: a file that they lie in comes when it is asked for.
    fn await_way(&self, length: u64, want: Access) -> Result<(), ImportError> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.enter(0, length, want) {
                Ok(_) => return Ok(()),
                Err(NotNamed::Coming) if Instant::now() >= end => return Err(ImportError::Silent),
                Err(NotNamed::Coming) => {
                    nap(NAP);
                }
                Err(NotNamed::TakenBack) => return Err(ImportError::NotThere),
                Err(NotNamed::Unreachable | NotNamed::Crowded) => return Err(ImportError::Unreachable),
            }
        }
    }
}

impl ForeignMemory for OwnersBytes {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let entered = self.enter(offset, bytes.len() as u64, Access::LOCAL_READ);
        entered.is_ok_and(|entered| entered.read(&[SharedSlice::of_private(bytes)]).is_ok())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut buffer = [0; CHUNK];
        self.writable
            && bytes.chunks(CHUNK).zip((offset..).step_by(CHUNK)).all(|(part, offset)| {
                let copy = &mut buffer[..part.len()];
                copy.copy_from_slice(part);
                let entered = self.enter(offset, part.len() as u64, Access::LOCAL_WRITE);
                entered.is_ok_and(|entered| entered.write(&[SharedSlice::of_private(copy)]).is_ok())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_from_its_file_and_from_no_other() {
        let command = Command { token: u64::MAX, context: 7 };
        let file = command.file().unwrap();
        assert_eq!(Command::of(file.as_fd()), Some(command));
        let other = SharedMemory::create("other", TEXT_LENGTH).unwrap();
        other.write_first(&[b'x'; TEXT_LENGTH]).unwrap();
        assert_eq!(Command::of(other.as_fd()), None);
        let short = SharedMemory::create("short", 3).unwrap();
        assert_eq!(Command::of(short.as_fd()), None);
    }

    #[test]
    fn a_process_that_is_not_there_is_gone() {
        let nobody = Command { token: 0xdead_beef_0bad_cafe, context: 1 };
        assert!(matches!(nobody.ask(Wanted::Device), Err(ImportError::Gone)));
        assert!(matches!(Command { token: 0, ..nobody }.ask(Wanted::Device), Err(ImportError::Unreachable)));
    }
}

//! Packets that came to the wrong process of the user.
//!
//! All processes of a user share UDP port 4791 of an address (`SO_REUSEPORT`), and the kernel gives a packet to one of them by its
//! addresses and ports, which say nothing of queue pairs: packets of one host all go to the same. A filter on the queue-pair number
//! (`SO_ATTACH_REUSEPORT_CBPF`) would have to name sockets by their place in the group, which changes whenever one ends, and no process
//! knows the others' places. So whoever gets a packet looks at its number and hands it to the process that holds the block of numbers
//! it is in, over a Unix socket with the block's name. One that ends takes its names with it, and the kernel gives its part of the packets to
//! those that are left; what was on its way is lost, and sent again.
//!
//! Both sides have the other prove that the kernel lets it at them (`proof.rs`), and have nothing to do with anybody else. Packets that come
//! for it meanwhile are held.

mod giver;
mod message;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_protocol::QpNumber;
use nonic_roce::MANAGEMENT;
use nonic_sys::{AsFd, Epoll, PacketSocket, Received, Seldom, is_out_of_descriptors, listen_abstract};
use nonic_trust::TrustedUsers;

use self::giver::Giver;
use self::message::{HEAD, MESSAGE, read, write};
use crate::incoming::{Arrival, Run, Taken};
use crate::proof::Doubt;
use crate::station::Station;
use crate::wire::{GIVER, LISTENER, TAKER};

/// Version of what is said over these sockets.
const VERSION: u32 = 3;
/// Queue-pair numbers of a block.
const BLOCK: u32 = 1 << 12;
/// Processes of a user that take management datagrams, at most.
pub const MANAGERS_MAX: u8 = 16;
/// Processes that hand packets to this one, at most.
const GIVERS_MAX: usize = 256;
/// Packets that are held for those who have not proved yet that they may have them, at most, and for each.
const HELD_MAX: usize = 256;
const HELD_FOR_ONE: usize = 64;
/// Of those who want to, so many are taken in at a time, whoever they are: who connects in a loop does not keep a thread for ever.
const WELCOMED_PER_LOOK: usize = 64;
/// Messages that one of them has taken in at a time, at most.
const MESSAGES_PER_LOOK: usize = 64;
/// Bytes that a socket is to hold of packets on their way to another process: what one piece of a read takes is the least.
const ROOM: usize = 1 << 20;
/// How long a name that nobody has is not asked for again.
const NOBODY: Duration = Duration::from_millis(5);
/// How often in that time all names of managers are asked for once more, so that nobody is refused because of what was. What is
/// neither taken nor refused is not answered, and comes again.
const LOOKS_FOR_MANAGERS: u32 = 8;

/// What packets a process takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Those for 4,096 queue pairs: the block's number.
    Block(u32),
    /// Those for queue pair 1, the connection managers': one of 16, each of which gets them all, since what is in them says whom they
    /// concern.
    Management(u8),
}

impl Share {
    /// All that management datagrams are for.
    pub fn managers() -> impl Iterator<Item = Self> {
        (0..MANAGERS_MAX).map(Self::Management)
    }

    /// The block that a queue pair is in.
    pub fn block_of(number: QpNumber) -> Self {
        Self::Block(number.0 / BLOCK)
    }

    fn name(self) -> String {
        match self {
            Self::Block(block) => format!("nonic-wire.{VERSION}/block/{block}"),
            Self::Management(number) => format!("nonic-wire.{VERSION}/management/{number}"),
        }
    }
}

/// A process that packets are handed to.
#[derive(Debug)]
struct Taker {
    found: Found,
    asked_at: Instant,
}

/// Who takes a share.
#[derive(Debug)]
enum Found {
    Taker(PacketSocket),
    /// Somebody who has to prove first that it may, and what is held for it.
    Doubted {
        number: u64,
        socket: PacketSocket,
        doubt: Doubt,
        held: Vec<Vec<u8>>,
    },
    /// No process of this user.
    Nobody,
    /// That is not to be known now.
    Unknown,
}

/// Who hands packets to this engine, and to whom it does.
#[derive(Debug)]
pub(crate) struct Handing {
    trusted: TrustedUsers,
    /// The oldest first.
    givers: Vec<Giver>,
    /// How many there were, of these and of those whom this engine doubted.
    met: u64,
    /// Looks for managers, from when on.
    looks: (Instant, u32),
    /// Packets that are held for those whom it doubts.
    held: usize,
    /// No more than there are shares.
    takers: HashMap<Share, Taker>,
    buffer: Vec<u8>,
    /// A descriptor for the moment in which the process has no other: who comes then is sent away with it. Who could not be would
    /// be told of again and again, so without it the listening sockets are not looked at.
    spare: Option<Epoll>,
}

static NAME_TAKEN: Seldom = Seldom::new();
static NO_DESCRIPTORS: Seldom = Seldom::new();

impl Handing {
    pub(crate) fn new(trusted: TrustedUsers) -> Self {
        Self {
            trusted,
            givers: Vec::new(),
            met: 0,
            looks: (Instant::now(), 0),
            held: 0,
            takers: HashMap::new(),
            buffer: vec![0; MESSAGE],
            spare: Epoll::new().ok(),
        }
    }

    /// Whether those are not looked at who want to hand packets to this engine.
    pub(crate) fn is_deaf(&self) -> bool {
        self.spare.is_none()
    }

    /// Hands a datagram to the process that has its queue pair, or to those that may, if there is one and it has room. None of
    /// these is handed to which are this engine's `own`. Of those that take a management datagram the first stands in for this engine, if
    /// it takes none itself: whoever refuses what concerns nobody has to be one of them. False: it is certain that no process is there
    /// which takes it.
    pub(crate) fn hand_on(
        &mut self,
        number: QpNumber,
        own: impl Fn(Share) -> bool,
        (arrival, datagram): (&Arrival, &[u8]),
        epoll: &Epoll,
    ) -> bool {
        let hand_to =
            |this: &mut Self, share, stands_in| this.hand_to(share, (arrival, datagram), stands_in, epoll);
        if number != MANAGEMENT {
            return hand_to(self, Share::block_of(number), false);
        }
        let (own, others): (Vec<_>, Vec<_>) = Share::managers().partition(|share| own(*share));
        let mut is_taken = !own.is_empty();
        for share in &others {
            is_taken |= hand_to(self, *share, !is_taken);
        }
        if is_taken || arrival.read(datagram).is_err() || !self.may_look_for_managers() {
            return true;
        }
        for share in &others {
            self.takers.remove(share);
            is_taken |= hand_to(self, *share, !is_taken);
        }
        is_taken
    }

    fn may_look_for_managers(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.looks.0) >= NOBODY {
            self.looks = (now, 0);
        }
        self.looks.1 += 1;
        self.looks.1 <= LOOKS_FOR_MANAGERS
    }

    /// Whether somebody has the share, or may have it, and gets the datagram unless there is no room.
    fn hand_to(
        &mut self,
        share: Share,
        (arrival, datagram): (&Arrival, &[u8]),
        stands_in: bool,
        epoll: &Epoll,
    ) -> bool {
        let now = Instant::now();
        let is_new = match self.takers.get(&share) {
            None => true,
            Some(Taker { found: Found::Nobody | Found::Unknown, asked_at }) => {
                now.duration_since(*asked_at) >= NOBODY
            }
            Some(_) => false,
        };
        if is_new {
            let found = self.find(share, epoll);
            self.takers.insert(share, Taker { found, asked_at: now });
        }
        let (Some(taker), Some(message)) =
            (self.takers.get_mut(&share), self.buffer.get_mut(..HEAD + datagram.len()))
        else {
            return true;
        };
        if matches!(taker.found, Found::Nobody) {
            return false;
        }
        write(message, arrival, datagram, stands_in);
        match &mut taker.found {
            Found::Nobody | Found::Unknown => {}
            Found::Doubted { held, .. } => {
                if held.len() < HELD_FOR_ONE && self.held < HELD_MAX {
                    held.push(message.to_vec());
                    self.held += 1;
                }
            }
            Found::Taker(socket) => {
                if !send(socket, message) {
                    *taker = Taker { found: Found::Nobody, asked_at: now };
                    return false;
                }
            }
        }
        true
    }

    /// Connects to whoever takes a share, if that may be a process of this user, and asks it to prove that.
    fn find(&mut self, share: Share, epoll: &Epoll) -> Found {
        let found = PacketSocket::find_abstract(&share.name()).and_then(|socket| {
            let Some(socket) = socket else { return Ok(None) };
            let Some(doubt) = Doubt::about(&socket)? else { return Ok(None) };
            socket.make_room(ROOM);
            socket.send(&doubt.ask(), &[])?;
            let number = TAKER | self.next_number();
            epoll.add(socket.as_fd(), number)?;
            Ok(Some(Found::Doubted { number, socket, doubt, held: Vec::new() }))
        });
        found.map_or(Found::Unknown, |found| found.unwrap_or(Found::Nobody))
    }

    fn next_number(&mut self) -> u64 {
        // As many as there are numbers of listeners: nobody lives to see them come again.
        self.met = (self.met + 1) % LISTENER;
        self.met
    }

    /// Somebody whom this engine doubts has said something: it gets what is held for it, or nothing any more.
    pub(crate) fn hear(&mut self, number: u64, epoll: &Epoll) {
        let is_it =
            |taker: &&mut Taker| matches!(&taker.found, Found::Doubted { number: own, .. } if *own == number);
        let Some(taker) = self.takers.values_mut().find(is_it) else { return };
        let Found::Doubted { socket, doubt, .. } = &taker.found else { return };
        let answer = match socket.receive_bytes(&mut self.buffer) {
            Received::Nothing => return,
            Received::HungUp => None,
            Received::Message(length, _) => doubt.settle_by_reply(&self.buffer[..length], &self.trusted),
        };
        epoll.remove(socket.as_fd());
        let now = Instant::now();
        let before = std::mem::replace(taker, Taker { found: Found::Nobody, asked_at: now });
        let Found::Doubted { socket, held, .. } = before.found else { return };
        self.held -= held.len();
        if let Some(answer) = answer
            && send(&socket, &answer)
            && held.iter().all(|message| send(&socket, message))
        {
            taker.found = Found::Taker(socket);
        }
    }

    /// Takes what somebody hands to this engine; whether there was something.
    pub(crate) fn receive(
        &mut self,
        number: u64,
        epoll: &Epoll,
        stations: &[Arc<Station>],
        take: &mut dyn FnMut(&mut Run<'_>) -> Taken,
    ) -> bool {
        let mut worked = false;
        let Self { givers, buffer, trusted, .. } = self;
        let Some(place) = givers.iter().position(|giver| giver.number == number) else { return false };
        for _ in 0..MESSAGES_PER_LOOK {
            let giver = &mut givers[place];
            let stays = match giver.socket.receive_bytes(buffer) {
                Received::Message(length, _) if !giver.is_known() => giver.hear(&buffer[..length], trusted),
                Received::Message(length, _) => {
                    worked = true;
                    if let Some((arrival, datagram)) = read(stations, &buffer[..length]) {
                        // What was handed on is not handed on again: nothing goes in circles.
                        take(&mut Run::new(arrival, datagram, datagram.len()));
                    }
                    true
                }
                Received::Nothing => break,
                Received::HungUp => false,
            };
            if !stays {
                epoll.remove(giver.socket.as_fd());
                givers.remove(place);
                break;
            }
        }
        worked
    }

    /// Takes in those who want to hand packets to this engine. Where there are too many, who has been silent for longest goes for one who
    /// comes.
    pub(crate) fn welcome(&mut self, listener: &PacketSocket, epoll: &Epoll) {
        for _ in 0..WELCOMED_PER_LOOK {
            let socket = match listener.accept() {
                Ok(socket) => socket,
                Err(error) if is_out_of_descriptors(&error) && self.make_room(listener, epoll) => continue,
                Err(_) => return,
            };
            let Ok(Some(doubt)) = Doubt::about(&socket) else { continue };
            if self.givers.len() >= GIVERS_MAX && !self.dismiss_silent(epoll) {
                continue;
            }
            let number = GIVER | self.next_number();
            if epoll.add(socket.as_fd(), number).is_ok() {
                self.givers.push(Giver::new(number, socket, doubt));
            }
        }
    }

    /// Has whoever has been silent for longest go; false if nobody is.
    fn dismiss_silent(&mut self, epoll: &Epoll) -> bool {
        let silent = self.givers.iter().position(|giver| !giver.is_known());
        if let Some(silent) = silent {
            epoll.remove(self.givers.remove(silent).socket.as_fd());
        }
        silent.is_some()
    }

    /// Keeps a descriptor back, if there is one.
    pub(crate) fn keep_spare(&mut self) {
        self.spare = Epoll::new().ok();
    }

    /// The process has no descriptor for who comes: one who was silent goes for it, or else itself does. False: not even that could be
    /// done, and the listening socket is not looked at any more.
    fn make_room(&mut self, listener: &PacketSocket, epoll: &Epoll) -> bool {
        if let Some(unsaid) = NO_DESCRIPTORS.turn() {
            tracing::warn!(
                unsaid,
                "packets that come to other processes of this user are not handed on to this one: it has too many open files"
            );
        }
        if self.dismiss_silent(epoll) {
            return true;
        }
        self.spare = None;
        drop(listener.accept());
        self.keep_spare();
        if self.is_deaf() {
            epoll.remove(listener.as_fd());
        }
        !self.is_deaf()
    }
}

/// Whether the other side is still there; what finds no room is lost.
fn send(socket: &PacketSocket, message: &[u8]) -> bool {
    let sent = socket.send(message, &[]);
    sent.is_ok() || sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// A socket with the name of a share, under which others find this process; `None` if another has it.
pub(crate) fn listener(share: Share) -> Option<PacketSocket> {
    let listener = listen_abstract(&share.name());
    if let Err(error) = &listener
        && matches!(share, Share::Block(_))
        && let Some(unsaid) = NAME_TAKEN.turn()
    {
        tracing::warn!(
            name = share.name(), %error, unsaid,
            "packets that come to another process of this user are not handed on to this one"
        );
    }
    let listener = listener.ok()?;
    listener.refuse_descriptors();
    Some(listener)
}

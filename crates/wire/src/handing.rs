//! Packets that came to the wrong process of the user.
//!
//! All processes of a user share UDP port 4791 of an address (`SO_REUSEPORT`), and the kernel gives a packet to one of them by its
//! addresses and ports, which say nothing of queue pairs: packets of one host all go to the same. A filter on the queue-pair number
//! (`SO_ATTACH_REUSEPORT_CBPF`) would have to name sockets by their place in the group, which changes whenever one ends, and no process
//! knows the others' places. So whoever gets a packet looks at its number and hands it to the process that holds the block of numbers
//! it is in, over a Unix socket with the block's name. One that ends takes its names with it, and the kernel gives its part of the packets to
//! those that are left; what was on its way is lost, and sent again.
//!
//! Both sides ask the kernel whether the other is of the same user, and have nothing to do with anybody else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nonic_protocol::QpNumber;
use nonic_roce::{HostAddress, MANAGEMENT};
use nonic_sys::{AsFd, Epoll, PacketSocket, Received, Seldom, effective_user, listen_abstract};

use crate::incoming::{Arrival, Taken};
use crate::station::{Location, Station};
use crate::wire::{GIVER, LISTENER};

/// Version of what is said over these sockets.
const VERSION: u32 = 2;
/// Queue-pair numbers of a block.
const BLOCK: u32 = 1 << 12;
/// Processes of a user that take management datagrams, at most.
pub const MANAGERS_MAX: u8 = 16;
/// Processes that hand packets to this one, at most.
const GIVERS_MAX: usize = 256;
/// Of those who want to, so many are taken in at a time, whoever they are: who connects in a loop does not keep a thread for ever.
const WELCOMED_PER_LOOK: usize = 64;
/// Messages that one of them has taken in at a time, at most.
const MESSAGES_PER_LOOK: usize = 64;
/// How long a name that nobody has is not asked for again.
const NOBODY: Duration = Duration::from_millis(5);
/// How often in that time all names of managers are asked for once more, so that nobody is refused because of what was. What is
/// neither taken nor refused is not answered, and comes again.
const LOOKS_FOR_MANAGERS: u32 = 8;
/// What stands in front of a datagram: addresses, ports, marks.
const HEAD: usize = 16 + 16 + 4 + 2 + 2 + 2 + 1;
/// A message.
const MESSAGE: usize = HEAD + 4096 + 256;

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
    /// No process of this user.
    Nobody,
    /// That is not to be known now.
    Unknown,
}

/// Who hands packets to this engine, and to whom it does.
#[derive(Debug)]
pub(crate) struct Handing {
    givers: Vec<(u64, PacketSocket)>,
    /// How many there were.
    given: u64,
    /// Looks for managers, from when on.
    looks: (Instant, u32),
    /// No more than there are shares.
    takers: HashMap<Share, Taker>,
    buffer: Vec<u8>,
}

static NAME_TAKEN: Seldom = Seldom::new();

impl Handing {
    pub(crate) fn new() -> Self {
        Self {
            givers: Vec::new(),
            given: 0,
            looks: (Instant::now(), 0),
            takers: HashMap::new(),
            buffer: vec![0; MESSAGE],
        }
    }

    /// Hands a datagram to the process that has its queue pair, or to those that may, if there is one and it has room. None of
    /// these is handed to which are this engine's `own`. Of those that take a management datagram the first stands in for this engine, if
    /// it takes none itself: whoever refuses what concerns nobody has to be one of them. False: it is certain that no process is there
    /// which takes it.
    pub(crate) fn hand_on(
        &mut self,
        number: QpNumber,
        own: impl Fn(Share) -> bool,
        arrival: &Arrival,
        datagram: &[u8],
    ) -> bool {
        if number != MANAGEMENT {
            return self.hand_to(Share::block_of(number), arrival, datagram, false);
        }
        let (own, others): (Vec<_>, Vec<_>) = Share::managers().partition(|share| own(*share));
        let mut is_taken = !own.is_empty();
        for share in &others {
            is_taken |= self.hand_to(*share, arrival, datagram, !is_taken);
        }
        if is_taken || arrival.read(datagram).is_err() || !self.may_look_for_managers() {
            return true;
        }
        for share in &others {
            self.takers.remove(share);
            is_taken |= self.hand_to(*share, arrival, datagram, !is_taken);
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
    fn hand_to(&mut self, share: Share, arrival: &Arrival, datagram: &[u8], stands_in: bool) -> bool {
        let now = Instant::now();
        let taker = self.takers.entry(share).or_insert_with(|| Taker { found: find(share), asked_at: now });
        if !matches!(taker.found, Found::Taker(_)) && now.duration_since(taker.asked_at) >= NOBODY {
            *taker = Taker { found: find(share), asked_at: now };
        }
        let socket = match &taker.found {
            Found::Taker(socket) => socket,
            Found::Nobody => return false,
            Found::Unknown => return true,
        };
        let Some(message) = self.buffer.get_mut(..HEAD + datagram.len()) else { return true };
        message[..16].copy_from_slice(&arrival.station.address().gid());
        message[16..32].copy_from_slice(&arrival.source.gid());
        message[32..36].copy_from_slice(&arrival.station.location.interface.to_ne_bytes());
        message[36..38].copy_from_slice(&arrival.source_port.to_ne_bytes());
        message[38..40].copy_from_slice(&arrival.index.to_ne_bytes());
        (message[40], message[41]) = (arrival.traffic_class, arrival.hop_limit);
        message[42] = stands_in.into();
        message[HEAD..].copy_from_slice(datagram);
        if let Err(error) = socket.send(message, &[])
            && error.kind() != std::io::ErrorKind::WouldBlock
        {
            *taker = Taker { found: Found::Nobody, asked_at: now };
            return false;
        }
        true
    }

    /// Takes what somebody hands to this engine; whether there was something.
    pub(crate) fn receive(
        &mut self,
        number: u64,
        epoll: &Epoll,
        stations: &[Arc<Station>],
        take: &mut dyn FnMut(&Arrival, &mut [u8]) -> Taken,
    ) -> bool {
        let mut worked = false;
        let Self { givers, buffer, .. } = self;
        let Some(place) = givers.iter().position(|(giver, _)| *giver == number) else { return false };
        let (_, giver) = &givers[place];
        for _ in 0..MESSAGES_PER_LOOK {
            match giver.receive_bytes(buffer) {
                Received::Message(length, _) => {
                    worked = true;
                    if let Some((arrival, datagram)) = read(stations, &mut buffer[..length]) {
                        // What was handed on is not handed on again: nothing goes in circles.
                        take(&arrival, datagram);
                    }
                }
                Received::Nothing => break,
                Received::HungUp => {
                    epoll.remove(giver.as_fd());
                    givers.swap_remove(place);
                    break;
                }
            }
        }
        worked
    }

    /// Takes in those who want to hand packets to this engine.
    pub(crate) fn welcome(&mut self, listener: &PacketSocket, epoll: &Epoll) {
        for _ in 0..WELCOMED_PER_LOOK {
            let Ok(giver) = listener.accept() else { return };
            let is_own = giver.peer().is_ok_and(|peer| peer.uid == effective_user());
            let number = GIVER | self.given;
            if is_own && self.givers.len() < GIVERS_MAX && epoll.add(giver.as_fd(), number).is_ok() {
                self.givers.push((number, giver));
                // As many as there are numbers of listeners: nobody lives to see them come again.
                self.given = (self.given + 1) % LISTENER;
            }
        }
    }
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

/// Connects to whoever takes a share, if that is a process of this user.
fn find(share: Share) -> Found {
    let found = PacketSocket::find_abstract(&share.name()).and_then(|socket| {
        let user = socket.as_ref().map(PacketSocket::peer).transpose()?.map(|peer| peer.uid);
        Ok(socket.filter(|_| user == Some(effective_user())))
    });
    match found {
        Ok(Some(socket)) => Found::Taker(socket),
        Ok(None) => Found::Nobody,
        Err(_) => Found::Unknown,
    }
}

/// A message that was handed on. Only what came to an address that this engine is at, too, concerns it.
fn read<'a>(stations: &[Arc<Station>], message: &'a mut [u8]) -> Option<(Arrival, &'a mut [u8])> {
    let (head, datagram) = message.split_at_mut_checked(HEAD)?;
    let gid = |at: usize| head[at..at + 16].try_into().ok().map(HostAddress::of_gid);
    let interface = u32::from_ne_bytes(head[32..36].try_into().ok()?);
    let location = Location { address: gid(0)?, interface };
    let station = stations.iter().find(|station| station.location == location)?;
    let number = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let arrival = Arrival {
        station: Arc::clone(station),
        source: gid(16)?,
        source_port: number(36),
        index: number(38),
        traffic_class: head[40],
        hop_limit: head[41],
        was_handed_on: head[42] == 0,
    };
    Some((arrival, datagram))
}

#[cfg(test)]
mod tests {
    use nonic_sys::random_u64;

    use super::*;
    use crate::wire::Wire;

    #[test]
    fn who_connects_again_and_again_does_not_keep_whoever_takes_what_comes() {
        let share = Share::Block(random_u64() as u32 | 1 << 31);
        let (listener, epoll) = (listener(share).unwrap(), Epoll::new().unwrap());
        let connect = |_| PacketSocket::connect_abstract(&share.name()).unwrap();
        let _others: Vec<_> = (0..=WELCOMED_PER_LOOK).map(connect).collect();
        let mut handing = Handing::new();
        handing.welcome(&listener, &epoll);
        assert_eq!(handing.givers.len(), WELCOMED_PER_LOOK);
        handing.welcome(&listener, &epoll);
        assert_eq!(handing.givers.len(), WELCOMED_PER_LOOK + 1);
    }

    #[test]
    fn who_may_have_a_share_and_cannot_be_reached_is_not_taken_for_nobody() {
        // Nobody else is at this address.
        let [first, second, third, ..] = random_u64().to_ne_bytes();
        let address = HostAddress::V4([127, first, second, third.clamp(1, 254)]);
        let location = Location { address, interface: 1 };
        let (station, _) = Wire::new().unwrap().station(location).unwrap();
        let arrival = Arrival {
            station,
            source: HostAddress::V4([127, 0, 0, 2]),
            source_port: 1,
            traffic_class: 0,
            hop_limit: 64,
            index: 0,
            was_handed_on: false,
        };
        // Blocks that no queue pair is in.
        let mut block = random_u64() as u32 | 1 << 31;
        let hand = |share| Handing::new().hand_to(share, &arrival, &[0; 16], false);
        assert!(!hand(Share::Block(block)), "nobody has it");
        block -= 1;
        let listener = listener(Share::Block(block)).unwrap();
        let mut others = Vec::new();
        while let Ok(socket) = PacketSocket::connect_abstract(&Share::Block(block).name()) {
            others.push(socket);
        }
        assert!(hand(Share::Block(block)), "so many wait there that no more can");
        drop(others);
        while listener.accept().is_ok() {}
        assert!(hand(Share::Block(block)));
        let giver = listener.accept().unwrap();
        assert!(
            matches!(giver.receive_bytes(&mut [0; MESSAGE]), Received::Message(length, _) if length == HEAD + 16)
        );
        drop((listener, giver));
        assert!(!hand(Share::Block(block)), "it has gone");
    }
}

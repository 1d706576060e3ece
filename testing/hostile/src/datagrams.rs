//! Lies by RoCEv2: datagrams to the UDP port of another process's address, and the names under which processes of a user hand packets
//! to each other.
//!
//! They come from addresses that are nobody's peer. Who sends from the address of a peer may do what the peer may; nothing on a wire tells
//! the two apart.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use nonic_sys::{OwnedFd, PacketSocket, bind_datagram, listen_abstract, open_datagram, send_datagram};

use crate::campaign::{FLOOD, Kept, Liar, Record, spoil};
use crate::chance::Chance;
use crate::packet::{DatagramAddresses, MANAGEMENT, PORT, management, packet};

/// One way to be a nuisance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Datagrams of any length with anything in them.
    Rubbish,
    /// Packets with the right check and any opcode, flags, numbers and length, to the victim's queue pair.
    Packets,
    /// The same to other numbers, whose owners the victim looks for.
    OthersNumbers,
    /// Packets whose check is wrong, or that end too early.
    Spoiled,
    /// Requests for a connection that make sense, and are never followed up.
    Requests,
    /// Messages of the connection manager of all kinds, with small numbers, in any order.
    Management,
    /// One datagram as often as there is room.
    Flood,
    /// Opens the doors at which processes of the user hand packets to the victim, and says anything.
    HandsOn,
    /// Takes the names at which the victim looks for others of its user.
    Names,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Rubbish,
        Self::Packets,
        Self::OthersNumbers,
        Self::Spoiled,
        Self::Requests,
        Self::Management,
        Self::Flood,
        Self::HandsOn,
        Self::Names,
    ];
}

/// Datagrams of one action.
const SOME: usize = 50;
/// Sockets it sends from.
const SOCKETS: usize = 8;
/// How the names begin at which packets are handed on.
const SHARES: &str = "nonic-wire.3";
/// Names of managers that there are.
const MANAGERS: usize = 16;
/// Queue-pair numbers of a block.
const BLOCK: u32 = 4096;
/// What the services of the space of ports begin with in which reliable connections are (annex A11).
const TCP: u64 = 0x0106;

/// Lies to the process with a queue pair at an address.
#[derive(Debug)]
pub struct Hostile {
    address: Ipv4Addr,
    number: u32,
    service_id: u64,
    chance: Chance,
    sockets: Vec<(Ipv4Addr, u16, OwnedFd)>,
    kept: Kept<PacketSocket>,
    names: Vec<PacketSocket>,
    record: Record<Action>,
}

impl Liar for Hostile {
    type Action = Action;

    fn act(&mut self, action: Action) {
        let outcome = match action {
            Action::Rubbish => self.say(|liar, _| liar.bytes(2000)),
            Action::Packets => self.say(|liar, from| liar.any_packet(from, liar.number)),
            Action::OthersNumbers => self.say(|liar, from| {
                let number = liar.chance.number() as u32;
                liar.any_packet(from, number)
            }),
            Action::Spoiled => self.say(|liar, from| {
                let mut bytes = liar.any_packet(from, liar.number);
                spoil(&mut bytes, &mut liar.chance);
                bytes
            }),
            Action::Requests => self.say(|liar, from| liar.any_management(from, true)),
            Action::Management => self.say(|liar, from| liar.any_management(from, false)),
            Action::Flood => self.flood(),
            Action::HandsOn => self.hand_on(),
            Action::Names => self.take_a_name(),
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
    /// One that is after the process at an address, one of its queue pairs and a port of `rdma_cm` that it listens at.
    pub fn new(address: Ipv4Addr, number: u32, port: u16, seed: u64) -> Self {
        let service_id = TCP << 16 | u64::from(port);
        let (chance, record) = (Chance::new(seed), Record::default());
        let (sockets, kept, names) = (Vec::new(), Kept::new(), Vec::new());
        Self { address, number, service_id, chance, sockets, kept, names, record }
    }

    /// How many names it has.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    /// The address and the port of a socket that it sends from: of 127.66.0.0/16, where nobody is.
    fn socket(&mut self) -> io::Result<usize> {
        if self.sockets.len() < SOCKETS {
            let address =
                Ipv4Addr::new(127, 66, self.chance.below(256) as u8, 1 + self.chance.below(254) as u8);
            let port = if self.chance.below(2) == 0 { PORT } else { 1024 + self.chance.below(60_000) as u16 };
            let name = SocketAddr::from((address, port));
            let socket = open_datagram(name)?;
            bind_datagram(&socket, name)?;
            self.sockets.push((address, port, socket));
        }
        Ok(self.chance.below(self.sockets.len()))
    }

    fn send(&self, which: usize, bytes: &[u8]) -> io::Result<()> {
        send_datagram(&self.sockets[which].2, bytes, (self.address, PORT).into())
    }

    /// Says some datagrams, each of them made anew.
    fn say(&mut self, make: impl Fn(&mut Self, DatagramAddresses) -> Vec<u8>) -> io::Result<()> {
        for _ in 0..SOME {
            let which = self.socket()?;
            let (address, port, _) = self.sockets[which];
            let from = DatagramAddresses { source: address, port, destination: self.address };
            let bytes = make(self, from);
            self.send(which, &bytes)?;
        }
        Ok(())
    }

    fn bytes(&mut self, limit: usize) -> Vec<u8> {
        (0..self.chance.below(limit)).map(|_| self.chance.number() as u8).collect()
    }

    fn any_packet(&mut self, from: DatagramAddresses, number: u32) -> Vec<u8> {
        // Small numbers of packets are those of queue pairs that have just begun.
        let psns = self.chance.one_of(&[4, 1 << 24]);
        let psn = self.chance.below(psns) as u32;
        let (opcode, flags) = (self.chance.number() as u8, self.chance.number() as u8 & 0xf0);
        // As long as the headers of most packets, or with a payload.
        let limit = self.chance.one_of(&[16, 270]);
        let length = self.chance.below(limit) * 4;
        let behind: Vec<u8> = (0..length).map(|_| self.chance.number() as u8).collect();
        packet(from, opcode, flags, number, psn, &behind)
    }

    fn any_management(&mut self, from: DatagramAddresses, makes_sense: bool) -> Vec<u8> {
        let kind = if makes_sense { 0x10 } else { 0x10 + self.chance.below(9) as u8 };
        let ids = if makes_sense {
            [self.chance.number() as u32, 0]
        } else {
            [(); 2].map(|()| self.chance.below(64) as u32)
        };
        let pair = self.chance.number() as u32;
        let mut bytes = management(from, kind, self.service_id, ids, pair, self.chance.number());
        if !makes_sense {
            for _ in 0..self.chance.below(4) {
                let at = 24 + self.chance.below(bytes.len() - 24);
                bytes[at] = self.chance.number() as u8;
            }
        }
        let mut behind = MANAGEMENT.to_vec();
        behind.extend(bytes);
        // Send Only of unreliable datagrams.
        packet(from, 0x64, 0, 1, self.chance.number() as u32, &behind)
    }

    fn flood(&mut self) -> io::Result<()> {
        let which = self.socket()?;
        let (source, port, _) = self.sockets[which];
        let from = DatagramAddresses { source, port, destination: self.address };
        let bytes = match self.chance.below(3) {
            0 => self.any_packet(from, self.number),
            1 => self.any_management(from, true),
            _ => self.bytes(64),
        };
        (0..FLOOD).try_for_each(|_| self.send(which, &bytes))
    }

    fn share(&mut self) -> String {
        match self.chance.below(3) {
            0 => format!("{SHARES}/block/{}", self.number / BLOCK),
            1 => format!("{SHARES}/block/{}", self.chance.below(4096)),
            _ => format!("{SHARES}/management/{}", self.chance.below(MANAGERS)),
        }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let name = self.share();
        let door = PacketSocket::connect_abstract(&name)?;
        for _ in 0..SOME {
            let bytes = self.bytes(400);
            if door.send(&bytes, &[]).is_err() {
                break;
            }
        }
        self.kept.keep(door, &mut self.chance);
        Ok(())
    }

    fn take_a_name(&mut self) -> io::Result<()> {
        let name = self.share();
        let listener = listen_abstract(&name)?;
        // Not all of them: others of the victim's user find some, too.
        if self.names.len() >= 100 {
            let goes = self.chance.below(self.names.len());
            self.names.swap_remove(goes);
        }
        self.names.push(listener);
        Ok(())
    }
}

//! A process that connects to the device and then breaks every rule it can: the victim refuses, counts and lives.

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_device::{Operation, Status};
use nonic_sys::{AsFd, BorrowedFd, EventFd, EventKind, PacketSocket, Protection, Received, SharedMemory};
use nonic_transport::{BLOCK_SIZE, ControlMessage, Introduction, ProcessToken, block_name};

/// Bytes of a link's memory, and where its cells begin (the layout of this version).
const LINK: usize = 4096 + 2 * (4096 + 64 * 4096);
const CELLS: usize = 4096 + 4096;

/// A reproducible stream of rubbish.
struct Rubbish(u64);

impl Rubbish {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }
}

struct Attacker {
    socket: PacketSocket,
    mapping: nonic_sys::SharedMapping,
}

impl Attacker {
    /// Introduces itself properly, as anybody can.
    fn connect(victim: u32) -> Self {
        let socket = PacketSocket::connect_abstract(&block_name(victim / BLOCK_SIZE)).unwrap();
        let memory = SharedMemory::create("attack", LINK).unwrap();
        let mapping = memory.map(Protection::ReadWrite).unwrap();
        mapping.word(0).store(u64::from_le_bytes(*b"nonicRDM"), Ordering::Relaxed);
        mapping.word(8).store(u64::from(nonic_transport::VERSION), Ordering::Relaxed);
        let doorbell = EventFd::new(EventKind::All, true).unwrap();
        let hello = ControlMessage::Hello(Introduction {
            token: ProcessToken([1, 2]),
            trusts: false,
            arenas: 0,
            adopts: false,
            probe_address: 8,
            probe_value: 1,
            blocks: vec![1, 2, 3],
        });
        let descriptors: [BorrowedFd<'_>; 3] = [memory.as_fd(), doorbell.as_fd(), doorbell.as_fd()];
        socket.send(&hello.emit(), &descriptors).unwrap();
        Self { socket, mapping }
    }

    /// Waits for the victim's welcome and returns its doorbell.
    fn welcomed(&self) -> EventFd {
        let mut bytes = [0; 512];
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "no welcome came");
            nonic_sys::wait_readable(self.socket.as_fd(), Some(Duration::from_millis(100)));
            match self.socket.receive(&mut bytes) {
                Received::Message(_, descriptors) => {
                    if let Some(doorbell) = descriptors.into_iter().next() {
                        return EventFd::from_peer(doorbell);
                    }
                }
                Received::Nothing => {}
                Received::HungUp => panic!("the victim refused a proper introduction"),
            }
        }
    }

    /// Whether the victim has ended the connection; waits for it.
    fn is_dismissed(&self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if self.socket.is_hung_up() {
                return true;
            }
            nonic_sys::wait_readable(self.socket.as_fd(), Some(Duration::from_millis(10)));
            let _ = self.socket.receive(&mut [0; 512]);
        }
        false
    }
}

fn works(one: &common::End, other: &common::End, round: u64) {
    other.post_receive(round);
    one.post(round, Operation::Send { immediate: Some(round as u32) }, &[one.piece(0, 100)]);
    let (sent, received) = (one.completion(), other.completion());
    assert_eq!((sent.status, received.status), (Status::Success, Status::Success));
    assert_eq!((received.id, received.immediate, received.byte_length), (round, Some(round as u32), 100));
}

/// The tests count the descriptors of the process they share.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn rubbish_in_the_ring_is_refused_and_the_victim_goes_on() {
    let _alone = alone();
    let (one, other) = common::connected();
    works(&one, &other, 0);
    let before = open_descriptors();
    let mut rubbish = Rubbish(7);
    for round in 1..150 {
        let attacker = Attacker::connect(one.pair.number().0);
        let doorbell = attacker.welcomed();
        for cell in 0..4096 {
            for word in 0..8 {
                let mut value = rubbish.next();
                if word == 0 && round % 3 != 0 {
                    // A plausible first word: right lap, some kind, little payload, for the victim's queue pairs.
                    value = 1 | (value % 13) << 16 | (value >> 60) << 24 | (value >> 32 & 0x3f) << 32;
                }
                if word == 1 && round % 2 == 0 {
                    value = u64::from(one.pair.number().0) | u64::from(other.pair.number().0) << 32;
                }
                attacker.mapping.word(CELLS + cell * 32 + word * 8).store(value, Ordering::Release);
            }
        }
        doorbell.signal();
        works(&one, &other, round);
        drop(attacker);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while open_descriptors() > before {
        assert!(Instant::now() < deadline, "descriptors of attackers stay open");
        std::thread::yield_now();
    }
}

#[test]
fn a_message_of_no_kind_ends_the_link_of_whoever_sent_it_and_no_other() {
    let _alone = alone();
    let (one, other) = common::connected();
    let attacker = Attacker::connect(one.pair.number().0);
    let doorbell = attacker.welcomed();
    attacker.mapping.word(CELLS).store(1 | 99 << 16, Ordering::Release);
    doorbell.signal();
    assert!(attacker.is_dismissed());
    works(&one, &other, 1);
}

#[test]
fn rubbish_on_the_socket_ends_the_link_of_whoever_sent_it_and_no_other() {
    let _alone = alone();
    let (one, other) = common::connected();
    let mut rubbish = Rubbish(3);
    for round in 0..60 {
        let attacker = Attacker::connect(one.pair.number().0);
        attacker.welcomed();
        let mut bytes: Vec<u8> = (0..1 + rubbish.next() % 300).map(|_| rubbish.next() as u8).collect();
        if round % 2 == 0 {
            let mut message = ControlMessage::Look.emit();
            message[12] = rubbish.next() as u8 | 0x40;
            bytes = message;
        }
        let _ = attacker.socket.send(&bytes, &[]);
        assert!(attacker.is_dismissed(), "round {round}");
    }
    works(&one, &other, 1);
}

#[test]
fn an_introduction_with_the_wrong_descriptors_is_refused() {
    let _alone = alone();
    let (one, other) = common::connected();
    let pipe = EventFd::new(EventKind::All, true).unwrap();
    let short = SharedMemory::create("short", 4096).unwrap();
    let hello = |trusts, arenas, adopts| {
        ControlMessage::Hello(Introduction {
            token: ProcessToken([1, 2]),
            trusts,
            arenas,
            adopts,
            probe_address: 0,
            probe_value: 0,
            blocks: vec![],
        })
    };
    let long = SharedMemory::create("long", LINK).unwrap();
    let cases: [(ControlMessage, Vec<BorrowedFd<'_>>); 6] = [
        (hello(false, 0, false), vec![]),
        (hello(false, 0, false), vec![pipe.as_fd(), pipe.as_fd()]),
        (hello(false, 0, false), vec![short.as_fd(), pipe.as_fd()]),
        (hello(false, 0, false), vec![long.as_fd(), pipe.as_fd()]),
        (hello(true, 3, false), vec![long.as_fd(), pipe.as_fd()]),
        (ControlMessage::CanReach { kernel: true, mapping: true }, vec![]),
    ];
    for (message, descriptors) in cases {
        let socket = PacketSocket::connect_abstract(&block_name(one.pair.number().0 / BLOCK_SIZE)).unwrap();
        socket.send(&message.emit(), &descriptors).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !socket.is_hung_up() {
            assert!(Instant::now() < deadline, "{message:?} was accepted");
            std::thread::yield_now();
        }
    }
    works(&one, &other, 1);
}

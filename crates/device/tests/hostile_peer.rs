//! A process that connects to the device and then breaks every rule it can: the victim refuses, counts and lives.

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_device::{Access, Operation, RegionMemory, RegionRequest, Status};
use nonic_sys::{AsFd, BorrowedFd, EventFd, EventKind, PacketSocket, Protection, Received, SharedMemory};
use nonic_transport::{BLOCK_SIZE, ControlMessage, Introduction, ProcessToken, Shown, block_name};

/// Bytes of a link's memory, and where its cells begin (the layout of this version).
const LINK: usize = 2 * (4096 + 64 * 4096);
const CELLS: usize = 2 * 4096;
/// Where the words lie by which a peer says that it is inside an operation.
const SLOTS: usize = 4096;

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
        let introduction =
            Introduction { token: ProcessToken([1, 2]), question: None, blocks: vec![1, 2, 3] };
        socket.send(&ControlMessage::Hello(introduction).emit(), &[memory.as_fd()]).unwrap();
        Self { socket, mapping }
    }

    /// Waits for the victim's welcome.
    fn welcomed(&self) {
        let mut bytes = [0; 512];
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "no welcome came");
            nonic_sys::wait_readable(self.socket.as_fd(), Some(Duration::from_millis(100)));
            match self.socket.receive(&mut bytes) {
                Received::Message(_, descriptors) => {
                    assert!(descriptors.is_empty(), "the victim showed something to a stranger");
                    return;
                }
                Received::Nothing => {}
                Received::HungUp => panic!("the victim refused a proper introduction"),
            }
        }
    }

    /// Waits for the victim's question, answers it as any process of the user can, and is shown the victim's memory.
    fn proves_itself(&self) {
        let mut bytes = [0; 512];
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "nothing is shown");
            nonic_sys::wait_readable(self.socket.as_fd(), Some(Duration::from_millis(100)));
            let Received::Message(length, _) = self.socket.receive(&mut bytes) else { continue };
            match ControlMessage::parse(&bytes[..length]).unwrap() {
                ControlMessage::Welcome(introduction, _) => {
                    let victim = nonic_trust::Peer::of(self.socket.as_fd()).unwrap();
                    let (answer, _) = nonic_trust::answer(&introduction.question.unwrap(), &victim).unwrap();
                    self.socket.send(&ControlMessage::Answer(answer).emit(), &[]).unwrap();
                }
                ControlMessage::Show(_) => return,
                _ => {}
            }
        }
    }

    /// Has the victim look at the ring.
    fn wake_victim(&self) {
        let _ = self.socket.send(&ControlMessage::Look.emit(), &[]);
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
    nonic_second_process::descriptors(std::process::id())
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
        attacker.welcomed();
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
        attacker.wake_victim();
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
    attacker.welcomed();
    attacker.mapping.word(CELLS).store(1 | 99 << 16, Ordering::Release);
    attacker.wake_victim();
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
    let hello = || {
        let introduction = Introduction { token: ProcessToken([1, 2]), question: None, blocks: vec![] };
        ControlMessage::Hello(introduction)
    };
    let long = SharedMemory::create("long", LINK).unwrap();
    let cases: [(ControlMessage, Vec<BorrowedFd<'_>>); 5] = [
        (hello(), vec![]),
        (hello(), vec![pipe.as_fd()]),
        (hello(), vec![short.as_fd()]),
        (hello(), vec![long.as_fd()]),
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

#[test]
fn a_wrong_answer_ends_the_link_and_shows_nothing() {
    let _alone = alone();
    let (one, other) = common::connected();
    let attacker = Attacker::connect(one.pair.number().0);
    attacker.welcomed();
    let wrong = ControlMessage::Answer(nonic_trust::Answer([7; 16]));
    attacker.socket.send(&wrong.emit(), &[]).unwrap();
    assert!(attacker.is_dismissed());
    works(&one, &other, 1);
}

#[test]
fn what_a_stranger_shows_is_not_mapped_and_its_operations_are_not_waited_for() {
    const LARGE: usize = 1 << 40;
    let _alone = alone();
    let (one, other) = common::connected();
    let attacker = Attacker::connect(one.pair.number().0);
    attacker.welcomed();
    let bell = EventFd::new(EventKind::All, true).unwrap();
    let large = SharedMemory::create("large", LARGE).unwrap();
    let shown = Shown { call: None, keys: true, arenas: 3, adopts: true, probe_address: 0, probe_value: 0 };
    let mut descriptors = vec![bell.as_fd(); 2];
    descriptors.resize(7, large.as_fd());
    attacker.socket.send(&ControlMessage::Show(shown).emit(), &descriptors).unwrap();
    // As if it were in the middle of sixteen operations.
    for slot in 0..16 {
        attacker.mapping.word(SLOTS + slot * 128).store(1, Ordering::SeqCst);
    }
    attacker.wake_victim();
    // The victim answers when it has read both: a file is asked for behind them, and refused.
    attacker.socket.send(&ControlMessage::WantFile { file: 0 }.emit(), &[]).unwrap();
    let mut bytes = [0; 512];
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "the victim does not answer");
        nonic_sys::wait_readable(attacker.socket.as_fd(), Some(Duration::from_millis(100)));
        if let Received::Message(length, descriptors) = attacker.socket.receive(&mut bytes) {
            assert!(descriptors.is_empty(), "the victim showed something to a stranger");
            let refused = ControlMessage::File { file: 0, length: 0 };
            if ControlMessage::parse(&bytes[..length]) == Ok(refused) {
                break;
            }
        }
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("/memfd:large"), "the victim mapped what a stranger showed");
    let begin = Instant::now();
    for _ in 0..20 {
        let mut memory = vec![0u8; 8192];
        let base = memory.as_mut_ptr() as usize;
        let request = RegionRequest {
            memory: RegionMemory::Program { address: common::program(base), length: 8192 },
            base: base as u64,
            access: Access::LOCAL_WRITE | Access::REMOTE_WRITE,
        };
        one.zone.register(request).unwrap().deregister().unwrap();
    }
    // Waiting for it costs two seconds each time.
    assert!(begin.elapsed() < Duration::from_secs(20), "deregistration waited for a stranger");
    works(&one, &other, 1);
}

#[test]
fn a_peer_that_never_leaves_an_operation_costs_its_time_once() {
    let _alone = alone();
    let end = common::End::new();
    let attacker = Attacker::connect(end.pair.number().0);
    attacker.proves_itself();
    (0..16).for_each(|slot| attacker.mapping.word(SLOTS + slot * 128).store(u64::MAX, Ordering::SeqCst));
    let mut memory = vec![0u8; 1 << 16];
    let mut take_back = || {
        let program = RegionMemory::Program {
            address: common::program(memory.as_mut_ptr() as usize),
            length: memory.len(),
        };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let region = end.zone.register(RegionRequest { memory: program, base: 0, access }).unwrap();
        let began = Instant::now();
        region.deregister().unwrap();
        began.elapsed()
    };
    let first = take_back();
    assert!(first > Duration::from_secs(1) && first < Duration::from_secs(30), "{first:?}");
    let began = Instant::now();
    for _ in 0..50 {
        take_back();
    }
    // Not fifty times the two seconds.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

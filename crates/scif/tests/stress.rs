//! Two processes move bytes in pieces of every size, each in its own way of waiting. Bytes must arrive in order, no
//! wake-up may be lost, and what a descriptor shows must be so.

mod common;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use common::*;
use nonic_scif::{Endpoint, PollEntry, poll};

/// How a side waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// In the call.
    Blocking,
    /// In `poll(2)`, before each call without waiting.
    Poll,
    /// In `scif_poll`, likewise.
    LibraryPoll,
    /// In `epoll(7)`, edge-triggered, when a call moved nothing.
    Edges,
    /// One after the other, by chance.
    Mixed,
}

const WAYS: [Way; 5] = [Way::Blocking, Way::Poll, Way::LibraryPoll, Way::Edges, Way::Mixed];

/// The byte at a position of the stream.
fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    /// Mostly a few bytes, now and then more than the window.
    fn length(&mut self, left: u64) -> usize {
        let most = [8, 64, 4096, 10_000][self.below(4) as usize];
        (1 + self.below(most)).min(left) as usize
    }
}

/// Waits for edges of one descriptor.
struct Edges(OwnedFd);

impl Edges {
    fn new(number: i32, events: i16) -> Self {
        // SAFETY: a new descriptor, then one entry for a local event.
        unsafe {
            let epoll = OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
            let events = events as u32 | libc::EPOLLET as u32;
            let mut event = libc::epoll_event { events, u64: 0 };
            assert_eq!(libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, number, &raw mut event), 0);
            Self(epoll)
        }
    }

    fn wait(&self) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event, a local.
        let ready = unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, 30_000) };
        assert_eq!(ready, 1, "no edge in 30 s");
    }
}

/// Moves bytes by `call` until `total` are moved.
fn drive(
    endpoint: &Endpoint,
    way: Way,
    event: i16,
    total: u64,
    seed: u64,
    mut call: impl FnMut(u64, usize, bool) -> usize,
) {
    let mut random = Random(seed);
    let edges = Edges::new(endpoint.number(), event);
    let mut position = 0;
    while position < total {
        let length = random.length(total - position);
        let now = if way == Way::Mixed { WAYS[random.below(4) as usize] } else { way };
        let moved = match now {
            Way::Blocking => {
                let moved = call(position, length, true);
                assert_eq!(moved, length);
                moved
            }
            Way::Poll => {
                assert_eq!(wait_for(endpoint.number(), event), event);
                let moved = call(position, length, false);
                assert!(moved > 0, "the descriptor showed {event:#x} for nothing at {position}");
                moved
            }
            Way::LibraryPoll => {
                let mut entries = [PollEntry { number: endpoint.number(), events: event, revents: 0 }];
                assert_eq!(poll(&mut entries, 30_000), Ok(1), "nothing of {event:#x} in 30 s");
                let moved = call(position, length, false);
                assert!(moved > 0, "poll showed {event:#x} for nothing at {position}");
                moved
            }
            _ => {
                let moved = call(position, length, false);
                if moved == 0 {
                    edges.wait();
                }
                moved
            }
        };
        position += moved as u64;
    }
}

fn send_all(endpoint: &Endpoint, way: Way, total: u64, seed: u64) {
    let mut buffer = Vec::new();
    drive(endpoint, way, OUT, total, seed, |position, length, block| {
        buffer.clear();
        buffer.extend((position..position + length as u64).map(byte_at));
        send(endpoint, &buffer, block).unwrap()
    });
}

fn receive_all(endpoint: &Endpoint, way: Way, total: u64, seed: u64) {
    let mut buffer = vec![0; 10_000];
    drive(endpoint, way, IN, total, seed, |position, length, block| {
        let moved = receive(endpoint, &mut buffer[..length], block).unwrap();
        for (at, byte) in buffer[..moved].iter().enumerate() {
            assert_eq!(*byte, byte_at(position + at as u64), "at {position}+{at}");
        }
        moved
    });
}

/// Every sender's way with every receiver's, there and back at the same time.
#[test]
fn every_way_of_sending_meets_every_way_of_receiving() {
    meet("every_way_of_sending_meets_every_way_of_receiving");
}

#[test]
fn every_way_of_sending_meets_every_way_of_receiving_on_one_cpu() {
    const NAME: &str = "every_way_of_sending_meets_every_way_of_receiving_on_one_cpu";
    if role().is_none() {
        return start(NAME, "first").finish();
    }
    // SAFETY: the set is a local of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        let usable = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set)).unwrap();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(usable, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
    meet(NAME);
}

fn meet(name: &str) {
    let total: u64 = std::env::var("NONIC_STRESS_BYTES").map_or(300_000, |text| text.parse().unwrap());
    let seed: u64 = match std::env::var("NONIC_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => std::process::id().into(),
    };
    let second = role().as_deref() == Some("second");
    if !second {
        println!("NONIC_SEED={seed}");
    }
    let mut other = (!second).then(|| start(name, "second"));
    for (turn, there) in WAYS.into_iter().enumerate() {
        for (step, back) in WAYS.into_iter().enumerate() {
            let endpoint = match &mut other {
                None => connect_to(told().parse().unwrap()),
                Some(other) => {
                    let (listener, id) = listener(1);
                    other.order(&id.port.to_string());
                    listener.accept(true).unwrap().0
                }
            };
            // What one side sends one way the other receives another way.
            let (sending, receiving) = if second { (back, WAYS[4 - turn]) } else { (there, WAYS[4 - step]) };
            let seed = (seed << 16 | (turn << 8 | step << 1 | usize::from(second)) as u64) + 1;
            std::thread::scope(|scope| {
                scope.spawn(|| send_all(&endpoint, sending, total, seed));
                receive_all(&endpoint, receiving, total, seed ^ 0xffff);
            });
            // Everything was received: nothing may be left to see.
            assert_eq!(shown(endpoint.number()) & IN, 0, "{there:?} {back:?}");
            match &mut other {
                None => {
                    say("done");
                    told();
                }
                Some(other) => {
                    assert_eq!(other.hear(), "done");
                    assert_eq!(shown(endpoint.number()), OUT, "{there:?} {back:?}");
                    other.order("next");
                }
            }
        }
    }
    if let Some(other) = other {
        other.finish();
    }
}

//! A process without descriptors, to which others want to hand packets. (By itself: what a process may open is one number for all of it.)

use std::fs::{File, read_dir};
use std::time::Duration;

use nonic_sys::{AsFd, PacketSocket, Received, random_u64, wait_readable};
use nonic_wire::{Share, Taken, Wire};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes what has come; how often there was something to look at, of `most` times.
fn looks(wire: &Wire, most: usize) -> usize {
    let look = |_: &usize| {
        let is_called = wait_readable(wire.as_fd(), Some(Duration::ZERO));
        wire.receive(&mut |_, _| Taken::Taken, &mut |_, _| {});
        is_called
    };
    (0..most).filter(look).count()
}

/// Does something while this process has no descriptor left.
fn without_descriptors<R>(work: impl FnOnce() -> R) -> R {
    let limits = getrlimit(Resource::Nofile);
    let open = read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(open), ..limits }).unwrap();
    // What is left below that.
    let filling: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let result = work();
    drop(filling);
    setrlimit(Resource::Nofile, limits).unwrap();
    result
}

#[test]
fn who_comes_where_no_descriptor_is_left_makes_somebody_go_and_is_not_asked_for_again_and_again() {
    let wire = Wire::new().unwrap();
    let block = (0..100).map(|_| random_u64() as u32 & 0xfff).find(|block| wire.claim(Share::Block(*block)));
    let name = format!("nonic-wire.3/block/{}", block.unwrap());
    let come = |_| PacketSocket::find_abstract(&name).unwrap().unwrap();
    let is_there = |socket: &PacketSocket| !matches!(socket.receive_bytes(&mut [0; 64]), Received::HungUp);

    let silent = come(0);
    assert_eq!(looks(&wire, 1), 1);
    assert!(is_there(&silent), "there are descriptors");
    let others: Vec<_> = (0..4).map(come).collect();
    let called = without_descriptors(|| looks(&wire, 100));
    assert!(called <= 4, "the process was called {called} times for those whom it could not take");
    assert!(!is_there(&silent), "who has been silent for longest goes first");
    assert!(is_there(&others[3]) && !is_there(&others[0]), "and then the next");

    // Nobody is there who could go: those who come do.
    drop(others);
    looks(&wire, 4);
    let others: Vec<_> = (0..4).map(come).collect();
    let called = without_descriptors(|| looks(&wire, 100));
    assert!(called <= 4, "the process was called {called} times for those whom it could not take");
    assert!(!others.iter().any(is_there));

    let late = come(0);
    looks(&wire, 1);
    assert!(is_there(&late), "there are descriptors again");
}

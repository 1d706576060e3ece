//! A process without descriptors, to which others want to hand packets. (By itself: what a process may open is one number for all of it.)

use std::fs::{File, read_dir};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nonic_sys::{AsFd, PacketSocket, Received, random_u64, wait_readable};
use nonic_wire::{Share, Taken, Wire};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Takes what has come; how often there was something to look at, of `most` times.
fn looks(wire: &Wire, most: usize) -> usize {
    let look = |_: &usize| {
        let is_called = wait_readable(wire.as_fd(), Some(Duration::ZERO));
        wire.receive(&mut |_| Taken::Taken, &mut |_, _| {});
        is_called
    };
    (0..most).filter(look).count()
}

/// Does something while this process has no descriptor left, but for those of files that it may close.
fn without_descriptors<R>(work: impl FnOnce(&mut Vec<File>) -> R) -> R {
    let limits = getrlimit(Resource::Nofile);
    let some = read_dir("/proc/self/fd").unwrap().count() as u64 + 8;
    setrlimit(Resource::Nofile, Rlimit { current: Some(some), ..limits }).unwrap();
    // What is left below that.
    let mut filling: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let result = work(&mut filling);
    drop(filling);
    setrlimit(Resource::Nofile, limits).unwrap();
    result
}

/// A share that the process takes; what its socket is called.
fn claim(wire: &Wire) -> String {
    let block = (0..100).map(|_| random_u64() as u32 & 0xfff).find(|block| wire.claim(Share::Block(*block)));
    format!("nonic-wire.3/block/{}", block.unwrap())
}

fn come(name: &str) -> PacketSocket {
    PacketSocket::find_abstract(name).unwrap().unwrap()
}

fn is_there(socket: &PacketSocket) -> bool {
    !matches!(socket.receive_bytes(&mut [0; 64]), Received::HungUp)
}

#[test]
fn who_comes_where_no_descriptor_is_left_makes_somebody_go_and_is_not_asked_for_again_and_again() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let wire = Wire::new().unwrap();
    let name = claim(&wire);
    let silent = come(&name);
    assert_eq!(looks(&wire, 1), 1);
    assert!(is_there(&silent), "there are descriptors");
    let others: Vec<_> = (0..4).map(|_| come(&name)).collect();
    let called = without_descriptors(|_| looks(&wire, 100));
    assert!(called <= 4, "the process was called {called} times for those whom it could not take");
    assert!(!is_there(&silent), "who has been silent for longest goes first");
    assert!(is_there(&others[3]) && !is_there(&others[0]), "and then the next");

    // Nobody is there who could go: those who come do.
    drop(others);
    looks(&wire, 4);
    let others: Vec<_> = (0..4).map(|_| come(&name)).collect();
    let called = without_descriptors(|_| looks(&wire, 100));
    assert!(called <= 4, "the process was called {called} times for those whom it could not take");
    assert!(!others.iter().any(is_there));

    let late = come(&name);
    looks(&wire, 1);
    assert!(is_there(&late), "there are descriptors again");
}

#[test]
fn a_process_that_has_not_even_a_descriptor_to_send_somebody_away_hears_them_once_there_are_some() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // As many as that needs, and not one more.
    let wire = without_descriptors(|filling| {
        loop {
            match Wire::new() {
                Ok(wire) => break wire,
                Err(_) => assert!(filling.pop().is_some()),
            }
        }
    });
    let name = claim(&wire);
    let others: Vec<_> = (0..4).map(|_| come(&name)).collect();
    let called = without_descriptors(|_| looks(&wire, 100));
    assert!(called <= 1, "the process was called {called} times for those whom it could not take");
    assert!(others.iter().all(is_there), "they wait");
    looks(&wire, 1);
    others[0].send(b"no word of proof", &[]).unwrap();
    looks(&wire, 1);
    assert!(!is_there(&others[0]), "it is heard, and hung up on");
    assert!(others[1..].iter().all(is_there));
}

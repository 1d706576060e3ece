//! Send and receive: the window, blocking and not, what the descriptor shows.

mod common;

use common::*;
use nonic_scif::{Descriptor, Endpoint, ScifError};

#[test]
fn bytes_arrive_in_order_and_the_descriptor_shows_them() {
    let (one, other) = pair();
    assert_eq!((shown(one.number()), shown(other.number())), (OUT, OUT));
    assert_eq!(receive(&other, &mut [0; 8], false), Ok(0));
    assert_eq!(send(&one, b"hello", false), Ok(5));
    assert_eq!((shown(other.number()), seen(&other)), (IN | OUT, IN | OUT));
    let mut bytes = [0; 8];
    assert_eq!(receive(&other, &mut bytes[..3], false), Ok(3));
    assert_eq!(shown(other.number()), IN | OUT);
    assert_eq!(receive(&other, &mut bytes[3..], false), Ok(2));
    assert_eq!(&bytes[..5], b"hello");
    assert_eq!(shown(other.number()), OUT);
}

#[test]
fn the_window_is_4095_bytes_exactly_and_a_full_one_is_not_writable() {
    let (one, other) = pair();
    let bytes: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
    for round in 0..5 {
        assert_eq!(send(&one, &bytes[..WINDOW], false), Ok(WINDOW), "round {round}");
        assert_eq!(send(&one, &bytes, false), Ok(0));
        assert_eq!(shown(one.number()), 0);
        assert_eq!(receive(&other, &mut [0], true), Ok(1));
        assert_eq!((shown(one.number()), shown(other.number())), (OUT, IN | OUT));
        assert_eq!(send(&one, &bytes[WINDOW..], false), Ok(1));
        assert_eq!(shown(one.number()), 0);
        let mut taken = vec![0; WINDOW];
        assert_eq!(receive(&other, &mut taken, true), Ok(WINDOW));
        assert_eq!((&taken[..WINDOW - 1], taken[WINDOW - 1]), (&bytes[1..WINDOW], bytes[WINDOW]));
        assert_eq!((shown(one.number()), shown(other.number())), (OUT, OUT));
    }
}

#[test]
fn small_messages_without_a_receiver_leave_no_trace_once_they_are_taken() {
    let (one, other) = pair();
    for byte in 0..WINDOW {
        assert_eq!(send(&one, &[byte as u8], false), Ok(1));
    }
    assert_eq!(send(&one, &[0], false), Ok(0));
    for byte in 0..WINDOW {
        assert_eq!(shown(other.number()), IN | OUT);
        let mut taken = [0];
        assert_eq!(receive(&other, &mut taken, false), Ok(1));
        assert_eq!(taken[0], byte as u8);
    }
    assert_eq!((shown(one.number()), shown(other.number())), (OUT, OUT));
    assert_eq!(receive(&other, &mut [0], false), Ok(0));
}

#[test]
fn a_length_of_zero_is_taken_in_every_state_and_wrong_memory_in_none() {
    let fresh = Endpoint::open().unwrap();
    assert_eq!((fresh.send(8, 0, true), fresh.receive(8, 0, true)), (Ok(0), Ok(0)));
    assert_eq!(send(&fresh, b"x", true), Err(ScifError::NotConnected));
    assert_eq!(receive(&fresh, &mut [0], true), Err(ScifError::NotConnected));
    let (one, other) = pair();
    assert_eq!(one.send(8, 4, true), Err(ScifError::BadMemory { address: 8 }));
    assert_eq!(shown(other.number()), OUT);
    send(&one, b"kept", true).unwrap();
    assert_eq!(other.receive(8, 4, true), Err(ScifError::BadMemory { address: 8 }));
    let text = bytes_of_the_program as fn() as usize;
    assert_eq!(other.receive(text, 4, true), Err(ScifError::BadMemory { address: text }));
    let mut bytes = [0; 4];
    assert_eq!((receive(&other, &mut bytes, true), &bytes), (Ok(4), b"kept"));
    assert_eq!(one.send(text, 4, true), Ok(4));
}

fn bytes_of_the_program() {}

#[test]
fn a_blocking_call_longer_than_the_window_goes_in_pieces() {
    let (one, other) = pair();
    let bytes: Vec<u8> = (0..1_000_003u32).map(|at| (at % 251) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(send(&one, &bytes, true), Ok(bytes.len())));
        let mut taken = vec![0; bytes.len()];
        assert_eq!(receive(&other, &mut taken, true), Ok(taken.len()));
        assert!(taken == bytes);
    });
    assert_eq!((shown(one.number()), shown(other.number())), (OUT, OUT));
}

#[test]
fn blocking_messages_of_several_threads_are_not_mixed() {
    let (one, other) = pair();
    const LENGTH: usize = 10_000;
    std::thread::scope(|scope| {
        for thread in 1..=4u8 {
            let one = &one;
            scope.spawn(move || {
                for _ in 0..20 {
                    assert_eq!(send(one, &[thread; LENGTH], true), Ok(LENGTH));
                }
            });
        }
        for _ in 0..80 {
            let mut taken = vec![0; LENGTH];
            assert_eq!(receive(&other, &mut taken, true), Ok(LENGTH));
            assert!(taken.iter().all(|byte| *byte == taken[0] && *byte > 0));
        }
    });
}

#[test]
fn after_the_peer_has_closed_what_is_left_is_received_and_then_no_more() {
    let (one, other) = pair();
    send(&one, b"last", true).unwrap();
    drop(one);
    assert_eq!(seen(&other) & (IN | HUP), IN | HUP);
    assert_eq!(send(&other, b"x", false), Err(ScifError::Reset));
    let mut bytes = [0; 8];
    assert_eq!((receive(&other, &mut bytes, true), &bytes[..4]), (Ok(4), &b"last"[..]));
    for block in [false, true] {
        assert_eq!(receive(&other, &mut bytes, block), Err(ScifError::Reset));
        assert_eq!(send(&other, &bytes, block), Err(ScifError::Reset));
    }
    assert_eq!(seen(&other) & (IN | HUP), HUP);
    other.close().unwrap();
    assert_eq!(other.close(), Err(ScifError::NotOpen));
    std::mem::forget(other);
}

#[test]
fn what_is_no_endpoint_is_refused() {
    let (read_end, _write_end) = std::io::pipe().unwrap();
    let stream = std::os::unix::net::UnixStream::pair().unwrap().0;
    use std::os::fd::AsRawFd;
    for number in [read_end.as_raw_fd(), stream.as_raw_fd()] {
        let other = Descriptor::from_number(number);
        assert_eq!(other.send(0, 0, true), Err(ScifError::NotAnEndpoint));
        assert_eq!(other.bind(0), Err(ScifError::NotAnEndpoint));
        assert_eq!(other.close(), Err(ScifError::NotAnEndpoint));
    }
    assert_eq!(Descriptor::from_number(-1).close(), Err(ScifError::NotOpen));
    assert_eq!(Descriptor::from_number(1_000_000).verify(), Err(ScifError::NotOpen));
}

#[test]
fn a_number_that_is_reused_is_another_endpoint() {
    let (one, other) = pair();
    let (third, fourth) = pair();
    send(&one, b"a", true).unwrap();
    // SAFETY: both numbers are open; `one` is closed by it, as a program may do.
    assert_eq!(unsafe { libc::dup2(third.number(), one.number()) }, one.number());
    send(&one, b"b", true).unwrap();
    let mut byte = [0];
    assert_eq!((receive(&fourth, &mut byte, true), byte[0]), (Ok(1), b'b'));
    assert_eq!((receive(&other, &mut byte, true), byte[0]), (Ok(1), b'a'));
    assert_eq!(receive(&other, &mut byte, true), Err(ScifError::Reset));
}

//! Datagram sockets.

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::{ANY, PATIENCE, Result, Stream, errno, pattern};
use nonic_rsocket::SharedSlice;
use nonic_sys::{POLL_IN, POLL_OUT};

/// A datagram socket that is bound, and its address.
fn bound() -> (Stream, SocketAddr) {
    let number = nonic_rsocket::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
    nonic_rsocket::bind(number, ANY).unwrap();
    (Stream(number), nonic_rsocket::name(number).unwrap())
}

fn send_to(from: &Stream, bytes: &[u8], to: SocketAddr) -> Result<usize> {
    let mut bytes = bytes.to_vec();
    errno(nonic_rsocket::send_to(from.0, &[SharedSlice::of_private(&mut bytes)], 0, to))
}

fn receive_from(socket: &Stream, most: usize) -> (Vec<u8>, SocketAddr) {
    let mut bytes = vec![0; most];
    let target = SharedSlice::of_private(&mut bytes);
    let (count, from) = nonic_rsocket::receive_from(socket.0, target, 0).unwrap();
    bytes.truncate(count);
    (bytes, from.unwrap())
}

#[test]
fn datagrams_go_to_addresses_and_tell_from_whom_they_are() {
    let ((near, near_at), (far, far_at)) = (bound(), bound());
    for round in 0..20 {
        let text = pattern(round * 50);
        assert_eq!(send_to(&near, &text, far_at), Ok(text.len()));
        assert_eq!(receive_from(&far, 2048), (text.clone(), near_at));
        assert_eq!(send_to(&far, &text, near_at), Ok(text.len()));
        assert_eq!(receive_from(&near, 2048), (text, far_at));
    }
}

#[test]
fn a_socket_that_is_connected_needs_no_address() {
    let ((near, _), (far, far_at)) = (bound(), bound());
    assert_eq!(near.send(b"x"), Err(libc::EDESTADDRREQ));
    assert_eq!(errno(nonic_rsocket::peer_name(near.0)), Err(libc::ENOTCONN));
    near.connect(far_at).unwrap();
    assert_eq!(errno(nonic_rsocket::peer_name(near.0)), Ok(far_at));
    assert_eq!(near.send(b"hello").unwrap(), 5);
    assert_eq!(far.wait_for(POLL_IN), POLL_IN);
    assert_eq!(far.receive_with(5, libc::MSG_PEEK).unwrap(), b"hello");
    // What there is no room for is lost.
    assert_eq!(far.receive(2).unwrap(), b"he");
    assert_eq!(far.receive_with(5, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
}

#[test]
fn what_is_too_long_for_one_is_refused() {
    let ((near, _), (far, far_at)) = (bound(), bound());
    let longest = 2048 - 8;
    assert_eq!(send_to(&near, &pattern(longest + 1), far_at), Err(libc::EMSGSIZE));
    // By UDP, then by the device.
    for _ in 0..2 {
        assert_eq!(send_to(&near, &pattern(longest), far_at), Ok(longest));
        assert!(receive_from(&far, 4096).0 == pattern(longest));
        settle(&near, &far, far_at);
    }
}

/// Until datagrams go by the device.
fn settle(near: &Stream, far: &Stream, far_at: SocketAddr) {
    for _ in 0..10 {
        send_to(near, b"x", far_at).unwrap();
        receive_from(far, 1);
    }
}

#[test]
fn more_than_anybody_receives_is_lost_and_harms_nobody() {
    let ((near, _), (far, far_at)) = (bound(), bound());
    settle(&near, &far, far_at);
    for _ in 0..1000 {
        send_to(&near, &pattern(100), far_at).unwrap();
    }
    assert_eq!(far.wait_for(POLL_IN), POLL_IN);
    let mut count = 0;
    while let Ok(bytes) = far.receive_with(2048, libc::MSG_DONTWAIT) {
        assert!(bytes == pattern(100));
        count += 1;
    }
    assert!((1..=1000).contains(&count), "{count} datagrams");
    let until = Instant::now() + PATIENCE;
    loop {
        // Those that were under way may be lost, too.
        send_to(&near, b"again", far_at).unwrap();
        if far.poll(POLL_IN, Duration::from_millis(10)) != 0 && far.receive(5).unwrap() == b"again" {
            return;
        }
        assert!(Instant::now() < until, "nothing comes any more");
    }
}

#[test]
fn strangers_who_send_by_udp_are_ignored() {
    let ((near, _), (far, far_at)) = (bound(), bound());
    let stranger = std::net::UdpSocket::bind(ANY).unwrap();
    for text in [&b""[..], b"hello", &[0x55; 16], &[0x55; 2000]] {
        stranger.send_to(text, far_at).unwrap();
    }
    assert_eq!(near.poll(POLL_OUT, PATIENCE), POLL_OUT);
    send_to(&near, b"friend", far_at).unwrap();
    assert_eq!(receive_from(&far, 100).0, b"friend");
    assert_eq!(far.receive_with(1, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
}

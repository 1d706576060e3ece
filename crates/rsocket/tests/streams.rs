//! Two streams of one process.

mod common;

use std::time::{Duration, Instant};

use common::{Stream, errno, pattern};
use nonic_rsocket::{PollEntry, SharedSlice};
use nonic_sys::{POLL_ERROR, POLL_HANG_UP, POLL_IN, POLL_OUT};

const SOON: Duration = Duration::from_millis(20);

#[test]
fn bytes_go_both_ways_in_order() {
    let (near, far) = Stream::pair();
    assert_eq!(near.send(b"hello").unwrap(), 5);
    assert_eq!(far.receive(100).unwrap(), b"hello");
    assert_eq!(far.send(b"well").unwrap(), 4);
    assert_eq!(near.receive_with(100, libc::MSG_PEEK).unwrap(), b"well");
    assert_eq!(near.receive(2).unwrap(), b"we");
    assert_eq!(near.receive(100).unwrap(), b"ll");
}

/// As in the original library, who names GIDs says the addresses in front, so that either understands the other.
#[test]
fn streams_by_gids_and_streams_by_addresses_reach_each_other() {
    let of = |family| Stream(nonic_rsocket::socket(family, libc::SOCK_STREAM, 0).unwrap());
    let families = [libc::AF_INET, nonic_rsocket::AF_IB];
    for (passive, active) in families.into_iter().flat_map(|one| families.map(|other| (one, other))) {
        let (listener, near) = (of(passive), of(active));
        nonic_rsocket::bind(listener.0, common::ANY).unwrap();
        nonic_rsocket::listen(listener.0, 10).unwrap();
        near.connect(nonic_rsocket::name(listener.0).unwrap()).unwrap();
        let far = listener.accept().unwrap();
        assert_eq!(near.send(b"hello").unwrap(), 5);
        assert_eq!(far.receive(100).unwrap(), b"hello", "{passive} {active}");
    }
}

#[test]
fn much_more_than_the_buffers_hold_arrives_unchanged() {
    let (near, far) = Stream::pair();
    let sent = pattern(5 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(near.send(&sent).unwrap(), sent.len());
            near.shut_down(libc::SHUT_WR).unwrap();
        });
        let mut got = Vec::new();
        loop {
            let part = far.receive(70_000).unwrap();
            if part.is_empty() {
                break;
            }
            got.extend(part);
        }
        assert_eq!(got.len(), sent.len());
        assert!(got == sent);
    });
}

#[test]
fn both_sides_send_at_once_with_small_queues_and_buffers() {
    let small = |stream: &Stream| {
        stream.set(libc::SOL_SOCKET, libc::SO_RCVBUF, 3000).unwrap();
        stream.set(libc::SOL_SOCKET, libc::SO_SNDBUF, 2000).unwrap();
        stream.set(nonic_rsocket::SOL_RDMA, nonic_rsocket::RDMA_SEND_QUEUE, 1).unwrap();
        stream.set(nonic_rsocket::SOL_RDMA, nonic_rsocket::RDMA_RECEIVE_QUEUE, 1).unwrap();
    };
    let (near, far) = Stream::pair_with(small, small);
    let sent = pattern(300_000);
    std::thread::scope(|scope| {
        for (from, to) in [(&near, &far), (&far, &near)] {
            let sent = &sent;
            scope.spawn(move || {
                for part in sent.chunks(777) {
                    assert_eq!(from.send(part).unwrap(), part.len());
                }
            });
            scope.spawn(move || assert!(to.receive_all(sent.len()).unwrap() == *sent));
        }
    });
}

#[test]
fn a_full_stream_takes_a_part_and_then_nothing_until_it_is_read() {
    let (near, far) = Stream::pair();
    near.set_nonblocking();
    let sent = pattern(1 << 20);
    let mut took = near.send(&sent).unwrap();
    while let Ok(more) = near.send(&sent[took..]) {
        took += more;
    }
    assert_eq!(near.send(&sent[took..]), Err(libc::EAGAIN));
    assert_eq!(near.poll(POLL_OUT, SOON), 0);
    assert!(far.receive_all(took).unwrap() == sent[..took]);
    assert_eq!(near.wait_for(POLL_OUT), POLL_OUT);
    assert_eq!(near.send(b"more").unwrap(), 4);
    assert_eq!(far.receive(10).unwrap(), b"more");
}

#[test]
fn a_receive_that_must_not_wait_does_not() {
    let (near, far) = Stream::pair();
    assert_eq!(near.receive_with(1, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    assert_eq!(near.poll(POLL_IN, SOON), 0);
    far.send(b"x").unwrap();
    assert_eq!(near.wait_for(POLL_IN), POLL_IN);
    assert_eq!(near.receive_with(1, libc::MSG_DONTWAIT).unwrap(), b"x");
}

#[test]
fn a_half_that_is_shut_down_ends_and_the_other_goes_on() {
    let (near, far) = Stream::pair();
    near.send(b"last").unwrap();
    near.shut_down(libc::SHUT_WR).unwrap();
    assert_eq!(near.send(b"x"), Err(libc::ECONNRESET));
    assert_eq!(far.receive(10).unwrap(), b"last");
    assert_eq!(far.receive(10).unwrap(), b"");
    assert_eq!(far.wait_for(POLL_IN | POLL_OUT), POLL_IN | POLL_OUT);
    far.send(b"answer").unwrap();
    assert_eq!(near.receive(10).unwrap(), b"answer");
    far.shut_down(libc::SHUT_WR).unwrap();
    assert_eq!(near.receive(10).unwrap(), b"");
    assert_eq!(near.wait_for(POLL_IN), POLL_IN | POLL_HANG_UP);
}

#[test]
fn what_was_sent_before_a_close_is_read_after_it() {
    let (near, far) = Stream::pair();
    let sent = pattern(100_000);
    near.send(&sent).unwrap();
    drop(near);
    assert_eq!(far.wait_for(POLL_IN) & POLL_IN, POLL_IN);
    assert!(far.receive_all(sent.len()).unwrap() == sent);
    assert_eq!(far.receive(10).unwrap(), b"");
    assert_eq!(far.send(b"x"), Err(libc::ECONNRESET));
    assert_eq!(far.wait_for(POLL_IN), POLL_IN | POLL_HANG_UP);
}

#[test]
fn a_thread_that_waits_is_woken_by_a_close_of_the_other_side() {
    let (near, far) = Stream::pair();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| near.receive(1));
        let polling = scope.spawn(|| near.wait_for(POLL_IN));
        drop(far);
        assert_eq!(waiting.join().unwrap().unwrap(), b"");
        assert_eq!(polling.join().unwrap() & POLL_IN, POLL_IN);
    });
}

#[test]
fn nobody_listens_is_refused_and_the_stream_is_of_no_more_use() {
    let (listener, address) = Stream::listener();
    drop(listener);
    let near = Stream::new();
    assert_eq!(near.connect(address), Err(libc::ECONNREFUSED));
    assert_eq!(near.send(b"x"), Err(libc::ENOTCONN));
    assert_eq!(near.receive(1), Err(libc::ENOTCONN));
    let near = Stream::new();
    near.set_nonblocking();
    let begun = near.connect(address);
    if begun == Err(libc::EINPROGRESS) {
        assert_eq!(near.wait_for(POLL_OUT), POLL_OUT | POLL_ERROR);
        assert_eq!(near.get(libc::SOL_SOCKET, libc::SO_ERROR), Ok(libc::ECONNREFUSED));
        assert_eq!(near.get(libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
    } else {
        assert_eq!(begun, Err(libc::ECONNREFUSED));
    }
}

#[test]
fn a_connection_is_made_without_waiting() {
    let (listener, address) = Stream::listener();
    listener.set_nonblocking();
    assert_eq!(listener.accept().map(drop), Err(libc::EAGAIN));
    let near = Stream::new();
    near.set_nonblocking();
    let begun = near.connect(address);
    assert!(begun.is_ok() || begun == Err(libc::EINPROGRESS), "{begun:?}");
    assert_eq!(near.wait_for(POLL_OUT), POLL_OUT);
    assert_eq!(near.get(libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
    assert_eq!(near.connect(address), Err(libc::EISCONN));
    assert_eq!(listener.wait_for(POLL_IN), POLL_IN);
    let far = listener.accept().unwrap();
    near.send(b"hello").unwrap();
    // It does not inherit that calls do not wait.
    assert_eq!(far.receive(5).unwrap(), b"hello");
    assert_eq!(nonic_rsocket::peer_name(near.0).unwrap(), address);
    assert_eq!(nonic_rsocket::name(far.0).unwrap(), address);
    assert_eq!(nonic_rsocket::peer_name(far.0).unwrap(), nonic_rsocket::name(near.0).unwrap());
}

#[test]
fn a_poll_tells_of_sockets_and_plain_descriptors_together() {
    let (near, far) = Stream::pair();
    let (read_end, write_end) = nonic_sys::pipe().unwrap();
    use nonic_sys::AsRawFd;
    let entry = |number| PollEntry { number, events: POLL_IN, revents: 0 };
    let mut entries = [entry(near.0), entry(read_end.as_raw_fd()), entry(-1)];
    assert_eq!(errno(nonic_rsocket::poll(&mut entries, Some(SOON))), Ok(0));
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| {
            let count = nonic_rsocket::poll(&mut entries, None).unwrap();
            (count, entries.map(|entry| entry.revents))
        });
        nonic_sys::write_byte(&write_end).unwrap();
        assert_eq!(polling.join().unwrap(), (1, [0, POLL_IN, 0]));
    });
    far.send(b"x").unwrap();
    near.wait_for(POLL_IN);
    assert_eq!(errno(nonic_rsocket::poll(&mut entries, None)), Ok(2));
    let mut sets = [Some([0; 16]), None, None];
    for number in [near.0, read_end.as_raw_fd()] {
        sets[0].as_mut().unwrap()[number as usize / 64] |= 1 << (number % 64);
    }
    let asked = sets;
    assert_eq!(errno(nonic_rsocket::select(1024, &mut sets, None)), Ok(2));
    assert_eq!(sets, asked);
    near.receive(1).unwrap();
    nonic_sys::read_byte(&read_end).unwrap();
    assert_eq!(errno(nonic_rsocket::select(1024, &mut sets, Some(SOON))), Ok(0));
    assert_eq!(sets[0], Some([0; 16]));
}

#[test]
fn a_poll_without_anything_ready_lasts_as_long_as_it_was_given() {
    let (near, _far) = Stream::pair();
    let since = Instant::now();
    assert_eq!(near.poll(POLL_IN, Duration::from_millis(50)), 0);
    assert!(since.elapsed() >= Duration::from_millis(50));
}

#[test]
fn several_places_are_sent_as_one() {
    let (near, far) = Stream::pair();
    let (mut one, mut two) = (pattern(1000), pattern(3000));
    let expected = [one.clone(), two.clone()].concat();
    let slices = [SharedSlice::of_private(&mut one), SharedSlice::EMPTY, SharedSlice::of_private(&mut two)];
    assert_eq!(errno(nonic_rsocket::send(near.0, &slices, 0)), Ok(4000));
    assert!(far.receive_all(4000).unwrap() == expected);
}

#[test]
fn options_are_what_the_interface_says() {
    let (level, size) = (libc::SOL_SOCKET, libc::SO_RCVBUF);
    let socket = Stream::new();
    assert_eq!(socket.get(level, size), Ok(131_072));
    socket.set(level, size, 1 << 19).unwrap();
    assert_eq!(socket.get(level, size), Ok(1 << 20));
    socket.set(level, libc::SO_SNDBUF, 1000).unwrap();
    assert_eq!(socket.get(level, libc::SO_SNDBUF), Ok(4096));
    assert_eq!(socket.get(libc::IPPROTO_TCP, libc::TCP_MAXSEG), Ok(2048));
    assert_eq!(socket.get(libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(0));
    socket.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).unwrap();
    assert_eq!(socket.get(libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(1));
    assert_eq!(socket.get(libc::IPPROTO_TCP, libc::TCP_KEEPCNT), Ok(1));
    assert_eq!(socket.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 0), Err(libc::EINVAL));
    assert_eq!(socket.set(level, libc::SO_BROADCAST, 1), Err(libc::ENOTSUP));
    let (near, far) = Stream::pair_with(|listener| listener.set(level, size, 5000).unwrap(), |_| ());
    assert_eq!(far.get(level, size), Ok(10_000));
    near.set(level, size, 5000).unwrap();
    assert_eq!(near.get(level, size), Ok(131_072));
    let inline = (nonic_rsocket::SOL_RDMA, nonic_rsocket::RDMA_INLINE);
    assert_eq!(near.set(inline.0, inline.1, 1), Err(libc::EINVAL));
}

#[test]
fn a_number_that_is_none_of_ours_is_refused() {
    assert_eq!(errno(nonic_rsocket::close(0)), Err(libc::EBADF));
    assert_eq!(errno(nonic_rsocket::listen(999_999, 1)), Err(libc::EBADF));
    assert_eq!(errno(nonic_rsocket::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)), Err(libc::ENOTSUP));
    assert_eq!(errno(nonic_rsocket::socket(libc::AF_INET, libc::SOCK_RAW, 0)), Err(libc::ENOTSUP));
}

#[test]
fn a_silent_peer_is_asked_and_one_that_is_there_keeps_its_connection() {
    let (near, far) = Stream::pair();
    near.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 1).unwrap();
    near.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1).unwrap();
    assert_eq!(near.poll(POLL_IN, Duration::from_millis(2500)), 0);
    far.send(b"here").unwrap();
    assert_eq!(near.receive(4).unwrap(), b"here");
}

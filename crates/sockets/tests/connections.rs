//! Sockets by their numbers, as the library in front of the C library calls them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, IntoRawFd};

use nonic_sockets::{
    Kind, PollEntry, PollEvent, SharedSlice, Way, accept, adopt, around_fork, close, connect, control,
    duplicate, forget, kind_of, listen, name, peer_name, poll, receive, send, set_nonblocking, shut_down,
    wait, waiting,
};
use nonic_sys::{POLL_IN, RawFd, close_number, open_tcp};

/// A listener of both kinds, and its address.
fn listener() -> (RawFd, SocketAddr) {
    let kernels = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = kernels.local_addr().unwrap();
    let number = kernels.into_raw_fd();
    assert!(adopt(number, false, false));
    listen(number, 8, address, false);
    (number, address)
}

fn fresh() -> RawFd {
    let number = open_tcp(false, false, false).unwrap();
    assert!(adopt(number, false, false));
    number
}

fn give_back(number: RawFd) {
    close(number);
    assert_eq!(kind_of(number), Kind::Kernel);
    close_number(number).unwrap();
}

fn done<T>(way: Way<T>) -> T {
    match way {
        Way::Done(value) => value,
        Way::Kernel => panic!("the kernel was to do it"),
    }
}

#[test]
fn two_sockets_are_connected_by_a_stream_and_copies_are_the_same_socket() {
    let (listener, address) = listener();
    let near = fresh();
    assert_eq!(connect(near, address, None), Ok(Way::Done(())));
    let (far, peer) = done(accept(listener, false, false).unwrap());
    assert_eq!(kind_of(far), Kind::Socket);
    assert_eq!(peer, Some(done(name(near).unwrap())));
    assert_eq!(done(peer_name(near).unwrap()), address);
    let copy = nonic_sys::pipe().unwrap().0.into_raw_fd();
    duplicate(near, copy);
    close(near);
    let mut text = *b"by a copy";
    assert_eq!(send(copy, &[SharedSlice::of_private(&mut text)], 0), Ok(Way::Done(9)));
    let mut entry = [PollEntry { number: far, events: POLL_IN, revents: 0 }];
    assert_eq!(poll(&mut entry, None), Ok(1));
    assert_eq!(waiting(far), Ok(Way::Done(9)));
    let (mut first, mut second) = ([0; 4], [0; 8]);
    let places = [SharedSlice::of_private(&mut first), SharedSlice::of_private(&mut second)];
    assert_eq!(receive(far, &places, 0), Ok(Way::Done(9)));
    assert_eq!((&first, &second[..5]), (b"by a", &b" copy"[..]));
    assert_eq!(shut_down(copy, libc::SHUT_WR), Ok(Way::Done(())));
    assert_eq!(receive(far, &[SharedSlice::of_private(&mut first)], 0), Ok(Way::Done(0)));
    give_back(copy);
    close_number(near).unwrap();
    give_back(far);
    give_back(listener);
}

#[test]
fn where_nobody_listens_by_a_stream_the_kernel_connects_and_the_number_is_its_own() {
    let kernels = TcpListener::bind("127.0.0.1:0").unwrap();
    let number = fresh();
    assert_eq!(connect(number, kernels.local_addr().unwrap(), None), Ok(Way::Kernel));
    assert_eq!(kind_of(number), Kind::Socket, "it may try once more");
    assert_eq!(send(number, &[SharedSlice::EMPTY], 0), Ok(Way::Kernel));
    forget(number);
    assert_eq!(kind_of(number), Kind::Kernel);
    close_number(number).unwrap();
}

#[test]
fn an_event_poll_tells_of_listeners_and_connections_and_forgets_who_is_closed() {
    let (listener, address) = listener();
    let epoll = nonic_sys::Epoll::new().unwrap();
    let number = nonic_sys::AsRawFd::as_raw_fd(&nonic_sys::AsFd::as_fd(&epoll));
    let input = |data| PollEvent { events: libc::EPOLLIN as u32, data };
    assert_eq!(control(number, libc::EPOLL_CTL_ADD, listener, input(1)), Ok(Way::Done(())));
    assert_eq!(kind_of(number), Kind::EventSet);
    let now = Some(std::time::Duration::ZERO);
    assert_eq!(wait(number, 4, now), Ok(Way::Done(vec![])));
    let near = fresh();
    assert_eq!(connect(near, address, None), Ok(Way::Done(())));
    assert_eq!(wait(number, 4, None), Ok(Way::Done(vec![input(1)])));
    let (far, _) = done(accept(listener, false, false).unwrap());
    assert_eq!(control(number, libc::EPOLL_CTL_ADD, far, input(2)), Ok(Way::Done(())));
    assert_eq!(wait(number, 4, now), Ok(Way::Done(vec![])));
    let mut text = *b"x";
    assert_eq!(send(near, &[SharedSlice::of_private(&mut text)], 0), Ok(Way::Done(1)));
    assert_eq!(wait(number, 4, None), Ok(Way::Done(vec![input(2)])));
    set_nonblocking(far, true);
    give_back(far);
    assert_eq!(wait(number, 4, now), Ok(Way::Done(vec![])));
    let refused = control(number, libc::EPOLL_CTL_MOD, near, input(3));
    assert_eq!(refused.unwrap_err().errno(), libc::ENOENT);
    close(number);
    give_back(near);
    give_back(listener);
}

#[test]
fn what_a_child_may_have_goes_on_by_the_kernel_when_its_parent_closes_it() {
    let (listener, address) = listener();
    let near = fresh();
    assert_eq!(connect(near, address, None), Ok(Way::Done(())));
    let (far, _) = done(accept(listener, false, false).unwrap());
    let mut text = *b"by the stream";
    for number in [near, far] {
        assert_eq!(send(number, &[SharedSlice::of_private(&mut text)], 0), Ok(Way::Done(13)));
    }
    // What a child would have: the same socket of the kernel's. Nothing changes for this process until it closes its own.
    assert_eq!(around_fork(|| 1), 1);
    // SAFETY: the number is open, and the copy is this test's own.
    let mut childs = unsafe { TcpStream::from_raw_fd(libc::dup(near)) };
    let mut entry = [PollEntry { number: near, events: POLL_IN, revents: 0 }];
    assert_eq!(poll(&mut entry, None), Ok(1));
    assert_eq!(waiting(near), Ok(Way::Done(13)));
    give_back(near);
    let mut got = [0; 13];
    childs.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"by the stream");
    childs.write_all(b" and on").unwrap();
    drop(childs);
    let mut all: Vec<u8> = Vec::new();
    while let Way::Done(count @ 1..) = receive(far, &[SharedSlice::of_private(&mut got)], 0).unwrap() {
        all.extend_from_slice(&got[..count]);
    }
    assert_eq!(all.as_slice(), b"by the stream and on");
    give_back(far);
    give_back(listener);
}

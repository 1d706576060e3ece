//! Streams between two processes, of which one may stop or die.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::{Stream, pattern};
use nonic_rsocket::{ProgramAddress, SharedSlice};
use nonic_second_process::{SecondProcess, role, serve};
use nonic_sys::{POLL_IN, SharedMapping};

/// What the second process does: it listens, and has one connection at a time.
#[test]
fn servant() {
    if role().is_none() {
        return;
    }
    let (listener, address) = Stream::listener();
    let mut stream = None;
    let mut mapped: Option<SharedMapping> = None;
    serve(|command, rest| {
        let number = || rest.parse::<usize>().unwrap();
        let now = |stream: &Option<Stream>| stream.as_ref().unwrap().0;
        match command {
            "address" => address.to_string(),
            "accept" => {
                stream = Some(listener.accept().unwrap());
                "ok".into()
            }
            "connect" => {
                let new = Stream::new();
                let result = new.connect(rest.parse().unwrap());
                stream = Some(new);
                format!("{result:?}")
            }
            "receive" => {
                let got = stream.as_ref().unwrap().receive_all(number()).unwrap();
                if got == pattern(number()) { "equal".into() } else { format!("{} other bytes", got.len()) }
            }
            "send" => format!("{:?}", stream.as_ref().unwrap().send(&pattern(number()))),
            "end" => format!("{:?}", stream.as_ref().unwrap().receive(1)),
            "close" => {
                stream = None;
                "ok".into()
            }
            // Maps so many bytes for the peer, as offset 100.
            "map" => {
                let mapping = SharedMapping::anonymous(number()).unwrap();
                let offset = common::map(now(&stream), &mapping, 100).unwrap();
                mapped = Some(mapping);
                offset.to_string()
            }
            "mapped" => {
                let mapping = mapped.as_ref().unwrap();
                let mut bytes = vec![0; number()];
                SharedSlice::of_mapping(mapping, 0, number()).unwrap().read(&mut bytes);
                if bytes == pattern(number()) { "equal".into() } else { "other bytes".into() }
            }
            other => panic!("no such command: {other}"),
        }
    })
}

fn start() -> SecondProcess {
    SecondProcess::start("servant", "servant", &[])
}

fn address(other: &mut SecondProcess) -> SocketAddr {
    other.tell("address").parse().unwrap()
}

fn connected() -> (Stream, SecondProcess) {
    connected_with(|_| ())
}

fn connected_with(set: impl FnOnce(&Stream)) -> (Stream, SecondProcess) {
    let mut other = start();
    let near = Stream::new();
    set(&near);
    near.connect(address(&mut other)).unwrap();
    assert_eq!(other.tell("accept"), "ok");
    (near, other)
}

#[test]
fn bytes_go_between_processes_both_ways() {
    let (near, mut other) = connected();
    for length in [1, 64, 65, 4096, 70_000, 3 << 20] {
        other.order(&format!("receive {length}"));
        assert_eq!(near.send(&pattern(length)).unwrap(), length);
        assert_eq!(other.hear(), "equal");
        other.order(&format!("send {length}"));
        assert!(near.receive_all(length).unwrap() == pattern(length));
        assert_eq!(other.hear(), format!("Ok({length})"));
    }
    other.tell("close");
    assert_eq!(near.receive(1).unwrap(), b"");
    other.finish();
}

#[test]
fn a_connection_can_be_made_from_either_side() {
    let (listener, address) = Stream::listener();
    let mut other = start();
    assert_eq!(other.tell(&format!("connect {address}")), "Ok(())");
    let near = listener.accept().unwrap();
    other.tell("send 100");
    assert!(near.receive_all(100).unwrap() == pattern(100));
    drop(near);
    assert_eq!(other.tell("end"), "Ok([])");
    other.finish();
}

#[test]
fn a_process_that_exits_ends_its_streams() {
    let (near, mut other) = connected();
    other.tell("send 10");
    other.finish();
    assert!(near.receive_all(10).unwrap() == pattern(10));
    assert_eq!(near.receive(1).unwrap_or_default(), b"");
    assert_eq!(near.send(b"x"), Err(libc::ECONNRESET));
}

#[test]
fn a_killed_process_hangs_nobody() {
    let (near, mut other) = connected();
    other.tell("send 10");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| near.receive_all(20));
        other.kill();
        let got = waiting.join().unwrap().unwrap();
        assert!(got == pattern(10));
    });
    // An error, or an end, but never a wait.
    let _ = near.receive(1);
    assert_eq!(near.receive(1).unwrap(), b"");
    assert_eq!(near.send(b"x"), Err(libc::ECONNRESET));
    // While it is sent to, with everything full.
    let (near, mut other) = connected();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| near.send(&pattern(2 << 20)));
        while near.poll(nonic_sys::POLL_OUT, Duration::ZERO) != 0 {
            std::thread::yield_now();
        }
        other.kill();
        assert_ne!(sending.join().unwrap(), Ok(2 << 20));
    });
    assert_ne!(near.wait_for(POLL_IN), 0);
}

#[test]
fn a_process_killed_while_it_connects_hangs_nobody() {
    let mut other = start();
    let at = address(&mut other);
    other.stop();
    let near = Stream::new();
    near.set_nonblocking();
    let begun = near.connect(at);
    assert!(begun == Err(libc::EINPROGRESS), "{begun:?}");
    other.kill();
    assert_ne!(near.wait_for(nonic_sys::POLL_OUT) & nonic_sys::POLL_ERROR, 0);
    assert_ne!(near.get(libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
}

#[test]
fn memory_is_written_directly_and_in_order() {
    let (level, name) = (nonic_rsocket::SOL_RDMA, nonic_rsocket::RDMA_MAPPINGS);
    let (near, mut other) = connected_with(|near| near.set(level, name, 2).unwrap());
    let mut bytes = pattern(100_000);
    let mut write = |offset: i64| {
        let source = SharedSlice::of_private(&mut bytes);
        nonic_rsocket::write_mapped(near.0, source, offset, 0).map_err(nonic_rsocket::Error::errno)
    };
    // Nothing is mapped yet.
    assert_eq!(write(100), Ok(0));
    assert_eq!(other.tell("map 100000"), "100");
    // It is told with the next data.
    other.tell("send 3");
    near.receive_all(3).unwrap();
    assert_eq!(write(100), Ok(100_000));
    assert_eq!(write(200), Ok(99_900));
    assert_eq!(write(100), Ok(100_000));
    near.send(&pattern(1)).unwrap();
    other.tell("receive 1");
    assert_eq!(other.tell("mapped 100000"), "equal");
    // This side's table has two places, the other's none.
    let mapping = SharedMapping::anonymous(4096).unwrap();
    assert_eq!(common::map(near.0, &mapping, 0), Err(libc::ENOMEM));
    other.finish();
}

#[test]
fn a_mapping_ends_only_as_it_was_made() {
    let (level, name) = (nonic_rsocket::SOL_RDMA, nonic_rsocket::RDMA_MAPPINGS);
    let set = |stream: &Stream| stream.set(level, name, 1).unwrap();
    let (near, far) = Stream::pair_with(set, set);
    let mapping = SharedMapping::anonymous(4096).unwrap();
    let start = mapping.as_ptr() as usize;
    let unmap = |address, length| common::errno(nonic_rsocket::unmap_memory(near.0, address, length));
    assert_eq!(common::map(near.0, &mapping, -1), Ok(start as i64));
    assert_eq!(common::map(near.0, &mapping, 7), Err(libc::ENOMEM));
    assert_eq!(unmap(start, 4095), Err(libc::EINVAL));
    assert_eq!(unmap(start, 4096), Ok(()));
    assert_eq!(unmap(start, 4096), Err(libc::EINVAL));
    assert_eq!(common::map(near.0, &mapping, 7), Ok(7));
    near.send(b"x").unwrap();
    far.receive(1).unwrap();
    let mut bytes = *b"hello";
    let source = SharedSlice::of_private(&mut bytes);
    assert_eq!(common::errno(nonic_rsocket::write_mapped(far.0, source, 4096, 0)), Ok(5));
    // The place of the one that was ended is used again: nothing is known as its offset any more.
    let source = SharedSlice::of_private(&mut bytes);
    assert_eq!(common::errno(nonic_rsocket::write_mapped(far.0, source, start as i64, 0)), Ok(0));
    let refused = |protection| {
        // SAFETY: refused before anything is registered.
        let address = unsafe { ProgramAddress::new(start) };
        common::errno(nonic_rsocket::map_memory(near.0, address, 4096, protection, 0))
    };
    assert_eq!(refused(libc::PROT_READ), Err(libc::EINVAL));
}

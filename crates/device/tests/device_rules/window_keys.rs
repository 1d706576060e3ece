//! The keys of memory windows.

use std::collections::HashSet;

use crate::common::{End, connected};
use nonic_device::{
    Access, Key, MemoryWindow, Operation, RemoteRange, SendFlags, SendRequest, Status, WindowKind,
};

fn bind(end: &End, window: &MemoryWindow, region: Key, key: Key, length: u64) {
    let operation = Operation::Bind {
        window: window.id(),
        key,
        region: Some(region),
        address: end.buffer.as_ptr() as u64,
        length,
        access: Access::REMOTE_READ,
        zero_based: false,
    };
    let request =
        SendRequest { id: 0, operation, flags: SendFlags::default(), pieces: &[], destination: None };
    // SAFETY: there are no pieces.
    unsafe { end.pair.post_send(&request).unwrap() };
    end.pair.ring_doorbell();
}

fn read(end: &End, peer: &End, key: Key) -> Status {
    let remote = RemoteRange { address: peer.buffer.as_ptr() as u64, key };
    end.post(1, Operation::Read { remote }, &[end.piece(0, 8)]);
    end.completion().status
}

#[test]
fn a_window_is_bound_for_long_before_a_key_comes_back() {
    const BINDS: usize = 100_000;
    let (client, server) = connected();
    let region = server.region.share(&server.zone, Access::LOCAL_WRITE | Access::WINDOW_BIND).unwrap();
    let window = server.zone.allocate_window(WindowKind::Type1).unwrap();
    let mut seen = HashSet::from([region.local_key(), region.remote_key(), window.key()]);
    let (mut first, mut last) = (None, None);
    for number in 0..BINDS {
        let key = window.next_key();
        assert!(seen.insert(key), "{key} came back as number {number}");
        bind(&server, &window, region.local_key(), key, 64);
        assert_eq!(server.completion().status, Status::Success);
        assert_eq!((window.key(), window.binds()), (key, number as u64 + 1));
        if number % 1000 == 0 {
            assert_eq!(read(&client, &server, key), Status::Success);
        }
        first = first.or(Some(key));
        last = Some(key);
    }
    // A key whose place was left is as dead as one whose place was not.
    assert_eq!(read(&client, &server, last.unwrap()), Status::Success);
    assert_eq!(read(&client, &server, first.unwrap()), Status::RemoteAccess);
    window.release().unwrap();
}

#[test]
fn keys_that_are_not_used_are_no_loss() {
    let (_client, server) = connected();
    let region = server.region.share(&server.zone, Access::LOCAL_WRITE | Access::WINDOW_BIND).unwrap();
    let window = server.zone.allocate_window(WindowKind::Type1).unwrap();
    // A bind that is not posted: the same key is offered again.
    let first = window.next_key();
    for _ in 0..1000 {
        window.take_back(first);
        assert_eq!(window.next_key(), first);
    }
    // Many offered before the first is used, over several places; all of them hold.
    let keys: Vec<_> =
        std::iter::once(first).chain(std::iter::repeat_with(|| window.next_key())).take(2000).collect();
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    for key in keys {
        bind(&server, &window, region.local_key(), key, 64);
        assert_eq!(server.completion().status, Status::Success);
    }
    assert_eq!(window.binds(), 2000);
    // Those that are flushed are given up.
    server.to_error();
    let before = window.key();
    for _ in 0..2000 {
        bind(&server, &window, region.local_key(), window.next_key(), 64);
        assert_eq!(server.completion().status, Status::Flushed);
    }
    assert_eq!((window.key(), window.binds()), (before, 2000));
    window.release().unwrap();
}

#[test]
fn unbinding_counts_as_a_bind_and_a_refused_one_does_not() {
    let (_client, server) = connected();
    let region = server.region.share(&server.zone, Access::LOCAL_WRITE | Access::WINDOW_BIND).unwrap();
    let window = server.zone.allocate_window(WindowKind::Type1).unwrap();
    for length in [64, 0] {
        bind(&server, &window, region.local_key(), window.next_key(), length);
        assert_eq!(server.completion().status, Status::Success);
    }
    assert_eq!(window.binds(), 2);
    bind(&server, &window, region.local_key(), window.next_key(), 4097);
    assert_eq!(server.completion().status, Status::WindowBind);
    assert_eq!(window.binds(), 2);
}

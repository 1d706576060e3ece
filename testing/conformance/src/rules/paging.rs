//! Memory that is looked for when it is used: section 5.1.

use nonic_device::{AsyncEventKind, Key, QpState, Status};

use crate::command::{Command, MemoryKind, Source};
use crate::memory::{EVERYTHING, Memory, pattern};
use crate::options::RELIABLE;
use crate::pair::Pair;
use crate::request::{fetch_add, read, send, write};
use crate::side::Side;

/// Bytes of what is paged: whole pages.
const LENGTH: u64 = 10 * 4096;

/// A buffer, registered on demand; nothing is there yet if it is not `touchable`. `Err`: why this process has no paging.
fn on_demand(side: &mut Side, zone: u32, touchable: bool) -> Result<Memory, String> {
    let (buffer, address) = side.buffer(MemoryKind::Private, LENGTH);
    side.must(Command::Replace { buffer, touchable });
    let source = Source::OnDemand { address, length: LENGTH };
    let (region, local_key, remote_key) = side.register(zone, source, None, EVERYTHING)?;
    let (offset, length, registered, guard, base) = (0, LENGTH, LENGTH, 0, address);
    Ok(Memory { buffer, offset, length, registered, guard, region, base, local_key, remote_key })
}

/// The same on the server, where it is there at all.
fn of_server(pair: &mut Pair, zone: u32, touchable: bool) -> Memory {
    let made = on_demand(&mut pair.server, zone, touchable);
    pair.only(!made.as_ref().is_err_and(|why| why.starts_with("NoPaging")), "the kernel lets nobody copy");
    made.expect("the registration is taken")
}

pub(crate) fn memory_on_demand_is_written_read_and_received_into(pair: &mut Pair) {
    let (client, server) = pair.connect(&RELIABLE);
    let far = of_server(pair, server.zone, true);
    let near = on_demand(&mut pair.client, client.zone, true).expect("the registration is taken");
    for (turn, length) in [1, 8, 4096, 9000, 30_000].into_iter().enumerate() {
        let bytes = pattern(turn as u64, length);
        pair.client.write(&near, 3, &bytes);
        let local = near.piece(3, length);
        assert_eq!(pair.client.carry_out(&client, write(&[local], far.remote(5))), Status::Success);
        assert!(pair.server.read(&far, 5, length) == bytes, "{length} bytes were not written");
        pair.client.write(&near, 3, &vec![0; length as usize]);
        assert_eq!(pair.client.carry_out(&client, read(&[local], far.remote(5))), Status::Success);
        assert!(pair.client.read(&near, 3, length) == bytes, "{length} bytes were not read");
        pair.server.receive(&server, 1, &[far.piece(7, length)]);
        assert_eq!(pair.client.carry_out(&client, send(&[local])), Status::Success);
        let received = pair.server.received(&server);
        assert_eq!((received.status, u64::from(received.byte_length)), (Status::Success, length));
        assert!(pair.server.read(&far, 7, length) == bytes, "{length} bytes were not received");
    }
}

pub(crate) fn memory_on_demand_may_come_after_its_registration_and_go_before_its_end(pair: &mut Pair) {
    let zone = pair.server.zone();
    let far = of_server(pair, zone, false);
    let bytes = pattern(2, 5000);
    for (turn, is_there) in [false, true, false].into_iter().enumerate() {
        pair.server.must(Command::Replace { buffer: far.buffer, touchable: is_there });
        for writes in [true, false] {
            let client = pair.client.end(&RELIABLE);
            let server = pair.server.end_in(zone, &RELIABLE, None);
            pair.join(&client, &RELIABLE, &server, &RELIABLE);
            let near = pair.client.memory(client.zone, 5000, EVERYTHING);
            pair.client.write(&near, 0, &bytes);
            let request =
                if writes { write(&[near.all()], far.remote(9)) } else { read(&[near.all()], far.remote(9)) };
            let ended = pair.client.carry_out(&client, request);
            assert_eq!(ended == Status::Success, is_there, "turn {turn}: {ended:?}");
            pair.client.assert_holds(&near, &bytes);
            if is_there {
                assert!(pair.server.read(&far, 9, 5000) == bytes, "what was written is not there");
            } else {
                assert_eq!(ended, Status::RemoteAccess);
                pair.server.async_event(AsyncEventKind::QpAccessError, server.pair);
                assert_eq!(pair.server.state(&server), QpState::Error);
            }
        }
    }
    // What is not there on the requester's own side is its own failure.
    let (client, server) = pair.connect(&RELIABLE);
    let near = on_demand(&mut pair.client, client.zone, false).expect("the registration is taken");
    let there = pair.server.memory(server.zone, 64, EVERYTHING);
    let request = write(&[near.piece(0, 64)], there.remote(0));
    assert_eq!(pair.client.carry_out(&client, request), Status::LocalProtection);
    pair.server.assert_untouched(&there);
    pair.server.must(Command::Deregister { region: far.region });
    pair.client.must(Command::Deregister { region: near.region });
}

pub(crate) fn an_atomic_on_memory_on_demand_is_refused_and_changes_nothing(pair: &mut Pair) {
    let (client, server) = pair.connect(&RELIABLE);
    let far = of_server(pair, server.zone, true);
    let near = pair.client.memory(client.zone, 8, EVERYTHING);
    pair.server.write(&far, 0, &41u64.to_ne_bytes());
    assert_ne!(far.remote_key, Key(0));
    let request = fetch_add(near.all(), far.remote(0), 1);
    assert_eq!(pair.client.carry_out(&client, request), Status::RemoteAccess);
    pair.server.async_event(AsyncEventKind::QpAccessError, server.pair);
    assert_eq!(pair.server.word(&far, 0), 41);
    pair.client.assert_untouched(&near);
}

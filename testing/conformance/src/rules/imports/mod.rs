//! What one side made and the other imports: sections 4 and 5.3. The client owns, the server imports.

mod ends;
mod refusals;
mod services;

use nonic_device::{Access, Key, QpState, Status};

pub(crate) use self::ends::*;
pub(crate) use self::refusals::*;
pub(crate) use self::services::*;
use crate::command::{Command, MemoryKind, Send};
use crate::memory::{EVERYTHING, Memory, UNTOUCHED, pattern};
use crate::options::{End, Options, RELIABLE};
use crate::pair::Pair;
use crate::program_memory::kernel_reaches;
use crate::request::{fetch_add, read, send, write};
use crate::side::Side;

/// Bytes of a memory: more than are copied at a time.
const LENGTH: u64 = 12_000;
/// Where in it what arrives is placed.
const ARRIVALS: u64 = 6_000;

/// Two connected queue pairs: the owner's, and the importer's in what stands there for the owner's zone.
#[derive(Clone, Copy)]
struct Import {
    owner: End,
    importer: End,
    /// The handle of the owner's zone.
    zone: u32,
    /// The owner's, which is imported.
    lent: Memory,
    /// The same as the importer names it.
    import: Memory,
    /// The owner's, for what goes to and comes from the importer.
    other: Memory,
}

/// Skips the rule where a side has no way to the other's memory.
fn only_where_memory_is_reached(pair: &mut Pair) {
    let tier = pair.arrangement.tier();
    pair.only(tier != "ring", "the tier leads to no memory of others");
    if tier == "kernel" {
        only_where_the_kernel_copies(pair);
    }
}

fn only_where_the_kernel_copies(pair: &mut Pair) {
    let (_, address) = pair.server.buffer(MemoryKind::Private, 8);
    let process = pair.server.process().unwrap_or_else(rustix::process::getpid);
    let reached = kernel_reaches(process, address);
    pair.only(reached, "the kernel of this machine copies nothing between processes");
}

/// What the owner has open, which the importer makes everything on from then on.
fn import_device(owner: &mut Side, importer: &mut Side) -> Result<(), String> {
    let named = owner.ask(Command::Descriptor {});
    let command = Command::ImportDevice { process: named[0] as u32, descriptor: named[1] as u32 };
    importer.run(command).map(|_| ())
}

/// A zone of the owner's: its handle, and what stands for it where it is imported.
fn import_zone(owner: &mut Side, importer: &mut Side, zone: u32) -> (u32, u32) {
    let handle = owner.make(Command::LendZone { zone });
    (handle, importer.make(Command::ImportZone { handle }))
}

/// A region of the owner's as the importer names it.
fn import_region(owner: &mut Side, importer: &mut Side, lent: &Memory) -> Memory {
    let handle = owner.make(Command::LendRegion { region: lent.region });
    let made = importer.ask(Command::ImportRegion { handle });
    let [local_key, remote_key] = [made[1], made[2]].map(|key| Key(key as u32));
    Memory { region: made[0] as u32, local_key, remote_key, ..*lent }
}

/// Connected queue pairs in zones of both sides.
fn connect(pair: &mut Pair, zones: (u32, u32), options: (&Options, &Options)) -> (End, End) {
    let client = pair.client.end_in(zones.0, options.0, None);
    let server = pair.server.end_in(zones.1, options.1, None);
    pair.join(&client, options.0, &server, options.1);
    (client, server)
}

fn import(pair: &mut Pair, access: Access) -> Import {
    only_where_memory_is_reached(pair);
    import_device(&mut pair.client, &mut pair.server).expect("the device is imported");
    let own = pair.client.zone();
    let (zone, twin) = import_zone(&mut pair.client, &mut pair.server, own);
    let (owner, importer) = connect(pair, (own, twin), (&RELIABLE, &RELIABLE));
    let lent = pair.client.memory(own, LENGTH, access);
    let other = pair.client.memory(own, LENGTH, EVERYTHING);
    let import = import_region(&mut pair.client, &mut pair.server, &lent);
    Import { owner, importer, zone, lent, import, other }
}

/// The same with queue pairs that have seen no failure.
fn afresh(pair: &mut Pair, scene: &Import) -> Import {
    let (owner, importer) = connect(pair, (scene.owner.zone, scene.importer.zone), (&RELIABLE, &RELIABLE));
    Import { owner, importer, ..*scene }
}

/// How a request of the owner's ends on fresh queue pairs, and one of the importer's.
#[track_caller]
fn owners(pair: &mut Pair, scene: &Import, request: Send) -> Status {
    let Import { owner, .. } = afresh(pair, scene);
    pair.client.carry_out(&owner, request)
}

#[track_caller]
fn importers(pair: &mut Pair, scene: &Import, request: Send) -> Status {
    let Import { importer, .. } = afresh(pair, scene);
    pair.server.carry_out(&importer, request)
}

/// A message into the import ends badly for both.
#[track_caller]
fn assert_not_received_into(pair: &mut Pair, scene: &Import, import: &Memory) {
    let Import { owner, importer, .. } = afresh(pair, scene);
    pair.server.receive(&importer, 1, &[import.piece(0, 100)]);
    let ended = pair.client.carry_out(&owner, send(&[scene.other.piece(0, 100)]));
    assert_eq!(ended, Status::RemoteOperation);
    assert_eq!(pair.server.received(&importer).status, Status::LocalProtection);
    assert_eq!(pair.server.state(&importer), QpState::Error);
}

pub(crate) fn requests_that_name_an_imported_region_move_its_owners_bytes(pair: &mut Pair) {
    // Each process is owner once.
    for _ in 0..2 {
        let Import { owner, importer, lent, import, other, .. } = import(pair, EVERYTHING);
        for (seed, length) in [1, 64, 4096, 5900].into_iter().enumerate() {
            let bytes = pattern(seed as u64, length);
            let arrived = |pair: &mut Pair, memory: &Memory, offset| {
                assert!(pair.client.read(memory, offset, length) == bytes, "{length} bytes did not arrive");
            };
            pair.client.write(&lent, 3, &bytes);
            pair.client.receive(&owner, 1, &[other.piece(5, length)]);
            let carry_out = |pair: &mut Pair, request| {
                assert_eq!(pair.server.carry_out(&importer, request), Status::Success, "{length} bytes");
            };
            carry_out(pair, send(&[import.piece(3, length)]));
            assert_eq!(u64::from(pair.client.received(&owner).byte_length), length);
            arrived(pair, &other, 5);
            carry_out(pair, write(&[import.piece(3, length)], other.remote(ARRIVALS)));
            arrived(pair, &other, ARRIVALS);
            carry_out(pair, read(&[import.piece(ARRIVALS, length)], other.remote(5)));
            arrived(pair, &lent, ARRIVALS);
            let bytes = pattern(seed as u64 + 50, length);
            pair.client.write(&other, 0, &bytes);
            pair.server.receive(&importer, 2, &[import.piece(ARRIVALS + 7, length)]);
            assert_eq!(pair.client.carry_out(&owner, send(&[other.piece(0, length)])), Status::Success);
            assert_eq!(u64::from(pair.server.received(&importer).byte_length), length);
            assert!(pair.client.read(&lent, ARRIVALS + 7, length) == bytes, "{length} bytes were not taken");
        }
        pair.client.write(&other, 0, &41u64.to_ne_bytes());
        let add = fetch_add(import.piece(8, 8), other.remote(0), 1);
        assert_eq!(pair.server.carry_out(&importer, add), Status::Success);
        assert_eq!((pair.client.word(&lent, 8), pair.client.word(&other, 0)), (41, 42));
        pair.reset();
        std::mem::swap(&mut pair.client, &mut pair.server);
    }
}

pub(crate) fn peers_reach_an_imported_region_by_the_key_it_has_where_it_was_imported(pair: &mut Pair) {
    let scene = import(pair, EVERYTHING);
    let Import { owner, lent, import, other, .. } = scene;
    let mut expected = vec![UNTOUCHED; LENGTH as usize];
    for (seed, length) in [1, 8, 4096, 5900].into_iter().enumerate() {
        let bytes = pattern(seed as u64, length);
        pair.client.write(&other, 0, &bytes);
        let request = write(&[other.piece(0, length)], import.remote(ARRIVALS + 1));
        assert_eq!(pair.client.carry_out(&owner, request), Status::Success);
        expected[ARRIVALS as usize + 1..][..length as usize].copy_from_slice(&bytes);
        pair.client.assert_holds(&lent, &expected);
        let request = read(&[other.piece(ARRIVALS, length)], import.remote(ARRIVALS + 1));
        assert_eq!(pair.client.carry_out(&owner, request), Status::Success);
        assert!(pair.client.read(&other, ARRIVALS, length) == bytes, "{length} bytes were not read");
    }
    // There are no atomics on what is copied, and nothing is beyond its ends.
    let beyond = [import.remote(import.registered - 1), import.remote(u64::MAX)];
    let mut refused = beyond.map(|remote| write(&[other.piece(0, 2)], remote)).to_vec();
    refused.push(fetch_add(other.piece(0, 8), import.remote(ARRIVALS), 1));
    for request in refused {
        let said = format!("{request:?}");
        assert_eq!(owners(pair, &scene, request), Status::RemoteAccess, "{said}");
        pair.client.assert_holds(&lent, &expected);
    }
}

pub(crate) fn an_import_has_the_rights_of_its_owners_region_and_no_others(pair: &mut Pair) {
    let scene = import(pair, Access::REMOTE_READ);
    let Import { owner, importer, lent, import, other, .. } = scene;
    let bytes = pattern(6, LENGTH);
    pair.client.write(&lent, 0, &bytes);
    assert_not_received_into(pair, &scene, &import);
    let into = read(&[import.piece(0, 100)], other.remote(0));
    assert_eq!(importers(pair, &scene, into), Status::LocalProtection);
    let there = write(&[other.piece(0, 100)], import.remote(0));
    assert_eq!(owners(pair, &scene, there), Status::RemoteAccess);
    pair.client.assert_untouched(&other);
    let out = write(&[import.piece(0, 100)], other.remote(0));
    assert_eq!(pair.server.carry_out(&importer, out), Status::Success);
    let from = read(&[other.piece(100, 100)], import.remote(100));
    assert_eq!(pair.client.carry_out(&owner, from), Status::Success);
    pair.client.assert_holds(&other, &bytes[..200]);
    // One that no peer is given, so that nobody maps it.
    only_where_the_kernel_copies(pair);
    let private = pair.client.register_again(other, owner.zone, Access::LOCAL_WRITE);
    let private = import_region(&mut pair.client, &mut pair.server, &private);
    for request in
        [write(&[lent.piece(200, 100)], private.remote(0)), read(&[other.piece(0, 100)], private.remote(100))]
    {
        assert_eq!(owners(pair, &scene, request), Status::RemoteAccess);
    }
    pair.client.assert_holds(&lent, &bytes);
    pair.client.assert_holds(&other, &bytes[..200]);
    let into = read(&[private.piece(0, 300)], lent.remote(0));
    assert_eq!(importers(pair, &scene, into), Status::Success);
    pair.client.assert_holds(&other, &bytes[..300]);
}

pub(crate) fn the_keys_of_an_import_serve_what_stands_for_its_zone_and_no_other(pair: &mut Pair) {
    let scene = import(pair, EVERYTHING);
    let Import { zone, importer, lent, import, other, .. } = scene;
    // A name more for the zone and one for the region: they are what the first are.
    let again = pair.server.make(Command::ImportZone { handle: zone });
    let second = import_region(&mut pair.client, &mut pair.server, &lent);
    assert!(second.local_key != import.local_key && second.remote_key != import.remote_key);
    let own = pair.server.memory(again, 100, EVERYTHING);
    let bytes = pattern(7, 300);
    pair.client.write(&lent, 0, &bytes[..200]);
    pair.server.write(&own, 0, &bytes[200..]);
    let pieces = [import.piece(0, 100), second.piece(100, 100), own.all()];
    assert_eq!(pair.server.carry_out(&importer, write(&pieces, other.remote(0))), Status::Success);
    pair.client.assert_holds(&other, &bytes);
    // Another zone of the owner's, and one that the importer made itself.
    let foreign = pair.client.zone();
    for strange in [import_zone(&mut pair.client, &mut pair.server, foreign).1, pair.server.zone()] {
        let strange = Import { importer: End { zone: strange, ..importer }, ..scene };
        let own = write(&[import.piece(0, 100)], other.remote(300));
        assert_eq!(importers(pair, &strange, own), Status::LocalProtection);
        let peers = write(&[other.piece(0, 100)], import.remote(300));
        assert_eq!(owners(pair, &strange, peers), Status::RemoteAccess);
        pair.client.assert_holds(&other, &bytes);
        pair.client.assert_holds(&lent, &bytes[..200]);
    }
}

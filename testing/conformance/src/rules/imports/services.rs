//! Imports beside reliable connections of the importer's to the owner's: other services, windows, imports of each other's.

use std::time::{Duration, Instant};

use nonic_device::{Access, Key, Operation, QpType, RemoteRange, Status, WindowId, WindowKind};

use super::{
    ARRIVALS, Import, LENGTH, connect, import, import_device, import_region, import_zone, importers,
    only_where_memory_is_reached, owners,
};
use crate::command::{Command, Job, Source};
use crate::memory::{EVERYTHING, Memory, pattern};
use crate::options::{DATAGRAM, End, Options, RELIABLE, UNRELIABLE};
use crate::pair::Pair;
use crate::request::{of, read, send, write};
use crate::side::{SOON, Side};

/// Every right of a region, that to bind windows included.
const BINDABLE: Access = match Access::from_bits(0b1_1111) {
    Some(access) => access,
    None => EVERYTHING,
};
/// Bytes before a datagram.
const GLOBAL_HEADER: u64 = 40;

pub(crate) fn every_service_takes_an_import_as_memory_of_its_own(pair: &mut Pair) {
    let scene = import(pair, EVERYTHING);
    let Import { lent, import, other, .. } = scene;
    let zones = (scene.owner.zone, scene.importer.zone);
    let shared = Options { shared: Some((8, 0)), ..RELIABLE };
    for (seed, options) in [UNRELIABLE, DATAGRAM, shared].into_iter().enumerate() {
        let (owner, importer) = connect(pair, zones, (&Options { shared: None, ..options }, &options));
        let datagrams = options.transport == QpType::UnreliableDatagram;
        let (length, header) = if datagrams { (1000, GLOBAL_HEADER) } else { (5000, 0) };
        let bytes = pattern(seed as u64, length);
        pair.client.write(&other, 0, &bytes);
        // In two pieces, of which the second begins where no word does.
        let pieces = [import.piece(0, 500), import.piece(ARRIVALS + 1, 5000)];
        pair.server.receive(&importer, 1, &pieces);
        let mut request = send(&[other.piece(0, length)]);
        if datagrams {
            request = request.to(pair.server_as_destination(&owner, &importer, options.q_key));
        }
        assert_eq!(pair.client.carry_out(&owner, request), Status::Success);
        let received = pair.server.received(&importer);
        assert_eq!((received.status, u64::from(received.byte_length)), (Status::Success, header + length));
        let cut = 500 - header;
        let seen =
            [pair.client.read(&lent, header, cut), pair.client.read(&lent, ARRIVALS + 1, length - cut)];
        assert!(seen.concat() == bytes, "{:?} placed other bytes", options.transport);
    }
    // Within the importer, from the import to itself.
    let ends = [(); 2].map(|()| pair.server.end_in(zones.1, &RELIABLE, None));
    pair.server.connect_to_itself(&ends[0], &ends[1], &RELIABLE);
    let bytes = pattern(5, 5000);
    pair.client.write(&lent, 0, &bytes);
    pair.server.receive(&ends[1], 1, &[import.piece(ARRIVALS, 5000)]);
    for request in [
        send(&[import.piece(0, 5000)]),
        write(&[import.piece(ARRIVALS, 5000)], import.remote(500)),
        read(&[import.piece(ARRIVALS + 900, 5000)], import.remote(500)),
    ] {
        assert_eq!(pair.server.carry_out(&ends[0], request), Status::Success);
    }
    for place in [500, ARRIVALS + 900] {
        assert!(pair.client.read(&lent, place, 5000) == bytes, "other bytes are at {place}");
    }
}

pub(crate) fn a_window_on_an_import_leads_to_its_owners_bytes(pair: &mut Pair) {
    let scene = import(pair, BINDABLE);
    let Import { owner, importer, lent, import, other, .. } = scene;
    let kind = WindowKind::Type1;
    let made = pair.server.ask(Command::AllocateWindow { zone: importer.zone, kind });
    let (window, id) = (made[0] as u32, WindowId(made[1] as u32));
    let key = Key(pair.server.ask(Command::NextKey { window })[0] as u32);
    let bind = of(Operation::Bind {
        window: id,
        key,
        region: Some(import.local_key),
        address: import.base + 64,
        length: 1000,
        access: Access::REMOTE_WRITE,
        zero_based: false,
    });
    assert_eq!(pair.server.carry_out(&importer, bind), Status::Success);
    let bytes = pattern(2, 1000);
    pair.client.write(&other, 0, &bytes);
    let remote = RemoteRange { key, ..import.remote(64) };
    let request = write(&[other.piece(0, 1000)], remote);
    assert_eq!(pair.client.carry_out(&owner, request.clone()), Status::Success);
    assert!(pair.client.read(&lent, 64, 1000) == bytes, "the bytes were not written");
    // The window is the importer's business: it keeps the import, and not the owner's region.
    pair.server.refuses(Command::Deregister { region: import.region }, "Busy");
    pair.client.must(Command::Deregister { region: lent.region });
    pair.client.write(&other, 0, &[9; 1000]);
    assert_eq!(owners(pair, &scene, request), Status::RemoteAccess);
    assert!(pair.client.read(&lent, 64, 1000) == bytes, "a refused write moved bytes");
}

pub(crate) fn an_import_is_addressed_from_its_owners_base(pair: &mut Pair) {
    let scene = import(pair, EVERYTHING);
    let Import { owner, lent, other, .. } = scene;
    let length = lent.registered;
    let source = Source::Buffer { buffer: lent.buffer, offset: lent.offset, length };
    for base in [0, 1, 1 << 40, u64::MAX - length + 1] {
        let made = pair.client.register(owner.zone, source, Some(base), EVERYTHING);
        let (region, local_key, remote_key) = made.expect("the registration is taken");
        let named = Memory { region, local_key, remote_key, base, ..lent };
        let import = import_region(&mut pair.client, &mut pair.server, &named);
        let bytes = pattern(base, 100);
        pair.client.write(&lent, LENGTH - 100, &bytes);
        let own = write(&[import.piece(LENGTH - 100, 100)], other.remote(0));
        assert_eq!(importers(pair, &scene, own), Status::Success);
        let peers = read(&[other.piece(100, 100)], import.remote(LENGTH - 100));
        assert_eq!(owners(pair, &scene, peers), Status::Success);
        assert!(pair.client.read(&other, 0, 200) == bytes.repeat(2), "from {base:#x} other bytes came");
    }
    // One of no bytes leads to none.
    let source = Source::Buffer { buffer: lent.buffer, offset: lent.offset, length: 0 };
    let made = pair.client.register(owner.zone, source, Some(64), EVERYTHING);
    let (region, local_key, remote_key) = made.expect("the registration is taken");
    let named = Memory { region, local_key, remote_key, base: 64, ..lent };
    let import = import_region(&mut pair.client, &mut pair.server, &named);
    let own = write(&[import.piece(0, 1)], other.remote(0));
    assert_eq!(importers(pair, &scene, own), Status::LocalProtection);
    let peers = write(&[other.piece(0, 1)], import.remote(0));
    assert_eq!(owners(pair, &scene, peers), Status::RemoteAccess);
}

/// Memory that a side lends, before it imports itself.
fn lendable(side: &mut Side) -> (u32, Memory) {
    let zone = side.zone();
    (zone, side.memory(zone, LENGTH, EVERYTHING))
}

pub(crate) fn two_sides_use_imports_of_each_others_and_both_take_back(pair: &mut Pair) {
    only_where_memory_is_reached(pair);
    let (clients, servers) = (lendable(&mut pair.client), lendable(&mut pair.server));
    import_device(&mut pair.client, &mut pair.server).expect("the device is imported");
    import_device(&mut pair.server, &mut pair.client).expect("the device is imported");
    let at_server = import_region(&mut pair.client, &mut pair.server, &clients.1);
    let at_client = import_region(&mut pair.server, &mut pair.client, &servers.1);
    let zones = (
        import_zone(&mut pair.server, &mut pair.client, servers.0).1,
        import_zone(&mut pair.client, &mut pair.server, clients.0).1,
    );
    let (client, server) = connect(pair, zones, (&RELIABLE, &RELIABLE));
    let seeds = [1, 2].map(|seed| pattern(seed, 5000));
    pair.client.write(&clients.1, 0, &seeds[0]);
    pair.server.write(&servers.1, 0, &seeds[1]);
    // Each has the other's bytes written to the other's import of its own, again and again.
    let repeat =
        |end: End, request| Job::RepeatUntilRefused { pair: end.pair, queue: end.send_queue, request };
    let own = write(&[at_client.piece(0, 5000)], at_server.remote(ARRIVALS));
    pair.client.background(repeat(client, own));
    let own = write(&[at_server.piece(0, 5000)], at_client.remote(ARRIVALS));
    pair.server.background(repeat(server, own));
    await_bytes(&mut pair.client, &clients.1, &seeds[1]);
    await_bytes(&mut pair.server, &servers.1, &seeds[0]);
    for (side, lent) in [(&mut pair.client, clients.1), (&mut pair.server, servers.1)] {
        side.must(Command::Deregister { region: lent.region });
        side.write(&lent, 0, &pattern(3, LENGTH));
    }
    for side in [&mut pair.client, &mut pair.server] {
        assert_ne!(side.join(), Status::Success as u64);
    }
    pair.client.assert_holds(&clients.1, &pattern(3, LENGTH));
    pair.server.assert_holds(&servers.1, &pattern(3, LENGTH));
}

/// Waits until these bytes have arrived.
fn await_bytes(side: &mut Side, memory: &Memory, bytes: &[u8]) {
    let end = Instant::now() + Duration::from_millis(SOON);
    while side.read(memory, ARRIVALS, bytes.len() as u64) != bytes {
        assert!(Instant::now() < end, "the bytes never arrived");
    }
}

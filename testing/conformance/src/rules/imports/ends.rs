//! How imports end: the owner takes back what it has lent, or the importer has done with it.

use nonic_device::Status;

use super::{Import, LENGTH, afresh, assert_not_received_into, import, import_region, importers, owners};
use crate::command::{Command, Job};
use crate::memory::{EVERYTHING, pattern};
use crate::pair::Pair;
use crate::request::{read, send, write};

pub(crate) fn what_its_owner_takes_back_is_not_reached_through_an_import(pair: &mut Pair) {
    let scene = import(pair, EVERYTHING);
    let Import { lent, import, other, .. } = scene;
    let handle = pair.client.make(Command::LendRegion { region: lent.region });
    pair.client.must(Command::Deregister { region: lent.region });
    let bytes = pattern(8, LENGTH);
    pair.client.write(&lent, 0, &bytes);
    for length in [8, 5000] {
        let local = [import.piece(0, length)];
        for request in [send(&local), write(&local, other.remote(0)), read(&local, other.remote(0))] {
            let said = format!("{request:?}");
            let scene = afresh(pair, &scene);
            pair.client.receive(&scene.owner, 1, &[other.all()]);
            assert_eq!(pair.server.carry_out(&scene.importer, request), Status::LocalProtection, "{said}");
        }
        let local = [other.piece(0, length)];
        for request in [write(&local, import.remote(0)), read(&local, import.remote(0))] {
            assert_eq!(owners(pair, &scene, request), Status::RemoteAccess);
        }
    }
    assert_not_received_into(pair, &scene, &import);
    pair.server.refuses(Command::ImportRegion { handle }, "NotThere");
    pair.client.assert_holds(&lent, &bytes);
    pair.client.assert_untouched(&other);
}

pub(crate) fn when_a_region_is_taken_back_nobody_is_inside_it_any_more(pair: &mut Pair) {
    let Import { importer, lent, import, other, .. } = import(pair, EVERYTHING);
    pair.client.write(&other, 0, &vec![9; LENGTH as usize]);
    let request = read(&[import.piece(0, LENGTH)], other.remote(0));
    let queue = importer.send_queue;
    pair.server.background(Job::RepeatUntilRefused { pair: importer.pair, queue, request });
    pair.client.background(Job::Watch { buffer: lent.buffer, offset: lent.offset + LENGTH - 1, value: 9 });
    pair.client.join();
    pair.client.must(Command::Deregister { region: lent.region });
    let bytes = pattern(9, LENGTH);
    pair.client.write(&lent, 0, &bytes);
    assert_eq!(pair.server.join(), Status::LocalProtection as u64);
    pair.client.assert_holds(&lent, &bytes);
}

pub(crate) fn what_is_done_with_an_import_leaves_all_to_its_owner(pair: &mut Pair) {
    let scene = import(pair, EVERYTHING);
    let Import { zone, owner, importer, lent, import, other } = scene;
    let bytes = pattern(10, LENGTH);
    pair.client.write(&lent, 0, &bytes);
    pair.server.must(Command::Deregister { region: import.region });
    let own = write(&[import.piece(0, 100)], other.remote(0));
    assert_eq!(importers(pair, &scene, own), Status::LocalProtection);
    let peers = write(&[other.piece(0, 100)], import.remote(0));
    assert_eq!(owners(pair, &scene, peers), Status::RemoteAccess);
    pair.client.assert_untouched(&other);
    pair.client.assert_holds(&lent, &bytes);
    // The owner and its peers go on, and what was imported once is imported again.
    let near = pair.server.memory(importer.zone, 100, EVERYTHING);
    assert_eq!(pair.server.carry_out(&importer, read(&[near.all()], lent.remote(50))), Status::Success);
    pair.server.assert_holds(&near, &bytes[50..150]);
    assert_eq!(pair.client.carry_out(&owner, write(&[lent.piece(0, 100)], near.remote(0))), Status::Success);
    pair.server.assert_holds(&near, &bytes[..100]);
    pair.client.refuses(Command::ReleaseZone { zone: owner.zone }, "Busy");
    let again = import_region(&mut pair.client, &mut pair.server, &lent);
    pair.server.make(Command::ImportZone { handle: zone });
    assert_eq!(importers(pair, &scene, write(&[again.all()], other.remote(0))), Status::Success);
    pair.client.assert_holds(&other, &bytes);
}

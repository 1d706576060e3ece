//! Device memory that is imported, and what is not.

use nonic_device::{Access, Status};

use super::super::device_memory::{copy_in, copy_out};
use super::{Import, LENGTH, import, import_device, import_region, import_zone, importers, owners};
use crate::command::{Command, MemoryKind, Source};
use crate::memory::{EVERYTHING, Memory, pattern};
use crate::options::RELIABLE;
use crate::pair::{Pair, Scene};
use crate::request::write;

/// A handle that nobody gives.
const NOBODYS: u32 = 0xffff_fff0;

pub(crate) fn imported_device_memory_is_its_owners_until_that_frees_it(pair: &mut Pair) {
    let scene = import(pair, EVERYTHING);
    let Import { owner, importer, other, .. } = scene;
    let allocate = Command::Buffer { kind: MemoryKind::Device, length: LENGTH, log_alignment: 0 };
    let buffer = pair.client.make(allocate.clone());
    let handle = pair.client.make(Command::LendDeviceMemory { buffer });
    if pair.arrangement.tier() == "kernel" {
        // It is mapped or not reached at all.
        pair.server.refuses(Command::ImportDeviceMemory { handle }, "Unreachable");
        pair.client.must(Command::FreeBuffer { buffer });
        return;
    }
    let bytes = pattern(1, LENGTH);
    copy_in(&mut pair.client, buffer, 0, &bytes);
    let import = pair.server.make(Command::ImportDeviceMemory { handle });
    assert!(copy_out(&mut pair.server, import, 4, LENGTH - 8) == bytes[4..LENGTH as usize - 4]);
    copy_in(&mut pair.server, import, 8, &bytes[..5000]);
    assert!(copy_out(&mut pair.client, buffer, 8, 5000) == bytes[..5000]);
    let beyond = Command::CopyIn { buffer: import, offset: LENGTH - 4, bytes: vec![9; 8], length: 8 };
    pair.server.refuses(beyond, "OutOfRange");
    // As memory of the importer's own it serves it and its peers.
    let source = Source::Buffer { buffer: import, offset: 8, length: 5000 };
    let (region, local_key, remote_key) =
        pair.server.register(importer.zone, source, Some(0), EVERYTHING).expect("the registration is taken");
    let near = Memory { region, local_key, remote_key, base: 0, length: 5000, registered: 5000, ..other };
    assert_eq!(pair.server.carry_out(&importer, write(&[near.all()], other.remote(0))), Status::Success);
    pair.client.assert_holds(&other, &bytes[..5000]);
    let request = write(&[other.piece(0, 100)], near.remote(4000));
    assert_eq!(pair.client.carry_out(&owner, request), Status::Success);
    assert!(copy_out(&mut pair.client, buffer, 4008, 100) == bytes[..100]);
    pair.server.refuses(Command::FreeBuffer { buffer: import }, "Busy");
    // A name that is given back takes nothing with it, and the owner asks nobody.
    let second = pair.server.make(Command::ImportDeviceMemory { handle });
    pair.server.must(Command::FreeBuffer { buffer: second });
    assert!(copy_out(&mut pair.server, import, 0, 4) == bytes[..4]);
    pair.client.must(Command::FreeBuffer { buffer });
    let next = pair.client.make(allocate);
    pair.server.refuses(Command::CopyOut { buffer: import, offset: 0, length: 4 }, "TakenBack");
    let copy = Command::CopyIn { buffer: import, offset: 0, bytes: vec![9; 4], length: 4 };
    pair.server.refuses(copy, "TakenBack");
    assert_eq!(importers(pair, &scene, write(&[near.piece(0, 8)], other.remote(0))), Status::LocalProtection);
    assert_eq!(owners(pair, &scene, write(&[other.piece(0, 8)], near.remote(0))), Status::RemoteAccess);
    pair.server.refuses(Command::ImportDeviceMemory { handle }, "NotThere");
    assert!(copy_out(&mut pair.client, next, 0, LENGTH).iter().all(|byte| *byte == 0));
    pair.client.assert_holds(&other, &bytes[..5000]);
}

pub(crate) fn a_handle_of_nothing_imports_nothing(pair: &mut Pair) {
    let Import { zone, importer, lent, import, other, .. } = import(pair, EVERYTHING);
    let region = pair.client.make(Command::LendRegion { region: lent.region });
    let gone = pair.client.zone();
    let released = import_zone(&mut pair.client, &mut pair.server, gone).0;
    pair.client.must(Command::ReleaseZone { zone: gone });
    for handle in [NOBODYS, 0, region, released] {
        pair.server.refuses(Command::ImportZone { handle }, "NotThere");
    }
    for handle in [NOBODYS, 0, zone, released] {
        pair.server.refuses(Command::ImportRegion { handle }, "NotThere");
    }
    for handle in [NOBODYS, 0, zone, region] {
        pair.server.refuses(Command::ImportDeviceMemory { handle }, "NotThere");
    }
    let bytes = pattern(2, LENGTH);
    pair.client.write(&lent, 0, &bytes);
    assert_eq!(pair.server.carry_out(&importer, write(&[import.all()], other.remote(0))), Status::Success);
    pair.client.assert_holds(&other, &bytes);
}

pub(crate) fn a_region_that_only_its_owner_finds_is_not_imported(pair: &mut Pair) {
    let Import { owner, lent, .. } = import(pair, EVERYTHING);
    let (_, address) = pair.client.buffer(MemoryKind::Private, LENGTH);
    let source = Source::OnDemand { address, length: LENGTH };
    let made = pair.client.register(owner.zone, source, None, EVERYTHING);
    pair.only(!made.as_ref().is_err_and(|why| why.starts_with("NoPaging")), "the kernel lets nobody copy");
    let (on_demand, ..) = made.expect("the registration is taken");
    let shadow = Command::Shadow { region: lent.region, zone: owner.zone, access: Access::REMOTE_READ };
    let shadow = pair.client.ask(shadow)[0] as u32;
    for region in [on_demand, shadow] {
        let handle = pair.client.make(Command::LendRegion { region });
        pair.server.refuses(Command::ImportRegion { handle }, "Unreachable");
    }
    import_region(&mut pair.client, &mut pair.server, &lent);
}

pub(crate) fn where_no_memory_of_others_is_reached_no_device_is_imported(pair: &mut Pair) {
    pair.only(pair.arrangement.tier() == "ring", "the tier leads to memory of others");
    assert_eq!(import_device(&mut pair.client, &mut pair.server), Err("Unreachable".into()));
    // The side has its own device still, and all is as it would be.
    let Scene { client, near, far, .. } = pair.scene(&RELIABLE);
    assert_eq!(pair.client.carry_out(&client, write(&[near.all()], far.remote(0))), Status::Success);
    pair.server.assert_holds(&far, &Scene::bytes());
}

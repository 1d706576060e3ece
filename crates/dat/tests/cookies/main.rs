//! Memory that processes share by a cookie (`DAT_MEM_TYPE_SHARED_VIRTUAL`).

#[path = "../common/mod.rs"]
mod common;
mod sharer;
mod strangers;

use common::{Pages, part};
use nonic_dat::{Privileges, TransferStatus};
use sharer::{
    NOT_SHARED, OTHER_MEMORY, PAGES, at, connected_to, cookie, load, map, register, share, sharing, start,
    to_text,
};

/// LMR-5, LMR-6, LMR-7.
#[test]
fn a_cookie_that_another_process_uses_names_its_memory_and_no_other() {
    for coherent in [true, false] {
        let cookie = cookie("one memory");
        let (file, other_file) = (Pages::file(PAGES + 1), Pages::file(PAGES));
        let (mut first, named) = sharing(coherent, file, cookie);
        let near = connected_to(&mut first);
        // The same bytes, wherever a process has them.
        let (mut second, _) = sharing(coherent, file, cookie);
        assert_eq!(second.tell("free"), "ok");
        let mut third = start(coherent);
        map(&mut third, other_file, PAGES);
        assert_eq!(share(&mut third, cookie).unwrap_err(), OTHER_MEMORY);
        assert_eq!(third.tell("private"), "ok");
        assert_eq!(share(&mut third, cookie).unwrap_err(), NOT_SHARED);
        map(&mut third, file, PAGES + 1);
        assert_eq!(share(&mut third, cookie).unwrap_err(), OTHER_MEMORY, "longer");
        // Another byte makes another cookie, also the last one.
        let mut like_it = cookie;
        like_it[39] ^= 1;
        map(&mut third, other_file, PAGES);
        share(&mut third, like_it).unwrap();
        // To the first nothing has happened, and to the memory that was refused neither.
        near.pages.fill(4);
        assert_eq!(near.write(at(named, 0, 64)), TransferStatus::Success);
        assert_eq!(first.tell("collect 0 64"), "ok");
        assert_eq!((load(&mut first, 63), load(&mut third, 63)), (4, 0));
        assert_eq!(third.tell("free"), "ok");
        for process in [first, second, third] {
            process.finish();
        }
    }
}

/// LMR-5: however the last one ends that uses it, and not before.
#[test]
fn a_cookie_is_free_when_the_last_process_that_uses_it_has_ended() {
    let cookie = cookie("freed");
    let (file, other_file) = (Pages::file(PAGES), Pages::file(PAGES));
    for turn in 0..3 {
        let (mut first, _) = sharing(true, file, cookie);
        let (mut second, _) = sharing(false, file, cookie);
        let mut third = start(true);
        map(&mut third, other_file, PAGES);
        assert_eq!(first.tell("free"), "ok");
        // Who was stopped is not asked, and uses it.
        second.stop();
        assert_eq!(share(&mut third, cookie).unwrap_err(), OTHER_MEMORY);
        match turn {
            0 => second.kill(),
            1 => {
                second.resume();
                assert_eq!(second.tell("free"), "ok");
            }
            _ => {
                second.resume();
                second.finish();
            }
        }
        share(&mut third, cookie).unwrap();
        // The roles are changed now.
        assert_eq!(share(&mut first, cookie).unwrap_err(), OTHER_MEMORY);
        third.kill();
        share(&mut first, cookie).unwrap();
        first.finish();
    }
}

/// A process that was killed leaves nothing that grows.
#[test]
fn the_ledger_does_not_grow_by_the_killed() {
    let (file, path) =
        (Pages::file(PAGES), format!("/dev/shm/nonic-ledger.1.{}", nonic_sys::effective_user()));
    let (_keeper, _) = sharing(true, file, cookie("keeper"));
    let length = || {
        let (mut process, _) = sharing(false, file, cookie("killed"));
        process.kill();
        std::fs::metadata(&path).unwrap().len()
    };
    length();
    let lengths: Vec<u64> = (0..12).map(|_| length()).collect();
    // Other tests have some lines of their own.
    assert!(lengths.iter().all(|length| *length <= 64 * 128), "{lengths:?}");
}

// ---- through the far end's region -------------------------------------------------------------------------------

/// LMR-5, LMR-12: each process's region leads peers to the one memory.
#[test]
fn a_peer_reaches_through_one_processs_region_what_another_shares() {
    let (file, cookie) = (Pages::file(PAGES), cookie("through"));
    let (mut first, named_first) = sharing(true, file, cookie);
    let (mut second, named_second) = sharing(true, file, cookie);
    let (to_first, to_second) = (connected_to(&mut first), connected_to(&mut second));
    to_second.pages.fill(6);
    assert_eq!(to_second.write(at(named_second, 5000, 100)), TransferStatus::Success);
    assert_eq!((load(&mut first, 4999), load(&mut first, 5000), load(&mut first, 5099)), (0, 6, 6));
    assert_eq!(first.tell("store 5001 9"), "ok");
    assert_eq!(to_second.read(at(named_second, 5000, 100)), TransferStatus::Success);
    assert_eq!((to_second.pages.read(0), to_second.pages.read(1)), (6, 9));
    // The end of one process's region, and of the process, is not the other's.
    first.kill();
    assert_ne!(to_first.read(at(named_first, 0, 8)), TransferStatus::Success);
    assert_eq!(to_second.read(at(named_second, 5001, 1)), TransferStatus::Success);
    assert_eq!(to_second.pages.read(0), 9);
    second.finish();
}

// ---- memory that is not coherent --------------------------------------------------------------------------------

/// LMR-5, SYNC-2, SYNC-4: caches hold memory, and not processes.
#[test]
fn what_one_process_synchronizes_is_synchronized_for_all_that_share_it() {
    let (file, cookie) = (Pages::file(PAGES), cookie("both ways"));
    let (mut first, named_first) = sharing(false, file, cookie);
    let (mut second, named_second) = sharing(false, file, cookie);
    let (to_first, to_second) = (connected_to(&mut first), connected_to(&mut second));
    // Written through the first's region; nobody sees it.
    to_first.pages.fill(2);
    assert_eq!(to_first.write(at(named_first, 4000, 200)), TransferStatus::Success);
    assert_eq!((load(&mut first, 4000), load(&mut second, 4000)), (0, 0));
    // The second asks, for a part, on two pages.
    assert_eq!(second.tell("collect 4050 100"), "ok");
    for process in [&mut first, &mut second] {
        assert_eq!([4049, 4050, 4149, 4150].map(|offset| load(process, offset)), [0, 2, 2, 0]);
    }
    // So the first may store there without a further call, and loses nothing.
    assert_eq!(first.tell("store 4060 5"), "ok");
    assert_eq!(first.tell("collect 4060 1"), "ok");
    assert_eq!(load(&mut second, 4060), 5);
    assert_eq!(to_second.read(at(named_second, 4060, 2)), TransferStatus::Success);
    assert_eq!((to_second.pages.read(0), to_second.pages.read(1)), (5, 2));
    // What a peer wrote through one region is read through the other, before anybody is shown.
    assert_eq!(to_second.read(at(named_second, 4000, 1)), TransferStatus::Success);
    assert_eq!(to_second.pages.read(0), 2);
    // What one stores is hidden from the peers of both, until one of them publishes it.
    assert_eq!(second.tell("store 100 7"), "ok");
    assert_eq!(to_first.read(at(named_first, 100, 1)), TransferStatus::Success);
    assert_eq!(to_first.pages.read(0), 0);
    assert_eq!(first.tell("publish 0 200"), "ok");
    for (near, named) in [(&to_first, named_first), (&to_second, named_second)] {
        assert_eq!(near.read(at(named, 100, 1)), TransferStatus::Success);
        assert_eq!(near.pages.read(0), 7);
    }
    // What was not shown outlives the region through which it was written.
    assert_eq!(first.tell("free"), "ok");
    assert_eq!(second.tell("collect 4000 200"), "ok");
    assert_eq!([4000, 4049, 4199, 4200].map(|offset| load(&mut second, offset)), [2, 2, 2, 0]);
    first.finish();
    second.finish();
}

/// LMR-5: with the last region on it, wherever it is, what was not shown is gone.
#[test]
fn what_was_not_shown_is_gone_with_the_last_region_of_all_processes() {
    let (file, cookie) = (Pages::file(PAGES), cookie("gone"));
    for killed in [false, true] {
        let (mut first, _) = sharing(false, file, cookie);
        let (mut second, named) = sharing(false, file, cookie);
        let near = connected_to(&mut second);
        near.pages.fill(3);
        assert_eq!(near.write(at(named, 0, 64)), TransferStatus::Success);
        // The shadow lives on, in the first process, which has a region on other bytes of the file.
        let mut part_cookie = cookie;
        part_cookie[39] ^= 1;
        assert_eq!(first.tell(&format!("register_last_page {}", to_text(&part_cookie))), "ok");
        assert_eq!(first.tell("free"), "ok");
        if killed {
            second.kill();
        } else {
            assert_eq!(second.tell("free"), "ok");
        }
        share(&mut first, cookie).unwrap();
        assert_eq!(first.tell("collect 0 64"), "ok");
        assert_eq!(load(&mut first, 0), 0, "killed: {killed}");
        first.finish();
    }
}

/// LMR-4: regions on the bytes that have no cookie have part in it, as in one process.
#[test]
fn a_region_without_a_cookie_on_the_same_bytes_has_part_in_the_shadow() {
    let (file, cookie) = (Pages::file(PAGES), cookie("mixed"));
    let (server, near) = common::peers::connected(false);
    let pages = Pages::of_file(PAGES, file);
    let plain = common::register(&server.zone, &pages, Privileges::ALL).unwrap();
    let facts = plain.facts();
    let through_plain = |offset, length| at((facts.remote_context, facts.address), offset, length);
    near.pages.fill(8);
    // Before there was a cookie.
    assert_eq!(near.write(through_plain(0, 64)), TransferStatus::Success);
    let shared = register(&server.zone, &pages, cookie).unwrap();
    let (mut other, _) = sharing(false, file, cookie);
    assert_eq!(load(&mut other, 0), 0);
    assert_eq!(other.tell("collect 0 32"), "ok");
    assert_eq!((pages.read(31), pages.read(32)), (8, 0));
    // And since.
    assert_eq!(near.write(through_plain(4096, 64)), TransferStatus::Success);
    assert_eq!(other.tell("collect 4096 64"), "ok");
    assert_eq!(pages.read(4096 + 63), 8);
    shared.free().unwrap();
    assert_eq!(near.write(through_plain(8192, 64)), TransferStatus::Success);
    assert_eq!(other.tell("collect 8192 64"), "ok");
    assert_eq!(pages.read(8192), 8);
    plain.free().unwrap();
    other.finish();
}

/// A sharer that is stopped or killed in the middle of it holds nobody up without end.
#[test]
fn sharers_that_are_stopped_or_killed_hold_nobody_up() {
    let (file, cookie) = (Pages::file(PAGES), cookie("restless"));
    let (server, near) = common::peers::connected(false);
    let pages = Pages::of_file(PAGES, file);
    let region = register(&server.zone, &pages, cookie).unwrap();
    let facts = region.facts();
    let whole = part(&region, 0, pages.length());
    for turn in 0..12u8 {
        let (mut other, _) = sharing(false, file, cookie);
        assert_eq!(other.tell("restless"), "ok");
        for stopped in 0..8 {
            other.stop();
            near.pages.fill(turn * 8 + stopped);
            assert_eq!(near.write(at((facts.remote_context, facts.address), 0, 64)), TransferStatus::Success);
            server.adapter.sync_rdma_write([whole].into_iter()).unwrap();
            other.resume();
        }
        other.kill();
        near.pages.fill(200);
        assert_eq!(near.write(at((facts.remote_context, facts.address), 64, 64)), TransferStatus::Success);
        server.adapter.sync_rdma_write([whole].into_iter()).unwrap();
        assert_eq!(pages.read(64), 200);
        pages.write(64, 0);
        server.adapter.sync_rdma_write([whole].into_iter()).unwrap();
    }
}

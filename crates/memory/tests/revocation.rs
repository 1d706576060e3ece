//! Revocation under the model checker: whoever finds a key alive may use its bytes until it leaves, and no longer.
//! Runs with `ci/loom`; elsewhere there is nothing to run.

#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering};
use nonic_memory::{
    Access, AddressRange, Entry, KeyTable, KeyTableView, KeyUse, OperationSlots, PlainReason, RegionAddress,
    Translation, ZoneId, resolve,
};
use nonic_sys::SharedMapping;

const ZONE: ZoneId = ZoneId(1);
const ENTRIES: u32 = 2;

fn entry() -> Entry {
    Entry {
        zone: ZONE,
        access: Access::REMOTE_WRITE | Access::LOCAL_WRITE,
        base: RegionAddress(0),
        length: 8,
        translation: Translation::Plain { address: 8 },
        reason: PlainReason::None,
        local_tag: 0,
        remote_tag: 0,
    }
}

/// A peer writes through a key while its owner takes the memory back. `wait` is what the owner does in between.
fn race(wait: fn(&OperationSlots)) {
    race_with(|| nonic_sys::heavy_fence(nonic_sys::FenceReach::Machine), wait);
}

fn race_with(fence: fn(), wait: fn(&OperationSlots)) {
    let memory = SharedMapping::anonymous(KeyTableView::length(ENTRIES)).unwrap();
    let table = Arc::new(KeyTable::new(KeyTableView::new(Arc::new(memory), 0, ENTRIES)));
    let slots = Arc::new(OperationSlots::private().unwrap());
    let bytes = Arc::new(AtomicU64::new(0));
    let keys = table.insert(entry()).unwrap();

    let peer = {
        let (table, slots, bytes) = (Arc::clone(&table), Arc::clone(&slots), Arc::clone(&bytes));
        loom::thread::spawn(move || {
            let guard = slots.enter(true);
            let range = AddressRange::new(0, 8);
            let place = resolve(table.view(), ZONE, keys.remote, KeyUse::Remote, range, Access::REMOTE_WRITE);
            if place.is_ok() {
                bytes.store(1, Ordering::Relaxed);
            }
            drop(guard);
        })
    };
    table.kill(keys);
    fence();
    wait(&slots);
    // From here on the memory is the program's alone.
    bytes.store(2, Ordering::Relaxed);
    peer.join().unwrap();
    assert_eq!(bytes.load(Ordering::Relaxed), 2, "a write landed after revocation");
}

#[test]
fn nothing_lands_after_revocation_has_waited() {
    loom::model(|| race(|slots| assert!(slots.wait_idle(Duration::from_secs(600), &|| false))));
}

#[test]
#[should_panic(expected = "a write landed after revocation")]
fn without_the_wait_the_model_finds_the_write_that_lands_late() {
    loom::model(|| race(|_| {}));
}

#[test]
#[should_panic(expected = "a write landed after revocation")]
fn without_the_fence_the_model_finds_the_write_that_was_not_seen() {
    loom::model(|| race_with(|| {}, |slots| assert!(slots.wait_idle(Duration::from_secs(600), &|| false))));
}

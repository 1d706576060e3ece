//! Revocation under the model checker: whoever finds a key alive may use its bytes until it leaves, and no longer.
//! Runs with `ci/loom`; elsewhere there is nothing to run.

#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering};
use nonic_memory::{
    Access, AddressRange, Entry, KeyTable, KeyTableView, KeyUse, OperationGuard, OperationSlots, OwnSlots,
    PlainReason, RegionAddress, Translation, ZoneId, resolve,
};
use nonic_sys::SharedMapping;

const ZONE: ZoneId = ZoneId(1);
const ENTRIES: u32 = 2;

/// A set that a peer sees.
fn slots_of_two() -> OperationSlots {
    OperationSlots::new(Arc::new(SharedMapping::anonymous(OperationSlots::LENGTH).unwrap()), 0)
}

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

/// The same with a memory window, whose key is killed with an ordinary fence, and which is then bound to other bytes. The peer
/// takes its slot without any.
fn window_race(wait: fn(&OperationSlots)) {
    let memory = SharedMapping::anonymous(KeyTableView::length(ENTRIES)).unwrap();
    let table = Arc::new(KeyTable::new(KeyTableView::new(Arc::new(memory), 0, ENTRIES)));
    let slots = Arc::new(slots_of_two());
    let bytes = Arc::new(AtomicU64::new(0));
    let key = table.insert_window().unwrap();
    table.bind_window(key, &entry());

    let peer = {
        let (table, slots, bytes) = (Arc::clone(&table), Arc::clone(&slots), Arc::clone(&bytes));
        loom::thread::spawn(move || {
            let guard = slots.enter_unfenced();
            let range = AddressRange::new(0, 8);
            match resolve(table.view(), ZONE, key, KeyUse::Through(7), range, Access::REMOTE_WRITE) {
                Ok(place) if place.translation() == Translation::Plain { address: 8 } => {
                    bytes.store(1, Ordering::Relaxed);
                }
                // The same key again, whole: nothing of the first binding is mixed into it.
                Ok(place) => assert_eq!(place.translation(), Translation::Plain { address: 16 }),
                Err(_) => {}
            }
            drop(guard);
        })
    };
    table.unbind_window(key);
    wait(&slots);
    // From here on the memory is the program's alone.
    bytes.store(2, Ordering::Relaxed);
    table.bind_window(key, &Entry { translation: Translation::Plain { address: 16 }, ..entry() });
    peer.join().unwrap();
    assert_eq!(bytes.load(Ordering::Relaxed), 2, "a write landed after revocation");
}

fn wait_for_those_inside(slots: &OperationSlots) {
    if let Some(inside) = slots.inside() {
        while !inside.have_left() {
            loom::thread::yield_now();
        }
    }
}

#[test]
fn nothing_lands_through_a_window_after_those_inside_have_left() {
    loom::model(|| window_race(wait_for_those_inside));
}

#[test]
#[should_panic(expected = "a write landed after revocation")]
fn without_waiting_for_those_inside_the_model_finds_the_write_that_lands_late() {
    loom::model(|| window_race(|_| {}));
}

fn race_with(fence: fn(), wait: fn(&OperationSlots)) {
    race_of(fence, wait, |slots| slots.enter(|| true).expect("nobody else is inside"));
}

fn race_of(fence: fn(), wait: fn(&OperationSlots), enter: fn(&OperationSlots) -> OperationGuard<'_>) {
    let memory = SharedMapping::anonymous(KeyTableView::length(ENTRIES)).unwrap();
    let table = Arc::new(KeyTable::new(KeyTableView::new(Arc::new(memory), 0, ENTRIES)));
    let slots = Arc::new(slots_of_two());
    let bytes = Arc::new(AtomicU64::new(0));
    let keys = table.insert(entry()).unwrap();

    let peer = {
        let (table, slots, bytes) = (Arc::clone(&table), Arc::clone(&slots), Arc::clone(&bytes));
        loom::thread::spawn(move || {
            let guard = enter(&slots);
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

/// A thread of this process operates while its own memory is taken back, in the slots of this process alone.
fn own_race(fence: fn(), wait: fn(&OwnSlots), enter: fn(&OwnSlots) -> OperationGuard<'_>) {
    let memory = SharedMapping::anonymous(KeyTableView::length(ENTRIES)).unwrap();
    let table = Arc::new(KeyTable::new(KeyTableView::new(Arc::new(memory), 0, ENTRIES)));
    let slots = Arc::new(OwnSlots::new().unwrap());
    let bytes = Arc::new(AtomicU64::new(0));
    let keys = table.insert(entry()).unwrap();

    let other = {
        let (table, slots, bytes) = (Arc::clone(&table), Arc::clone(&slots), Arc::clone(&bytes));
        loom::thread::spawn(move || {
            let guard = enter(&slots);
            let range = AddressRange::new(0, 8);
            let place = resolve(table.view(), ZONE, keys.remote, KeyUse::Remote, range, Access::REMOTE_WRITE);
            // Another operation within, as for the bytes on this side.
            let within = slots.enter(|| true);
            if place.is_ok() {
                bytes.store(1, Ordering::Relaxed);
            }
            drop((within, guard));
        })
    };
    table.kill(keys);
    fence();
    wait(&slots);
    // From here on the memory is the program's alone.
    bytes.store(2, Ordering::Relaxed);
    other.join().unwrap();
    assert_eq!(bytes.load(Ordering::Relaxed), 2, "a write landed after revocation");
}

fn heavy_fence() {
    nonic_sys::heavy_fence(nonic_sys::FenceReach::Process);
}

fn wait_for_own(slots: &OwnSlots) {
    assert!(slots.wait_idle(Duration::from_secs(600)));
}

#[test]
fn nothing_of_this_process_lands_after_revocation_has_waited_however_deep_it_is_inside() {
    loom::model(|| own_race(heavy_fence, wait_for_own, |slots| slots.enter(|| true)));
}

/// All slots of the first set are taken: one of a set that is added while memory is taken back.
#[test]
fn nothing_lands_from_a_slot_that_is_made_while_revocation_looks() {
    loom::model(|| own_race(heavy_fence, wait_for_own, |slots| slots.enter_beyond_the_first()));
}

#[test]
#[should_panic(expected = "a write landed after revocation")]
fn without_the_fence_the_model_finds_the_write_from_a_slot_that_was_made_meanwhile() {
    loom::model(|| own_race(|| {}, wait_for_own, |slots| slots.enter_beyond_the_first()));
}

/// What a window's second look is for.
#[test]
#[should_panic(expected = "a write landed after revocation")]
fn a_slot_taken_without_a_fence_is_not_seen_if_the_key_is_looked_up_once() {
    loom::model(|| {
        race_of(
            nonic_sys::full_fence,
            |slots| assert!(slots.wait_idle(Duration::from_secs(600), &|| false)),
            |slots| slots.enter_unfenced(),
        );
    });
}

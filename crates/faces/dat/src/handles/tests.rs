use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use super::*;

const V: Numbering = Numbering::V1_2;

#[derive(Default)]
struct Adapter(Mark);

impl Object for Adapter {
    const KIND: ObjectKind = ObjectKind::InterfaceAdapter;
    fn mark(&self) -> &Mark {
        &self.0
    }
}

#[derive(Default)]
struct Zone {
    mark: Mark,
    number: usize,
}

impl Object for Zone {
    const KIND: ObjectKind = ObjectKind::ProtectionZone;
    fn mark(&self) -> &Mark {
        &self.mark
    }
}

struct Queue(Mark);

impl Object for Queue {
    const KIND: ObjectKind = ObjectKind::SharedReceiveQueue;
    fn mark(&self) -> &Mark {
        &self.0
    }
}

fn adapter() -> usize {
    add_adapter(V, 0x1234_5678, Arc::new(Adapter::default())).expect("there is room")
}

fn zone(beside: usize, number: usize) -> usize {
    add(V, beside, Arc::new(Zone { number, ..Zone::default() })).expect("there is room")
}

fn number(handle: usize) -> Result<usize, NoSuchObject> {
    with(V, handle, |zone: &Arc<Zone>| zone.number)
}

#[test]
fn a_handle_leads_to_its_object_and_its_first_word_to_the_provider() {
    let adapter = adapter();
    let handle = zone(adapter, 5);
    assert_eq!(number(handle), Ok(5));
    // SAFETY: a handle is readable memory, as programs rely on.
    assert_eq!(unsafe { *core::ptr::with_exposed_provenance::<usize>(handle) }, 0x1234_5678);
    assert_eq!((adapter_of(handle), adapter_of(adapter)), (adapter, adapter));
    assert_eq!(describe(handle), Some((V, ObjectKind::ProtectionZone)));
    assert_eq!(add(V, adapter, find::<Zone>(V, handle).expect("it lives")), Ok(handle));
}

#[test]
fn every_wrong_handle_is_refused_and_none_is_followed() {
    let adapter = adapter();
    let handle = zone(adapter, 5);
    let freed = zone(adapter, 6);
    assert!(remove::<Zone>(V, freed) && !remove::<Zone>(V, freed));
    let garbage =
        [0, 1, 2, 8, 0xdead_beef, usize::MAX, handle + 1, handle + 8, handle + 64 * 1000, handle ^ 1 << 40];
    for wrong in garbage.into_iter().chain([adapter, freed]) {
        assert_eq!(number(wrong), Err(NoSuchObject), "{wrong:#x}");
        assert!(find::<Zone>(V, wrong).is_err() && !remove::<Zone>(V, wrong));
    }
    assert!(with(V, handle, |_: &Arc<Queue>| ()).is_err(), "of another kind");
    assert!(with(Numbering::V2_0, handle, |_: &Arc<Zone>| ()).is_err(), "of the other version");
    assert_eq!(context(V, freed), Err(NoSuchObject));
    assert_eq!(number(handle), Ok(5));
}

#[test]
fn the_programs_word_is_kept_with_every_object_and_begins_at_0() {
    let adapter = adapter();
    let handle = zone(adapter, 0);
    for each in [adapter, handle] {
        assert_eq!(context(V, each), Ok(0));
        set_context(V, each, u64::MAX - 1).expect("it lives");
        assert_eq!(context(V, each), Ok(u64::MAX - 1));
    }
}

#[test]
fn a_closed_interface_adapter_takes_its_objects_with_it_and_no_others() {
    let (one, other) = (adapter(), adapter());
    let (gone, stays) = (zone(one, 1), zone(other, 2));
    let object = find::<Zone>(V, gone).expect("it lives");
    remove_adapter(V, one);
    assert_eq!((number(gone), number(stays)), (Err(NoSuchObject), Ok(2)));
    assert_eq!(add(V, one, Arc::new(Zone::default())), Err(NotAdded::Closed));
    assert_eq!(add(V, gone, Arc::new(Zone::default())), Err(NotAdded::Closed));
    assert_eq!(object.number, 1);
}

#[test]
fn a_freed_handle_stays_wrong_for_thousands_of_objects() {
    let adapter = adapter();
    let freed = zone(adapter, 1);
    assert!(remove::<Zone>(V, freed));
    for count in 0..4000 {
        let next = zone(adapter, count);
        assert_ne!(next, freed);
        assert!(remove::<Zone>(V, next));
    }
}

#[test]
fn threads_that_use_an_object_while_it_is_freed_see_it_or_nothing() {
    let adapter = adapter();
    let (begin, stop) = (Barrier::new(3), AtomicBool::new(false));
    let current = std::sync::atomic::AtomicUsize::new(zone(adapter, 77));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                begin.wait();
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(number) = number(current.load(Ordering::Relaxed)) {
                        assert_eq!(number, 77);
                    }
                }
            });
        }
        begin.wait();
        for _ in 0..20_000 {
            let next = zone(adapter, 77);
            assert!(remove::<Zone>(V, current.swap(next, Ordering::Relaxed)));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

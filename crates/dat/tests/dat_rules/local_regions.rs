//! Local memory regions, without a peer: `dat_lmr_create(3)` and `dat_lmr_free(3)`.

use std::sync::Arc;

use crate::common;
use crate::common::{PAGE, Pages, bad_handle, bad_state, open, ordinary, own_cookie, register};
use nonic_dat::{
    Cookie, DatError, Description, HandleKind, InterfaceAdapter, Kind, LocalRegion, Privileges,
    ProtectionZone, StateKind, Subtype,
};

const LENGTH_ERROR: DatError = DatError::new(Kind::LengthError, Subtype::None);
const NOT_MAPPED: DatError = DatError::argument(3);

fn setup() -> (Arc<InterfaceAdapter>, Arc<ProtectionZone>) {
    let adapter = open(true);
    let zone = ProtectionZone::create(&adapter).unwrap();
    (adapter, zone)
}

/// The whole test once more on an adapter that is not coherent: what a call answers is the same.
fn on_both(test: impl Fn(&Arc<InterfaceAdapter>, &Arc<ProtectionZone>)) {
    for coherent in [true, false] {
        let adapter = open(coherent);
        let zone = ProtectionZone::create(&adapter).unwrap();
        test(&adapter, &zone);
        adapter.close(false).unwrap();
    }
}

/// LMR-1, LMR-2, LMR-3, LMR-10.
#[test]
fn a_region_tells_what_was_registered() {
    on_both(|_, zone| {
        let pages = Pages::private(4);
        for (strong_order, memory_type) in [(false, 0), (true, 3)] {
            let description =
                Description::Virtual { address: common::program(pages.address() + 100), strong_order };
            let region =
                LocalRegion::create(zone.adapter(), description, 5000, zone, Privileges::ALL).unwrap();
            let facts = region.facts();
            assert_eq!(facts.memory_type, memory_type);
            assert_eq!((facts.address, facts.length), (pages.address() + 100, 5000));
            assert_eq!((facts.registered_address, facts.registered_size), (facts.address, 5000));
            assert_eq!((facts.privileges, facts.cookie), (Privileges::ALL, None));
            assert!(Arc::ptr_eq(&facts.zone, zone) && facts.base.is_none());
            assert!(facts.local_context != 0 && facts.remote_context != 0);
            assert_ne!(facts.local_context, facts.remote_context);
            region.free().unwrap();
        }
    });
}

/// LMR-8, LMR-9.
#[test]
fn a_remote_context_exists_only_with_a_remote_privilege() {
    on_both(|_, zone| {
        let pages = Pages::private(1);
        for bits in (0..=0xff).filter(|bits| Privileges::from_bits(*bits).is_some()) {
            let privileges = Privileges::from_bits(bits).unwrap();
            assert_eq!(bits & !0x33, 0);
            let region = register(zone, &pages, privileges).unwrap();
            let facts = region.facts();
            assert_eq!(facts.remote_context != 0, bits & 0x22 != 0, "{bits:#x}");
            assert_ne!(facts.local_context, 0);
            region.free().unwrap();
        }
        assert_eq!((0..=u8::MAX.into()).filter(|bits| Privileges::from_bits(*bits).is_some()).count(), 16);
    });
}

/// LMR-4.
#[test]
fn a_region_on_a_region_has_the_same_memory_and_rights_and_a_zone_of_its_own() {
    on_both(|adapter, zone| {
        let other_zone = ProtectionZone::create(adapter).unwrap();
        let pages = Pages::private(3);
        let base = register(zone, &pages, Privileges::LOCAL_READ).unwrap();
        // The length does not count.
        for length in [0, 1, u64::MAX] {
            let description = Description::Region(Arc::clone(&base));
            let region =
                LocalRegion::create(adapter, description, length, &other_zone, Privileges::ALL).unwrap();
            let facts = region.facts();
            assert_eq!((facts.memory_type, facts.address), (1, pages.address()));
            assert_eq!((facts.length, facts.registered_size), (pages.length(), pages.length()));
            assert!(
                Arc::ptr_eq(facts.base.as_ref().unwrap(), &base) && Arc::ptr_eq(&facts.zone, &other_zone)
            );
            assert_ne!(facts.local_context, base.facts().local_context);
            assert!(facts.remote_context != 0 && base.facts().remote_context == 0);
            region.free().unwrap();
        }
    });
}

/// LMR-4.
#[test]
fn a_region_outlives_the_region_that_it_was_made_on() {
    on_both(|adapter, zone| {
        let pages = Pages::private(1);
        let base = register(zone, &pages, Privileges::ALL).unwrap();
        let on = |base: &Arc<LocalRegion>| {
            LocalRegion::create(adapter, Description::Region(Arc::clone(base)), 0, zone, Privileges::ALL)
        };
        let second = on(&base).unwrap();
        base.free().unwrap();
        assert_eq!(on(&base).unwrap_err(), bad_handle(HandleKind::LocalRegion));
        let third = on(&second).unwrap();
        second.free().unwrap();
        assert_eq!(third.facts().address, pages.address());
        let segment = common::part(&third, 0, PAGE as u64);
        adapter.sync_rdma_write([segment].into_iter()).unwrap();
        third.free().unwrap();
    });
}

/// LMR-5, LMR-6.
#[test]
fn a_cookie_names_shared_memory_by_all_its_bytes() {
    on_both(|adapter, zone| {
        let create = |address: u64, length: u64, cookie: Cookie| {
            LocalRegion::create(
                adapter,
                Description::Shared { address: common::program(address), cookie },
                length,
                zone,
                Privileges::ALL,
            )
        };
        let mut cookie = own_cookie(206);
        cookie[0] = 0;
        let mut like_it = cookie;
        like_it[39] ^= 0x80;
        let (one, other) = (Pages::shared(2), Pages::shared(2));
        let first = create(one.address(), one.length(), cookie).unwrap();
        let facts = first.facts();
        assert_eq!((facts.memory_type, facts.cookie), (2, Some(cookie)));
        // The first byte is 0, where text would end. The same cookie is the same memory.
        let again = create(one.address(), one.length(), cookie).unwrap();
        assert_ne!(again.facts().local_context, facts.local_context);
        for (address, length) in
            [(other.address(), other.length()), (one.address(), 100), (one.address() + 8, one.length() - 8)]
        {
            assert_eq!(create(address, length, cookie).unwrap_err(), DatError::argument(3));
        }
        let different = create(other.address(), other.length(), like_it).unwrap();
        first.free().unwrap();
        assert_eq!(create(other.address(), other.length(), cookie).unwrap_err(), DatError::argument(3));
        again.free().unwrap();
        // A cookie that nobody holds is free for other memory.
        create(other.address(), other.length(), cookie).unwrap().free().unwrap();
        different.free().unwrap();
    });
}

/// LMR-5, LMR-17: of threads that name two memories by one cookie only those of one memory succeed.
#[test]
fn a_cookie_names_one_memory_whoever_comes_first() {
    on_both(|adapter, zone| {
        let (one, other) = (Pages::shared(1), Pages::shared(1));
        let start = std::sync::Barrier::new(4);
        // Tests run side by side, and a cookie is the whole process's: these are this one's.
        for turn in 100..150 {
            let create = |pages: &Pages| {
                start.wait();
                let description = Description::Shared {
                    address: common::program(pages.address()),
                    cookie: own_cookie(turn),
                };
                LocalRegion::create(adapter, description, pages.length(), zone, Privileges::ALL)
            };
            let created = std::thread::scope(|scope| {
                let threads = [&one, &other, &one, &other].map(|pages| scope.spawn(|| create(pages)));
                threads.map(|thread| thread.join().unwrap())
            });
            let addresses: Vec<u64> = created.iter().flatten().map(|region| region.facts().address).collect();
            assert!(!addresses.is_empty());
            assert!(addresses.iter().all(|address| *address == addresses[0]), "{addresses:?}");
            for refused in created.iter().filter_map(|created| created.as_ref().err()) {
                assert_eq!(*refused, DatError::argument(3));
            }
        }
        zone.free().unwrap();
    });
}

/// LMR-5: peers have the memory at addresses of their own.
#[test]
fn the_same_file_at_two_addresses_is_one_shared_memory() {
    on_both(|adapter, zone| {
        let file = Pages::file(2);
        let (one, other) = (Pages::of_file(2, file), Pages::of_file(2, file));
        // SAFETY: the mappings keep the file.
        unsafe { libc::close(file) };
        let cookie = own_cookie(207);
        let create = |pages: &Pages| {
            let description = Description::Shared { address: common::program(pages.address()), cookie };
            LocalRegion::create(adapter, description, pages.length(), zone, Privileges::ALL)
        };
        let (first, second) = (create(&one).unwrap(), create(&other).unwrap());
        assert_eq!(first.facts().address, one.address());
        assert_eq!(second.facts().address, other.address());
    });
}

/// LMR-7, LMR-16.
#[test]
fn memory_that_the_machine_does_not_share_is_no_shared_memory() {
    on_both(|adapter, zone| {
        let shared = |pages: &Pages, length: u64| {
            let description =
                Description::Shared { address: common::program(pages.address()), cookie: own_cookie(201) };
            LocalRegion::create(adapter, description, length, zone, Privileges::ALL).map(drop)
        };
        let pages = Pages::private(4);
        assert_eq!(shared(&pages, 1), Err(DatError::state(Subtype::None)));
        // Not after it was registered either, when it may stand in a file of ours.
        let region = register(zone, &pages, Privileges::ALL).unwrap();
        assert_eq!(shared(&pages, pages.length()), Err(DatError::state(Subtype::None)));
        region.free().unwrap();
        // Shared, but not as far as that.
        let pages = Pages::shared(2);
        assert_eq!(shared(&pages, pages.length() + 1), Err(NOT_MAPPED));
        assert_eq!(shared(&pages, pages.length()), Ok(()));
    });
}

/// LMR-16.
#[test]
fn what_cannot_be_registered_is_refused_and_leaves_nothing() {
    on_both(|adapter, zone| {
        let pages = Pages::private(2);
        let create = |address: u64, length: u64, privileges| {
            LocalRegion::create(adapter, ordinary(address), length, zone, privileges).map(drop)
        };
        assert_eq!(create(pages.address(), 0, Privileges::ALL), Err(LENGTH_ERROR));
        assert_eq!(create(pages.address(), u64::MAX, Privileges::ALL), Err(DatError::argument(4)));
        assert_eq!(create(pages.address(), pages.length() + 1, Privileges::NONE), Err(NOT_MAPPED));
        assert_eq!(create(0, 1, Privileges::NONE), Err(NOT_MAPPED));
        pages.allow(libc::PROT_READ);
        for writes in [Privileges::LOCAL_WRITE, Privileges::REMOTE_WRITE] {
            assert_eq!(create(pages.address(), 8, writes), Err(DatError::argument(6)));
        }
        assert_eq!(create(pages.address(), 8, Privileges::LOCAL_READ | Privileges::REMOTE_READ), Ok(()));
        pages.allow(libc::PROT_NONE);
        assert_eq!(create(pages.address(), 8, Privileges::NONE), Err(NOT_MAPPED));
        // Nothing holds the zone.
        zone.free().unwrap();
    });
}

/// LMR-16.
#[test]
fn what_was_freed_or_belongs_to_another_adapter_is_no_handle() {
    let (adapter, zone) = setup();
    let (other_adapter, other_zone) = setup();
    let pages = Pages::private(1);
    let base = register(&zone, &pages, Privileges::ALL).unwrap();
    let create = |adapter, zone| {
        LocalRegion::create(adapter, ordinary(pages.address()), 8, zone, Privileges::ALL).map(drop)
    };
    assert_eq!(create(&adapter, &other_zone), Err(bad_handle(HandleKind::ProtectionZone)));
    let description = Description::Region(Arc::clone(&base));
    let refused = LocalRegion::create(&other_adapter, description, 0, &other_zone, Privileges::ALL);
    assert_eq!(refused.unwrap_err(), bad_handle(HandleKind::LocalRegion));
    assert_eq!(zone.free(), Err(bad_state(StateKind::PzInUse)));
    base.free().unwrap();
    assert_eq!(base.free(), Err(bad_handle(HandleKind::LocalRegion)));
    zone.free().unwrap();
    assert_eq!(zone.free(), Err(bad_handle(HandleKind::ProtectionZone)));
    assert_eq!(create(&adapter, &zone), Err(bad_handle(HandleKind::ProtectionZone)));
    other_adapter.close(true).unwrap_err();
    other_zone.free().unwrap();
    other_adapter.close(true).unwrap();
    assert_eq!(create(&other_adapter, &zone), Err(bad_handle(HandleKind::InterfaceAdapter)));
}

/// LMR-4 with LMR-16: rights that the memory cannot give are refused on a region, too.
#[test]
fn a_region_on_a_region_cannot_write_to_memory_that_is_only_read() {
    on_both(|adapter, zone| {
        let pages = Pages::private(1);
        pages.allow(libc::PROT_READ);
        let base = register(zone, &pages, Privileges::LOCAL_READ).unwrap();
        let on = |privileges| {
            let description = Description::Region(Arc::clone(&base));
            LocalRegion::create(adapter, description, 0, zone, privileges).map(drop)
        };
        assert_eq!(on(Privileges::ALL), Err(DatError::argument(6)));
        assert_eq!(on(Privileges::REMOTE_READ), Ok(()));
    });
}

/// LMR-17.
#[test]
fn regions_are_created_and_freed_by_many_threads_at_once() {
    on_both(|adapter, zone| {
        let pages = Pages::private(8);
        let base = register(zone, &pages, Privileges::ALL).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (pages, base) = (&pages, &base);
                scope.spawn(move || {
                    for turn in 0..200_u64 {
                        let description = match turn % 2 {
                            0 => ordinary(pages.address() + thread * 100),
                            _ => Description::Region(Arc::clone(base)),
                        };
                        let region =
                            LocalRegion::create(adapter, description, 5000, zone, Privileges::ALL).unwrap();
                        let segment = common::part(&region, 0, 5000);
                        adapter.sync_rdma_write([segment].into_iter()).unwrap();
                        region.free().unwrap();
                        let gone = adapter.sync_rdma_write([segment].into_iter());
                        assert_eq!(gone, Err(DatError::argument(2)));
                    }
                });
            }
        });
        base.free().unwrap();
        zone.free().unwrap();
        adapter.join_nothing_left();
    });
}

trait NothingLeft {
    fn join_nothing_left(&self);
}

impl NothingLeft for Arc<InterfaceAdapter> {
    /// No object is counted any more: a graceful close would be allowed. (The test closes it itself.)
    fn join_nothing_left(&self) {
        let zone = ProtectionZone::create(self).unwrap();
        assert_eq!(self.close(true), Err(bad_state(StateKind::IaInUse)));
        zone.free().unwrap();
    }
}

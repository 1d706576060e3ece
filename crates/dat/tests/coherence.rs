//! `dat_lmr_sync_rdma_read(3)` and `dat_lmr_sync_rdma_write(3)` without a peer.

mod common;

use common::{Pages, open, part, register};
use nonic_dat::{DatError, Privileges, ProtectionZone, Segment};

const REFUSED: Result<(), DatError> = Err(DatError::argument(2));

/// SYNC-1, SYNC-3, SYNC-5.
#[test]
fn segments_of_many_regions_and_zones_are_taken_in_one_call() {
    for coherent in [true, false] {
        let adapter = open(coherent);
        assert_eq!(adapter.provider_attributes().sync_required, !coherent);
        let pages = Pages::private(4);
        let segments: Vec<Segment> = (0..4)
            .map(|_| {
                let zone = ProtectionZone::create(&adapter).unwrap();
                let region = register(&zone, &pages, Privileges::NONE).unwrap();
                let segment = part(&region, 10, 4000);
                std::mem::forget((zone, region));
                segment
            })
            .collect();
        adapter.sync_rdma_read(segments.iter().copied()).unwrap();
        adapter.sync_rdma_write(segments.iter().copied()).unwrap();
        adapter.sync_rdma_read(std::iter::empty()).unwrap();
        adapter.close(false).unwrap();
    }
}

/// SYNC-8.
#[test]
fn a_segment_outside_its_region_or_of_no_region_is_refused() {
    for coherent in [true, false] {
        let (adapter, other_adapter) = (open(coherent), open(coherent));
        let zone = ProtectionZone::create(&adapter).unwrap();
        let other_zone = ProtectionZone::create(&other_adapter).unwrap();
        let pages = Pages::private(2);
        let region = register(&zone, &pages, Privileges::ALL).unwrap();
        let strange = register(&other_zone, &pages, Privileges::ALL).unwrap();
        let whole = part(&region, 0, pages.length());
        let remote = Segment { context: region.facts().remote_context, ..whole };
        let freed = register(&zone, &pages, Privileges::ALL).unwrap();
        let gone = part(&freed, 0, 1);
        freed.free().unwrap();
        for wrong in [
            part(&region, 0, pages.length() + 1),
            part(&region, 1, pages.length()),
            part(&region, u64::MAX, 1),
            part(&region, 0, u64::MAX),
            part(&region, pages.length(), 1),
            part(&strange, 0, 1),
            remote,
            gone,
            Segment { context: 0, ..whole },
            Segment { context: u32::MAX, ..whole },
        ] {
            for segments in [vec![wrong], vec![whole, wrong], vec![wrong, whole]] {
                assert_eq!(adapter.sync_rdma_read(segments.iter().copied()), REFUSED, "{wrong:?}");
                assert_eq!(adapter.sync_rdma_write(segments.into_iter()), REFUSED, "{wrong:?}");
            }
        }
        adapter.sync_rdma_write([whole, part(&region, pages.length(), 0)].into_iter()).unwrap();
        adapter.close(false).unwrap();
        assert!(adapter.sync_rdma_write([whole].into_iter()).is_err());
        other_adapter.close(false).unwrap();
    }
}

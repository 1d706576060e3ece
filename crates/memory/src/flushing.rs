//! Flushes of a peer's (IBTA vol. 1, annex A19.4.1), which reach no byte: all there is to them here is whether it may.

use nonic_protocol::{FlushRequest, Selectivity};

use crate::{AddressRange, KeyTableView, KeyUse, OwnOperation, ZoneId, admit};

impl OwnOperation<'_> {
    /// Whether a peer may have flushed what it wrote, through this queue pair of its. The key is looked at whatever the length is.
    pub fn may_flush(&self, zone: ZoneId, pair: u32, flush: &FlushRequest) -> bool {
        may_flush(self.memory().table(), zone, pair, flush)
    }
}

/// The checks of every access, in the same order. Nothing is reached by it.
fn may_flush(table: &KeyTableView, zone: ZoneId, pair: u32, flush: &FlushRequest) -> bool {
    let FlushRequest { remote, length, placement, selectivity } = *flush;
    let range = match selectivity {
        Selectivity::Range => Some(AddressRange::new(remote.address, length.into())),
        Selectivity::Region => table
            .protection(remote.key.index())
            .map(|entry| AddressRange { start: entry.base, length: entry.length }),
    };
    range.is_some_and(|range| {
        admit(table, zone, remote.key, KeyUse::Through(pair), range, placement.access()).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Entry, Key, KeyTable, PlainReason, RegionAddress, Translation};
    use nonic_protocol::{Placement, RemoteRange};
    use nonic_sys::SharedMapping;
    use std::sync::Arc;

    const ZONE: ZoneId = ZoneId(5);

    #[test]
    fn a_flush_needs_its_right_and_a_range_only_where_one_is_named() {
        let both = Placement::from_bits(Placement::GLOBAL.bits() | Placement::PERSISTENT.bits()).unwrap();
        let mapping = Arc::new(SharedMapping::anonymous(8192).unwrap());
        let table = KeyTable::new(KeyTableView::new(mapping, 0, 128));
        let entry = Entry {
            zone: ZONE,
            access: Access::REMOTE_READ | Access::FLUSH_GLOBAL,
            base: RegionAddress(0x1000),
            length: 0x100,
            translation: Translation::Plain { address: 0xabc000 },
            reason: PlainReason::None,
            local_tag: 0,
            remote_tag: 0,
        };
        let keys = table.insert(entry).unwrap();
        let asks = |zone, key, range: Option<(u64, u32)>, placement| {
            let selectivity = if range.is_some() { Selectivity::Range } else { Selectivity::Region };
            let (address, length) = range.unwrap_or_default();
            let remote = RemoteRange { address, key };
            may_flush(table.view(), zone, 7, &FlushRequest { remote, length, placement, selectivity })
        };
        for range in [None, Some((0x1000, 0x100)), Some((0x1100, 0)), Some((0x1001, 0))] {
            assert!(asks(ZONE, keys.remote, range, Placement::GLOBAL), "{range:?}");
        }
        for outside in [(0xfff, 1), (0x1000, 0x101), (0x1101, 0), (0x1080, u32::MAX), (u64::MAX, 2)] {
            assert!(!asks(ZONE, keys.remote, Some(outside), Placement::GLOBAL), "{outside:?}");
        }
        for range in [None, Some((0x1000, 1))] {
            assert!(!asks(ZoneId(6), keys.remote, range, Placement::GLOBAL));
            assert!(!asks(ZONE, keys.local, range, Placement::GLOBAL));
            assert!(!asks(ZONE, keys.remote, range, both));
            assert!(!asks(ZONE, keys.remote, range, Placement::PERSISTENT));
        }
        table.kill(keys);
        assert!(
            !asks(ZONE, keys.remote, None, Placement::GLOBAL) && !asks(ZONE, Key(0), None, Placement::GLOBAL)
        );
    }
}

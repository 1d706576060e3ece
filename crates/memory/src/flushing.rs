//! Flushes of a peer's (IBTA vol. 1, annex A19.4.1), which reach no byte: all there is to them here is whether it may.

use crate::{Access, AddressRange, Key, KeyTableView, KeyUse, ZoneId, admit};

/// Whether a peer may have flushed what it wrote through this queue pair of its: a range, or all of a region. The same checks in the
/// same order, whatever the length is. Nothing is reached by it.
pub(crate) fn may_flush(
    table: &KeyTableView,
    zone: ZoneId,
    key: Key,
    pair: u32,
    range: Option<AddressRange>,
    want: Access,
) -> bool {
    let all = || {
        table.protection(key.index()).map(|entry| AddressRange { start: entry.base, length: entry.length })
    };
    let Some(range) = range.or_else(all) else { return false };
    admit(table, zone, key, KeyUse::Through(pair), range, want).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, KeyTable, PlainReason, RegionAddress, Translation};
    use nonic_sys::SharedMapping;
    use std::sync::Arc;

    const ZONE: ZoneId = ZoneId(5);

    #[test]
    fn a_flush_needs_its_right_and_a_range_only_where_one_is_named() {
        let right = Access::FLUSH_GLOBAL;
        let mapping = Arc::new(SharedMapping::anonymous(8192).unwrap());
        let table = KeyTable::new(KeyTableView::new(mapping, 0, 128));
        let entry = Entry {
            zone: ZONE,
            access: right,
            base: RegionAddress(0x1000),
            length: 0x100,
            translation: Translation::Plain { address: 0xabc000 },
            reason: PlainReason::None,
            local_tag: 0,
            remote_tag: 0,
        };
        let keys = table.insert(entry).unwrap();
        let asks = |zone, key, range: Option<(u64, u64)>, want| {
            let range = range.map(|(start, length)| AddressRange::new(start, length));
            may_flush(table.view(), zone, key, 7, range, want)
        };
        for range in [None, Some((0x1000, 0x100)), Some((0x1100, 0)), Some((0x1001, 0))] {
            assert!(asks(ZONE, keys.remote, range, right), "{range:?}");
        }
        for outside in [(0xfff, 1), (0x1000, 0x101), (0x1101, 0), (0x1080, u64::MAX)] {
            assert!(!asks(ZONE, keys.remote, Some(outside), right), "{outside:?}");
        }
        for range in [None, Some((0x1000, 1))] {
            assert!(!asks(ZoneId(6), keys.remote, range, right));
            assert!(!asks(ZONE, keys.local, range, right));
            assert!(!asks(ZONE, keys.remote, range, right | Access::FLUSH_PERSISTENT));
            assert!(!asks(ZONE, keys.remote, range, Access::REMOTE_READ));
        }
        table.kill(keys);
        assert!(!asks(ZONE, keys.remote, None, right) && !asks(ZONE, Key(0), None, right));
    }
}

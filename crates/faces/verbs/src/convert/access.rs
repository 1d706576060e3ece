//! `enum ibv_access_flags`.

use nonic_device::Access;

use crate::abi::{
    IBV_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_PERSISTENT, IBV_ACCESS_HUGETLB, IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_MW_BIND, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_OPTIONAL_RANGE, IBV_ACCESS_REMOTE_ATOMIC,
    IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_ZERO_BASED,
};
use crate::errno::Errno;

/// The bits that are rights; the engine has them in the same places.
const RIGHTS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND;
/// Those of FLUSH, which stand elsewhere.
const FLUSH: u32 = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
const FLUSH_SHIFT: u32 = 3;

const _: () = {
    assert!(Access::LOCAL_WRITE.bits() == IBV_ACCESS_LOCAL_WRITE);
    assert!(Access::REMOTE_WRITE.bits() == IBV_ACCESS_REMOTE_WRITE);
    assert!(Access::REMOTE_READ.bits() == IBV_ACCESS_REMOTE_READ);
    assert!(Access::REMOTE_ATOMIC.bits() == IBV_ACCESS_REMOTE_ATOMIC);
    assert!(Access::WINDOW_BIND.bits() == IBV_ACCESS_MW_BIND);
    assert!(Access::FLUSH_GLOBAL.bits() << FLUSH_SHIFT == IBV_ACCESS_FLUSH_GLOBAL);
    assert!(Access::FLUSH_PERSISTENT.bits() << FLUSH_SHIFT == IBV_ACCESS_FLUSH_PERSISTENT);
};

/// What a registration asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) access: Access,
    pub(crate) zero_based: bool,
    /// The memory is looked for when it is used.
    pub(crate) on_demand: bool,
}

fn rights(bits: u32, allowed: u32) -> Result<Rights, Errno> {
    // Programs set bits of the optional range to be fast where a device knows them; the manual page says
    // ignore.
    let bits = bits & !IBV_ACCESS_OPTIONAL_RANGE;
    if bits & !allowed != 0 {
        return Err(Errno::EINVAL);
    }
    let access = Access::from_bits(bits & RIGHTS | (bits & FLUSH) >> FLUSH_SHIFT).ok_or(Errno::EINVAL)?;
    let has = |bit| bits & bit != 0;
    Ok(Rights { access, zero_based: has(IBV_ACCESS_ZERO_BASED), on_demand: has(IBV_ACCESS_ON_DEMAND) })
}

/// The rights as bits again.
pub(crate) fn access_flags(access: Access) -> u32 {
    access.bits() & RIGHTS | access.bits() << FLUSH_SHIFT & FLUSH
}

/// Rights of a region of program memory: unknown bits, and a peer's writes or atomics without local write, are `EINVAL`. Huge pages
/// need no preparation here, so that bit is taken and means nothing.
pub(crate) fn region_rights(bits: u32) -> Result<Rights, Errno> {
    let of_regions = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
    let known = rights(bits, RIGHTS | FLUSH | of_regions)?;
    if known.access.is_consistent() { Ok(known) } else { Err(Errno::EINVAL) }
}

/// Rights of a region of device memory: as above, but zero based is required, paging does not exist, and a peer's writes need local write
/// (`EINVAL`).
pub(crate) fn device_memory_rights(bits: u32) -> Result<Access, Errno> {
    let known = rights(bits, RIGHTS | FLUSH | IBV_ACCESS_ZERO_BASED)?;
    if known.zero_based && known.access.is_consistent() { Ok(known.access) } else { Err(Errno::EINVAL) }
}

/// Rights of a memory window: remote ones, and whether it is zero based. Local write is taken and means nothing, as on
/// cards: a window has no local key, and whether a peer may write is for the region to say. Anything else is `EINVAL`, but for
/// bits of the optional range.
pub(crate) fn window_rights(bits: u32) -> Result<Rights, Errno> {
    let remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    rights(bits & !IBV_ACCESS_LOCAL_WRITE, remote | IBV_ACCESS_ZERO_BASED)
}

/// `qp_access_flags`: what a peer may do through a queue pair. The flags that only concern regions are let through and dropped, as by
/// the kernel; unknown ones are `EINVAL`.
pub(crate) fn queue_pair_access(bits: u32) -> Result<Access, Errno> {
    let regions_only = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
    Ok(rights(bits, RIGHTS | FLUSH | regions_only)?.access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_bits_are_refused_and_optional_ones_dropped() {
        assert_eq!(region_rights(1 << 10), Err(Errno::EINVAL));
        assert_eq!(region_rights(1 << 30), Err(Errno::EINVAL));
        let plain = Rights { access: Access::LOCAL_WRITE, zero_based: false, on_demand: false };
        assert_eq!(region_rights(1 | 1 << 20 | 1 << 29), Ok(plain));
        assert_eq!(region_rights(1 | IBV_ACCESS_HUGETLB), Ok(plain));
        let paged = region_rights(1 | IBV_ACCESS_ON_DEMAND);
        assert_eq!(paged, Ok(Rights { on_demand: true, ..plain }));
    }

    #[test]
    fn a_queue_pair_takes_flags_that_mean_nothing_to_it_and_no_unknown_ones() {
        let meaningless = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED;
        assert_eq!(queue_pair_access(IBV_ACCESS_REMOTE_READ | meaningless), Ok(Access::REMOTE_READ));
        assert_eq!(queue_pair_access(IBV_ACCESS_REMOTE_READ | 1 << 10), Err(Errno::EINVAL));
    }

    #[test]
    fn the_rights_of_flush_come_back_as_they_were_and_no_window_gives_them() {
        let both = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
        let access = Access::REMOTE_READ | Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
        assert_eq!(queue_pair_access(both), Ok(access));
        assert_eq!(access_flags(access), both);
        assert_eq!(
            region_rights(IBV_ACCESS_FLUSH_GLOBAL).map(|rights| rights.access),
            Ok(Access::FLUSH_GLOBAL)
        );
        assert_eq!(window_rights(IBV_ACCESS_FLUSH_GLOBAL), Err(Errno::EINVAL), "no window gives it");
    }

    #[test]
    fn what_a_peer_writes_must_be_writable_at_all() {
        for remote in [IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC] {
            assert_eq!(region_rights(remote), Err(Errno::EINVAL));
            assert_eq!(device_memory_rights(remote | IBV_ACCESS_ZERO_BASED), Err(Errno::EINVAL));
            assert!(region_rights(remote | IBV_ACCESS_LOCAL_WRITE).is_ok());
            assert!(device_memory_rights(remote | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED).is_ok());
        }
        assert!(region_rights(IBV_ACCESS_REMOTE_READ).is_ok());
    }

    #[test]
    fn a_window_gives_remote_rights_and_no_others() {
        let read = Rights { access: Access::REMOTE_READ, zero_based: true, on_demand: false };
        let write = Rights { access: Access::REMOTE_WRITE, zero_based: false, on_demand: false };
        assert_eq!(window_rights(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | 1 << 20), Ok(read));
        assert_eq!(window_rights(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), Ok(write));
        assert_eq!(window_rights(IBV_ACCESS_MW_BIND), Err(Errno::EINVAL));
    }

    #[test]
    fn device_memory_must_be_zero_based_and_is_never_paged() {
        assert_eq!(device_memory_rights(1), Err(Errno::EINVAL));
        assert_eq!(device_memory_rights(1 | IBV_ACCESS_ZERO_BASED), Ok(Access::LOCAL_WRITE));
        let bindable = device_memory_rights(1 | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
        assert_eq!(bindable, Ok(Access::LOCAL_WRITE | Access::WINDOW_BIND));
        assert_eq!(device_memory_rights(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED), Err(Errno::EINVAL));
        assert_eq!(device_memory_rights(IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED), Err(Errno::EINVAL));
    }
}

//! Synchronizing local memory with what peers read and write (`dat_lmr_sync_rdma_read`, `dat_lmr_sync_rdma_write`).
//!
//! On a coherent adapter there is nothing to do but to look at the arguments. On one that is not, peers have a shadow of the
//! memory, one for all regions on it: what they write stays there until the program asks for it, and what the program
//! writes reaches them when the program says so. Data transfer operations of this process use the program's memory.

use nonic_device::{Access, AddressRange, Key, ZoneId};

use crate::error::{DatError, DatResult};
use crate::interface_adapter::InterfaceAdapter;
use crate::local_region::LocalRegion;
use crate::values::Segment;

impl InterfaceAdapter {
    /// Makes what the program wrote to these segments visible to peers that read them from now on. Needed only on an adapter
    /// that is not coherent. `INVALID_PARAMETER|ARG2` if a context is unknown or a segment leaves its region; nothing is
    /// done then.
    pub fn sync_rdma_read(&self, segments: impl ExactSizeIterator<Item = Segment> + Clone) -> DatResult<()> {
        self.judge_all(segments.clone())?;
        nonic_sys::full_fence();
        if !self.is_coherent() {
            self.for_each(segments, LocalRegion::publish);
        }
        Ok(())
    }

    /// Makes what peers wrote to these segments visible to the program, and what it wrote itself to peers. Needed only on an adapter that is not coherent.
    /// Errors as for [`Self::sync_rdma_read`].
    pub fn sync_rdma_write(&self, segments: impl ExactSizeIterator<Item = Segment> + Clone) -> DatResult<()> {
        self.judge_all(segments.clone())?;
        if !self.is_coherent() {
            self.for_each(segments, LocalRegion::synchronize);
        }
        nonic_sys::full_fence();
        Ok(())
    }

    fn for_each(&self, segments: impl Iterator<Item = Segment>, pass_on: fn(&LocalRegion, AddressRange)) {
        for Segment { context, address, length } in segments {
            if let Some(region) = self.regions.find(context) {
                pass_on(&region, AddressRange::new(address, length));
            }
        }
    }

    fn judge_all(&self, mut segments: impl ExactSizeIterator<Item = Segment>) -> DatResult<()> {
        self.check_open()?;
        let known = segments.all(|segment| self.known_segment(&segment).is_some());
        if known { Ok(()) } else { Err(DatError::argument(2)) }
    }

    /// Zone and rights of the region of this adapter that holds a segment. Takes no lock.
    #[inline]
    pub(crate) fn known_segment(&self, segment: &Segment) -> Option<(ZoneId, Access)> {
        let range = AddressRange::new(segment.address, segment.length);
        self.context().registered(Key(segment.context), range).filter(|(zone, _)| self.has_zone(*zone))
    }
}

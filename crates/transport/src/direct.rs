//! One-sided operations that run in the initiator: find the bytes, copy, done. Everything that is in doubt is left to
//! the target, which judges it by the same gate; so this path never refuses, it only declines.

use std::io;

use nonic_memory::{Access, AddressRange, Key, KeyUse, OperationGuard, SharedSlice, admit, resolve};
use nonic_queue::{QpNumber, QpType};

use crate::kernel_copy::Way;
use crate::link::{Entered, Link};
use crate::segment::SlotPlace;
use crate::target::Target;

/// What an operation wants of the peer's memory.
#[derive(Clone, Copy, Debug)]
pub struct DirectRequest {
    /// The queue pair that asks.
    pub source: QpNumber,
    /// The service it expects of its peer.
    pub transport: QpType,
    /// Where the peer's queue pair publishes itself.
    pub target: SlotPlace,
    /// Its number.
    pub pair: QpNumber,
    /// The remote key.
    pub key: Key,
    /// The bytes.
    pub range: AddressRange,
    /// The right that is needed.
    pub want: Access,
}

/// The peer's bytes, held so that revocation waits.
#[derive(Debug)]
pub struct DirectAccess<'a> {
    entered: Entered<'a>,
    link: &'a Link,
    target: Target<'a>,
}

impl Link {
    /// The peer's bytes, if the operation is allowed beyond doubt and they can be reached from here.
    pub fn direct(&self, request: &DirectRequest) -> Option<DirectAccess<'_>> {
        let (view, keys) = (self.view()?, self.keys()?);
        let entered = self.enter(view)?;
        let slot = view.segment.slot(request.target)?;
        if !slot.allows(request.source, request.transport, request.want) {
            return None;
        }
        let key_use = KeyUse::Through(request.pair.0);
        let place = resolve(keys, slot.zone, request.key, key_use, request.range, request.want).ok()?;
        let way = if request.want == Access::REMOTE_WRITE { Way::Out } else { Way::In };
        let target = self.target(way, &place, request.range.length)?;
        Some(DirectAccess { entered, link: self, target })
    }

    /// Runs `act` on the peer's bytes if the operation is allowed beyond doubt and they are all mapped here: what
    /// [`Link::direct`] does, for the operations that are over in a moment. `None`: nothing was done. The caller is inside an
    /// operation of this process, which `own` proves: whoever closes the link waits for that.
    #[inline(always)]
    pub fn at_once<R>(
        &self,
        own: &OperationGuard<'_>,
        request: &DirectRequest,
        act: impl FnOnce(SharedSlice<'_>) -> R,
    ) -> Option<R> {
        let view = self.view()?;
        // (`enter` would return an option, which goes through memory.)
        let shown = self.own_operations.enter(|| view.segment.light_fences());
        if shown.is_none() && !self.is_loopback() || self.is_dead() {
            return None;
        }
        let slot = view.segment.slot(request.target)?;
        if !slot.allows(request.source, request.transport, request.want) {
            return None;
        }
        let key_use = KeyUse::Through(request.pair.0);
        let place = admit(view.segment.keys(), slot.zone, request.key, key_use, request.range, request.want)?;
        let slice = self.mapped_now(view, own, &place, request.range.length)?;
        Some(act(slice))
    }
}

impl DirectAccess<'_> {
    /// Writes `local` slices there, one after the other. The last byte comes last.
    pub fn write(&self, local: &[SharedSlice<'_>]) -> io::Result<()> {
        self.target.copy(Way::Out, self.link, &self.entered.guard, local)
    }

    /// Reads from there into `local` slices, one after the other.
    pub fn read(&self, local: &[SharedSlice<'_>]) -> io::Result<()> {
        self.target.copy(Way::In, self.link, &self.entered.guard, local)
    }

    /// The bytes as an aligned word for an atomic, if they are mapped here.
    pub fn atomic_word(&self) -> Option<SharedSlice<'_>> {
        let slice = self.target.slice(self.link, &self.entered.guard)?;
        slice.is_word().then_some(slice)
    }
}

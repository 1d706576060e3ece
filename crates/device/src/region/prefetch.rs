//! Having the pages of registered memory be there before they are used.

use nonic_memory::{Access, AccessError, AddressRange, KeyUse, is_foreign};
use nonic_protocol::ScatterGather;
use nonic_sys::{PAGE, touch_pages};

use crate::zone::Zone;

/// Why pages are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefetchError {
    /// The gate refuses the piece.
    #[error(transparent)]
    Refused(#[from] AccessError),
    /// The program has no such memory, or may not do that with it.
    #[error("not all of the memory is there")]
    NotThere,
    /// The device was opened before a `fork` by the parent, or has failed.
    #[error("the device belongs to the parent, which opened it before fork, or has failed: open it again")]
    Gone,
}

impl Zone {
    /// Has the pages of a piece be there, to be used with `access`; with none, it is only looked whether the key leads there. Between
    /// this and their use the system may take them away again.
    pub fn prefetch(&self, piece: &ScatterGather, access: Option<Access>) -> Result<(), PrefetchError> {
        if !self.context().is_usable() {
            return Err(PrefetchError::Gone);
        }
        let range = AddressRange::new(piece.address, piece.length.into());
        let want = access.unwrap_or(Access::LOCAL_READ);
        let own = self.context().engine().party().memory.enter();
        let bytes = own.resolve(self.id(), piece.key, KeyUse::Local, range, want)?;
        let (address, length) = (bytes.address(), bytes.length());
        let on_demand = bytes.is_on_demand() && !is_foreign(address);
        // Paging may take long, and nobody who takes memory back waits for it: pages that are there too many harm nobody.
        drop(own);
        if access.is_none() || length == 0 || !on_demand {
            return Ok(());
        }
        if address.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE)).is_none() {
            return Err(PrefetchError::NotThere);
        }
        touch_pages(address, length, want == Access::LOCAL_WRITE).map_err(|_| PrefetchError::NotThere)
    }
}

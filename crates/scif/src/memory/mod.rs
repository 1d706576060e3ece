//! The registered address space of an endpoint, and what the peer does with it.

// Until the endpoints use it.
#![allow(dead_code, clippy::unused_self)]

use std::sync::Arc;

use nonic_sys::{BorrowedFd, SharedMapping};

use crate::ScifError;
use crate::options::{Initiator, Protection, RmaFlags};

/// Bytes of one side's area in the segment: a multiple of the page size, virtual until touched. Zeros are an empty area.
pub(crate) const AREA_LENGTH: usize = 8 << 20;

/// Which of the two areas of a segment is an endpoint's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The first.
    First,
    /// The second.
    Second,
}

/// The registered memory of a connected endpoint, and the way to the peer's.
pub(crate) struct RegisteredMemory {
    _segment: Arc<SharedMapping>,
}

impl RegisteredMemory {
    pub(crate) fn new(
        segment: Arc<SharedMapping>,
        _areas: [usize; 2],
        _side: Side,
        _peer_is_gone: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Arc<Self> {
        Arc::new(Self { _segment: segment })
    }

    pub(crate) fn register(
        &self,
        _endpoint: BorrowedFd<'_>,
        _address: usize,
        _length: usize,
        _offset: i64,
        _protection: Protection,
        _fixed: bool,
    ) -> Result<i64, ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn unregister(
        &self,
        _endpoint: BorrowedFd<'_>,
        _offset: i64,
        _length: usize,
    ) -> Result<(), ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn map(
        &self,
        _address: usize,
        _length: usize,
        _protection: Protection,
        _fixed: bool,
        _offset: i64,
    ) -> Result<usize, ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn read_from(
        self: &Arc<Self>,
        _local: i64,
        _length: usize,
        _remote: i64,
        _flags: RmaFlags,
    ) -> Result<(), ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn write_to(
        self: &Arc<Self>,
        _local: i64,
        _length: usize,
        _remote: i64,
        _flags: RmaFlags,
    ) -> Result<(), ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn read_into(
        self: &Arc<Self>,
        _address: usize,
        _length: usize,
        _remote: i64,
        _flags: RmaFlags,
    ) -> Result<(), ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn write_out(
        self: &Arc<Self>,
        _address: usize,
        _length: usize,
        _remote: i64,
        _flags: RmaFlags,
    ) -> Result<(), ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn fence_mark(&self, _initiator: Initiator) -> Result<i32, ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn fence_wait(&self, _mark: i32) -> Result<(), ScifError> {
        Err(ScifError::NoMemory)
    }

    pub(crate) fn fence_signal(
        self: &Arc<Self>,
        _local: Option<(i64, u64)>,
        _remote: Option<(i64, u64)>,
        _initiator: Initiator,
    ) -> Result<(), ScifError> {
        Err(ScifError::NoMemory)
    }

    /// Waits until the remote reads and writes this side has started are complete; at once if there are none.
    pub(crate) fn settle(&self) {}

    /// Whether this process has opened windows that have not ended.
    pub(crate) fn has_windows(&self) -> bool {
        false
    }

    /// The endpoint is closed for good.
    pub(crate) fn close(&self) {}

    /// The peer has closed.
    pub(crate) fn peer_closed(&self) {}
}

/// Ends mappings made by [`RegisteredMemory::map`] or otherwise: `munmap(2)`.
pub(crate) fn unmap(_address: usize, _length: usize) -> Result<(), ScifError> {
    Err(ScifError::NoMemory)
}

//! Where a page of a shadow is: with this process alone, or in common with others.

use std::ops::Range;
use std::sync::Arc;

use nonic_sys::Seldom;

use super::common::CommonShadow;
use super::page::{Page, SIZE};

#[derive(Debug)]
pub(super) enum Slot {
    Own(Page),
    /// This page of a shadow in common.
    Common(Arc<CommonShadow>, u64),
}

impl Slot {
    /// Runs `change` on the page. `None`, with a word to people, if the kernel does not let it be read or written.
    pub(super) fn with<R>(&mut self, change: impl FnOnce(&mut Page) -> R) -> Option<R> {
        match self {
            Self::Own(page) => Some(change(page)),
            Self::Common(shadow, page) => warned(shadow.with(*page, change)),
        }
    }

    /// What peers read in a part of the page.
    pub(super) fn read(&self, place: &Range<usize>, bytes: &mut [u8]) {
        match self {
            Self::Own(page) => bytes.copy_from_slice(&page.bytes()[place.clone()]),
            Self::Common(shadow, page) => {
                warned(shadow.read(*page, place, bytes));
            }
        }
    }

    /// No region of this process is on a part of the page any more.
    pub(super) fn uncover(&mut self, place: &Range<usize>) {
        match self {
            Self::Own(page) => page.drop_notes(place),
            Self::Common(shadow, page) => {
                warned(shadow.uncover(&in_file(*page, place)));
            }
        }
    }
}

/// The positions in the file of a part of a page.
pub(super) fn in_file(page: u64, place: &Range<usize>) -> Range<u64> {
    let start = page * SIZE as u64;
    start + place.start as u64..start + place.end as u64
}

fn warned<R>(result: std::io::Result<R>) -> Option<R> {
    static FAILED: Seldom = Seldom::new();
    result
        .inspect_err(|error| {
            if let Some(unsaid) = FAILED.turn() {
                tracing::warn!(%error, unsaid, "what peers see of shared memory that is not coherent is not kept");
            }
        })
        .ok()
}

//! Giving shared anonymous memory a file: other processes can then be given it, which they cannot be otherwise.
//!
//! It stays what it is, shared with the children of this process; it is another object only, so this is done where no other process
//! has it, and no thread is there that could store to it, or sleep on a word of it, meanwhile.

use nonic_sys::{
    AddressFile, FileIdentity, OwnedFd, PAGE, Rights, SharedMapping, SharedMemory, SignalsHeld, area_advice,
    has_swap, is_locked, populate, shared_anonymous,
};

use super::{State, process_allows, quietly};
use crate::adoption::offspring::offspring;
use crate::adoption::shared_parts::{self, Part};

/// Where something may be swapped out all of the memory has to be read, which for that time takes memory also where nothing was
/// ever stored.
const MOST_WITH_SWAP: usize = 64 << 20;

impl State {
    /// Moves the shared anonymous memory at `address`, all of it, into a file; that file. `None`: it stays as it is.
    pub(in crate::adoption) fn name_shared(&mut self, address: usize) -> Option<OwnedFd> {
        if process_allows().is_err() || !AddressFile::any_size_allowed() {
            return None;
        }
        self.tools()?;
        if !self.is_alone() {
            return None;
        }
        let tools = self.tools.as_ref()?;
        let area = tools.areas.at_or_above(address).ok()?.filter(|area| area.start <= address)?;
        let (identity, _) = shared_anonymous(&tools.areas, &area).ok()??;
        let parts = self.parts_of(identity)?;
        let whole = whole(&parts)?;
        let length = whole.length() - PAGE;
        if has_swap() && length > MOST_WITH_SWAP {
            return None;
        }
        // Asked last: what the kernel holds it holds from now on, too.
        let status = &self.tools.as_ref()?.status;
        if status.holder().is_some() {
            return None;
        }
        let quiet = self.quiet.clone();
        quietly(quiet, || {
            // Their handlers could fork.
            let _held = SignalsHeld::hold();
            // The hook may have taken its time.
            if !self.is_alone() || !offspring().is_without(identity) {
                return None;
            }
            let file = SharedMemory::create("nonic-shared", length).ok()?;
            shared_parts::name(&file, &whole, &parts).ok()?;
            Some(file.into_descriptor())
        })
    }

    /// All of this process's mappings of some shared memory; `None` if one of them forbids that it is moved.
    fn parts_of(&self, identity: FileIdentity) -> Option<Vec<Part>> {
        let tools = self.tools.as_ref()?;
        let locked = tools.status.held().ok()?.locked;
        let mut parts = Vec::new();
        for area in tools.areas.walk(0) {
            let area = area.ok()?;
            let Some((_, offset)) =
                shared_anonymous(&tools.areas, &area).ok()?.filter(|(found, _)| *found == identity)
            else {
                continue;
            };
            let length = area.end - area.start;
            // Regions that peers reach through the kernel: what they write meanwhile could be lost.
            let is_used = self.places.plain.overlaps(area.start as u64, area.end as u64);
            if is_used || area.executable || (locked && is_locked(area.start, length)) {
                return None;
            }
            let advice = area_advice(&tools.areas, &area, area.start, true).ok()?;
            parts.push(Part { start: area.start, length, offset, rights: area.rights(), advice });
        }
        Some(parts)
    }
}

/// All of the memory once more, and a page behind it; `None` if the parts are not all of it: the program could map the rest anew.
fn whole(parts: &[Part]) -> Option<SharedMapping> {
    const RIGHTS: Rights = Rights { read: true, write: true, execute: false };
    const EFAULT: i32 = 14;
    let mut end = 0;
    let mut ordered: Vec<_> = parts.iter().map(|part| (part.offset, part.length as u64)).collect();
    ordered.sort_unstable();
    for (offset, length) in ordered {
        if offset > end {
            return None;
        }
        end = end.max(offset + length);
    }
    let first = parts.iter().find(|part| part.offset == 0)?;
    let whole = SharedMapping::duplicate(first.start, end as usize + PAGE).ok()?;
    shared_parts::allow(&whole, RIGHTS).ok()?;
    let behind = populate(whole.as_ptr() as usize + end as usize, PAGE, false);
    behind.is_err_and(|error| error.raw_os_error() == Some(EFAULT)).then_some(whole)
}

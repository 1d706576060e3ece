//! The peer's windows in this process's own address space.
//!
//! What is mapped stands in the own area of the segment, for the peer: it gives the pages of a window back only when nobody maps
//! them any more. The program may unmap or replace a mapping without telling (`munmap(2)`); so the peer asks the kernel whether a
//! mapping is still there before it waits for it any longer.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use nonic_device::{forget_own_pages, map_own_pages};
use nonic_sys::{
    AreaMap, AsFd, Backing, FileIdentity, PAGE, PerProcess, SegmentPlace, duplicate_over, find_area,
    map_file_over, process_maps_file, reserve_addresses, segment_at, unmap_range,
};

use super::area::{Area, MAPPINGS, Table};
use super::checks::check_pages;
use super::record::{Place, Record};
use super::slots::{Range, enter, leave};
use super::view::{Source, View};
use super::{RegisteredMemory, lock};
use crate::ScifError;
use crate::options::Protection;

/// A mapping, or what is left of one.
#[derive(Debug)]
struct Mapping {
    end: usize,
    /// Where it is told to the peer.
    area: Area,
    line: usize,
    /// Offset of the first byte in the peer's registered address space.
    offset: u64,
    pid: i32,
    /// Addresses, each with the file that is mapped from there on and its offset.
    pieces: Arc<[(usize, FileIdentity, u64)]>,
    /// Some of it is this process's own adopted pages.
    of_own: bool,
}

/// All mappings of a process by their first addresses.
static MAPPED: PerProcess<Mutex<BTreeMap<usize, Mapping>>> = PerProcess::new();
/// The words of a line: the process that maps, or 0; where; how many bytes, or 0; and the first byte's offset. A new mapping is
/// told while its maker is inside an operation on those offsets, so that nobody goes by half of it.
const PROCESS: usize = 0;
const ADDRESS: usize = 1;
const LENGTH: usize = 2;
const OFFSET: usize = 3;

fn all() -> MutexGuard<'static, BTreeMap<usize, Mapping>> {
    lock(MAPPED.get_or_make(Mutex::default))
}

impl Mapping {
    /// Tells the peer about it, or that it has become shorter: then only the length is another.
    fn tell(&self, start: usize) {
        let words = [(ADDRESS, start as u64), (OFFSET, self.offset), (LENGTH, (self.end - start) as u64)];
        for (word, value) in words {
            self.area.word(Table::Mappings, self.line, word).store(value, Ordering::SeqCst);
        }
    }

    fn tell_end(&self) {
        self.area.word(Table::Mappings, self.line, LENGTH).store(0, Ordering::SeqCst);
        self.area.word(Table::Mappings, self.line, PROCESS).store(0, Ordering::SeqCst);
    }
}

/// Takes a free line of the own area, which then says that nothing is mapped.
fn take_line(area: &Area, pid: i32) -> Option<usize> {
    let stamp = u64::from(pid as u32);
    let line = (0..MAPPINGS).find(|line| {
        area.use_line(Table::Mappings, *line);
        let word = area.word(Table::Mappings, *line, PROCESS);
        word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, stamp, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    })?;
    Some(line)
}

/// Takes `start..end` out of what is known to be mapped, and tells the peers.
fn cut(mappings: &mut BTreeMap<usize, Mapping>, start: usize, end: usize) {
    let touching = |(at, mapping): (&usize, &Mapping)| (*at < end && mapping.end > start).then_some(*at);
    let touched: Vec<_> = mappings.range(..end).rev().map_while(touching).collect();
    for at in touched {
        let Some(mapping) = mappings.remove(&at) else { continue };
        if mapping.of_own {
            forget_own_pages(at.max(start), mapping.end.min(end));
        }
        let behind = (mapping.end > end).then(|| Mapping {
            area: mapping.area.clone(),
            pieces: Arc::clone(&mapping.pieces),
            offset: mapping.offset + (end - at) as u64,
            line: take_line(&mapping.area, mapping.pid).unwrap_or(usize::MAX),
            ..mapping
        });
        match behind {
            // No line left: the whole mapping stays told, and the peer finds out by asking the kernel.
            Some(behind) if behind.line == usize::MAX => {
                mappings.insert(end, Mapping { line: mapping.line, ..behind });
            }
            behind => {
                if let Some(behind) = behind {
                    behind.tell(end);
                    mappings.insert(end, behind);
                }
                if at < start {
                    let before = Mapping { end: start, ..mapping };
                    before.tell(at);
                    mappings.insert(at, before);
                } else {
                    mapping.tell_end();
                }
            }
        }
    }
}

/// Whether some of a range of this process was got from [`RegisteredMemory::map`] and is still that.
pub(super) fn has_mapping_in(address: usize, length: usize) -> bool {
    let Some(mappings) = MAPPED.get() else { return false };
    let mappings = lock(mappings);
    let end = address.saturating_add(length);
    let mut touching = mappings.range(..end).rev().take_while(|(_, mapping)| mapping.end > address);
    touching.any(|(start, mapping)| {
        let mut at = address.max(*start);
        while at < mapping.end.min(end) {
            let Ok(Some(area)) = find_area(at) else { return false };
            if let Backing::SharedFile { device, inode, offset } = area.backing {
                // What the program mapped there since may be of the same file, but hardly the same bytes of it.
                let is_it = |(start, identity, from): &(usize, FileIdentity, u64)| {
                    *identity == (device, inode)
                        && from.wrapping_sub(*start as u64) == offset.wrapping_sub(area.start as u64)
                };
                if mapping.pieces.iter().rev().find(|(start, ..)| *start <= at).is_some_and(is_it) {
                    return true;
                }
            }
            at = area.end;
        }
        false
    })
}

/// Whether the side of `area` says that it maps offsets `start..end` of the other side, and, if the records are given that hold
/// these offsets, whether the kernel says so too.
pub(super) fn is_mapped(
    area: &Area,
    (start, end): (u64, u64),
    records: Option<Vec<Record>>,
    dead: &dyn Fn(i32) -> bool,
) -> bool {
    let own = std::process::id() as i32;
    let says = |line: usize| {
        let word = |word| area.word(Table::Mappings, line, word).load(Ordering::SeqCst);
        let (length, offset) = (word(LENGTH), word(OFFSET));
        if offset >= end || offset.saturating_add(length) <= start || length == 0 {
            return false;
        }
        let (pid, address) = (word(PROCESS) as i32, word(ADDRESS));
        let Some(records) = &records else { return true };
        let addresses = (address as usize, (address as usize).saturating_add(length as usize));
        !dead(pid)
            && records.iter().any(|record| match record.place {
                Place::File { identity, offset, .. } => {
                    let files = (offset, offset + record.length);
                    process_maps_file(pid, addresses, identity, files).unwrap_or(true)
                }
                Place::Address { address, space: Some(_), .. } if record.pid == own => {
                    maps_segment(pid, addresses, address, record.length as usize)
                }
                Place::Address { .. } => false,
            })
    };
    // Twice, because what is left of a mapping may have moved from a line not looked at yet to one before.
    (0..2).any(|_| (0..area.used(Table::Mappings)).any(says))
}

/// Whether process `pid` maps, in a range, some of the segment that this process has attached at `address`.
fn maps_segment(pid: i32, range: (usize, usize), address: usize, length: usize) -> bool {
    let place = AreaMap::open().and_then(|areas| segment_at(&areas, address, length));
    place.is_ok_and(|place| {
        place.is_some_and(|SegmentPlace { identity, offset }| {
            process_maps_file(pid, range, identity, (offset, offset + length as u64)).unwrap_or(true)
        })
    })
}

impl RegisteredMemory {
    /// Maps `length` bytes of the peer's windows; returns where.
    pub(crate) fn map(
        &self,
        address: usize,
        length: usize,
        protection: Protection,
        fixed: bool,
        offset: i64,
    ) -> Result<usize, ScifError> {
        if offset < 0 && offset % PAGE as i64 == 0 && length.is_multiple_of(PAGE) && length > 0 {
            return Err(ScifError::NoWindow);
        }
        let (start, end) = check_pages(offset, length)?;
        if fixed && !address.is_multiple_of(PAGE) {
            return Err(ScifError::Invalid("the address is no multiple of the page size"));
        }
        let process = self.process();
        let slot = enter(&self.own, process.pid, Range::default(), Range { start, length: end - start });
        let mapped = self.map_inside(address, length, protection, fixed, start);
        leave(&self.own, slot);
        mapped
    }

    fn map_inside(
        &self,
        address: usize,
        length: usize,
        protection: Protection,
        fixed: bool,
        offset: u64,
    ) -> Result<usize, ScifError> {
        let process = self.process();
        let (mut pieces, mut refused) = (Vec::<(Arc<View>, u64, usize)>::new(), None);
        {
            let mut mirrors = process.mirrors.lock();
            mirrors.peer.refresh();
            mirrors.peer.walk(offset, length as u64, protection, false, |run, at, length| {
                match run.view(at) {
                    Ok(Some((view, file_offset))) => {
                        pieces.push((Arc::clone(view), file_offset, length as usize))
                    }
                    // Memory that only the kernel reaches is in no file that could be mapped.
                    Ok(None) => refused = Some(ScifError::NoMemory),
                    Err(error) => refused = Some(error),
                }
            })?;
        }
        if let Some(error) = refused {
            return Err(error);
        }
        let line = take_line(&self.own, process.pid).ok_or(ScifError::NoMemory)?;
        let free_line = || self.own.word(Table::Mappings, line, PROCESS).store(0, Ordering::SeqCst);
        let start = if fixed {
            let end = address.checked_add(length).filter(|end| *end <= 1 << 47 && address > 0);
            if end.is_none() {
                free_line();
                return Err(ScifError::NoMemory);
            }
            address
        } else {
            reserve_addresses(address / PAGE * PAGE, length).map_err(|_| {
                free_line();
                ScifError::NoMemory
            })?
        };
        let of_own = pieces.iter().any(|(view, ..)| view.is_own());
        let mut at = start;
        let places = pieces.iter().map(|(view, file_offset, length)| {
            at += length;
            (at - length, view.identity(), *file_offset)
        });
        let places = places.collect();
        let mut mappings = all();
        let mapping = Mapping {
            end: start + length,
            area: self.own.clone(),
            line,
            offset,
            pid: process.pid,
            pieces: places,
            of_own,
        };
        // Told before it is there: the peer must not give the pages back in between.
        mapping.tell(start);
        let mut result = Ok(());
        let mut map = || {
            result = map_pieces(start, protection, &pieces);
            result.is_ok().then_some((start, start + length))
        };
        cut(&mut mappings, start, start + length);
        if of_own {
            map_own_pages(&mut map);
        } else {
            map();
        }
        if let Err(error) = result {
            tracing::debug!(%error, "windows cannot be mapped");
            mapping.tell_end();
            if !fixed {
                // SAFETY: the range was reserved above.
                let _ = unsafe { unmap_range(start, length) };
            }
            return Err(ScifError::NoMemory);
        }
        mappings.insert(start, mapping);
        Ok(start)
    }
}

fn map_pieces(
    start: usize,
    protection: Protection,
    pieces: &[(Arc<View>, u64, usize)],
) -> std::io::Result<()> {
    let mut at = start;
    for (view, offset, length) in pieces {
        let rights = (protection.read, protection.write);
        match view.source().ok_or(std::io::ErrorKind::NotFound)? {
            // SAFETY: the range was reserved by the caller, or the program asked for it to be replaced.
            Source::File(file) => unsafe { map_file_over(at, *length, rights, file.as_fd(), *offset)? },
            Source::Segment(start) => {
                // SAFETY: as above.
                unsafe { duplicate_over(start + *offset as usize, *length, rights, at)? }
            }
        }
        at += length;
    }
    Ok(())
}

/// Ends mappings made by [`RegisteredMemory::map`] or otherwise: `munmap(2)`.
pub(crate) fn unmap(address: usize, length: usize) -> Result<(), ScifError> {
    let end = length.checked_next_multiple_of(PAGE).and_then(|length| address.checked_add(length));
    let Some(end) = end.filter(|_| address.is_multiple_of(PAGE) && length > 0) else {
        return Err(ScifError::Invalid(
            "the address is a multiple of the page size, and there is some length",
        ));
    };
    let mut mappings = all();
    // SAFETY: the program asked for it, as it could ask the kernel.
    unsafe { unmap_range(address, length) }
        .map_err(|error| ScifError::System(error.raw_os_error().unwrap_or(0)))?;
    cut(&mut mappings, address, end);
    Ok(())
}

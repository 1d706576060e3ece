//! The pages of all shadows of a process, and the regions on them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use super::cover::Cover;
use super::page::{LINE, Page, SIZE};
use super::slot::{Slot, in_file};
use super::tosses::Tosses;
use super::{InCommon, Program, Shadow, ShadowError, parts};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pages: BTreeMap<u64, Slot>,
    pub(super) cover: Cover,
    pub(super) tosses: Tosses,
}

/// What the program's memory holds at some positions of a region.
pub(super) fn read<'b>(
    shadow: &Shadow,
    program: &impl Program,
    positions: &Range<u64>,
    buffer: &'b mut [u8; SIZE],
) -> Option<&'b [u8]> {
    let bytes = program.bytes(positions.start - shadow.start..positions.end - shadow.start)?;
    let buffer = &mut buffer[..bytes.length()];
    bytes.read(buffer);
    Some(buffer)
}

impl State {
    /// Has a peer change a part of a page by `write`, and the cache do its worst. `harmed`: a line that met what the peer wrote
    /// was harmed already; the first always is, so that it shows.
    pub(super) fn land<R>(
        &mut self,
        shadow: &Shadow,
        (number, place, part): (u64, Range<usize>, Range<u64>),
        program: &impl Program,
        harmed: &mut bool,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        let Self { pages, tosses, .. } = self;
        pages.get_mut(&number)?.with(|page| {
            let mut buffer = [0; SIZE];
            let held = read(shadow, program, &part, &mut buffer)?;
            let (result, conflicts) = page.land(place, held, write);
            for line in conflicts {
                if std::mem::replace(harmed, true) && !tosses.toss() {
                    continue;
                }
                let (begin, all) = (number * SIZE as u64, shadow.all());
                let from = (begin + (line * LINE) as u64).max(all.start);
                let to = (begin + ((line + 1) * LINE) as u64).min(all.end);
                let Some(held) = read(shadow, program, &(from..to), &mut buffer) else { continue };
                let place = (from - begin) as usize..(to - begin) as usize;
                page.write_back(line, &place, held, tosses.toss());
            }
            Some(result)
        })?
    }

    /// Has pages for a region, as far as it cannot have them in common. Nothing has changed if it fails.
    pub(super) fn make_room(
        &mut self,
        positions: &Range<u64>,
        in_common: Option<InCommon<'_>>,
    ) -> Result<(), ShadowError> {
        if let Some(InCommon { shadow, offset }) = in_common {
            let end = offset.checked_add(positions.end - positions.start);
            let end = end.filter(|_| offset % SIZE as u64 == positions.start % SIZE as u64);
            let end = end.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
            return Ok(shadow.check(&(offset..end))?);
        }
        let mut made = Vec::new();
        for (number, ..) in parts(positions.clone()) {
            if let Entry::Vacant(place) = self.pages.entry(number) {
                match Page::new() {
                    Ok(page) => drop(place.insert(Slot::Own(page))),
                    Err(error) => {
                        made.iter().for_each(|number| drop(self.pages.remove(number)));
                        return Err(error.into());
                    }
                }
                made.push(number);
            }
        }
        Ok(())
    }

    /// A region is on these positions from now on. Pages of memory that processes share become pages of the shadow in common, with
    /// what this process knows of them.
    pub(super) fn cover(
        &mut self,
        positions: &Range<u64>,
        in_common: Option<InCommon<'_>>,
    ) -> std::io::Result<()> {
        let bare = self.cover.bare(positions);
        self.cover.add(positions);
        for (number, place, _) in bare.into_iter().flat_map(parts) {
            if let Some(Slot::Common(shadow, page)) = self.pages.get(&number) {
                shadow.cover(&in_file(*page, &place))?;
            }
        }
        let Some(InCommon { shadow, offset }) = in_common else { return Ok(()) };
        for (number, _, part) in parts(positions.clone()) {
            if matches!(self.pages.get(&number), Some(Slot::Common(..))) {
                continue;
            }
            let page = (offset + (part.start - positions.start)) / SIZE as u64;
            let own = self.pages.insert(number, Slot::Common(Arc::clone(shadow), page));
            let whole = number * SIZE as u64..(number + 1) * SIZE as u64;
            for (_, place, _) in self.cover.covered(&whole).into_iter().flat_map(parts) {
                shadow.cover(&in_file(page, &place))?;
                if let Some(Slot::Own(own)) = &own {
                    shadow.with(page, |page| page.absorb(own, &place))?;
                }
            }
        }
        Ok(())
    }
}

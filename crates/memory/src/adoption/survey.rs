//! What lies at the addresses of a range: adopted pages, ordinary memory, or something to be left alone.

use std::io;

use nonic_sys::{
    AddressFile, AreaAdvice, AreaMap, AreaName, Backing, MemoryArea, Rights, area_advice, grows_down,
    own_stack, refuses_new_code,
};

use super::{LAYER_BITS, PlainReason};

/// What a part of a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Adopted: a shared mapping of the file at its own address in this layer.
    Adopted(u16),
    /// Private memory of the program's.
    Ordinary(Ordinary),
    /// None of these.
    Refused(PlainReason),
}

/// Private memory of the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ordinary {
    pub(super) rights: Rights,
    /// It was adopted once and is now a private mapping of the file.
    pub(super) of_file: bool,
    /// In that case, the layer, if it still lies at its own address.
    pub(super) layer: Option<u16>,
    /// It is a private mapping of some other file, of which the process has no copies yet where it has not written.
    pub(super) of_other_file: bool,
    /// What keeps it out of children or core dumps.
    pub(super) advice: AreaAdvice,
}

impl Ordinary {
    fn new(rights: Rights) -> Self {
        Self { rights, of_file: false, layer: None, of_other_file: false, advice: AreaAdvice::NONE }
    }
}

/// A part of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: Kind,
}

/// The layer in which a mapping of the file at `area` puts each byte at its own address; `None` if it does not.
pub(super) fn layer_at_home(area: &MemoryArea, offset: u64) -> Option<u16> {
    let layer = offset >> LAYER_BITS;
    (offset - (layer << LAYER_BITS) == area.start as u64).then_some(layer as u16)
}

/// The file's layer at `area` if it is adopted memory.
pub(super) fn adopted_layer(file: &AddressFile, area: &MemoryArea) -> Option<u16> {
    match area.backing {
        Backing::SharedFile { device, inode, offset } if (device, inode) == file.identity() => {
            layer_at_home(area, offset)
        }
        _ => None,
    }
}

/// Looks at every area of `start..end`. What is not mapped, and what comes after, is refused. `window`: memory that is kept out
/// of children or dumps, memory with code, and written copies of files, will do.
pub(super) fn survey(
    areas: &AreaMap,
    file: &AddressFile,
    (start, end): (usize, usize),
    window: bool,
) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    let (mut at, mut walk) = (start, areas.walk(start));
    while at < end {
        let Some(area) = walk.next().transpose()?.filter(|area| area.start <= at) else {
            segments.push(Segment { start: at, end, kind: Kind::Refused(PlainReason::NotOrdinary) });
            break;
        };
        let segment =
            Segment { start: at, end: area.end.min(end), kind: kind(areas, file, &area, at, window)? };
        keep_off_own_stack(&area, segment, &mut segments);
        at = area.end;
    }
    Ok(segments)
}

/// `page` is the first of the range's in the area: what stands at other pages of the area may change at any time.
fn kind(
    areas: &AreaMap,
    file: &AddressFile,
    area: &MemoryArea,
    page: usize,
    window: bool,
) -> io::Result<Kind> {
    const REFUSED: Kind = Kind::Refused(PlainReason::NotOrdinary);
    let rights = area.rights();
    if let Some(layer) = adopted_layer(file, area) {
        return Ok(Kind::Adopted(layer));
    }
    let code = rights.execute && (!window || refuses_new_code());
    if !rights.read || code {
        return Ok(REFUSED);
    }
    let kind = match area.backing {
        Backing::SharedFile { .. } => REFUSED,
        Backing::PrivateFile { device, inode, offset } if (device, inode) == file.identity() => {
            let layer = layer_at_home(area, offset);
            Kind::Ordinary(Ordinary { of_file: true, layer, ..Ordinary::new(rights) })
        }
        Backing::PrivateFile { .. } if window && rights.write => {
            Kind::Ordinary(Ordinary { of_other_file: true, ..Ordinary::new(rights) })
        }
        Backing::PrivateFile { .. } => REFUSED,
        Backing::Private => match areas.name_at(page)? {
            Some(AreaName::Program) => Kind::Ordinary(Ordinary::new(rights)),
            Some(AreaName::Stack) => Kind::Refused(PlainReason::Stack),
            _ => REFUSED,
        },
    };
    Ok(match kind {
        Kind::Ordinary(_) if grows_down(area, page) => Kind::Refused(PlainReason::Stack),
        Kind::Ordinary(ordinary) => match area_advice(areas, area, page, window)? {
            AreaAdvice::NONE => kind,
            advice if window => Kind::Ordinary(Ordinary { advice, ..ordinary }),
            // A mapping of the file would be in children and dumps.
            _ => REFUSED,
        },
        kind => kind,
    })
}

/// Pushes the segment without what is, or may be, the stack this runs on.
fn keep_off_own_stack(area: &MemoryArea, segment: Segment, segments: &mut Vec<Segment>) {
    let local = 0u8;
    let here = &raw const local as usize;
    if !(area.start..area.end).contains(&here) || !matches!(segment.kind, Kind::Ordinary(_)) {
        segments.push(segment);
        return;
    }
    // A program that runs on a stack of its own making: nobody knows where that ends.
    let bounds = own_stack().filter(|(low, high)| (*low..*high).contains(&here));
    let (low, high) = bounds.unwrap_or((area.start, area.end));
    let (low, high) = (low.clamp(segment.start, segment.end), high.clamp(segment.start, segment.end));
    let stack = Kind::Refused(PlainReason::Stack);
    for (start, end, kind) in
        [(segment.start, low, segment.kind), (low, high, stack), (high, segment.end, segment.kind)]
    {
        if start < end {
            segments.push(Segment { start, end, kind });
        }
    }
}

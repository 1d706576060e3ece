//! Which places of the file are taken, and by what.

use nonic_sys::AddressFile;

use super::fork::Child;
use super::runs::Runs;
use super::survey::{Kind, Ordinary, Segment};
use super::{AdoptedPages, LAYER_BITS, PlainReason};

/// Layers of the file.
const LAYERS: u16 = 1 << 15;
/// Stretches of adopted and once adopted memory at most: each takes up to two of the mappings a process may have (65,530
/// unless the machine's owner changed `vm.max_map_count`).
const MOST_STRETCHES: usize = 8192;

/// Once adopted memory that was unmapped leaves its place behind; with so many layers or stretches it is time to look.
const CROWDED_LAYERS: u64 = 4;
const CROWDED_STRETCHES: usize = 1024;

/// Offset in the file of `address` in `layer`.
pub(super) fn offset_of(layer: u16, address: usize) -> u64 {
    u64::from(layer) << LAYER_BITS | address as u64
}

/// A part of a range with the layer it is in, or will be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) layer: u16,
    /// What it is now, if it still has to be adopted.
    pub(super) new: Option<Ordinary>,
}

/// The taken places, as offsets in the file.
#[derive(Debug)]
pub(super) struct Places {
    /// Adopted pages, with the live regions that use them. Pages that none uses stay only while something forbids giving
    /// them back.
    pub(super) adopted: Runs,
    /// Given back as private mappings of the file: their holes have to stay holes.
    pub(super) once: Runs,
    /// Given back under a stopped peer, which may still write there.
    pub(super) stopped: Runs,
    /// Addresses of live regions that peers reach through the kernel.
    pub(super) plain: Runs,
    /// Children that look at places.
    pub(super) children: Vec<Child>,
}

impl Places {
    pub(super) const fn new() -> Self {
        Self {
            adopted: Runs::new(),
            once: Runs::new(),
            stopped: Runs::new(),
            plain: Runs::new(),
            children: Vec::new(),
        }
    }

    /// Drops the children that look no more, and the bytes that were left for them.
    pub(super) fn forget_gone_children(&mut self, file: &AddressFile) {
        let mut left = Runs::new();
        for child in self.children.extract_if(.., |child| child.is_gone()).filter(|child| child.reads) {
            for (from, to, _) in child.holes.all() {
                left.keep(from, to);
            }
        }
        for child in self.children.iter().filter(|child| child.reads) {
            for (from, to, _) in child.holes.all() {
                left.remove(from, to);
            }
        }
        for (from, to, _) in left.all() {
            let _ = file.punch(from, to - from);
        }
    }

    /// Empties a place that nothing in this process maps any more, unless a child reads what stands there.
    pub(super) fn clear(&self, file: &AddressFile, from: u64, to: u64) {
        let read = self.children.iter().any(|child| child.reads && child.holes.overlaps(from, to));
        if !read && from < to {
            let _ = file.punch(from, to - from);
        }
    }

    /// Whether all of these addresses are adopted in some layer, as far as this process knows: what is mapped there now only
    /// the kernel can tell.
    pub(super) fn may_cover(&self, start: usize, end: usize) -> bool {
        let last = self.adopted.last_end().map_or(0, |end| (end >> LAYER_BITS) as u16);
        (0..=last).any(|layer| self.adopted.covers(offset_of(layer, start), offset_of(layer, end)))
    }

    /// Whether a child reads adopted pages from the file.
    pub(super) fn children_read(&self) -> bool {
        self.children.iter().any(|child| child.reads)
    }

    /// If a child reads adopted pages from the file, these given back ones are left to it.
    pub(super) fn leave_to_children(&mut self, from: u64, to: u64) {
        for child in self.children.iter_mut().filter(|child| child.reads) {
            child.holes.keep(from, to);
        }
    }

    /// Whether so many places are kept because memory was adopted there once that it is time to look which are still mapped.
    pub(super) fn is_crowded(&self) -> bool {
        let layers = self.once.last_end().map_or(0, |end| (end - 1) >> LAYER_BITS);
        layers >= CROWDED_LAYERS || self.once.stretches() >= CROWDED_STRETCHES
    }

    /// Takes `found`, what mappings look at, for the places where memory was once adopted, and clears the others. Whether
    /// there were others.
    pub(super) fn replace_once(&mut self, file: &AddressFile, found: Runs) -> bool {
        let before = std::mem::replace(&mut self.once, found);
        let mut others = false;
        for (from, to, _) in before.all() {
            if !self.once.overlaps(from, to) {
                self.clear(file, from, to);
                others = true;
            }
        }
        others
    }

    /// The longest part of a surveyed range that can be one run of one layer, and why the rest cannot.
    pub(super) fn plan(&self, file: &AddressFile, segments: &[Segment]) -> (Vec<Planned>, PlainReason) {
        let (mut best, mut current) = (Vec::<Planned>::new(), Vec::<Planned>::new());
        let mut reason = PlainReason::None;
        let mut note = |why| {
            if reason == PlainReason::None {
                reason = why;
            }
        };
        let mut wish = None;
        for (index, segment) in segments.iter().enumerate() {
            if index == 0 || matches!(segments[index - 1].kind, Kind::Refused(_)) {
                wish = self.layer_for_all(file, &segments[index..]);
            }
            let planned = match segment.kind {
                Kind::Refused(why) => {
                    note(why);
                    None
                }
                Kind::Adopted(layer) => {
                    Some(Planned { start: segment.start, end: segment.end, layer, new: None })
                }
                Kind::Ordinary(ordinary) => match self.choose_layer(file, segment, ordinary, wish) {
                    Ok(layer) => {
                        Some(Planned { start: segment.start, end: segment.end, layer, new: Some(ordinary) })
                    }
                    Err(why) => {
                        note(why);
                        None
                    }
                },
            };
            let joins = match (&planned, current.last()) {
                (Some(planned), Some(last)) => planned.layer == last.layer,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if !joins {
                if planned.is_some() {
                    note(PlainReason::OtherRegion);
                }
                best = longer(best, std::mem::take(&mut current));
            }
            current.extend(planned);
        }
        (longer(best, current), reason)
    }

    /// A layer in which everything up to the next refused segment is or can be, and whether that was looked at.
    fn layer_for_all(&self, file: &AddressFile, segments: &[Segment]) -> Option<(u16, bool)> {
        let stretch = || segments.iter().take_while(|segment| !matches!(segment.kind, Kind::Refused(_)));
        let fits = |layer: &u16| {
            stretch().all(|segment| match segment.kind {
                Kind::Ordinary(ordinary) => {
                    self.is_free(file, *layer, (segment.start, segment.end), ordinary)
                }
                Kind::Adopted(other) => other == *layer,
                Kind::Refused(_) => true,
            })
        };
        let adopted = stretch().find_map(|segment| match segment.kind {
            Kind::Adopted(layer) => Some(layer),
            _ => None,
        });
        // With a part adopted there is no other choice; if it does not fit, that layer still is the best for the others.
        match adopted {
            Some(layer) => Some((layer, false)),
            None => (0..LAYERS).find(fits).map(|layer| (layer, true)),
        }
    }

    fn choose_layer(
        &self,
        file: &AddressFile,
        segment: &Segment,
        ordinary: Ordinary,
        wish: Option<(u16, bool)>,
    ) -> Result<u16, PlainReason> {
        let fits = |layer: &u16| self.is_free(file, *layer, (segment.start, segment.end), ordinary);
        let layer = match wish {
            Some((layer, true)) => layer,
            Some((layer, false)) if fits(&layer) => layer,
            _ => (0..LAYERS).find(fits).ok_or(PlainReason::OtherRegion)?,
        };
        let (start, end) = (offset_of(layer, segment.start), offset_of(layer, segment.end));
        let full = self.adopted.stretches() + self.once.stretches() >= MOST_STRETCHES;
        if full && !self.adopted.touches(start, end) {
            return Err(PlainReason::TooManyMappings);
        }
        Ok(layer)
    }

    /// Whether nothing stands, and nobody may write or look, where the pages would go.
    fn is_free(
        &self,
        file: &AddressFile,
        layer: u16,
        (start, end): (usize, usize),
        ordinary: Ordinary,
    ) -> bool {
        let (from, to) = (offset_of(layer, start), offset_of(layer, end));
        let looked_at = self.children.iter().any(|child| child.holes.overlaps(from, to));
        if looked_at || self.adopted.overlaps(from, to) || self.stopped.overlaps(from, to) {
            return false;
        }
        if self.once.overlaps(from, to) {
            // The mapping that looks there is the one that will be replaced.
            return ordinary.layer == Some(layer) && self.once.covers(from, to);
        }
        // A region that the program let grow (`mremap`) has pages beyond its end that no one else knows of.
        matches!(file.next_data(from, to), Ok(None))
    }
}

fn length(run: &[Planned]) -> usize {
    run.first().map_or(0, |first| run[run.len() - 1].end - first.start)
}

fn longer(best: Vec<Planned>, other: Vec<Planned>) -> Vec<Planned> {
    if length(&other) > length(&best) { other } else { best }
}

/// The run that the parts of a plan are together.
pub(super) fn whole(plan: &[Planned]) -> Option<AdoptedPages> {
    let (first, last) = (plan.first()?, plan.last()?);
    Some(AdoptedPages { layer: first.layer, start: first.start, end: last.end })
}

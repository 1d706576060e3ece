//! Which places of the file are taken, and by what.

use nonic_sys::AddressFile;

use super::runs::Runs;
use super::survey::{Kind, Ordinary, Segment};
use super::{AdoptedPages, LAYER_BITS, PlainReason};

/// Layers of the file.
const LAYERS: u16 = 1 << 15;
/// Stretches of adopted and once adopted memory at most: each takes up to two of the mappings a process may have (65,530
/// unless the machine's owner changed `vm.max_map_count`).
const MOST_STRETCHES: usize = 8192;

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
}

impl Places {
    pub(super) const fn new() -> Self {
        Self { adopted: Runs::new(), once: Runs::new(), stopped: Runs::new(), plain: Runs::new() }
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
        for (index, segment) in segments.iter().enumerate() {
            let planned = match segment.kind {
                Kind::Refused(why) => {
                    note(why);
                    None
                }
                Kind::Adopted(layer) => {
                    Some(Planned { start: segment.start, end: segment.end, layer, new: None })
                }
                Kind::Ordinary(ordinary) => {
                    let neighbour = segments[index + 1..].iter().find_map(|next| match next.kind {
                        Kind::Adopted(layer) => Some(Some(layer)),
                        Kind::Refused(_) => Some(None),
                        Kind::Ordinary(_) => None,
                    });
                    let wish = current.last().map(|last| last.layer).or(neighbour.flatten());
                    match self.choose_layer(file, segment, ordinary, wish) {
                        Ok(layer) => Some(Planned {
                            start: segment.start,
                            end: segment.end,
                            layer,
                            new: Some(ordinary),
                        }),
                        Err(why) => {
                            note(why);
                            None
                        }
                    }
                }
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

    fn choose_layer(
        &self,
        file: &AddressFile,
        segment: &Segment,
        ordinary: Ordinary,
        wish: Option<u16>,
    ) -> Result<u16, PlainReason> {
        let fits = |layer: &u16| self.is_free(file, *layer, (segment.start, segment.end), ordinary);
        let layer = wish.filter(fits).or_else(|| (0..LAYERS).find(fits)).ok_or(PlainReason::OtherRegion)?;
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
        if self.adopted.overlaps(from, to) || self.stopped.overlaps(from, to) {
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

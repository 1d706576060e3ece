//! A segment as somebody looks at it who is no peer: `nonic doctor`. The file is another process's, may be anything, and
//! changes meanwhile. So it is copied, twice, and only what both copies agree on is used; it is not mapped: a file that
//! shrinks then ends in an error, and holes stay holes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nonic_memory::{AdoptionPolicy, Entry, KeyTableView, LAYER_BITS, SharedSlice, Translation};
use nonic_sys::{AsFd, SharedMapping, sparse_data, word_of_copy, words_of_shown_record};

use crate::layout::{
    KEYS_MAX, LINK_RECORD, LINKS_SHOWN, MAGIC, PAGE, SEGMENT_CHANGING, SEGMENT_COUNTERS, SEGMENT_KEYS,
    SEGMENT_LENGTH, SEGMENT_LINKS, SEGMENT_LINKS_BEYOND, SEGMENT_OWNER, SEGMENT_SETTINGS, SEGMENT_VERSION,
    VERSION,
};
use crate::link_record::LinkFacts;
use crate::tier::Tier;

/// The limits a process works under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The best tier it uses and offers.
    pub tier: Tier,
    /// When it adopts memory.
    pub adoption: AdoptionPolicy,
    /// Whether it has a file for adopted pages.
    pub has_file: bool,
}

impl Settings {
    pub(crate) fn to_word(self) -> u64 {
        let tier = match self.tier {
            Tier::Ring => 1,
            Tier::Kernel => 2,
            Tier::Mapped => 3,
        };
        let adoption = match self.adoption {
            AdoptionPolicy::Never => 1,
            AdoptionPolicy::Auto => 2,
            AdoptionPolicy::Always => 3,
        };
        tier | adoption << 8 | u64::from(self.has_file) << 16
    }

    fn from_word(word: u64) -> Option<Self> {
        let tier = match word & 0xff {
            1 => Tier::Ring,
            2 => Tier::Kernel,
            3 => Tier::Mapped,
            _ => return None,
        };
        let adoption = match word >> 8 & 0xff {
            1 => AdoptionPolicy::Never,
            2 => AdoptionPolicy::Auto,
            3 => AdoptionPolicy::Always,
            _ => return None,
        };
        (word >> 17 == 0).then_some(Self { tier, adoption, has_file: word >> 16 != 0 })
    }
}

/// Why a file is not read as a segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentFault {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It has another length.
    #[error("it has {length} bytes, and a segment has {SEGMENT_LENGTH}")]
    Length {
        /// Its length in bytes.
        length: u64,
    },
    /// It does not begin like one.
    #[error("it does not begin as a segment does")]
    Foreign,
    /// It is of another version of the layout.
    #[error(
        "it has layout {theirs}, and this command reads layout {VERSION}: use the nonic of one release for both"
    )]
    Version {
        /// The version it names.
        theirs: u64,
    },
    /// What it says of its owner cannot be.
    #[error("its settings make no sense ({word:#x})")]
    Settings {
        /// The word they stand in.
        word: u64,
    },
    /// It changed too fast.
    #[error("it changed each time it was read")]
    Restless,
}

/// The head of a segment, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHead {
    /// The owner's process id, in its own pid namespace. A child holds its parent's segment, too.
    pub owner: u32,
    /// The limits its owner works under.
    pub settings: Settings,
    /// By which token the owner is asked to change its device; 0 if it cannot be asked.
    pub changing: u64,
    /// The owner's links to other processes.
    pub links: Vec<LinkFacts>,
    /// Links that found no place among them.
    pub links_beyond: u64,
}

/// The regions of a segment, copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentRegions {
    /// Every region, by index.
    pub regions: Vec<Entry>,
    /// Entries that changed whenever they were read.
    pub changing: u64,
    /// Entries that no device of this version would have written.
    pub senseless: u64,
}

/// How often something that changes is read again.
const ATTEMPTS: usize = 8;

/// What a segment that makes sense says of settings and links.
pub fn read_segment_head(file: &File) -> Result<SegmentHead, SegmentFault> {
    let length = file.metadata()?.len();
    if length != SEGMENT_LENGTH as u64 {
        return Err(SegmentFault::Length { length });
    }
    let mut pages = [[0u8; PAGE]; 2];
    for _ in 0..ATTEMPTS {
        for page in &mut pages {
            file.read_exact_at(page, 0)?;
        }
        let [first, second] = &pages;
        if word_of_copy(first, 0) != MAGIC {
            return Err(SegmentFault::Foreign);
        }
        let theirs = word_of_copy(first, SEGMENT_VERSION);
        if theirs != u64::from(VERSION) {
            return Err(SegmentFault::Version { theirs });
        }
        let settings = word_of_copy(first, SEGMENT_SETTINGS);
        let settings = Settings::from_word(settings).ok_or(SegmentFault::Settings { word: settings })?;
        let records = (0..LINKS_SHOWN).map(|number| {
            let at = SEGMENT_LINKS + number * LINK_RECORD;
            words_of_shown_record(&first[at..at + LINK_RECORD], &second[at..at + LINK_RECORD])
        });
        let calm: Option<Vec<[u64; 3]>> = records.collect();
        if let Some(records) = calm {
            let present = records.into_iter().filter(|[.., present]| *present == 1);
            let links = present.map(|[first, second, _]| LinkFacts::from_words([first, second])).collect();
            let owner = word_of_copy(first, SEGMENT_OWNER) as u32;
            return Ok(SegmentHead {
                owner,
                settings,
                changing: word_of_copy(first, SEGMENT_CHANGING),
                links,
                links_beyond: word_of_copy(first, SEGMENT_LINKS_BEYOND),
            });
        }
    }
    Err(SegmentFault::Restless)
}

/// Every region of a segment whose head made sense.
pub fn read_segment_regions(file: &File) -> Result<SegmentRegions, SegmentFault> {
    let copy = Arc::new(SharedMapping::anonymous(KeyTableView::length(KEYS_MAX))?);
    let view = KeyTableView::new(Arc::clone(&copy), 0, KEYS_MAX);
    let mut found = SegmentRegions::default();
    for_each_page(file, SEGMENT_KEYS..SEGMENT_COUNTERS, |page| {
        let place = (page as usize).clamp(SEGMENT_KEYS, SEGMENT_COUNTERS - PAGE) - SEGMENT_KEYS;
        let first = (place / KeyTableView::ENTRY) as u32;
        let bytes = read_calm_entries(file, page, &mut found.changing)?;
        if let Some(slice) = SharedSlice::of_mapping(&copy, place, PAGE) {
            slice.write(&bytes);
        }
        for index in first..first + (PAGE / KeyTableView::ENTRY) as u32 {
            match view.read(index) {
                // What it leads to is told with its region.
                Some(_) if view.is_window(index) => {}
                Some(entry) if makes_sense(&entry) => found.regions.push(entry),
                None if !view.is_live(index) => {}
                _ => found.senseless += 1,
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// Has `look` see where each page of a part of a segment begins that is no hole.
pub(crate) fn for_each_page(
    file: &File,
    part: Range<usize>,
    mut look: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = part.start as u64;
    while let Some((start, end)) = sparse_data(file.as_fd(), at, part.end as u64)? {
        // Pages are whole, and so is what stands in them; the file of another process may still say what it likes.
        for page in (start / PAGE as u64 * PAGE as u64..end).step_by(PAGE) {
            look(page)?;
        }
        at = end.max(at + 1);
    }
    Ok(())
}

/// A page of entries, of which those that do not keep still are counted and left out.
fn read_calm_entries(file: &File, at: u64, changing: &mut u64) -> io::Result<[u8; PAGE]> {
    let [mut first, mut second] = [[0u8; PAGE]; 2];
    file.read_exact_at(&mut first, at)?;
    for _ in 0..ATTEMPTS {
        file.read_exact_at(&mut second, at)?;
        if first == second {
            return Ok(first);
        }
        std::mem::swap(&mut first, &mut second);
    }
    let entries = first.chunks_exact_mut(KeyTableView::ENTRY).zip(second.chunks_exact(KeyTableView::ENTRY));
    for (one, _) in entries.filter(|(one, other)| *one != *other) {
        one.fill(0);
        *changing += 1;
    }
    Ok(first)
}

/// Whether a device of this version could have registered it.
fn makes_sense(entry: &Entry) -> bool {
    let Ok(length) = usize::try_from(entry.length) else { return false };
    let in_address_space =
        |address: usize| address.checked_add(length).is_some_and(|end| end <= 1 << LAYER_BITS);
    let placed = match entry.translation {
        // Above the layers lies only memory that no layer could hold.
        Translation::Plain { address } | Translation::SharedFile { address, .. } => {
            address.checked_add(length).is_some()
        }
        Translation::Adopted { address, pages } => {
            in_address_space(address)
                && pages.start < pages.end
                && pages.start >= address
                && pages.end <= address + length
                && pages.start.is_multiple_of(PAGE)
                && pages.end.is_multiple_of(PAGE)
        }
        Translation::Device { offset, .. } | Translation::Shadow { offset, .. } => {
            offset.checked_add(entry.length).is_some()
        }
        Translation::OnDemand { .. } | Translation::Null => true,
    };
    placed && entry.base.0.checked_add(entry.length.saturating_sub(1)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_record::Probe;
    use crate::segment::Segment;
    use nonic_memory::{Access, AdoptedPages, PlainReason, RegionAddress, ZoneId};
    use nonic_sys::SharedMemory;

    const SETTINGS: Settings =
        Settings { tier: Tier::Kernel, adoption: AdoptionPolicy::Never, has_file: false };

    fn file_of(segment: &Segment) -> File {
        segment.as_fd().try_clone_to_owned().unwrap().into()
    }

    fn entry(translation: Translation) -> Entry {
        Entry {
            zone: ZoneId(1),
            access: Access::LOCAL_WRITE,
            base: RegionAddress(0),
            length: 8192,
            translation,
            reason: PlainReason::Stack,
            local_tag: 0,
            remote_tag: 0,
        }
    }

    #[test]
    fn settings_links_and_regions_are_read_as_they_were_published() {
        let segment = Segment::create().unwrap();
        segment.publish_settings(SETTINGS);
        segment.publish_changing(7);
        let facts = LinkFacts { pid: 5, uid: 6, probe: Probe::Refused(1), met: true, ..LinkFacts::default() };
        let record = segment.record_link(facts);
        let pages = AdoptedPages { layer: 2, start: 0x7000, end: 0x8000 };
        let translations =
            [Translation::Plain { address: 0x1000 }, Translation::Adopted { address: 0x6800, pages }];
        let keys = translations.map(|translation| segment.keys().insert(entry(translation)).unwrap());
        let file = file_of(&segment);
        let head = read_segment_head(&file).unwrap();
        let owner = std::process::id();
        assert_eq!(
            head,
            SegmentHead { owner, settings: SETTINGS, changing: 7, links: vec![facts], links_beyond: 0 }
        );
        let found = read_segment_regions(&file).unwrap();
        assert_eq!((found.changing, found.senseless), (0, 0));
        // In the order of their places, which are drawn by chance.
        let mut found: Vec<_> = found.regions.iter().map(|entry| entry.translation).collect();
        found.sort_by_key(|found| matches!(found, Translation::Adopted { .. }));
        assert_eq!(found, translations);

        drop(record);
        segment.keys().kill(keys[0]);
        assert_eq!(read_segment_head(&file).unwrap().links, []);
        assert_eq!(read_segment_regions(&file).unwrap().regions.len(), 1);
    }

    #[test]
    fn looking_makes_no_page_of_the_segment() {
        let segment = Segment::create().unwrap();
        segment.publish_settings(SETTINGS);
        let file = file_of(&segment);
        let blocks = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
        let before = blocks();
        assert_eq!(read_segment_regions(&file).unwrap(), SegmentRegions::default());
        assert_eq!(blocks(), before);
    }

    #[test]
    fn entries_that_cannot_be_are_counted_and_left_out() {
        let segment = Segment::create().unwrap();
        let pages = |start, end| AdoptedPages { layer: 0, start, end };
        for translation in [
            Translation::Plain { address: usize::MAX - 10 },
            Translation::Adopted { address: 0x6800, pages: pages(0x6000, 0x7000) },
            Translation::Adopted { address: 0x6800, pages: pages(0x7000, 0xf000) },
            Translation::Adopted { address: 0x6800, pages: pages(0x7100, 0x8000) },
            Translation::Adopted { address: 1 << 47, pages: pages(1 << 47, (1 << 47) + 4096) },
            Translation::Device { device: 0, offset: u64::MAX },
            Translation::Shadow { shadow: 0, offset: u64::MAX },
        ] {
            segment.keys().insert(entry(translation)).unwrap();
        }
        let found = read_segment_regions(&file_of(&segment)).unwrap();
        assert_eq!((found.regions.len(), found.senseless), (0, 7));
    }

    #[test]
    fn noise_is_no_segment_and_harms_nobody() {
        let memory = SharedMemory::create("noise", SEGMENT_LENGTH).unwrap();
        let file = File::from(memory.as_fd().try_clone_to_owned().unwrap());
        let mut state = 1u64;
        let mut noise = [0u8; 16 * PAGE];
        for byte in &mut noise {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (state >> 56) as u8;
        }
        for at in [0, SEGMENT_KEYS, SEGMENT_COUNTERS - noise.len(), SEGMENT_LENGTH - noise.len()]
            .map(|at| at as u64)
        {
            file.write_all_at(&noise, at).unwrap();
        }
        assert!(matches!(read_segment_head(&file), Err(SegmentFault::Foreign)));
        let found = read_segment_regions(&file).unwrap();
        assert!(found.senseless > 0);

        // Behind a beginning that is right, too.
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).unwrap();
        assert!(matches!(read_segment_head(&file), Err(SegmentFault::Version { .. })));
        file.write_all_at(&u64::from(VERSION).to_ne_bytes(), SEGMENT_VERSION as u64).unwrap();
        assert!(matches!(read_segment_head(&file), Err(SegmentFault::Settings { .. })));
        file.write_all_at(&SETTINGS.to_word().to_ne_bytes(), SEGMENT_SETTINGS as u64).unwrap();
        assert!(matches!(read_segment_head(&file), Ok(_) | Err(SegmentFault::Restless)));

        let short = SharedMemory::create("short", PAGE).unwrap();
        let short = File::from(short.as_fd().try_clone_to_owned().unwrap());
        assert!(matches!(read_segment_head(&short), Err(SegmentFault::Length { length: 4096 })));
    }
}

//! The regions of a process: where their bytes are, and what would bring them nearer to peers.

use std::collections::BTreeMap;

use nonic_memory::{Entry, PlainReason, Translation, is_foreign};
use nonic_transport::SegmentRegions;
use serde::Serialize;

use super::words;
use crate::doctor::report::Line;

const PAGE: u64 = 4096;
/// Regions that are shown one by one if there are no more.
const ALL: usize = 8;
/// Of more, so many.
const LARGEST: usize = 3;

/// How the bytes of a region lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lie {
    /// Every byte on adopted pages.
    Adopted,
    /// Some bytes on adopted pages.
    PartlyAdopted,
    /// In the owner's private memory.
    Plain,
    /// Device memory.
    Device,
    /// A file the program shares itself.
    SharedFile,
    /// A shadow of memory that is not coherent.
    Shadow,
    /// In the owner's private memory, looked for when it is used.
    OnDemand,
    /// In the memory of another process.
    Imported,
    /// Nowhere.
    Null,
}

impl Lie {
    fn of(entry: &Entry) -> Self {
        match entry.translation {
            Translation::Plain { .. } => Self::Plain,
            Translation::Device { .. } => Self::Device,
            Translation::SharedFile { .. } => Self::SharedFile,
            Translation::Shadow { .. } => Self::Shadow,
            Translation::OnDemand { address } if is_foreign(address) => Self::Imported,
            Translation::OnDemand { .. } => Self::OnDemand,
            Translation::Null => Self::Null,
            Translation::Adopted { address, pages } if pages.contain(address, entry.length as usize) => {
                Self::Adopted
            }
            Translation::Adopted { .. } => Self::PartlyAdopted,
        }
    }

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Adopted => "adopted",
            Self::PartlyAdopted => "partly adopted",
            Self::Plain => "plain",
            Self::Device => "device memory",
            Self::SharedFile => "shared file",
            Self::Shadow => "shadow of non-coherent memory",
            Self::OnDemand => "paged on demand",
            Self::Imported => "imported from another process",
            Self::Null => "no memory",
        }
    }
}

/// Regions that lie alike for the same reason.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group {
    pub(super) lie: Lie,
    pub(super) reason: &'static str,
    #[serde(skip)]
    pub(super) plain_reason: PlainReason,
    pub(super) count: usize,
    pub(super) bytes: u64,
    adopted_pages: u64,
    pages: u64,
}

impl Group {
    /// The one change that would bring it nearer to peers.
    pub(super) fn fix(&self) -> Option<&'static str> {
        fix(self.lie, self.plain_reason)
    }

    /// How many and how much.
    pub(super) fn amount(&self) -> String {
        format!(
            "{} region{}, {}",
            self.count,
            if self.count == 1 { "" } else { "s" },
            words::size(self.bytes)
        )
    }
}

/// All regions by how they lie and why.
pub(super) fn groups(found: &SegmentRegions) -> Vec<Group> {
    let mut groups: BTreeMap<(Lie, u8), Group> = BTreeMap::new();
    for entry in &found.regions {
        let lie = Lie::of(entry);
        let group = groups.entry((lie, entry.reason as u8)).or_insert(Group {
            lie,
            reason: words::reason(entry.reason),
            plain_reason: entry.reason,
            count: 0,
            bytes: 0,
            adopted_pages: 0,
            pages: 0,
        });
        let (adopted, pages) = page_counts(entry);
        group.count += 1;
        group.bytes = group.bytes.saturating_add(entry.length);
        group.adopted_pages += adopted;
        group.pages += pages;
    }
    groups.into_values().collect()
}

/// The lines about all of them.
pub(super) fn lines(found: &SegmentRegions) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut regions: Vec<_> = found.regions.iter().collect();
    if regions.len() > ALL {
        lines.extend(groups(found).iter().map(group_line));
        regions.sort_by_key(|entry| std::cmp::Reverse(entry.length));
        regions.truncate(LARGEST);
    }
    lines.extend(regions.into_iter().map(region_line));
    if found.changing > 0 {
        lines.push(Line::note("changing", format!("{} regions came or went meanwhile", found.changing)));
    }
    if found.senseless > 0 {
        let value = format!("{} entries of the key table make no sense and are left out", found.senseless);
        lines.push(Line::note("damaged", value).fix("end the process: something wrote over its key table"));
    }
    if lines.is_empty() {
        lines.push(Line::ok("regions", "none is registered"));
    }
    lines
}

fn group_line(group: &Group) -> Line {
    let pages = match group.lie {
        Lie::Adopted | Lie::PartlyAdopted => {
            format!("; adopted pages {} of {}", group.adopted_pages, group.pages)
        }
        _ => String::new(),
    };
    marked(group.lie, group.plain_reason, group.lie.words(), format!("{}{pages}", group.amount()))
}

fn region_line(entry: &Entry) -> Line {
    let lie = Lie::of(entry);
    let place = match entry.translation {
        Translation::OnDemand { address } if is_foreign(address) => "elsewhere".to_owned(),
        Translation::Plain { address }
        | Translation::Adopted { address, .. }
        | Translation::SharedFile { address, .. }
        | Translation::OnDemand { address } => {
            format!("{address:#x}-{:#x}", (address as u64).saturating_add(entry.length))
        }
        Translation::Device { device, offset } => format!("device {device}, offset {offset:#x}"),
        Translation::Shadow { shadow, offset } => format!("shadow {shadow}, offset {offset:#x}"),
        Translation::Null => "null".to_owned(),
    };
    let pages = match lie {
        Lie::Adopted | Lie::PartlyAdopted => {
            let (adopted, pages) = page_counts(entry);
            format!("; adopted pages {adopted} of {pages}")
        }
        _ => format!("; {}", lie.words()),
    };
    let value =
        format!("{place}: {}; {}; zone {}{pages}", words::size(entry.length), entry.access, entry.zone.0);
    marked(lie, entry.reason, "region", value)
}

fn marked(lie: Lie, reason: PlainReason, name: &'static str, value: String) -> Line {
    let why =
        if reason == PlainReason::None { String::new() } else { format!(": {}", words::reason(reason)) };
    match fix(lie, reason) {
        None => Line::ok(name, value + &why),
        Some(fix) => Line::note(name, value + &why).fix(fix),
    }
}

fn fix(lie: Lie, reason: PlainReason) -> Option<&'static str> {
    words::remedy(reason).or_else(|| (lie == Lie::PartlyAdopted).then_some(words::ALIGN))
}

/// Adopted pages, and pages the region touches.
fn page_counts(entry: &Entry) -> (u64, u64) {
    let (address, adopted) = match entry.translation {
        Translation::Adopted { address, pages } => (address as u64, (pages.end - pages.start) as u64 / PAGE),
        Translation::Plain { address }
        | Translation::SharedFile { address, .. }
        | Translation::OnDemand { address } => (address as u64, 0),
        Translation::Device { offset, .. } | Translation::Shadow { offset, .. } => (offset, 0),
        Translation::Null => return (0, 0),
    };
    let end = address.saturating_add(entry.length).div_ceil(PAGE);
    (adopted, end - address / PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nonic_memory::{Access, AdoptedPages, RegionAddress, ZoneId};

    fn entry(translation: Translation, length: u64, reason: PlainReason) -> Entry {
        let (zone, base) = (ZoneId(1), RegionAddress(0));
        Entry {
            zone,
            access: Access::LOCAL_WRITE,
            base,
            length,
            translation,
            reason,
            local_tag: 0,
            remote_tag: 0,
        }
    }

    #[test]
    fn few_regions_are_shown_one_by_one_and_many_by_reason() {
        let pages = AdoptedPages { layer: 0, start: 0x2000, end: 0x4000 };
        let partly = entry(Translation::Adopted { address: 0x1ff0, pages }, 0x2010, PlainReason::None);
        let stack = entry(Translation::Plain { address: 0x10 }, 0x20, PlainReason::Stack);
        let mut found = SegmentRegions { regions: vec![partly, stack], ..SegmentRegions::default() };
        let text = serde_json::to_string(&lines(&found)).unwrap();
        assert!(text.contains("adopted pages 2 of 3") && text.contains("align the buffer"), "{text}");
        assert!(text.contains("0x10-0x30: 32 B") && text.contains("malloc"), "{text}");

        found.regions.extend([stack; 9]);
        let text = serde_json::to_string(&lines(&found)).unwrap();
        assert!(text.contains("10 regions, 320 B"), "{text}");
        assert_eq!(lines(&found).len(), 2 + LARGEST);
    }
}

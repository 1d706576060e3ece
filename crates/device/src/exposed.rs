//! Memory of the program made reachable for other processes page by page: what a window of SCIF needs of the engine.
//!
//! A window is *pages*, not addresses: they stay what they are when the program unmaps the addresses or maps something else
//! there. So wherever it can be, an exposed range is some runs of files: the process's file of adopted pages, or a file that
//! the program shares itself. What no file holds is reached through the kernel, at an address: shared memory without a
//! descriptor by a second mapping that nobody else knows of, which of a System V segment also says its number; the rest (stacks,
//! pinned or locked pages) where it is.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use nonic_memory::{Adoption, Purpose};
use nonic_sys::{
    AreaMap, AsFd, AsRawFd, Backing, FileIdentity, MemoryArea, PageMap, PerProcess, Protection, RawFd,
    SharedMapping, current_generation, duplicate_segment, file_identity, find_area, nameless_device,
    shared_anonymous,
};
use nonic_transport::Apertures;

use crate::config::Config;
use crate::engine::{EngineOwner, lock};
use crate::open_files::{OpenFile, OpenFiles};
use crate::{process, turns};

/// A part of an exposed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExposedRun {
    /// Length in bytes, a multiple of the page size.
    pub length: usize,
    /// Where its bytes are.
    pub place: ExposedPlace,
}

/// Where bytes of an exposed range are, for processes that may trace this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExposedPlace {
    /// In a file that this process has open.
    File {
        /// Its number here, valid as long as the range is exposed.
        descriptor: RawFd,
        /// Device and inode, by which whoever opens it knows it again.
        identity: FileIdentity,
        /// Offset of the first byte.
        offset: u64,
    },
    /// In this process's memory only, at this address.
    Address(usize),
    /// There too, in a System V segment, which others may attach by the number that mappings of it have.
    Segment {
        /// Of the first byte.
        address: usize,
        /// The space that the number belongs to.
        space: u16,
    },
}

/// Why a range cannot be exposed.
#[derive(Debug, thiserror::Error)]
pub enum ExposeError {
    /// Not mapped, or not readable.
    #[error("the memory at {address:#x} is not mapped or cannot be read")]
    NotMapped {
        /// First address that is wrong.
        address: usize,
    },
    /// To be writable, but is not.
    #[error("the memory at {address:#x} cannot be written")]
    NotWritable {
        /// First address that is wrong.
        address: usize,
    },
    /// The engine cannot be made, or the kernel refused.
    #[error("the memory cannot be exposed: {0}")]
    Refused(io::Error),
}

/// What an exposed range holds on to.
#[derive(Debug)]
enum Holding {
    Adopted(Adoption),
    File { _file: Arc<OpenFile> },
    Duplicate { _mapping: SharedMapping, of: Option<FileIdentity> },
}

/// What a process needs to expose memory. Lives as long as the process.
#[derive(Debug)]
struct Home {
    owner: Arc<EngineOwner>,
    files: OpenFiles,
    /// Shared memory without a file, once for each exposed range that others reach at a second mapping.
    duplicated: Mutex<Vec<FileIdentity>>,
    own_pages: OnceLock<Option<Apertures>>,
}

static HOME: PerProcess<Home> = PerProcess::new();

fn home() -> io::Result<&'static Home> {
    if let Some(home) = HOME.get() {
        return Ok(home);
    }
    let config =
        crate::devices().first().map_or_else(Config::from_environment, |device| device.config().clone());
    let owner = process::shared_engine(&config).map_err(io::Error::other)?;
    let home = HOME.get_or_make(|| Home {
        owner,
        files: OpenFiles::default(),
        duplicated: Mutex::default(),
        own_pages: OnceLock::new(),
    });
    let mut early = lock(EARLY.get_or_make(Mutex::default));
    if !early.told {
        home.owner.engine().party().adopter.add_own_threads(std::mem::take(&mut early.threads));
        early.told = true;
    }
    Ok(home)
}

/// An exposed range; it ends when this is dropped. Nobody may be inside an operation on it then.
#[derive(Debug)]
pub struct Exposed {
    runs: Vec<ExposedRun>,
    holdings: Vec<Holding>,
    generation: u32,
}

impl Exposed {
    /// Its parts, in ascending order.
    pub fn runs(&self) -> &[ExposedRun] {
        &self.runs
    }
}

/// Exposes whole pages, for writing too if `write`. They are moved where others can map them if that is possible. Whoever calls
/// holds nothing that a thread of the library waits for in [`crate::OwnThread::as_ordinary`].
pub fn expose(address: usize, length: usize, write: bool) -> Result<Exposed, ExposeError> {
    let home = home().map_err(ExposeError::Refused)?;
    let adopter = &home.owner.engine().party().adopter;
    let mut exposed = Exposed {
        runs: Vec::with_capacity(1),
        holdings: Vec::with_capacity(1),
        generation: current_generation(),
    };
    if let Some(adoption) = adopter.adopt_covered(address, length, write, Purpose::Window) {
        exposed.take_adoption(home, adoption);
        return Ok(exposed);
    }
    let end = address.checked_add(length).ok_or(ExposeError::NotMapped { address })?;
    // Everything is looked at before anything is changed.
    let mut areas = areas_of(address, end, write)?;
    // The library's own threads do not count where the program has but one, not even while they end windows.
    let _held = turns::hold();
    if home.give_files(&areas) {
        areas = areas_of(address, end, write)?;
    }
    // Neighbours that can be adopted are adopted together.
    let mut index = 0;
    while let Some(&(start, mut stop, area)) = areas.get(index) {
        index += 1;
        if !home.can_adopt(&area) {
            exposed.take_area(home, start, stop, &area, write);
            continue;
        }
        while let Some((_, next_stop, _)) = areas.get(index).filter(|(_, _, next)| home.can_adopt(next)) {
            (stop, index) = (*next_stop, index + 1);
        }
        exposed.take_private(home, start, stop);
    }
    Ok(exposed)
}

/// The areas of a range, each with the part of the range that it holds.
fn areas_of(address: usize, end: usize, write: bool) -> Result<Vec<(usize, usize, MemoryArea)>, ExposeError> {
    let (mut areas, mut at) = (Vec::new(), address);
    while at < end {
        let area = find_area(at).map_err(ExposeError::Refused)?.filter(|area| area.readable);
        let area = area.ok_or(ExposeError::NotMapped { address: at })?;
        if !area.allows(write) {
            return Err(ExposeError::NotWritable { address: at });
        }
        areas.push((at, area.end.min(end), area));
        at = area.end;
    }
    Ok(areas)
}

impl Home {
    /// Gives a file to what is shared anonymous memory, where that is possible. Whether there was such.
    fn give_files(&self, areas: &[(usize, usize, MemoryArea)]) -> bool {
        let is_nameless = |area: &MemoryArea| matches!(area.backing, Backing::SharedFile { device, .. } if Some(device) == nameless_device());
        if !areas.iter().any(|(_, _, area)| is_nameless(area)) {
            return false;
        }
        let Ok(map) = AreaMap::open() else { return false };
        let mut given = false;
        for (at, _, area) in areas.iter().filter(|(_, _, area)| is_nameless(area)) {
            let Ok(Some((identity, _))) = shared_anonymous(&map, area) else { continue };
            // Who reaches it already goes on with what it is, and who may open it as it is need not move it.
            if lock(&self.duplicated).contains(&identity) || self.files.behind(area, identity).is_some() {
                continue;
            }
            if let Some(file) = self.owner.engine().party().adopter.name_shared(*at) {
                given |= self.files.keep(file).is_ok();
            }
        }
        given
    }

    /// Whether the adopter decides about an area, and not the file it maps.
    fn can_adopt(&self, area: &MemoryArea) -> bool {
        match area.backing {
            Backing::Private => true,
            // Memory of the program that was moved, or a private file of which it may write copies.
            Backing::SharedFile { .. } => self.owner.engine().party().is_adopted(&area.backing),
            Backing::PrivateFile { .. } => area.writable,
        }
    }
}

impl Exposed {
    fn push(&mut self, length: usize, place: ExposedPlace) {
        self.runs.push(ExposedRun { length, place });
    }

    fn take_adoption(&mut self, home: &Home, adoption: Adoption) {
        if let Some(pages) = adoption.pages
            && let Some((descriptor, identity)) = home.owner.engine().party().adopted_file()
        {
            let offset = pages.file_offset(pages.start);
            self.push(
                pages.end - pages.start,
                ExposedPlace::File { descriptor: descriptor.as_raw_fd(), identity, offset },
            );
        }
        self.holdings.push(Holding::Adopted(adoption));
    }

    /// Memory that is adopted as far as it can be, run by run.
    fn take_private(&mut self, home: &Home, start: usize, end: usize) {
        if start >= end {
            return;
        }
        let adoption = home.owner.engine().party().adopter.adopt(start, end - start, Purpose::Window);
        let Some(pages) = adoption.pages else {
            tracing::debug!(start, end, reason = ?adoption.reason, "memory of a window is reached through the kernel only");
            self.holdings.push(Holding::Adopted(adoption));
            self.push(end - start, ExposedPlace::Address(start));
            return;
        };
        self.take_private(home, start, pages.start);
        self.take_adoption(home, adoption);
        self.take_private(home, pages.end, end);
    }

    /// A part of an area that maps a file.
    fn take_area(&mut self, home: &Home, start: usize, end: usize, area: &MemoryArea, write: bool) {
        let length = end - start;
        let (shared, file) = match area.backing {
            Backing::SharedFile { device, inode, offset } => (true, Some(((device, inode), offset))),
            Backing::PrivateFile { device, inode, offset } => (false, Some(((device, inode), offset))),
            Backing::Private => (false, None),
        };
        // Of a private mapping the file shows the same bytes as long as the process has written none of its own.
        let same = || {
            shared
                || (!write
                    && PageMap::open()
                        .is_ok_and(|pages| matches!(pages.has_own_copies(start, end), Ok(false))))
        };
        if let Some((identity, area_offset)) = file
            && same()
            && let Some(file) = home.files.behind(area, identity)
        {
            let offset = area_offset + (start - area.start) as u64;
            self.push(
                length,
                ExposedPlace::File { descriptor: file.descriptor.as_raw_fd(), identity, offset },
            );
            self.holdings.push(Holding::File { _file: file });
            return;
        }
        if shared && let Ok((mapping, space)) = duplicate_segment(start, length) {
            let of = file.map(|(identity, _)| identity);
            lock(&home.duplicated).extend(of);
            let address = mapping.as_ptr() as usize;
            let place = space.map(|space| ExposedPlace::Segment { address, space });
            self.push(length, place.unwrap_or(ExposedPlace::Address(address)));
            self.holdings.push(Holding::Duplicate { _mapping: mapping, of });
            return;
        }
        self.push(length, ExposedPlace::Address(start));
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        if self.generation != current_generation() {
            // The parent's: what it holds is not this process's to give back.
            std::mem::forget(std::mem::take(&mut self.holdings));
            return;
        }
        let Some(home) = HOME.get() else { return };
        for holding in self.holdings.drain(..) {
            match holding {
                Holding::Adopted(adoption) => home.owner.engine().give_back(adoption, true),
                Holding::Duplicate { of: Some(identity), .. } => {
                    let mut duplicated = lock(&home.duplicated);
                    if let Some(index) = duplicated.iter().position(|other| *other == identity) {
                        duplicated.swap_remove(index);
                    }
                }
                Holding::Duplicate { of: None, .. } | Holding::File { .. } => {}
            }
        }
    }
}

/// This process's own adopted pages, wherever their addresses lead by now; with the identity of their file. `None` if it
/// has exposed nothing or adopts nothing.
pub fn own_pages() -> Option<(&'static Apertures, FileIdentity)> {
    let home = HOME.get()?;
    let apertures = home.own_pages.get_or_init(|| {
        let party = home.owner.engine().party();
        let (file, _) = party.adopted_file()?;
        let file = file.try_clone_to_owned().ok()?;
        nonic_sys::forget_in_children(file.as_fd());
        let engine = Arc::clone(home.owner.engine());
        let placing = move |map: &mut dyn FnMut() -> Option<(usize, usize)>| {
            engine.party().adopter.map_view(map);
        };
        Apertures::onto(file, Protection::ReadWrite, Some(Box::new(placing))).ok()
    });
    let apertures = apertures.as_ref()?;
    Some((apertures, file_identity(apertures.file()?.as_fd()).ok()?))
}

/// Runs `map`, which maps some of this process's own adopted pages at another address and returns where: nothing is given
/// back meanwhile, and that mapping is left alone later.
pub fn map_own_pages(map: &mut dyn FnMut() -> Option<(usize, usize)>) {
    match HOME.get() {
        Some(home) => home.owner.engine().party().adopter.map_view(map),
        None => {
            map();
        }
    }
}

/// What [`map_own_pages`] mapped there is no more.
pub fn forget_own_pages(start: usize, end: usize) {
    if let Some(home) = HOME.get() {
        home.owner.engine().party().adopter.forget_view(start, end);
    }
}

/// Threads counted before there was anybody to tell, and whether somebody was told since.
#[derive(Debug, Default)]
struct Early {
    threads: isize,
    told: bool,
}

static EARLY: PerProcess<Mutex<Early>> = PerProcess::new();

pub(crate) fn count_threads(more: isize) {
    let mut early = lock(EARLY.get_or_make(Mutex::default));
    match HOME.get().filter(|_| early.told) {
        Some(home) => home.owner.engine().party().adopter.add_own_threads(more),
        None => early.threads += more,
    }
}

//! Files and System V segments that windows lie in, as this process has them mapped.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nonic_device::own_pages;
use nonic_memory::SharedSlice;
use nonic_sys::{
    AsFd, FileIdentity, PerProcess, Protection, SharedMapping, SharedMemory, attach_segment,
    forget_in_children, keep_in_children, open_file_of,
};
use nonic_transport::{APERTURE_BOUND, Apertures};

/// A file of this length or more is a process's adopted pages: one for all its windows.
const ADOPTED_LENGTH: usize = 1 << 47;

/// A file, mapped piece by piece as its pages are used, or a segment. Children do not inherit it.
#[derive(Debug)]
pub(super) struct View {
    identity: FileIdentity,
    writable: bool,
    mapped: Mapped,
}

#[derive(Debug)]
enum Mapped {
    /// This process's own adopted pages.
    Own(&'static Apertures),
    /// Another file.
    Other(Box<Apertures>),
    /// A System V segment, all of it.
    Segment(SharedMapping),
}

/// What mappings of a view are made of.
#[derive(Debug)]
pub(super) enum Source {
    /// A file.
    File(Arc<SharedMemory>),
    /// Shared memory that is at this address of this process.
    Segment(usize),
}

static VIEWS: PerProcess<Mutex<Vec<Weak<View>>>> = PerProcess::new();

impl View {
    /// A view of the file that process `pid` has open as `number`, `until` bytes long at least. `NotFound` if it is not that file
    /// any more, or the process is not there.
    pub(super) fn open(pid: i32, number: i32, identity: FileIdentity, until: u64) -> io::Result<Arc<Self>> {
        let mut views = VIEWS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |view: &Arc<Self>| {
            view.identity == identity && view.length() as u64 >= until && !view.is_segment()
        };
        if let Some(view) = views.iter().filter_map(Weak::upgrade).find(fits) {
            return Ok(view);
        }
        views.retain(|view| view.strong_count() > 0);
        let view = Arc::new(Self::make(pid, number, identity)?);
        if (view.length() as u64) < until {
            return Err(io::ErrorKind::NotFound.into());
        }
        views.push(Arc::downgrade(&view));
        Ok(view)
    }

    /// A view of the segment of which process `pid` has `length` bytes attached at `address`, and the offset there of the first.
    /// That process keeps it attached meanwhile.
    pub(super) fn of_segment(
        pid: i32,
        address: usize,
        length: usize,
        space: u16,
    ) -> io::Result<(Arc<Self>, u64)> {
        let mut views = VIEWS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let (mapping, place, writable) = attach_segment(pid, address, length, space)?;
        // As long as the other view has it attached its number is no other's.
        let same = |view: &Arc<Self>| view.identity == place.identity && view.is_segment();
        if let Some(view) = views.iter().filter_map(Weak::upgrade).find(same) {
            return Ok((view, place.offset));
        }
        views.retain(|view| view.strong_count() > 0);
        let view = Self { identity: place.identity, writable, mapped: Mapped::Segment(mapping) };
        let view = Arc::new(view);
        views.push(Arc::downgrade(&view));
        Ok((view, place.offset))
    }

    fn is_segment(&self) -> bool {
        matches!(self.mapped, Mapped::Segment(_))
    }

    fn make(pid: i32, number: i32, identity: FileIdentity) -> io::Result<Self> {
        if let Some((apertures, own)) = own_pages()
            && own == identity
        {
            return Ok(Self { identity, writable: true, mapped: Mapped::Own(apertures) });
        }
        let (file, writable) = match open_file_of(pid, number, identity, true) {
            Ok(file) => (file, true),
            // One that this user may only read, or a program that runs.
            Err(_) => (open_file_of(pid, number, identity, false)?, false),
        };
        let protection = if writable { Protection::ReadWrite } else { Protection::Read };
        let apertures = Apertures::onto(file, protection, None)?;
        if let Some(file) = apertures.file() {
            // A child that had it would keep the pages of a dead peer.
            forget_in_children(file.as_fd());
        }
        Ok(Self { identity, writable, mapped: Mapped::Other(Box::new(apertures)) })
    }

    fn length(&self) -> usize {
        match &self.mapped {
            Mapped::Own(apertures) => apertures.length(),
            Mapped::Other(apertures) => apertures.length(),
            Mapped::Segment(mapping) => mapping.length(),
        }
    }

    /// Up to `length` bytes at `offset`, 1 at least: fewer where a piece of the mapping ends. `None` if they cannot be mapped, or
    /// may not be written although that is wanted.
    #[inline]
    pub(super) fn slice(&self, offset: u64, length: usize, write: bool) -> Option<SharedSlice<'_>> {
        if write && !self.writable {
            return None;
        }
        let apertures: &Apertures = match &self.mapped {
            Mapped::Own(apertures) => apertures,
            Mapped::Other(apertures) => apertures,
            Mapped::Segment(mapping) => return SharedSlice::of_mapping(mapping, offset as usize, length),
        };
        match apertures.slice(offset, length) {
            Some(slice) => Some(slice),
            None => {
                let left = APERTURE_BOUND - offset as usize % APERTURE_BOUND;
                apertures.slice(offset, length.min(left))
            }
        }
    }

    /// What more mappings of it are made of.
    pub(super) fn source(&self) -> Option<Source> {
        match &self.mapped {
            Mapped::Own(apertures) => apertures.file().map(Source::File),
            Mapped::Other(apertures) => apertures.file().map(Source::File),
            Mapped::Segment(mapping) => Some(Source::Segment(mapping.as_ptr() as usize)),
        }
    }

    pub(super) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Whether it is this process's own adopted pages.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.mapped, Mapped::Own(_))
    }

    /// Whether the file is one process's adopted pages: worth keeping when no window lies in it for a while.
    pub(super) fn is_of_all_windows(&self) -> bool {
        self.length() >= ADOPTED_LENGTH
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Mapped::Other(apertures) = &self.mapped
            && let Some(file) = apertures.file()
        {
            keep_in_children(file.as_fd());
        }
    }
}

//! Files that windows lie in, as this process has them mapped.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nonic_device::own_pages;
use nonic_memory::SharedSlice;
use nonic_sys::{
    AsFd, BorrowedFd, FileIdentity, PerProcess, Protection, forget_in_children, keep_in_children,
    open_file_of,
};
use nonic_transport::Windows;

/// A file of this length or more is a process's adopted pages: one for all its windows.
const ADOPTED_LENGTH: usize = 1 << 47;

/// A file, mapped piece by piece as its pages are used. Children do not inherit it.
#[derive(Debug)]
pub(super) struct View {
    identity: FileIdentity,
    writable: bool,
    windows: Mapped,
}

#[derive(Debug)]
enum Mapped {
    /// This process's own adopted pages.
    Own(&'static Windows),
    /// Another file.
    Other(Box<Windows>),
}

static VIEWS: PerProcess<Mutex<Vec<Weak<View>>>> = PerProcess::new();

impl View {
    /// A view of the file that process `pid` has open as `number`, `until` bytes long at least. `NotFound` if it is not that file
    /// any more, or the process is not there.
    pub(super) fn open(pid: i32, number: i32, identity: FileIdentity, until: u64) -> io::Result<Arc<Self>> {
        let mut views = VIEWS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |view: &Arc<Self>| view.identity == identity && view.windows().length() as u64 >= until;
        if let Some(view) = views.iter().filter_map(Weak::upgrade).find(fits) {
            return Ok(view);
        }
        views.retain(|view| view.strong_count() > 0);
        let view = Arc::new(Self::make(pid, number, identity)?);
        if (view.windows().length() as u64) < until {
            return Err(io::ErrorKind::NotFound.into());
        }
        views.push(Arc::downgrade(&view));
        Ok(view)
    }

    fn make(pid: i32, number: i32, identity: FileIdentity) -> io::Result<Self> {
        if let Some((windows, own)) = own_pages()
            && own == identity
        {
            return Ok(Self { identity, writable: true, windows: Mapped::Own(windows) });
        }
        let (file, writable) = match open_file_of(pid, number, identity, true) {
            Ok(file) => (file, true),
            // One that this user may only read, or a program that runs.
            Err(_) => (open_file_of(pid, number, identity, false)?, false),
        };
        let protection = if writable { Protection::ReadWrite } else { Protection::Read };
        let windows = Windows::onto(file, protection, None)?;
        // A child that had it would keep the pages of a dead peer.
        forget_in_children(windows.file());
        Ok(Self { identity, writable, windows: Mapped::Other(Box::new(windows)) })
    }

    fn windows(&self) -> &Windows {
        match &self.windows {
            Mapped::Own(windows) => windows,
            Mapped::Other(windows) => windows,
        }
    }

    /// Up to `length` bytes at `offset`, 1 at least: fewer where a piece of the mapping ends. `None` if they cannot be mapped, or
    /// may not be written although that is wanted.
    #[inline]
    pub(super) fn slice(&self, offset: u64, length: usize, write: bool) -> Option<SharedSlice<'_>> {
        if write && !self.writable {
            return None;
        }
        let windows = self.windows();
        match windows.slice(offset, length) {
            Some(slice) => Some(slice),
            None => {
                // Pieces end at multiples of 1 GiB.
                let left = (1usize << 30) - (offset as usize & ((1 << 30) - 1));
                windows.slice(offset, length.min(left))
            }
        }
    }

    /// The file.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.windows().file()
    }

    pub(super) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Whether it is this process's own adopted pages.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.windows, Mapped::Own(_))
    }

    /// Whether the file is one process's adopted pages: worth keeping when no window lies in it for a while.
    pub(super) fn is_of_all_windows(&self) -> bool {
        self.windows().length() >= ADOPTED_LENGTH
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Mapped::Other(windows) = &self.windows {
            keep_in_children(windows.file().as_fd());
        }
    }
}

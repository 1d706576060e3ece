//! What about the process forbids adoption.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use nonic_sys::{OpenDescriptors, OwnedFd, process_status, process_status_at};

use super::PlainReason;

/// `/proc/self/status` and `/proc/self/fd`, kept open.
#[derive(Debug)]
pub(super) struct Status {
    descriptor: OwnedFd,
    open_descriptors: OpenDescriptors,
    /// No descriptor had so high a number when the kernel was asked last.
    room: Cell<usize>,
}

/// What the kernel says of the process's pages in sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Some areas are locked. Each area can be asked whether it is ([`nonic_sys::is_locked`]).
    pub(super) locked: bool,
    /// Some pages are pinned. Which ones the kernel tells nobody: none that was never touched.
    pub(super) pinned: bool,
}

/// Who may hold pages of the process and go on using them wherever its memory is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The kernel, which says so: buffers of io_uring.
    Kernel,
    /// A driver, which need not say so: one of its devices is open.
    Driver,
}

impl Status {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            descriptor: process_status()?,
            open_descriptors: OpenDescriptors::open()?,
            room: Cell::new(usize::MAX),
        })
    }

    /// Which such pages the process has; `Failed` if the kernel does not tell.
    pub(super) fn held(&self) -> Result<Held, PlainReason> {
        let mut text = [0; 4096];
        held_in(self.read(&mut text).ok_or(PlainReason::Failed)?).ok_or(PlainReason::Failed)
    }

    fn read<'a>(&self, text: &'a mut [u8; 4096]) -> Option<&'a [u8]> {
        let length = process_status_at(&self.descriptor, text).ok()?;
        let text = &text[..length];
        self.room.set(value(text, b"FDSize:").map_or(usize::MAX, |room| room as usize));
        Some(text)
    }

    /// Who may hold pages of the process. No page's own count of users is to be had: the kernel tells it to nobody but root.
    pub(super) fn holder(&self) -> Option<Holder> {
        let mut text = [0; 4096];
        let pinned = self.read(&mut text).and_then(|text| value(text, b"VmPin:"));
        if pinned.is_some_and(|pinned| pinned != 0) {
            return Some(Holder::Kernel);
        }
        self.has_driver().then_some(Holder::Driver)
    }

    /// Whether a device is open whose driver may hold pages of the process. To be asked behind one of the other questions.
    pub(super) fn has_driver(&self) -> bool {
        self.open_descriptors.holder(self.room.get()).is_some()
    }
}

fn held_in(text: &[u8]) -> Option<Held> {
    Some(Held { locked: value(text, b"VmLck:")? != 0, pinned: value(text, b"VmPin:")? != 0 })
}

fn value(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(name))?;
    std::str::from_utf8(&line[name.len()..]).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// Whether valgrind runs the program.
pub(super) fn is_emulated() -> bool {
    static EMULATED: OnceLock<bool> = OnceLock::new();
    *EMULATED.get_or_init(|| {
        let preloaded = std::env::var_os("LD_PRELOAD");
        preloaded.is_some_and(|names| names.to_string_lossy().contains("vgpreload"))
            || std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("/vgpreload_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_and_pinned_pages_are_told_apart() {
        let text = |locked, pinned| {
            format!("Name:\tx\nVmSize:\t 9 kB\nVmLck:\t       {locked} kB\nVmPin:\t       {pinned} kB\n")
        };
        for (locked, pinned) in [(0, 0), (4, 0), (0, 4), (4, 4)] {
            let held = Held { locked: locked != 0, pinned: pinned != 0 };
            assert_eq!(held_in(text(locked, pinned).as_bytes()), Some(held));
        }
        assert_eq!(held_in(b"Name:\tx\n"), None);
    }

    #[test]
    fn this_process_has_neither() {
        assert_eq!(Status::open().unwrap().held(), Ok(Held { locked: false, pinned: false }));
        assert!(!is_emulated());
    }
}

//! What about the process forbids adoption.

use std::io;
use std::sync::OnceLock;

use nonic_sys::{OwnedFd, process_status, process_status_at};

use super::PlainReason;

/// `/proc/self/status`, kept open.
#[derive(Debug)]
pub(super) struct Status {
    descriptor: OwnedFd,
}

impl Status {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { descriptor: process_status()? })
    }

    /// `Locked` or `KernelPins` if the process has such pages; `Failed` if the kernel does not tell.
    pub(super) fn check(&self) -> Result<(), PlainReason> {
        let mut text = [0; 4096];
        let length = process_status_at(&self.descriptor, &mut text).map_err(|_| PlainReason::Failed)?;
        check_text(&text[..length])
    }

    /// Whether the kernel holds pages of the process.
    pub(super) fn has_pins(&self) -> bool {
        let mut text = [0; 4096];
        process_status_at(&self.descriptor, &mut text)
            .is_ok_and(|length| value(&text[..length], b"VmPin:").is_some_and(|pinned| pinned != 0))
    }
}

fn check_text(text: &[u8]) -> Result<(), PlainReason> {
    if value(text, b"VmLck:").ok_or(PlainReason::Failed)? != 0 {
        return Err(PlainReason::Locked);
    }
    if value(text, b"VmPin:").ok_or(PlainReason::Failed)? != 0 {
        return Err(PlainReason::KernelPins);
    }
    Ok(())
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
    fn locked_and_pinned_pages_forbid_adoption() {
        let text = |locked, pinned| {
            format!("Name:\tx\nVmSize:\t 9 kB\nVmLck:\t       {locked} kB\nVmPin:\t       {pinned} kB\n")
        };
        assert_eq!(check_text(text(0, 0).as_bytes()), Ok(()));
        assert_eq!(check_text(text(4, 0).as_bytes()), Err(PlainReason::Locked));
        assert_eq!(check_text(text(0, 4).as_bytes()), Err(PlainReason::KernelPins));
        assert_eq!(check_text(b"Name:\tx\n"), Err(PlainReason::Failed));
    }

    #[test]
    fn this_process_has_neither() {
        assert_eq!(Status::open().unwrap().check(), Ok(()));
        assert!(!is_emulated());
    }
}

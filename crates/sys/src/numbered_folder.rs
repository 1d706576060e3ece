//! Folders of `/proc` whose entries are numbers: descriptors, threads, processes.

use std::io;
use std::mem::MaybeUninit;

use rustix::fs::{Mode, OFlags, RawDir};

/// The numbers in a folder, as far as they are there while it is read. The one by which it is read is not among them. (What
/// `opendir(3)` would do, without the C library's memory.)
pub fn numbers_in(folder: &str) -> io::Result<Vec<i32>> {
    use rustix::fd::AsRawFd;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    let mut buffer = [const { MaybeUninit::uninit() }; 4096];
    let mut entries = RawDir::new(&opened, &mut buffer);
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next() {
        let number: Option<i32> = entry?.file_name().to_str().ok().and_then(|name| name.parse().ok());
        numbers.extend(number.filter(|number| folder != "/proc/self/fd" || *number != opened.as_raw_fd()));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn descriptors_are_seen_and_the_one_for_looking_is_not() {
        let files: Vec<_> = (0..300).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let seen = numbers_in("/proc/self/fd").unwrap();
        assert!(files.iter().all(|file| seen.contains(&file.as_raw_fd())));
        let pid = std::process::id() as i32;
        assert!(numbers_in("/proc/self/task").unwrap().contains(&pid));
        assert!(numbers_in("/proc/self/nothing").is_err());
    }
}

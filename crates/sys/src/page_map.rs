//! Which pages of this process hold data: in memory or swapped out (`/proc/self/pagemap`). `mincore(2)` does not tell: it
//! misses what is swapped.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::PAGE;

/// Neighbouring pages that hold data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PageRun {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`, include/uapi/linux/fs.h.
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vector: u64,
    vector_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of_mask: u64,
    return_mask: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`, Linux 6.7.
const PAGEMAP_SCAN: libc::c_ulong =
    3 << 30 | (size_of::<ScanArguments>() as libc::c_ulong) << 16 | 0x66 << 8 | 16;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
/// The kernel's one page of zeros: read, but never written.
const ZERO_PAGE: u64 = 1 << 5;

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// Pages in memory and pages swapped out.
    PresentOrSwapped,
    /// Pages in memory: leaves out the marks that write-protecting untouched pages of a file leaves in the page table, which
    /// look like swapped pages.
    Present,
}

/// The page table of this process, for looking at.
#[derive(Debug)]
pub struct PageMap {
    descriptor: OwnedFd,
    scan_known: bool,
}

impl PageMap {
    /// That of the process that calls; a child needs its own.
    pub fn open() -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open("/proc/self/pagemap", flags, Mode::empty())?;
        Ok(Self { descriptor, scan_known: true })
    }

    /// Writes the runs of pages in `start..end` that hold data to `runs`, `most_pages` at most. Returns how many runs there are
    /// and where the search stopped: `end`, or where pages or room in `runs` ran out.
    pub fn scan(
        &mut self,
        (start, end): (usize, usize),
        holding: Holding,
        most_pages: usize,
        runs: &mut [PageRun],
    ) -> io::Result<(usize, usize)> {
        if self.scan_known {
            let wanted = match holding {
                Holding::PresentOrSwapped => PRESENT | SWAPPED,
                Holding::Present => PRESENT,
            };
            let mut arguments = ScanArguments {
                size: size_of::<ScanArguments>() as u64,
                flags: 0,
                start: start as u64,
                end: end as u64,
                walk_end: 0,
                vector: runs.as_mut_ptr() as u64,
                vector_length: runs.len() as u64,
                max_pages: most_pages as u64,
                category_inverted: ZERO_PAGE,
                category_mask: ZERO_PAGE,
                category_any_of_mask: wanted,
                return_mask: wanted,
            };
            // SAFETY: the structure is a local and names `runs`, which the kernel fills as far as its length.
            let count = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), PAGEMAP_SCAN, &raw mut arguments) };
            if count >= 0 {
                return Ok((count as usize, arguments.walk_end as usize));
            }
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) {
                return Err(error);
            }
            self.scan_known = false;
        }
        self.read_entries((start, end), holding, most_pages, runs)
    }

    /// Whether the process has copies of its own of some pages of a private file mapping: the file then shows something else.
    pub fn has_own_copies(&self, start: usize, end: usize) -> io::Result<bool> {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const OF_FILE: u64 = 1 << 61;
        let mut entries = [0u8; 512 * 8];
        let mut at = start;
        while at < end {
            let asked = ((end - at) / PAGE).min(512);
            let read =
                rustix::io::pread(&self.descriptor, &mut entries[..asked * 8], (at / PAGE * 8) as u64)?;
            if read < asked * 8 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let is_copy = |entry: u64| entry & SWAPPED != 0 || entry & (PRESENT | OF_FILE) == PRESENT;
            let entries = entries[..asked * 8].as_chunks::<8>().0;
            if entries.iter().any(|entry| is_copy(u64::from_ne_bytes(*entry))) {
                return Ok(true);
            }
            at += asked * PAGE;
        }
        Ok(false)
    }

    fn read_entries(
        &self,
        (start, end): (usize, usize),
        holding: Holding,
        most_pages: usize,
        runs: &mut [PageRun],
    ) -> io::Result<(usize, usize)> {
        const PRESENT_BIT: u64 = 1 << 63;
        const SWAPPED_BIT: u64 = 1 << 62;
        let wanted = match holding {
            Holding::PresentOrSwapped => PRESENT_BIT | SWAPPED_BIT,
            Holding::Present => PRESENT_BIT,
        };
        let (mut count, mut pages, mut at) = (0, 0, start);
        let mut entries = [0u8; 512 * 8];
        while at < end {
            let asked = ((end - at) / PAGE).min(512);
            let read =
                rustix::io::pread(&self.descriptor, &mut entries[..asked * 8], (at / PAGE * 8) as u64)?;
            if read < asked * 8 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for entry in entries[..asked * 8].as_chunks::<8>().0 {
                if u64::from_ne_bytes(*entry) & wanted != 0 {
                    let follows = count > 0 && runs[count - 1].end == at as u64;
                    if pages == most_pages || (!follows && count == runs.len()) {
                        return Ok((count, at));
                    }
                    if follows {
                        runs[count - 1].end += PAGE as u64;
                    } else {
                        runs[count] = PageRun { start: at as u64, end: (at + PAGE) as u64, categories: 0 };
                        count += 1;
                    }
                    pages += 1;
                }
                at += PAGE;
            }
        }
        Ok((count, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedMapping;
    use std::sync::atomic::Ordering;

    fn runs_of(
        map: &mut PageMap,
        range: (usize, usize),
        most: usize,
        room: usize,
    ) -> (Vec<(u64, u64)>, usize) {
        let mut runs = vec![PageRun::default(); room];
        let (count, stopped) = map.scan(range, Holding::PresentOrSwapped, most, &mut runs).unwrap();
        (runs[..count].iter().map(|run| (run.start, run.end)).collect(), stopped)
    }

    #[test]
    fn both_ways_find_the_pages_that_were_written_and_stop_where_told() {
        let memory = SharedMapping::anonymous(1200 * PAGE).unwrap();
        let start = memory.as_ptr() as usize;
        for page in [3, 4, 7, 1100] {
            memory.word(page * PAGE).store(1, Ordering::Relaxed);
        }
        let range = (start, start + 1200 * PAGE);
        let at = |page: usize| (start + page * PAGE) as u64;
        for scan_known in [true, false] {
            let mut map = PageMap { scan_known, ..PageMap::open().unwrap() };
            let all = vec![(at(3), at(5)), (at(7), at(8)), (at(1100), at(1101))];
            assert_eq!(runs_of(&mut map, range, 100, 10), (all, range.1));
            let (some, stopped) = runs_of(&mut map, range, 2, 10);
            assert_eq!(some, [(at(3), at(5))]);
            assert!(stopped >= at(5) as usize && stopped <= at(7) as usize);
            let (some, stopped) = runs_of(&mut map, range, 100, 2);
            assert_eq!(some, [(at(3), at(5)), (at(7), at(8))]);
            assert!(stopped >= at(8) as usize && stopped <= at(1100) as usize);
        }
    }
}

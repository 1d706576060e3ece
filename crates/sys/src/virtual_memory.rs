//! What stands at an address of this process: mapped or not, writable or not, private or shared.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;

use crate::fork::fork_generation;

/// Size of a page in bytes. x86-64 has this one; other machines will ask the kernel.
pub const PAGE: usize = 4096;

/// Where an area's bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Memory of this process alone.
    Private,
    /// A file mapped `MAP_SHARED`: this device and inode, and the offset of the area's first byte.
    SharedFile {
        /// Device number, major and minor.
        device: (u32, u32),
        /// Inode.
        inode: u64,
        /// Offset in bytes.
        offset: u64,
    },
}

/// One mapped area (a line of `/proc/self/maps`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryArea {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Where its bytes live.
    pub backing: Backing,
}

#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`, Linux 6.11 (include/uapi/linux/fs.h).
const PROCMAP_QUERY: libc::c_ulong =
    3 << 30 | (size_of::<ProcmapQuery>() as libc::c_ulong) << 16 | 0x66 << 8 | 17;
const FLAG_READABLE: u64 = 1;
const FLAG_WRITABLE: u64 = 2;
const FLAG_SHARED: u64 = 8;

/// The descriptor shows the memory of the process that opened it, so a child opens its own.
static MAPS: Mutex<Option<(u32, File)>> = Mutex::new(None);

/// The area that holds `address`; `Ok(None)` if nothing is mapped there. An error means that the kernel does not tell
/// (no `/proc`).
pub fn find_area(address: usize) -> io::Result<Option<MemoryArea>> {
    let mut maps = MAPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let generation = fork_generation();
    if maps.as_ref().is_none_or(|(made, _)| *made != generation) {
        *maps = Some((generation, File::open("/proc/self/maps")?));
    }
    let Some((_, file)) = maps.as_ref() else { return Err(io::Error::other("unreachable")) };
    let mut query = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: address as u64,
        ..Default::default()
    };
    // SAFETY: the structure is a local of the size the request names.
    if unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } == 0 {
        let backing = if query.vma_flags & FLAG_SHARED != 0 {
            Backing::SharedFile {
                device: (query.dev_major, query.dev_minor),
                inode: query.inode,
                offset: query.vma_offset,
            }
        } else {
            Backing::Private
        };
        return Ok(Some(MemoryArea {
            start: query.vma_start as usize,
            end: query.vma_end as usize,
            readable: query.vma_flags & FLAG_READABLE != 0,
            writable: query.vma_flags & FLAG_WRITABLE != 0,
            backing,
        }));
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT) => Ok(None),
        _ => search_text(address),
    }
}

fn search_text(address: usize) -> io::Result<Option<MemoryArea>> {
    for line in BufReader::new(File::open("/proc/self/maps")?).lines() {
        if let Some(area) = parse_line(&line?)
            && (area.start..area.end).contains(&address)
        {
            return Ok(Some(area));
        }
    }
    Ok(None)
}

fn parse_line(line: &str) -> Option<MemoryArea> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    Some(MemoryArea {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        readable: *rights.first()? == b'r',
        writable: *rights.get(1)? == b'w',
        backing: match *rights.get(3)? {
            b's' => Backing::SharedFile { device, inode, offset },
            _ => Backing::Private,
        },
    })
}

/// Asks the kernel to touch every page of a range: the way to learn, without `/proc`, whether it can be read or written.
/// An error means that it cannot. A kernel that does not know the call (before 5.14) leaves the question open: success.
pub fn touch_pages(address: usize, length: usize, write: bool) -> io::Result<()> {
    let start = address / PAGE * PAGE;
    let length = (address + length).next_multiple_of(PAGE) - start;
    let advice = if write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: this advice changes no contents; on a range that is not mapped it fails.
    if unsafe { libc::madvise(start as *mut libc::c_void, length, advice) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        error => Err(error),
    }
}

/// Opens the file behind a shared area of this process: a descriptor the program still has, or the file's own path.
/// `None` if it can no longer be reached by either.
pub fn shared_file_of(area: &MemoryArea) -> Option<OwnedFd> {
    let Backing::SharedFile { device, inode, .. } = area.backing else { return None };
    let is_it = |file: &File| {
        rustix::fs::fstat(file).is_ok_and(|stat| {
            let seen = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
            stat.st_ino == inode && seen == device
        })
    };
    let open = |path: &std::path::Path| {
        let file = File::options().read(true).write(true).open(path).ok()?;
        is_it(&file).then(|| OwnedFd::from(file))
    };
    for entry in std::fs::read_dir("/proc/self/fd").ok()?.flatten() {
        let path = entry.path();
        // Asking before opening: opening a device or a pipe can have effects.
        let same = rustix::fs::stat(&path)
            .is_ok_and(|stat| stat.st_ino == inode && stat.st_mode & libc::S_IFMT == libc::S_IFREG);
        if same && let Some(fd) = open(&path) {
            return Some(fd);
        }
    }
    let file = File::open("/proc/self/maps").ok()?;
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        if parse_line(&line).is_some_and(|seen| seen.start == area.start)
            && let Some(path) = line.find('/').map(|at| &line[at..])
        {
            return open(std::path::Path::new(path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_the_text_tell_the_same() {
        let value = Box::new(7u64);
        let address = &raw const *value as usize;
        let asked = find_area(address).unwrap().unwrap();
        let read = search_text(address).unwrap().unwrap();
        assert_eq!(asked, read);
        assert!(asked.readable && asked.writable && asked.backing == Backing::Private);
        assert_eq!(find_area(0).unwrap(), None);
    }

    #[test]
    fn the_file_behind_shared_memory_is_found_by_its_descriptor() {
        let memory = crate::SharedMemory::create("found", 3 * PAGE).unwrap();
        let mapping = memory.map(crate::Protection::ReadWrite).unwrap();
        let area = find_area(mapping.as_ptr() as usize + PAGE).unwrap().unwrap();
        assert!(matches!(area.backing, Backing::SharedFile { offset: 0, .. }));
        let again = shared_file_of(&area).unwrap();
        let stat = |fd: &dyn std::os::fd::AsFd| rustix::fs::fstat(fd.as_fd()).unwrap().st_ino;
        assert_eq!(stat(&again), stat(&memory));
        drop(memory);
    }

    #[test]
    fn a_line_of_maps_is_understood() {
        let line = "7f0000001000-7f0000003000 rw-s 00002000 00:01 1047 /dev/shm/x y (deleted)";
        let area = parse_line(line).unwrap();
        assert_eq!(area.backing, Backing::SharedFile { device: (0, 1), inode: 1047, offset: 0x2000 });
        assert!(area.readable && area.writable);
        assert_eq!(parse_line("rubbish"), None);
    }
}

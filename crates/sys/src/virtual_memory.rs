//! What stands at an address of this process: mapped or not, writable or not, private or shared.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::{PerProcess, Rights};

/// Size of a page in bytes. x86-64 has this one; other machines will ask the kernel.
pub const PAGE: usize = 4096;

/// Where an area's bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Memory of this process alone, and of no file.
    Private,
    /// A file mapped `MAP_PRIVATE`: what was not written yet comes from it.
    PrivateFile {
        /// Device number, major and minor.
        device: (u32, u32),
        /// Inode.
        inode: u64,
        /// Offset in bytes.
        offset: u64,
    },
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

impl Backing {
    fn new(shared: bool, device: (u32, u32), inode: u64, offset: u64) -> Self {
        match (shared, inode) {
            (true, _) => Self::SharedFile { device, inode, offset },
            (false, 0) => Self::Private,
            (false, _) => Self::PrivateFile { device, inode, offset },
        }
    }
}

/// What the kernel or the program calls an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaName {
    /// It has no name, or one that the program gave it, or it is the heap.
    Program,
    /// The stack of the first thread.
    Stack,
    /// A file, or something of the kernel's (`[vdso]`).
    Other,
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
    /// Whether code in it can run.
    pub executable: bool,
    /// Where its bytes live.
    pub backing: Backing,
}

impl MemoryArea {
    /// Whether it can be read, and also written if asked for.
    pub fn allows(&self, write: bool) -> bool {
        self.readable && (self.writable || !write)
    }

    /// What the area allows.
    pub fn rights(&self) -> Rights {
        Rights { read: self.readable, write: self.writable, execute: self.executable }
    }
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
const FLAG_EXECUTABLE: u64 = 4;
const FLAG_SHARED: u64 = 8;
const COVERING_OR_NEXT: u64 = 16;

/// The map of a process's memory. Asking it allocates nothing, so a child may do it right after a fork.
#[derive(Debug)]
pub struct AreaMap {
    file: OwnedFd,
}

impl AreaMap {
    /// That of the process that calls; a child needs its own.
    pub fn open() -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { file: rustix::fs::open("/proc/self/maps", flags, Mode::empty())? })
    }

    /// That of another process, which this one may look at.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { file: rustix::fs::open(format!("/proc/{pid}/maps"), flags, Mode::empty())? })
    }

    fn query(&self, query: &mut ProcmapQuery) -> io::Result<()> {
        query.size = size_of::<ProcmapQuery>() as u64;
        // SAFETY: the structure has the size the request names, and its name, if any, is a buffer of the caller's.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), PROCMAP_QUERY, std::ptr::from_mut(query)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The area that holds `address`, or else the next one above it.
    pub fn at_or_above(&self, address: usize) -> io::Result<Option<MemoryArea>> {
        let mut query =
            ProcmapQuery { query_addr: address as u64, query_flags: COVERING_OR_NEXT, ..Default::default() };
        match self.query(&mut query) {
            Ok(()) => Ok(Some(MemoryArea {
                start: query.vma_start as usize,
                end: query.vma_end as usize,
                readable: query.vma_flags & FLAG_READABLE != 0,
                writable: query.vma_flags & FLAG_WRITABLE != 0,
                executable: query.vma_flags & FLAG_EXECUTABLE != 0,
                backing: Backing::new(
                    query.vma_flags & FLAG_SHARED != 0,
                    (query.dev_major, query.dev_minor),
                    query.inode,
                    query.vma_offset,
                ),
            })),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(_) => Ok(self.search_text(address)?.map(|(area, _)| area)),
        }
    }

    /// What the area that holds `address` is called; `None` if nothing is mapped there.
    pub fn name_at(&self, address: usize) -> io::Result<Option<AreaName>> {
        let mut name = [0u8; 256];
        let mut query = ProcmapQuery {
            query_addr: address as u64,
            vma_name_addr: name.as_mut_ptr() as u64,
            vma_name_size: name.len() as u32,
            ..Default::default()
        };
        match self.query(&mut query) {
            Ok(()) => {
                let length = (query.vma_name_size as usize).saturating_sub(1);
                Ok(Some(area_name(&name[..length])))
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(None),
                Some(libc::ENAMETOOLONG) => Ok(Some(AreaName::Other)),
                _ => Ok(self
                    .search_text(address)?
                    .filter(|(area, _)| area.start <= address)
                    .map(|(_, name)| name)),
            },
        }
    }

    /// Kernels before 6.11: reads the text, line by line, in a buffer on the stack. A line longer than the buffer loses the
    /// end of its name.
    fn search_text(&self, address: usize) -> io::Result<Option<(MemoryArea, AreaName)>> {
        let mut buffer = [0u8; 4096];
        let (mut filled, mut skipping, mut position) = (0, false, 0);
        loop {
            let count = rustix::io::pread(&self.file, &mut buffer[filled..], position)?;
            position += count as u64;
            if count == 0 {
                return Ok(None);
            }
            filled += count;
            let mut start = 0;
            while let Some(length) = buffer[start..filled].iter().position(|&byte| byte == b'\n') {
                let line = &buffer[start..start + length];
                start += length + 1;
                if !std::mem::take(&mut skipping)
                    && let Some(found) = std::str::from_utf8(ascii_start(line)).ok().and_then(parse_line)
                    && found.0.end > address
                {
                    return Ok(Some(found));
                }
            }
            buffer.copy_within(start..filled, 0);
            filled -= start;
            if filled == buffer.len() {
                let found = std::str::from_utf8(ascii_start(&buffer)).ok().and_then(parse_line);
                if let Some(found) = found.filter(|(area, _)| !skipping && area.end > address) {
                    return Ok(Some(found));
                }
                (filled, skipping) = (0, true);
            }
        }
    }
}

fn ascii_start(line: &[u8]) -> &[u8] {
    &line[..line.iter().position(|byte| !byte.is_ascii()).unwrap_or(line.len())]
}

fn area_name(name: &[u8]) -> AreaName {
    match name {
        b"" | b"[heap]" => AreaName::Program,
        b"[stack]" => AreaName::Stack,
        _ if name.starts_with(b"[anon:") => AreaName::Program,
        _ => AreaName::Other,
    }
}

/// The descriptor shows the memory of the process that opened it, so a child opens its own. There is no lock that a fork could
/// leave taken: asking moves no position.
static MAPS: PerProcess<AreaMap> = PerProcess::new();

/// The area that holds `address`; `Ok(None)` if nothing is mapped there. An error means that the kernel does not tell
/// (no `/proc`).
pub fn find_area(address: usize) -> io::Result<Option<MemoryArea>> {
    let map = match MAPS.get() {
        Some(map) => map,
        None => {
            let map = AreaMap::open()?;
            MAPS.get_or_make(|| map)
        }
    };
    Ok(map.at_or_above(address)?.filter(|area| area.start <= address))
}

fn parse_line(line: &str) -> Option<(MemoryArea, AreaName)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let area = MemoryArea {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        readable: *rights.first()? == b'r',
        writable: *rights.get(1)? == b'w',
        executable: *rights.get(2)? == b'x',
        backing: Backing::new(*rights.get(3)? == b's', device, inode, offset),
    };
    Some((area, area_name(fields.next().unwrap_or_default().as_bytes())))
}

/// Whether the kernel knows `MADV_POPULATE_WRITE` (Linux 5.14): asked about no bytes at all.
pub(crate) fn can_populate() -> bool {
    // SAFETY: a range of no bytes.
    unsafe { libc::madvise(PAGE as *mut libc::c_void, 0, libc::MADV_POPULATE_WRITE) == 0 }
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

/// What tells a file from others: its device number, major and minor, and its inode.
pub type FileIdentity = ((u32, u32), u64);

/// The identity of an open file, as [`Backing::SharedFile`] has it.
pub fn file_identity(file: rustix::fd::BorrowedFd<'_>) -> io::Result<FileIdentity> {
    let stat = rustix::fs::fstat(file)?;
    Ok(((rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)), stat.st_ino))
}

/// Opens the file behind a shared area of this process: a descriptor the program still has, or the file's own path.
/// `None` if it can no longer be reached by either.
pub fn shared_file_of(area: &MemoryArea) -> Option<OwnedFd> {
    let Backing::SharedFile { device, inode, .. } = area.backing else { return None };
    let is_it =
        |file: &File| file_identity(std::os::fd::AsFd::as_fd(file)).is_ok_and(|seen| seen == (device, inode));
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
        if parse_line(&line).is_some_and(|(seen, _)| seen.start == area.start)
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
        let (read, name) = AreaMap::open().unwrap().search_text(address).unwrap().unwrap();
        assert_eq!((asked, AreaName::Program), (read, name));
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
    fn the_stack_and_the_areas_of_the_kernel_and_of_files_are_known_by_name() {
        let map = AreaMap::open().unwrap();
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut names = Vec::new();
        for line in text.lines() {
            let (area, name) = parse_line(line).unwrap();
            // Other tests map and unmap meanwhile; what has a name stays.
            if name != AreaName::Program && area.end < 1 << 47 {
                assert_eq!(map.name_at(area.end - 1).unwrap(), Some(name), "{line}");
                let (found, found_name) = map.search_text(area.end - 1).unwrap().unwrap();
                assert_eq!((found.end, found_name), (area.end, name), "{line}");
                names.push(name);
            }
        }
        assert!(names.contains(&AreaName::Stack) && names.contains(&AreaName::Other));
    }

    #[test]
    fn a_line_of_maps_is_understood() {
        let line = "7f0000001000-7f0000003000 rw-s 00002000 00:01 1047 /dev/shm/x y (deleted)";
        let (area, name) = parse_line(line).unwrap();
        assert_eq!(name, AreaName::Other);
        assert_eq!(area.backing, Backing::SharedFile { device: (0, 1), inode: 1047, offset: 0x2000 });
        assert!(area.readable && area.writable);
        assert_eq!(parse_line("rubbish"), None);
    }
}

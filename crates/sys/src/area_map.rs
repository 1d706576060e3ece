//! The map of a process's memory: one area asked for, or all of them one after another.
//!
//! The kernel answers a question about an address (`PROCMAP_QUERY`, Linux 6.11), or has only the text of `/proc/PID/maps`, of
//! which a question reads everything in front of its answer: who wants more than one area walks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::virtual_memory::{AreaName, Backing, MemoryArea};

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
    /// The other process that it is of.
    pid: Option<i32>,
}

impl AreaMap {
    /// That of the process that calls; a child needs its own.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { file: rustix::fs::open("/proc/self/maps", flags, Mode::empty())?, pid: None })
    }

    /// That of another process, which this one may look at.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(format!("/proc/{pid}/maps"), flags, Mode::empty())?;
        Ok(Self { file, pid: Some(pid) })
    }

    fn query(&self, query: &mut ProcmapQuery) -> io::Result<()> {
        query.size = size_of::<ProcmapQuery>() as u64;
        // SAFETY: the structure has the size the request names, and its name, if any, is a buffer of the caller's.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), PROCMAP_QUERY, std::ptr::from_mut(query)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn ask(&self, address: usize) -> io::Result<Option<MemoryArea>> {
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
            Err(error) => Err(error),
        }
    }

    /// The area that holds `address`, or else the next one above it.
    pub fn at_or_above(&self, address: usize) -> io::Result<Option<MemoryArea>> {
        match self.ask(address) {
            Ok(answer) => Ok(answer),
            Err(_) => Ok(self.search_text(address)?.map(|(area, _)| area)),
        }
    }

    /// All areas from the one that holds `address`, or the next one above it, in order. Whoever walks may meanwhile change areas
    /// that it has passed. Without the kernel's answers the text is read once, through a descriptor of the walk's own.
    pub fn walk(&self, address: usize) -> AreaWalk<'_> {
        AreaWalk { map: self, at: address, text: None, ended: false }
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

    fn search_text(&self, address: usize) -> io::Result<Option<(MemoryArea, AreaName)>> {
        let mut text = Text::new();
        while let Some(found) = text.next(&self.file)? {
            if found.0.end > address {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// See [`AreaMap::walk`]. After an error there is nothing more.
#[derive(Debug)]
pub struct AreaWalk<'a> {
    map: &'a AreaMap,
    at: usize,
    text: Option<(AreaMap, Text)>,
    ended: bool,
}

impl AreaWalk<'_> {
    fn step(&mut self) -> io::Result<Option<MemoryArea>> {
        if self.text.is_none() {
            match self.map.ask(self.at) {
                Ok(answer) => return Ok(answer),
                // The kernel goes on where it stopped only for who reads on at the same descriptor.
                Err(_) => {
                    let map = self.map.pid.map_or_else(AreaMap::open, AreaMap::of_process)?;
                    self.text = Some((map, Text::new()));
                }
            }
        }
        let Some((map, text)) = &mut self.text else { return Ok(None) };
        while let Some((area, _)) = text.next(&map.file)? {
            if area.end > self.at {
                return Ok(Some(area));
            }
        }
        Ok(None)
    }
}

impl Iterator for AreaWalk<'_> {
    type Item = io::Result<MemoryArea>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let area = self.step();
        match &area {
            Ok(Some(area)) => self.at = area.end,
            Ok(None) | Err(_) => self.ended = true,
        }
        area.transpose()
    }
}

/// The text, line by line, in a buffer that is no one's but the reader's. A line longer than the buffer loses the end of its
/// name.
#[derive(Debug)]
struct Text {
    buffer: [u8; 4096],
    start: usize,
    filled: usize,
    position: u64,
    /// What is read up to the next end of a line belongs to a line that was too long.
    skipping: bool,
}

impl Text {
    fn new() -> Self {
        Self { buffer: [0; 4096], start: 0, filled: 0, position: 0, skipping: false }
    }

    /// The next line that can be understood.
    fn next(&mut self, file: &OwnedFd) -> io::Result<Option<(MemoryArea, AreaName)>> {
        loop {
            let unread = &self.buffer[self.start..self.filled];
            if let Some(length) = unread.iter().position(|&byte| byte == b'\n') {
                let found = understood(&unread[..length]);
                self.start += length + 1;
                if !std::mem::take(&mut self.skipping) && found.is_some() {
                    return Ok(found);
                }
                continue;
            }
            self.buffer.copy_within(self.start..self.filled, 0);
            (self.start, self.filled) = (0, self.filled - self.start);
            if self.filled == self.buffer.len() {
                let found = understood(&self.buffer);
                self.filled = 0;
                if !std::mem::replace(&mut self.skipping, true) && found.is_some() {
                    return Ok(found);
                }
            }
            let count = match rustix::io::pread(file, &mut self.buffer[self.filled..], self.position) {
                Ok(0) => return Ok(None),
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.position += count as u64;
            self.filled += count;
        }
    }
}

fn understood(line: &[u8]) -> Option<(MemoryArea, AreaName)> {
    std::str::from_utf8(ascii_start(line)).ok().and_then(parse_line)
}

fn ascii_start(line: &[u8]) -> &[u8] {
    &line[..line.iter().position(|byte| !byte.is_ascii()).unwrap_or(line.len())]
}

fn area_name(name: &[u8]) -> AreaName {
    match name {
        b"" | b"[heap]" => AreaName::Program,
        b"[stack]" => AreaName::Stack,
        _ if name.starts_with(b"[anon:") => AreaName::Program,
        _ if name.starts_with(b"/SYSV") => AreaName::Segment,
        _ if name.starts_with(b"/dev/zero") => AreaName::SharedAnonymous,
        _ => AreaName::Other,
    }
}

pub(crate) fn parse_line(line: &str) -> Option<(MemoryArea, AreaName)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE, find_area};

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
    fn a_walk_over_the_text_finds_every_area_once_while_those_behind_it_change() {
        const PAGES: usize = 2000;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel chooses.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), PAGES * PAGE, rights, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let protect = |page: usize, rights| {
            // SAFETY: a page of the mapping, which nothing refers to.
            assert_eq!(unsafe { libc::mprotect(start.byte_add(page * PAGE), PAGE, rights) }, 0);
        };
        (0..PAGES).step_by(2).for_each(|page| protect(page, libc::PROT_READ));
        let map = AreaMap::open().unwrap();
        let own_text = Some((AreaMap::open().unwrap(), Text::new()));
        let walk = AreaWalk { map: &map, at: start as usize, text: own_text, ended: false };
        let (mut at, mut found) = (start as usize, 0);
        for area in
            walk.map(|area| area.unwrap()).take_while(|area| area.start < start as usize + PAGES * PAGE)
        {
            assert_eq!((area.start.max(start as usize), area.writable), (at, found % 2 == 1));
            // What has been passed becomes one with what is before it.
            protect(found, libc::PROT_NONE);
            (at, found) = (area.end, found + 1);
        }
        assert_eq!(found, PAGES);
        // SAFETY: the mapping is this test's.
        unsafe { libc::munmap(start, PAGES * PAGE) };
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

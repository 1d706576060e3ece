//! Memory of the program under test, and the calls that are given its addresses. The only unsafe code of the suite.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nonic_device::{
    DeviceMemory, DeviceMemoryError, PostError, ProgramAddress, QueuePair, SendRequest, SharedSlice,
};
use nonic_scif::Endpoint;
use nonic_sys::{Protection, SharedMapping, SharedMemory};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::command::MemoryKind;

pub(crate) const PAGE: u64 = 4096;

/// An address that a rule registers memory at.
pub(crate) fn program_address(address: u64) -> ProgramAddress {
    // SAFETY: rules register buffers of this file, which are read and written by single volatile accesses, or addresses where
    // nothing is.
    unsafe { ProgramAddress::new(address as usize) }
}

#[derive(Debug)]
enum Backing {
    /// Mapped by this buffer alone: the first byte, and what is mapped.
    Private(*mut u8, usize),
    /// With the file kept open, as programs do: peers that map it get it from there.
    Shared {
        mapping: SharedMapping,
        _file: SharedMemory,
    },
    Device(Arc<DeviceMemory>),
    /// A peer's windows: the first byte, and what is mapped.
    Window(*mut u8, usize),
}

/// A buffer that the device and other threads use while the program looks at it.
#[derive(Debug)]
pub(crate) struct Buffer {
    backing: Backing,
    length: u64,
}

// SAFETY: the bytes are reached through `SharedSlice` and atomics only; the pointer is never handed out otherwise.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `length` zeros of a kind that the program has.
    pub(crate) fn create(kind: MemoryKind, length: u64) -> io::Result<Self> {
        let mapped = length.max(1).next_multiple_of(PAGE) as usize;
        let backing = match kind {
            MemoryKind::Shared => {
                let file = SharedMemory::create("conformance", mapped)?;
                Backing::Shared { mapping: file.map(Protection::ReadWrite)?, _file: file }
            }
            MemoryKind::Device => return Err(io::ErrorKind::InvalidInput.into()),
            MemoryKind::ReadOnly => Backing::Private(map(mapped, ProtFlags::READ)?, mapped),
            MemoryKind::Private | MemoryKind::Pages => {
                Backing::Private(map(mapped, ProtFlags::READ | ProtFlags::WRITE)?, mapped)
            }
            MemoryKind::Hole => {
                let mapped = 3 * PAGE as usize;
                let start = map(mapped, ProtFlags::READ | ProtFlags::WRITE)?;
                // SAFETY: the second of the three pages just mapped; nobody has its address yet.
                unsafe { mprotect(start.add(PAGE as usize).cast(), PAGE as usize, MprotectFlags::empty())? };
                Backing::Private(start, mapped)
            }
        };
        Ok(Self { backing, length })
    }

    /// What `nonic_scif` has mapped.
    pub(crate) fn of_window(address: usize, length: usize) -> Self {
        let start = std::ptr::with_exposed_provenance_mut(address);
        Self { backing: Backing::Window(start, length), length: length as u64 }
    }

    /// Puts other pages at the addresses of a private buffer, as a program does that maps over what it had registered:
    /// zeros, or what cannot be touched.
    pub(crate) fn replace(&self, touchable: bool) -> io::Result<()> {
        let (start, mapped) = match &self.backing {
            Backing::Private(start, mapped) => (*start, *mapped),
            Backing::Shared { mapping, .. } => (mapping.as_ptr(), mapping.length()),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let protection = if touchable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::empty() };
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: replaces mappings of this buffer alone, whose bytes are reached by volatile copies only.
        unsafe { mmap_anonymous(start.cast(), mapped, protection, flags)? };
        Ok(())
    }

    /// Has a child of this process store bytes here and end; the status it ended with.
    pub(crate) fn store_in_child(&self, bytes: &[u8]) -> io::Result<u64> {
        let target = self.slice(0, bytes.len() as u64);
        // SAFETY: the child calls nothing but the copy of bytes and `_exit`, which are allowed after `fork` among threads.
        unsafe {
            match libc::fork() {
                -1 => Err(io::Error::last_os_error()),
                0 => {
                    target.write(bytes);
                    libc::_exit(0)
                }
                child => {
                    let mut status = 0;
                    while libc::waitpid(child, &raw mut status, 0) == -1 {
                        let error = io::Error::last_os_error();
                        if error.kind() != io::ErrorKind::Interrupted {
                            return Err(error);
                        }
                    }
                    Ok(status as u64)
                }
            }
        }
    }

    /// A buffer of device memory.
    pub(crate) fn of_device(memory: Arc<DeviceMemory>) -> Self {
        let length = memory.length();
        Self { backing: Backing::Device(memory), length }
    }

    /// The device memory, if it is that.
    pub(crate) fn device(&self) -> Option<&Arc<DeviceMemory>> {
        match &self.backing {
            Backing::Device(memory) => Some(memory),
            _ => None,
        }
    }

    /// Address of the first byte; 0 for device memory.
    pub(crate) fn address(&self) -> u64 {
        match &self.backing {
            Backing::Private(start, _) | Backing::Window(start, _) => *start as u64,
            Backing::Shared { mapping, .. } => mapping.as_ptr() as u64,
            Backing::Device(_) => 0,
        }
    }

    fn slice(&self, offset: u64, length: u64) -> SharedSlice<'_> {
        assert!(offset + length <= self.length, "{offset}+{length} of a buffer of {}", self.length);
        let start = (self.address() + offset) as *mut u8;
        // SAFETY: the range is inside the buffer (asserted), which stays mapped while it is borrowed.
        unsafe { SharedSlice::from_raw(start, length as usize) }
    }

    /// Reads bytes. Device memory is read in the words around them.
    pub(crate) fn peek(&self, offset: u64, length: u64) -> Vec<u8> {
        let Some(memory) = self.device() else {
            let mut bytes = vec![0; length as usize];
            self.slice(offset, length).read(&mut bytes);
            return bytes;
        };
        let (start, end) = (offset / 4 * 4, (offset + length).next_multiple_of(4));
        let words = copy_out(memory, start, end - start).expect("the range is inside the device memory");
        words[(offset - start) as usize..][..length as usize].to_vec()
    }

    /// Writes bytes. Of device memory the words around them are written.
    pub(crate) fn poke(&self, offset: u64, bytes: &[u8]) {
        let Some(memory) = self.device() else {
            self.slice(offset, bytes.len() as u64).write(bytes);
            return;
        };
        let (start, end) = (offset / 4 * 4, (offset + bytes.len() as u64).next_multiple_of(4));
        let mut words = copy_out(memory, start, end - start).expect("the range is inside the device memory");
        words[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
        copy_in(memory, start, &words, words.len() as u64).expect("the range is inside the device memory");
    }

    /// A word of memory that the CPU can reach.
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(
            self.device().is_none() && offset.is_multiple_of(8) && offset + 8 <= self.length,
            "word {offset}"
        );
        // SAFETY: inside the buffer and aligned (asserted; buffers are page aligned), mapped while it is borrowed, and
        // everybody else who uses it at the same time does so with atomics or the copy primitive.
        unsafe { AtomicU64::from_ptr((self.address() + offset) as *mut u64) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.backing {
            // SAFETY: mapped by `create`, and nothing borrowed from `self` outlives it.
            Backing::Private(start, mapped) => drop(unsafe { munmap(start.cast(), mapped) }),
            Backing::Window(start, mapped) => drop(nonic_scif::unmap(start as usize, mapped)),
            _ => {}
        }
    }
}

fn map(length: usize, protection: ProtFlags) -> io::Result<*mut u8> {
    // SAFETY: a new mapping where the kernel chooses: it replaces nothing.
    Ok(unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE)? }.cast())
}

/// Copies to device memory. `length` may be wrong on purpose; then `bytes` is repeated to have as many.
pub(crate) fn copy_in(
    memory: &DeviceMemory,
    offset: u64,
    bytes: &[u8],
    length: u64,
) -> Result<(), DeviceMemoryError> {
    let mut source = bytes.to_vec();
    source.resize(source.len().max(length.min(1 << 24) as usize), 0xEE);
    // SAFETY: `source` has `length` bytes, unless it is so long that no device memory has as many: then the call must
    // refuse before it reads.
    unsafe { memory.copy_in(offset, source.as_ptr(), length) }
}

/// Copies from device memory.
pub(crate) fn copy_out(
    memory: &DeviceMemory,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, DeviceMemoryError> {
    const UNTOUCHED: u8 = 0xEE;
    let mut bytes = vec![UNTOUCHED; length.min(1 << 24) as usize];
    // SAFETY: as in `copy_in`, for writing.
    let result = unsafe { memory.copy_out(bytes.as_mut_ptr(), offset, length) };
    if result.is_err() {
        assert!(bytes.iter().all(|byte| *byte == UNTOUCHED), "a refused copy moved bytes");
    }
    result.map(|()| bytes)
}

/// Posts a request whose pieces name buffers of the same side.
pub(crate) fn post_send(pair: &QueuePair, request: &SendRequest<'_>) -> Result<(), PostError> {
    // SAFETY: a rule's inline pieces are buffers of this side, which stand until it is reset; the pieces of other
    // requests are looked up by key, and regions are given back before the buffers under them.
    unsafe { pair.post_send(request) }
}

/// The descriptor of an endpoint.
pub(crate) fn borrow(endpoint: &Endpoint) -> BorrowedFd<'_> {
    // SAFETY: the endpoint keeps its number open while it is borrowed.
    unsafe { BorrowedFd::borrow_raw(endpoint.as_raw_fd()) }
}

/// Whether bytes of this process are all mapped shared from files, as the kernel tells.
pub(crate) fn is_in_file(address: u64, length: u64) -> bool {
    let (mut at, end) = (address as usize, (address + length) as usize);
    while at < end {
        match nonic_sys::find_area(at) {
            Ok(Some(area)) if matches!(area.backing, nonic_sys::Backing::SharedFile { .. }) => at = area.end,
            _ => return false,
        }
    }
    true
}

/// Whether the kernel copies from a process to this one: it may not let it.
pub(crate) fn kernel_reaches(process: rustix::process::Pid, address: u64) -> bool {
    let mut word = 0u64;
    let local = [nonic_sys::Piece { address: &raw mut word as usize, length: 8 }];
    let remote = [nonic_sys::Piece { address: address as usize, length: 8 }];
    // SAFETY: the local piece is a variable of this function.
    unsafe { nonic_sys::read_process(process.as_raw_nonzero().get(), &local, &remote) }
        .is_ok_and(|copied| copied == 8)
}

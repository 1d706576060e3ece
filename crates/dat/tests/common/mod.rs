//! What the tests of memory objects need: an adapter, a zone, and memory of every kind.

#![allow(dead_code)] // Each test is a crate of its own and uses its part.

pub(crate) mod connected;
pub(crate) mod other_process;
pub(crate) mod peers;
pub(crate) mod waiting;

use std::sync::Arc;

use nonic_dat::{
    AccessKind, AsyncEvents, Cookie, DatError, DatResult, Description, HandleKind, InterfaceAdapter,
    LocalRegion, OpenOptions, Privileges, ProgramAddress, ProtectionZone, Segment, StateKind, Subtype,
};

pub(crate) const PAGE: usize = 4096;

/// Opens an adapter.
pub(crate) fn open(coherent: bool) -> Arc<InterfaceAdapter> {
    let name = if coherent { "nonic" } else { "nonic-noncoherent" };
    InterfaceAdapter::open(OpenOptions {
        name: name.to_owned(),
        coherent,
        async_events: AsyncEvents::OutOfScope,
    })
    .unwrap()
}

/// Mapped memory of whole pages, with nothing mapped behind it.
pub(crate) struct Pages {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: an address and a length.
unsafe impl Send for Pages {}
// SAFETY: the same.
unsafe impl Sync for Pages {}

impl Pages {
    /// Private memory.
    pub(crate) fn private(pages: usize) -> Self {
        Self::map(pages, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// Memory that the machine shares.
    pub(crate) fn shared(pages: usize) -> Self {
        Self::map(pages, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// A file without a name, of `pages` pages.
    pub(crate) fn file(pages: usize) -> libc::c_int {
        // SAFETY: a new descriptor.
        unsafe {
            let file = libc::memfd_create(c"test".as_ptr(), 0);
            assert_eq!(libc::ftruncate(file, (pages * PAGE) as libc::off_t), 0);
            file
        }
    }

    /// A file, shared from its beginning.
    pub(crate) fn of_file(pages: usize, file: libc::c_int) -> Self {
        Self::map(pages, libc::MAP_SHARED, file)
    }

    fn map(pages: usize, flags: libc::c_int, file: libc::c_int) -> Self {
        let length = pages * PAGE;
        // SAFETY: new mappings; the second replaces the beginning of the first.
        unsafe {
            let nothing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let whole = libc::mmap(std::ptr::null_mut(), length + PAGE, libc::PROT_NONE, nothing, -1, 0);
            assert_ne!(whole, libc::MAP_FAILED);
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mmap(whole, length, rights, flags | libc::MAP_FIXED, file, 0), whole);
            Self { start: whole, length }
        }
    }

    pub(crate) fn allow(&self, rights: libc::c_int) {
        // SAFETY: this test's pages.
        assert_eq!(unsafe { libc::mprotect(self.start, self.length, rights) }, 0);
    }

    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    pub(crate) fn length(&self) -> u64 {
        self.length as u64
    }

    pub(crate) fn read(&self, offset: usize) -> u8 {
        assert!(offset < self.length);
        // SAFETY: inside the pages.
        unsafe { self.start.cast::<u8>().add(offset).read_volatile() }
    }

    pub(crate) fn write(&self, offset: usize, byte: u8) {
        assert!(offset < self.length);
        // SAFETY: inside the pages.
        unsafe { self.start.cast::<u8>().add(offset).write_volatile(byte) }
    }

    pub(crate) fn fill(&self, byte: u8) {
        (0..self.length).for_each(|offset| self.write(offset, byte));
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this test's pages.
        unsafe { libc::munmap(self.start, self.length + PAGE) };
    }
}

/// An address that a test registers memory at.
pub(crate) fn program(address: u64) -> ProgramAddress {
    // SAFETY: tests register pages that they map themselves and reach through raw pointers, or addresses where nothing is.
    unsafe { ProgramAddress::new(address as usize) }
}

/// Ordinary memory.
pub(crate) fn ordinary(address: u64) -> Description {
    Description::Virtual { address: program(address), strong_order: false }
}

/// Registers all of `pages`.
pub(crate) fn register(
    zone: &Arc<ProtectionZone>,
    pages: &Pages,
    privileges: Privileges,
) -> DatResult<Arc<LocalRegion>> {
    LocalRegion::create(zone.adapter(), ordinary(pages.address()), pages.length(), zone, privileges)
}

/// The part of a region that begins `offset` bytes into its memory.
pub(crate) fn part(region: &LocalRegion, offset: u64, length: u64) -> Segment {
    let facts = region.facts();
    Segment { context: facts.local_context, address: facts.address.wrapping_add(offset), length }
}

/// A cookie that no other program uses: they are the whole user's.
pub(crate) fn own_cookie(byte: u8) -> Cookie {
    let mut cookie = [byte; 40];
    cookie[2..6].copy_from_slice(&std::process::id().to_ne_bytes());
    cookie
}

pub(crate) fn bad_handle(kind: HandleKind) -> DatError {
    DatError::handle(Subtype::Handle(kind))
}

pub(crate) fn bad_state(kind: StateKind) -> DatError {
    DatError::state(Subtype::State(kind))
}

pub(crate) fn privileges_violation(kind: AccessKind) -> DatError {
    DatError::new(nonic_dat::Kind::PrivilegesViolation, Subtype::Privileges(kind))
}

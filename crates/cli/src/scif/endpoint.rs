//! Endpoints, windows and mappings, as objects that end with their place in the program.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::library::{ScifError, ScifLibrary};
use crate::verbs::Buffer;

/// `SCIF_ACCEPT_SYNC`, `SCIF_SEND_BLOCK`, `SCIF_RECV_BLOCK`.
const WAIT: c_int = 1;
/// `SCIF_PROT_READ | SCIF_PROT_WRITE`.
const READ_WRITE: c_int = 3;
/// `SCIF_RMA_SYNC`.
const RMA_SYNC: c_int = 4;
/// `SCIF_FENCE_INIT_SELF`.
const INIT_SELF: c_int = 1;
/// `SCIF_SIGNAL_REMOTE`.
const SIGNAL_REMOTE: c_int = 0x20;

/// `struct scif_portID`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortId {
    /// Number of the node.
    pub(crate) node: u16,
    /// Port on that node.
    pub(crate) port: u16,
}

/// An endpoint; closed with this object.
pub(crate) struct Endpoint {
    library: ScifLibrary,
    number: c_int,
}

impl Endpoint {
    /// A new one.
    pub(crate) fn open(library: &ScifLibrary) -> Result<Self, ScifError> {
        // SAFETY: the function takes nothing.
        let number = unsafe { (library.functions.scif_open)() };
        Self::from_answer(library, number, "scif_open")
    }

    fn from_answer(library: &ScifLibrary, number: c_int, call: &'static str) -> Result<Self, ScifError> {
        if number < 0 {
            return Err(ScifError::last(call));
        }
        Ok(Self { library: library.clone(), number })
    }

    /// Takes a free port and lets others connect; returns the port.
    pub(crate) fn listen(&self) -> Result<u16, ScifError> {
        // SAFETY: numbers only.
        let port = unsafe { (self.library.functions.scif_bind)(self.number, 0) };
        let port = u16::try_from(port).map_err(|_| ScifError::last("scif_bind"))?;
        // SAFETY: numbers only.
        check("scif_listen", unsafe { (self.library.functions.scif_listen)(self.number, 1) })?;
        Ok(port)
    }

    /// Waits for a request and takes it; returns the connected endpoint and where it comes from.
    pub(crate) fn accept(&self) -> Result<(Self, PortId), ScifError> {
        let (mut peer, mut number) = (PortId::default(), -1);
        // SAFETY: both places are of the types that the call stores.
        let answer = unsafe {
            (self.library.functions.scif_accept)(self.number, &raw mut peer, &raw mut number, WAIT)
        };
        check("scif_accept", answer)?;
        Ok((Self::from_answer(&self.library, number, "scif_accept")?, peer))
    }

    /// Connects; returns the own port.
    pub(crate) fn connect(&self, target: PortId) -> Result<u16, ScifError> {
        // SAFETY: the place holds a port while the call runs.
        let port = unsafe { (self.library.functions.scif_connect)(self.number, &raw const target) };
        u16::try_from(port).map_err(|_| ScifError::last("scif_connect"))
    }

    /// Sends all of it.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), ScifError> {
        let length = c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
        // SAFETY: so many bytes can be read there.
        let sent =
            unsafe { (self.library.functions.scif_send)(self.number, bytes.as_ptr().cast(), length, WAIT) };
        if sent == length { Ok(()) } else { Err(ScifError::last("scif_send")) }
    }

    /// Receives as many bytes as there is room for.
    pub(crate) fn receive(&self, bytes: &mut [u8]) -> Result<(), ScifError> {
        let length = c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
        let place = bytes.as_mut_ptr().cast();
        // SAFETY: so many bytes can be written there.
        let received = unsafe { (self.library.functions.scif_recv)(self.number, place, length, WAIT) };
        if received == length { Ok(()) } else { Err(ScifError::last("scif_recv")) }
    }

    /// A window on the whole buffer, at an offset that the library chooses.
    pub(crate) fn register<'a>(&'a self, buffer: &'a Buffer) -> Result<Window<'a>, ScifError> {
        let length = buffer.len();
        let functions = &self.library.functions;
        // SAFETY: the buffer is mapped, and outlives the window (its lifetime says so).
        let offset = unsafe {
            (functions.scif_register)(self.number, buffer.as_ptr().cast(), length, 0, READ_WRITE, 0)
        };
        if offset < 0 {
            return Err(ScifError::last("scif_register"));
        }
        Ok(Window { endpoint: self, _buffer: buffer, offset, length })
    }

    /// Copies from an own window to the peer's; returns when the bytes have arrived if `sync`.
    pub(crate) fn write(
        &self,
        own: &Window<'_>,
        length: usize,
        remote: i64,
        sync: bool,
    ) -> Result<(), ScifError> {
        let flags = if sync { RMA_SYNC } else { 0 };
        // SAFETY: numbers only; the bytes are those of windows, which the library checks.
        let answer =
            unsafe { (self.library.functions.scif_writeto)(self.number, own.offset, length, remote, flags) };
        check("scif_writeto", answer)
    }

    /// Copies from the peer's window to an own one; returns when the bytes have arrived.
    pub(crate) fn read(&self, own: &Window<'_>, length: usize, remote: i64) -> Result<(), ScifError> {
        // SAFETY: as above.
        let answer = unsafe {
            (self.library.functions.scif_readfrom)(self.number, own.offset, length, remote, RMA_SYNC)
        };
        check("scif_readfrom", answer)
    }

    /// Marks the own copies under way and waits for them.
    pub(crate) fn fence(&self) -> Result<(), ScifError> {
        let mut mark = 0;
        // SAFETY: the place is of the type that the call stores.
        let answer =
            unsafe { (self.library.functions.scif_fence_mark)(self.number, INIT_SELF, &raw mut mark) };
        check("scif_fence_mark", answer)?;
        // SAFETY: numbers only.
        check("scif_fence_wait", unsafe { (self.library.functions.scif_fence_wait)(self.number, mark) })
    }

    /// Has `value` stored in the peer's window when the own copies so far have arrived.
    pub(crate) fn signal(&self, remote: i64, value: u64) -> Result<(), ScifError> {
        let flags = INIT_SELF | SIGNAL_REMOTE;
        // SAFETY: numbers only; the place is one of a window, which the library checks.
        let answer =
            unsafe { (self.library.functions.scif_fence_signal)(self.number, 0, 0, remote, value, flags) };
        check("scif_fence_signal", answer)
    }

    /// Maps the peer's windows from `remote` on.
    pub(crate) fn map(&self, remote: i64, length: usize) -> Result<Mapping, ScifError> {
        let functions = &self.library.functions;
        // SAFETY: no place is asked for, so nothing of this process is replaced.
        let place =
            unsafe { (functions.scif_mmap)(ptr::null_mut(), length, READ_WRITE, 0, self.number, remote) };
        if place.addr() == usize::MAX {
            return Err(ScifError::last("scif_mmap"));
        }
        Ok(Mapping { library: self.library.clone(), place: place.cast(), length })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: the number is this object's alone.
        unsafe { (self.library.functions.scif_close)(self.number) };
    }
}

/// Memory of this process in its registered address space; unregistered with this object.
pub(crate) struct Window<'a> {
    endpoint: &'a Endpoint,
    _buffer: &'a Buffer,
    offset: i64,
    length: usize,
}

impl Window<'_> {
    /// Where it is in the registered address space.
    pub(crate) fn offset(&self) -> i64 {
        self.offset
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let functions = &self.endpoint.library.functions;
        // SAFETY: numbers only. A peer that uses the window keeps its pages, of which none are given back to others.
        unsafe { (functions.scif_unregister)(self.endpoint.number, self.offset, self.length) };
    }
}

/// Pages of the peer in this process; unmapped with this object.
pub(crate) struct Mapping {
    library: ScifLibrary,
    place: *mut u64,
    length: usize,
}

impl Mapping {
    /// The word at that byte, which the other process may change at any time.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.length, "{at} is no word of the mapping");
        // SAFETY: inside the mapping and aligned (asserted); mapped as long as this object lives; atomic, because the
        // other process stores there too.
        unsafe { AtomicU64::from_ptr(self.place.byte_add(at)) }
    }

    /// Whether every word is `value`.
    pub(crate) fn is_filled_with(&self, value: u64) -> bool {
        (0..self.length).step_by(8).all(|at| self.word(at).load(Ordering::Acquire) == value)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this object's alone.
        unsafe { (self.library.functions.scif_munmap)(self.place.cast(), self.length) };
    }
}

fn check(call: &'static str, answer: c_int) -> Result<(), ScifError> {
    if answer == 0 { Ok(()) } else { Err(ScifError::last(call)) }
}

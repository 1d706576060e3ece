//! Where a thread may be cancelled (`pthread_cancel(3)`), and where not.
//!
//! Cancelling unwinds the thread's stack from inside a call of the C library. Frames of Rust that own something, or catch
//! panics, are not made for that. So cancellation is put off while a thread is inside this library, but for one kind of
//! place: [`sleep_cancellably`], which is called from frames that own nothing, with everything that is to be given back
//! behind one pointer.

use std::ffi::{c_int, c_short, c_void};
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use rustix::event::{PollFd, PollFlags};

unsafe extern "C" {
    /// `pthread_setcancelstate(3)`: since glibc 2.35 two stores to the thread's own memory.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    /// What `pthread_cleanup_push(3)` was before it became a macro around the compiler's own unwinding; glibc keeps it. The
    /// routine runs when the frame in which the buffer lies is unwound.
    fn _pthread_cleanup_push(
        buffer: *mut CleanupBuffer,
        routine: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(buffer: *mut CleanupBuffer, execute: c_int);
}

// Points of cancellation: they may unwind.
unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn read(descriptor: c_int, buffer: *mut c_void, count: usize) -> isize;
    fn poll(entries: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int;
}

/// `struct _pthread_cleanup_buffer`.
#[repr(C)]
struct CleanupBuffer {
    routine: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut CleanupBuffer,
}

/// `PTHREAD_CANCEL_DISABLE`.
const CANCEL_DISABLE: c_int = 1;

/// While this lives, the thread that made it is not cancelled.
#[derive(Debug)]
pub struct CancellationHeld {
    before: CancelState,
    /// The state belongs to a thread.
    _thread: PhantomData<*const ()>,
}

impl CancellationHeld {
    /// Puts cancellation off.
    #[inline]
    pub fn hold() -> Self {
        Self { before: put_off_cancellation(), _thread: PhantomData }
    }
}

impl Drop for CancellationHeld {
    #[inline]
    fn drop(&mut self) {
        restore_cancellation(self.before);
    }
}

/// Whether a thread may be cancelled.
#[derive(Clone, Copy, Debug)]
pub struct CancelState(c_int);

/// [`CancellationHeld::hold`] for frames that may own nothing: whoever calls this calls [`restore_cancellation`] too.
#[inline]
pub fn put_off_cancellation() -> CancelState {
    let mut before = 0;
    // SAFETY: stores the state so far in `before`, and concerns this thread only.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
    CancelState(before)
}

/// Lets the thread be cancelled as it could be before.
#[inline]
pub fn restore_cancellation(before: CancelState) {
    // SAFETY: the state is one that the thread had; this is no point of cancellation.
    unsafe { pthread_setcancelstate(before.0, ptr::null_mut()) };
}

/// A point of cancellation: if the thread is to be cancelled, it is, here.
///
/// # Safety
/// No frame between the program's and this call owns anything or catches panics.
#[inline]
pub unsafe fn cancel_if_asked() {
    // SAFETY: the caller's frames may be unwound.
    unsafe { pthread_testcancel() };
}

/// For what a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Until eight bytes can be read from this descriptor, and reads them (`read(2)`).
    Read(RawFd),
    /// Until something can be read from it (`poll(2)`).
    Poll(RawFd),
}

impl Sleep {
    /// Sleeps, and is no point of cancellation.
    pub fn here(self) -> std::io::Result<()> {
        let (Self::Read(number) | Self::Poll(number)) = self;
        // SAFETY: used for this call only; a number that is not open any more is an error of it.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        match self {
            Self::Read(_) => rustix::io::read(descriptor, &mut [0u8; 8])?,
            Self::Poll(_) => {
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], None)?
            }
        };
        Ok(())
    }
}

/// Sleeps, as a point of cancellation if the thread had cancellation in the state `before`; it is put off when this is called
/// and when it returns. `taken` is where the bytes go that are read: not 0 once they are. Answers 0 or what `errno` says.
///
/// A thread that is cancelled here does not return: its stack is unwound, and when that reaches this frame, `leave` is
/// called with `argument`.
///
/// # Safety
/// No frame between the program's and this call owns anything or catches panics. `taken` is writable, and `leave` may be
/// called with `argument` until this returns.
pub unsafe fn sleep_cancellably(
    sleep: Sleep,
    taken: *mut u64,
    leave: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    before: CancelState,
) -> c_int {
    let mut buffer =
        CleanupBuffer { routine: None, argument: ptr::null_mut(), cancel_type: 0, previous: ptr::null_mut() };
    // SAFETY: the buffer stays where it is until it is popped, in this frame; routine, argument and frames are as the caller
    // says. `read` gets eight writable bytes, `poll` one entry.
    unsafe {
        _pthread_cleanup_push(&raw mut buffer, leave, argument);
        restore_cancellation(before);
        let result = match sleep {
            Sleep::Read(number) => read(number, taken.cast(), 8),
            Sleep::Poll(number) => {
                let mut entry = libc::pollfd { fd: number, events: libc::POLLIN as c_short, revents: 0 };
                poll(&raw mut entry, 1, -1) as isize
            }
        };
        put_off_cancellation();
        let error = if result < 0 { *libc::__errno_location() } else { 0 };
        _pthread_cleanup_pop(&raw mut buffer, 0);
        error
    }
}

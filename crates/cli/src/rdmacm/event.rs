//! Event channels, and the events that are taken from them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::abi;
use super::library::{RdmacmError, RdmacmLibrary};
use crate::verbs::CallError;

/// How long any event may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an event says (`enum rdma_cm_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventKind(u32);

impl EventKind {
    pub(crate) const ADDR_RESOLVED: Self = Self(0);
    pub(crate) const ROUTE_RESOLVED: Self = Self(2);
    pub(crate) const CONNECT_REQUEST: Self = Self(4);
    pub(crate) const REJECTED: Self = Self(8);
    pub(crate) const ESTABLISHED: Self = Self(9);
    pub(crate) const DISCONNECTED: Self = Self(10);
    pub(crate) const TIMEWAIT_EXIT: Self = Self(15);

    pub(super) fn number(self) -> u32 {
        self.0
    }

    /// Whether the event is about a connection, so that its parameters mean something.
    fn has_parameters(self) -> bool {
        [Self::CONNECT_REQUEST, Self::REJECTED, Self::ESTABLISHED].contains(&self)
    }
}

/// An event as it was when it was taken.
#[derive(Debug)]
pub(crate) struct Event {
    /// What it says.
    pub(super) kind: EventKind,
    /// 0, a negative errno, or the reason of a rejection.
    pub(super) status: i32,
    /// What the other side said with it, and zeros behind.
    pub(crate) private_data: Vec<u8>,
    /// The queue pair of the other side, where the event tells.
    pub(crate) queue_pair: u32,
    /// The identifier that waits for it: a listener's, where it is a request.
    owner: NonNull<abi::rdma_cm_id>,
    /// The new identifier of a request.
    pub(super) request: Option<NonNull<abi::rdma_cm_id>>,
}

/// An event channel; destroyed with this object. One thread uses it.
pub(crate) struct Channel {
    pub(super) library: RdmacmLibrary,
    pub(super) raw: NonNull<abi::rdma_event_channel>,
    /// Events that came while that of another identifier was waited for.
    kept: RefCell<VecDeque<Event>>,
}

impl Channel {
    /// Opens one.
    pub(crate) fn open(library: &RdmacmLibrary) -> Result<Rc<Self>, RdmacmError> {
        // SAFETY: a function without arguments.
        let raw = unsafe { (library.functions.create_event_channel)() };
        let raw = NonNull::new(raw).ok_or_else(|| CallError::last("rdma_create_event_channel"))?;
        let channel = Self { library: library.clone(), raw, kept: RefCell::default() };
        // Only `wait` waits, and not for ever.
        rustix::io::ioctl_fionbio(channel.descriptor(), true).map_err(|errno| {
            RdmacmError::Event(format!("the descriptor of an event channel cannot be set: {errno}"))
        })?;
        Ok(Rc::new(channel))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the library keeps the descriptor open until the channel is destroyed, which this object outlives.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }

    /// Waits, asleep, for the next event of that identifier, of whatever kind; `hoped` is what a failure says.
    pub(super) fn wait(
        &self,
        owner: NonNull<abi::rdma_cm_id>,
        hoped: EventKind,
    ) -> Result<Event, RdmacmError> {
        let begun = Instant::now();
        loop {
            let at = self.kept.borrow().iter().position(|event| event.owner == owner);
            if let Some(event) = at.and_then(|at| self.kept.borrow_mut().remove(at)) {
                return Ok(event);
            }
            if let Some(event) = self.take()? {
                self.kept.borrow_mut().push_back(event);
                continue;
            }
            let Some(left) = PATIENCE.checked_sub(begun.elapsed()) else {
                let (seconds, name) = (PATIENCE.as_secs(), self.library.event_name(hoped));
                return Err(RdmacmError::Event(format!("waited {seconds} s for {name} in vain")));
            };
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            // A signal only costs a turn.
            let _ = poll(&mut [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN)], Some(&timeout));
        }
    }

    /// Takes the oldest event from the library, if there is one, and acknowledges it.
    fn take(&self) -> Result<Option<Event>, RdmacmError> {
        let mut event = null_mut();
        // SAFETY: a channel of this library, and a place for a pointer.
        let answer = unsafe { (self.library.functions.get_cm_event)(self.raw.as_ptr(), &raw mut event) };
        match CallError::check("rdma_get_cm_event", answer) {
            Err(error) if matches!(error.errno(), Some(libc::EAGAIN | libc::EINTR)) => return Ok(None),
            checked => checked?,
        }
        // SAFETY: the library has just returned that event, which lives until it is acknowledged.
        let copied = unsafe { copy(event) };
        // SAFETY: as above; nothing keeps a pointer into it, and this is its one acknowledgement.
        let answer = unsafe { (self.library.functions.ack_cm_event)(event) };
        CallError::check("rdma_ack_cm_event", answer)?;
        copied.map(Some).ok_or_else(|| RdmacmError::Event("an event came without an identifier".to_owned()))
    }

    /// Lets go of what came for an identifier that is about to be destroyed.
    pub(super) fn forget(&self, owner: NonNull<abi::rdma_cm_id>) {
        let requests: Vec<_> = {
            let mut kept = self.kept.borrow_mut();
            let requests =
                kept.iter().filter(|event| event.owner == owner).filter_map(|event| event.request).collect();
            kept.retain(|event| event.owner != owner);
            requests
        };
        for request in requests {
            // SAFETY: an identifier of a request that nobody else has taken.
            unsafe { (self.library.functions.destroy_id)(request.as_ptr()) };
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: destroyed once. Identifiers hold an Rc of the channel, so none is left, nor what was kept for one.
        unsafe { (self.library.functions.destroy_event_channel)(self.raw.as_ptr()) };
    }
}

/// Copies an event out; nothing if it is of no identifier.
///
/// # Safety
/// `event` is an event of the library that was not acknowledged yet.
unsafe fn copy(event: *const abi::rdma_cm_event) -> Option<Event> {
    // SAFETY: such an event is valid, by the caller's word.
    let event = unsafe { &*event };
    let kind = EventKind(event.event);
    let is_request = kind == EventKind::CONNECT_REQUEST;
    let request = NonNull::new(event.id).filter(|_| is_request);
    let owner = NonNull::new(if is_request { event.listen_id } else { event.id })?;
    let mut copied =
        Event { kind, status: event.status, private_data: Vec::new(), queue_pair: 0, owner, request };
    if kind.has_parameters() {
        let (start, length) = (event.conn.private_data, usize::from(event.conn.private_data_len));
        if !start.is_null() {
            // SAFETY: the event says that so many bytes are there, until it is acknowledged.
            copied.private_data = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec();
        }
        copied.queue_pair = event.conn.qp_num;
    }
    Some(copied)
}

/// The sentence for another event than the one that should have come.
pub(super) fn unforeseen(
    library: &RdmacmLibrary,
    expected: (EventKind, c_int),
    event: &Event,
) -> RdmacmError {
    let words = |(kind, status): (EventKind, c_int)| {
        let name = library.event_name(kind);
        if status == 0 { name } else { format!("{name} with the status {status}") }
    };
    let (expected, came) = (words(expected), words((event.kind, event.status)));
    RdmacmError::Event(format!("waited for {expected}, and there was {came}"))
}

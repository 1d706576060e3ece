//! Completion queues as measuring programs use them: several entries at once, and sleep where that is asked for.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::abi;
use super::library::CallError;
use super::session::{Session, missing};

/// Entries taken in one call at most, as perftest does.
const BATCH: usize = 16;

/// Room for the entries of one call.
pub(crate) struct Entries([abi::ibv_wc; BATCH]);

impl Default for Entries {
    fn default() -> Self {
        Self([abi::ibv_wc::default(); BATCH])
    }
}

impl Entries {
    /// The marks of the requests of the first so many.
    pub(crate) fn ids(&self, count: usize) -> impl Iterator<Item = u64> {
        self.0[..count].iter().map(|entry| entry.wr_id)
    }
}

/// A completion queue, with a channel of its own if a program is to sleep on it.
pub(crate) struct CompletionQueue {
    session: Rc<Session>,
    pub(super) raw: NonNull<abi::ibv_cq>,
    poll: unsafe extern "C" fn(*mut abi::ibv_cq, c_int, *mut abi::ibv_wc) -> c_int,
    channel: Option<NonNull<abi::ibv_comp_channel>>,
    unacknowledged: Cell<c_uint>,
}

impl CompletionQueue {
    /// Creates one for that many entries; `sleep`: with a channel.
    pub(crate) fn create(session: &Rc<Session>, entries: u32, sleep: bool) -> Result<Rc<Self>, CallError> {
        let functions = &session.library.functions;
        let poll = session.operations().poll_cq.ok_or(missing("ibv_poll_cq"))?;
        let channel = if sleep {
            // SAFETY: an open context.
            let channel = unsafe { (functions.create_comp_channel)(session.context.as_ptr()) };
            Some(NonNull::new(channel).ok_or_else(|| CallError::last("ibv_create_comp_channel"))?)
        } else {
            None
        };
        let events = channel.map_or(null_mut(), NonNull::as_ptr);
        // SAFETY: an open context, and a channel of it or none; vector 0, which every device has.
        let raw = unsafe {
            let channel = events.cast();
            (functions.create_cq)(session.context.as_ptr(), entries as c_int, null_mut(), channel, 0)
        };
        // On failure the channel stays until the process ends, which it then soon does.
        let raw = NonNull::new(raw).ok_or_else(|| CallError::last("ibv_create_cq"))?;
        Ok(Rc::new(Self { session: Rc::clone(session), raw, poll, channel, unacknowledged: Cell::new(0) }))
    }

    /// Takes the entries that are there, at most 16: how many, and whether the last one came with immediate data. One that
    /// tells of a failure is an error.
    pub(crate) fn take(&self, entries: &mut Entries) -> Result<(usize, bool), CallError> {
        // SAFETY: the queue is alive as long as this object, and there is room for as many entries as are asked for.
        let count = unsafe { (self.poll)(self.raw.as_ptr(), BATCH as c_int, entries.0.as_mut_ptr()) };
        let taken = match usize::try_from(count) {
            Ok(0) => return Ok((0, false)),
            Ok(count) => &entries.0[..count],
            Err(_) => return Err(CallError::last("ibv_poll_cq")),
        };
        match taken.iter().find(|entry| entry.status != 0) {
            None => Ok((taken.len(), taken[taken.len() - 1].wc_flags & abi::IBV_WC_WITH_IMM != 0)),
            Some(entry) => {
                let words = self.session.library.status_words(entry.status);
                Err(CallError { call: "a request", error: std::io::Error::other(words) })
            }
        }
    }

    /// Asks for an event with the next entry.
    pub(crate) fn arm(&self) -> Result<(), CallError> {
        let arm = self.session.operations().req_notify_cq.ok_or(missing("ibv_req_notify_cq"))?;
        // SAFETY: alive as long as this object.
        CallError::check("ibv_req_notify_cq", unsafe { arm(self.raw.as_ptr(), 0) })
    }

    /// Sleeps until the event asked for comes.
    ///
    /// # Panics
    /// Panics if the queue was created without a channel.
    pub(crate) fn sleep(&self) -> Result<(), CallError> {
        let channel = self.channel.expect("whoever sleeps has asked for a channel");
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel is alive as long as this object; both places can be written.
        let answer = unsafe {
            (self.session.library.functions.get_cq_event)(channel.as_ptr(), &mut queue, &mut context)
        };
        CallError::check("ibv_get_cq_event", answer)?;
        self.unacknowledged.set(self.unacknowledged.get() + 1);
        Ok(())
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        let functions = &self.session.library.functions;
        // SAFETY: queue pairs that complete to this queue hold an Rc of it, so none is left; every event that was taken
        // is acknowledged first, for which the library waits; each object is destroyed once.
        unsafe {
            (functions.ack_cq_events)(self.raw.as_ptr(), self.unacknowledged.get());
            (functions.destroy_cq)(self.raw.as_ptr());
            if let Some(channel) = self.channel {
                (functions.destroy_comp_channel)(channel.as_ptr());
            }
        }
    }
}

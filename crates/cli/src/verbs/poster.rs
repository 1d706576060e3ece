//! One operation on one queue pair, for several threads at once.

use std::ptr::null_mut;

use super::abi;
use super::completion_queue::{CompletionQueue, Entries};
use super::library::CallError;
use super::queue_pair::{Operation, Piece, QueuePair, opcode, target};
use super::session::missing;

/// A queue pair and the queue it completes to, with what is posted there again and again.
pub(crate) struct Poster<'a> {
    queue_pair: &'a QueuePair,
    queue: &'a CompletionQueue,
    operation: Operation,
    element: abi::ibv_sge,
}

// SAFETY: the C interface allows calls for one queue pair and one completion queue from several threads at once. The methods
// below reach both through the references alone: they neither copy nor drop a count of references, which are one thread's,
// and do not touch the count of events.
unsafe impl Send for Poster<'_> {}
// SAFETY: as above.
unsafe impl Sync for Poster<'_> {}

impl<'a> Poster<'a> {
    /// What is to be posted where.
    pub(crate) fn new(
        queue_pair: &'a QueuePair,
        queue: &'a CompletionQueue,
        operation: Operation,
        piece: Piece<'a>,
    ) -> Self {
        Self { queue_pair, queue, operation, element: piece.element() }
    }

    /// Posts the operation, which completes; whether there was room.
    pub(crate) fn post(&self) -> Result<bool, CallError> {
        const CALL: &str = "ibv_post_send";
        let mut element = self.element;
        let mut request = abi::ibv_send_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: &mut element,
            num_sge: 1,
            opcode: opcode(self.operation),
            send_flags: abi::IBV_SEND_SIGNALED,
            imm_data: 0,
            wr: target(self.operation),
            _qp_type: 0,
            bind_mw: abi::bind_mw::NONE,
        };
        let post = self.queue_pair.session().operations().post_send.ok_or(missing(CALL))?;
        let mut refused = null_mut();
        // SAFETY: request and element live through the call, which copies both; the memory named is registered (the piece
        // borrows its region).
        room(CallError::check(CALL, unsafe {
            post(self.queue_pair.raw.as_ptr(), &mut request, &mut refused)
        }))
    }

    /// Posts a receive into the piece; whether there was room.
    pub(crate) fn post_receive(&self) -> Result<bool, CallError> {
        const CALL: &str = "ibv_post_recv";
        let mut element = self.element;
        let mut request = abi::ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: &mut element, num_sge: 1 };
        let post = self.queue_pair.session().operations().post_recv.ok_or(missing(CALL))?;
        let mut refused = null_mut();
        // SAFETY: as in `post`.
        room(CallError::check(CALL, unsafe {
            post(self.queue_pair.raw.as_ptr(), &mut request, &mut refused)
        }))
    }

    /// Takes the completions that are there; how many.
    pub(crate) fn take(&self, entries: &mut Entries) -> Result<usize, CallError> {
        self.queue.take(entries).map(|(count, _)| count)
    }
}

/// A full queue is no failure.
fn room(posted: Result<(), CallError>) -> Result<bool, CallError> {
    match posted {
        Ok(()) => Ok(true),
        Err(error) if error.errno() == Some(libc::ENOMEM) => Ok(false),
        Err(error) => Err(error),
    }
}

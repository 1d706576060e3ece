//! Requests that are made once and posted often, as programs that measure do.

use std::marker::PhantomData;
use std::ptr::null_mut;

use super::abi;
use super::library::CallError;
use super::queue_pair::{Operation, Piece, QueuePair, RemoteMemory, opcode, target};
use super::region::Region;
use super::session::missing;

/// A request with one piece of memory.
pub(crate) struct Request<'a> {
    /// On the heap, because the first points to the second.
    raw: Box<(abi::ibv_send_wr, abi::ibv_sge)>,
    region: PhantomData<&'a Region>,
}

impl<'a> Request<'a> {
    /// What is to be done with which memory.
    pub(crate) fn new(operation: Operation, piece: Piece<'a>) -> Self {
        let request = abi::ibv_send_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: 1,
            opcode: opcode(operation),
            send_flags: 0,
            imm_data: if let Operation::SendImmediate(number) = operation { number.to_be() } else { 0 },
            wr: target(operation),
            _qp_type: 0,
            bind_mw: abi::bind_mw::NONE,
        };
        Self { raw: Box::new((request, piece.element())), region: PhantomData }
    }

    /// Has a write lead elsewhere from now on.
    pub(crate) fn lead_to(&mut self, remote: RemoteMemory) {
        self.raw.0.wr = target(Operation::Write(remote));
    }
}

/// A receive into one piece of memory.
pub(crate) struct Receive<'a> {
    raw: Box<(abi::ibv_recv_wr, abi::ibv_sge)>,
    region: PhantomData<&'a Region>,
}

impl<'a> Receive<'a> {
    /// Into which memory.
    pub(crate) fn new(piece: Piece<'a>) -> Self {
        let receive = abi::ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 1 };
        Self { raw: Box::new((receive, piece.element())), region: PhantomData }
    }
}

impl QueuePair {
    /// Posts a request, which completes if it is to.
    pub(crate) fn post_again(&self, request: &mut Request<'_>, signalled: bool) -> Result<(), CallError> {
        const CALL: &str = "ibv_post_send";
        let (head, element) = &mut *request.raw;
        head.sg_list = element;
        head.send_flags = if signalled { abi::IBV_SEND_SIGNALED } else { 0 };
        let post = self.session().operations().post_send.ok_or(missing(CALL))?;
        let mut refused = null_mut();
        // SAFETY: request and element live through the call, which copies both. The memory named is registered: the
        // library resolves it by key, and a region that ends deregisters first, so no freed byte is touched.
        CallError::check(CALL, unsafe { post(self.raw.as_ptr(), head, &mut refused) })
    }

    /// Posts a receive.
    pub(crate) fn post_receive_again(&self, receive: &mut Receive<'_>) -> Result<(), CallError> {
        const CALL: &str = "ibv_post_recv";
        let (head, element) = &mut *receive.raw;
        head.sg_list = element;
        let post = self.session().operations().post_recv.ok_or(missing(CALL))?;
        let mut refused = null_mut();
        // SAFETY: as in `post_again`.
        CallError::check(CALL, unsafe { post(self.raw.as_ptr(), head, &mut refused) })
    }
}

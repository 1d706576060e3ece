//! Memory windows of type 2: bound and invalidated by requests.

use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::abi;
use super::library::CallError;
use super::queue_pair::{Operation, Piece, QueuePair, RemoteMemory, target};
use super::session::{Session, missing};

/// A window; freed with this object.
pub(crate) struct MemoryWindow {
    session: Rc<Session>,
    raw: NonNull<abi::ibv_mw>,
}

impl MemoryWindow {
    /// One that is bound to nothing.
    pub(crate) fn allocate(session: &Rc<Session>) -> Result<Self, CallError> {
        const CALL: &str = "ibv_alloc_mw";
        let allocate = session.operations().alloc_mw.ok_or(missing(CALL))?;
        // SAFETY: the domain is alive as long as the session, which this object holds.
        let raw = unsafe { allocate(session.domain.as_ptr(), abi::IBV_MW_TYPE_2) };
        let raw = NonNull::new(raw).ok_or_else(|| CallError::last(CALL))?;
        Ok(Self { session: Rc::clone(session), raw })
    }

    fn key(&self) -> u32 {
        // SAFETY: alive until this is dropped; only this thread's calls change it.
        unsafe { self.raw.as_ref() }.rkey
    }

    /// What it was last bound to, for a peer.
    pub(crate) fn remote(&self, piece: Piece<'_>) -> RemoteMemory {
        RemoteMemory { address: piece.element().addr, key: self.key() }
    }

    /// Posts a request that binds it to that piece, for writes by peers, under the key behind its last one.
    pub(crate) fn bind(&self, queue_pair: &QueuePair, piece: Piece<'_>) -> Result<(), CallError> {
        // What `ibv_inc_rkey` does.
        let key = self.key() & !0xff | (self.key().wrapping_add(1) & 0xff);
        let element = piece.element();
        let bind_mw = abi::bind_mw {
            mw: self.raw.as_ptr(),
            rkey: key,
            mr: piece.region().region.as_ptr(),
            addr: element.addr,
            length: u64::from(element.length),
            mw_access_flags: abi::IBV_ACCESS_REMOTE_WRITE,
        };
        self.post(queue_pair, abi::IBV_WR_BIND_MW, 0, bind_mw)
    }

    /// Posts a request that takes its key back.
    pub(crate) fn invalidate(&self, queue_pair: &QueuePair) -> Result<(), CallError> {
        self.post(queue_pair, abi::IBV_WR_LOCAL_INV, self.key(), abi::bind_mw::NONE)
    }

    fn post(
        &self,
        queue_pair: &QueuePair,
        opcode: u32,
        invalidated: u32,
        bind_mw: abi::bind_mw,
    ) -> Result<(), CallError> {
        const CALL: &str = "ibv_post_send";
        let mut request = abi::ibv_send_wr {
            wr_id: 0,
            next: null_mut(),
            sg_list: null_mut(),
            num_sge: 0,
            opcode,
            send_flags: abi::IBV_SEND_SIGNALED,
            imm_data: invalidated,
            wr: target(Operation::Send),
            _qp_type: 0,
            bind_mw,
        };
        let post = self.session.operations().post_send.ok_or(missing(CALL))?;
        let mut refused = null_mut();
        // SAFETY: the request lives through the call, which copies it; window and region are alive, and a region that ends
        // while a window is bound to it stays registered, and its memory with it.
        CallError::check(CALL, unsafe { post(queue_pair.raw.as_ptr(), &mut request, &mut refused) })
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        if let Some(free) = self.session.operations().dealloc_mw {
            // SAFETY: allocated, and freed once.
            unsafe { free(self.raw.as_ptr()) };
        }
    }
}

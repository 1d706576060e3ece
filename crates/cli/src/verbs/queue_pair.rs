//! A reliable connection: its way to life, and what is posted to it.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::abi;
use super::completion_queue::CompletionQueue;
use super::library::CallError;
use super::port::PORT;
use super::region::Region;
use super::session::{Rights, Session, missing};

/// Requests that may be outstanding in each direction.
pub(crate) const REQUESTS_MAX: u32 = 64;

/// Bytes of a request that may travel in the request itself.
const INLINE_MAX: u32 = 64;

/// Reads and atomics under way at once.
const READS_MAX: u8 = 16;

/// Attributes that each move of a reliable connection needs besides the state.
const TO_INIT: i32 = abi::IBV_QP_STATE | abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_PORT | abi::IBV_QP_ACCESS_FLAGS;
const TO_READY_TO_RECEIVE: i32 = abi::IBV_QP_STATE
    | abi::IBV_QP_AV
    | abi::IBV_QP_PATH_MTU
    | abi::IBV_QP_DEST_QPN
    | abi::IBV_QP_RQ_PSN
    | abi::IBV_QP_MAX_DEST_RD_ATOMIC
    | abi::IBV_QP_MIN_RNR_TIMER;
const TO_READY_TO_SEND: i32 = abi::IBV_QP_STATE
    | abi::IBV_QP_TIMEOUT
    | abi::IBV_QP_RETRY_CNT
    | abi::IBV_QP_RNR_RETRY
    | abi::IBV_QP_SQ_PSN
    | abi::IBV_QP_MAX_QP_RD_ATOMIC;

/// Where a queue pair can be reached; what two ends tell each other.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Address {
    number: u32,
    first_packet: u32,
    lid: u16,
    gid: [u8; 16],
}

/// Where memory of a peer lies.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct RemoteMemory {
    /// Address of the first byte.
    pub(crate) address: u64,
    /// Its key.
    pub(crate) key: u32,
}

impl RemoteMemory {
    /// Of a region of this process, for a peer.
    pub(crate) fn of(region: &Region) -> Self {
        Self { address: region.base(), key: region.remote_key() }
    }

    /// The same key, further on.
    pub(crate) fn at(self, offset: usize) -> Self {
        Self { address: self.address + offset as u64, ..self }
    }
}

/// A piece of registered memory.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    region: &'a Region,
    offset: usize,
    length: usize,
}

impl<'a> Piece<'a> {
    /// # Panics
    /// Panics if the region is shorter.
    pub(crate) fn new(region: &'a Region, offset: usize, length: usize) -> Self {
        let inside = offset.checked_add(length).is_some_and(|end| end <= region.len());
        assert!(inside, "{length} bytes at {offset} of {}", region.len());
        Self { region, offset, length }
    }

    pub(super) fn region(&self) -> &Region {
        self.region
    }

    pub(super) fn element(&self) -> abi::ibv_sge {
        abi::ibv_sge {
            addr: self.region.base() + self.offset as u64,
            length: self.length as u32,
            lkey: self.region.local_key(),
        }
    }
}

/// What a request does with its piece of local memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// Sends it.
    Send,
    /// Sends it, and a number with it.
    SendImmediate(u32),
    /// Writes it to the peer's memory.
    Write(RemoteMemory),
    /// Fills it from the peer's memory.
    Read(RemoteMemory),
    /// Adds to eight bytes of the peer's memory; their old value comes back.
    FetchAdd(RemoteMemory, u64),
    /// Exchanges eight bytes of the peer's memory if they are what is expected; their old value comes back.
    CompareSwap(RemoteMemory, u64, u64),
}

/// Who makes queue pairs in place of `ibv_create_qp`, moves them through their states and ends them: a connection manager.
///
/// # Safety
/// [`Maker::create`] returns a queue pair that it made in this domain with these attributes, and that lives until
/// [`Maker::destroy`].
pub(crate) unsafe trait Maker {
    /// Makes the one queue pair.
    ///
    /// # Safety
    /// `domain` is a `struct ibv_pd` that outlives the queue pair, `attributes` a filled `struct ibv_qp_init_attr`.
    unsafe fn create(
        &self,
        domain: NonNull<c_void>,
        attributes: NonNull<c_void>,
    ) -> Result<NonNull<c_void>, CallError>;

    /// Ends it.
    ///
    /// # Safety
    /// It was made, did not end before, and is not used any more.
    unsafe fn destroy(&self);
}

/// A queue pair of the reliable connected kind.
pub(crate) struct QueuePair {
    session: Rc<Session>,
    pub(super) raw: NonNull<abi::ibv_qp>,
    first_packet: u32,
    /// Queues of its own that it completes to, where they are not the session's.
    _queues: Option<[Rc<CompletionQueue>; 2]>,
    /// Who made it and ends it, if not `ibv_create_qp`.
    maker: Option<Rc<dyn Maker>>,
}

impl QueuePair {
    /// Creates one that completes to the session's queue.
    pub(crate) fn create(session: &Rc<Session>) -> Result<Self, CallError> {
        Self::create_raw(session, [session.queue; 2], [REQUESTS_MAX; 2], None)
    }

    /// Lets `maker` create one that completes to the session's queue.
    pub(crate) fn create_by(session: &Rc<Session>, maker: Rc<dyn Maker>) -> Result<Self, CallError> {
        let mut attributes = attributes([session.queue; 2], [REQUESTS_MAX; 2]);
        // SAFETY: the queue pair holds an Rc of the session, whose domain it is, and the structure is filled.
        let raw = unsafe { maker.create(session.domain.cast(), NonNull::from(&mut attributes).cast()) }?;
        let first_packet = 0; // The maker's affair.
        Ok(Self {
            session: Rc::clone(session),
            raw: raw.cast(),
            first_packet,
            _queues: None,
            maker: Some(maker),
        })
    }

    /// Creates one with room for so many requests and receives, which completes to these queues.
    pub(crate) fn create_with(
        session: &Rc<Session>,
        requests: (&Rc<CompletionQueue>, u32),
        receives: (&Rc<CompletionQueue>, u32),
    ) -> Result<Self, CallError> {
        let queues = [Rc::clone(requests.0), Rc::clone(receives.0)];
        Self::create_raw(session, [queues[0].raw, queues[1].raw], [requests.1, receives.1], Some(queues))
    }

    fn create_raw(
        session: &Rc<Session>,
        raw_queues: [NonNull<abi::ibv_cq>; 2],
        room: [u32; 2],
        queues: Option<[Rc<CompletionQueue>; 2]>,
    ) -> Result<Self, CallError> {
        let mut attributes = attributes(raw_queues, room);
        // SAFETY: domain and queues are alive as long as what is made here; the structure is filled.
        let raw = unsafe { (session.library.functions.create_qp)(session.domain.as_ptr(), &mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(|| CallError::last("ibv_create_qp"))?;
        // Any 24 bits will do; taking them from the process makes two runs differ, as they do on hardware.
        let first_packet = std::process::id().wrapping_mul(7919) & 0xff_ffff;
        Ok(Self { session: Rc::clone(session), raw, first_packet, _queues: queues, maker: None })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: alive until this is dropped.
        unsafe { self.raw.as_ref() }.qp_num
    }

    /// Where a peer reaches it.
    pub(crate) fn address(&self) -> Result<Address, CallError> {
        let number = self.number();
        let (port, gid) = (self.session.port()?, self.session.gid(self.session.gid_index().into())?);
        Ok(Address { number, first_packet: self.first_packet, lid: port.lid, gid })
    }

    /// Connects two of this process with each other.
    pub(crate) fn join(&self, other: &Self) -> Result<(), CallError> {
        self.connect(&other.address()?)?;
        other.connect(&self.address()?)
    }

    /// Goes through the states to "ready to send", towards that peer.
    pub(crate) fn connect(&self, peer: &Address) -> Result<(), CallError> {
        let port = self.session.port()?;
        let mut attributes = abi::ibv_qp_attr {
            qp_state: abi::IBV_QPS_INIT,
            port_num: PORT,
            qp_access_flags: Rights::Remote.bits(),
            path_mtu: port.mtu,
            dest_qp_num: peer.number,
            rq_psn: peer.first_packet,
            sq_psn: self.first_packet,
            max_rd_atomic: READS_MAX,
            max_dest_rd_atomic: READS_MAX,
            min_rnr_timer: 1, // 10 us
            timeout: 14,      // 67 ms, eight times: a peer that died is noticed within a second
            retry_cnt: 7,
            rnr_retry: 7,
            ..Default::default()
        };
        attributes.ah_attr.port_num = PORT;
        attributes.ah_attr.dlid = peer.lid;
        if port.ethernet || self.session.gid_index() != 0 {
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.dgid.raw = peer.gid;
            attributes.ah_attr.sgid_index = self.session.gid_index();
            attributes.ah_attr.hop_limit = 64;
        }
        self.modify(&mut attributes, TO_INIT)?;
        attributes.qp_state = abi::IBV_QPS_RTR;
        self.modify(&mut attributes, TO_READY_TO_RECEIVE)?;
        attributes.qp_state = abi::IBV_QPS_RTS;
        self.modify(&mut attributes, TO_READY_TO_SEND)
    }

    fn modify(&self, attributes: &mut abi::ibv_qp_attr, mask: i32) -> Result<(), CallError> {
        // SAFETY: alive until this is dropped; every attribute the mask names is filled.
        let answer =
            unsafe { (self.session.library.functions.modify_qp)(self.raw.as_ptr(), attributes, mask) };
        CallError::check("ibv_modify_qp", answer)
    }

    /// Posts a request that will complete. `inline` copies the piece into the request.
    pub(crate) fn post(
        &self,
        id: u64,
        operation: Operation,
        piece: Piece<'_>,
        inline: bool,
    ) -> Result<(), CallError> {
        const CALL: &str = "ibv_post_send";
        let mut element = piece.element();
        let mut request = abi::ibv_send_wr {
            wr_id: id,
            next: null_mut(),
            sg_list: &mut element,
            num_sge: 1,
            opcode: opcode(operation),
            send_flags: abi::IBV_SEND_SIGNALED | if inline { abi::IBV_SEND_INLINE } else { 0 },
            imm_data: if let Operation::SendImmediate(number) = operation { number.to_be() } else { 0 },
            wr: target(operation),
            _qp_type: 0,
            bind_mw: abi::bind_mw::NONE,
        };
        let post = self.session.operations().post_send.ok_or(missing(CALL))?;
        let mut refused = null_mut();
        // SAFETY: the request and its element live through the call, which copies both. The memory named is registered:
        // the library resolves it by key, and a region that ends deregisters first, so no freed byte is touched.
        CallError::check(CALL, unsafe { post(self.raw.as_ptr(), &mut request, &mut refused) })
    }

    /// Posts a receive into that piece.
    pub(crate) fn post_receive(&self, id: u64, piece: Piece<'_>) -> Result<(), CallError> {
        const CALL: &str = "ibv_post_recv";
        let mut element = piece.element();
        let mut request = abi::ibv_recv_wr { wr_id: id, next: null_mut(), sg_list: &mut element, num_sge: 1 };
        let post = self.session.operations().post_recv.ok_or(missing(CALL))?;
        let mut refused = null_mut();
        // SAFETY: as in `post`.
        CallError::check(CALL, unsafe { post(self.raw.as_ptr(), &mut request, &mut refused) })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: created, and destroyed once, in the way that fits.
        unsafe {
            match &self.maker {
                Some(maker) => maker.destroy(),
                None => _ = (self.session.library.functions.destroy_qp)(self.raw.as_ptr()),
            }
        }
    }
}

/// A reliable connection that completes to the queues of requests and receives, with room for so many of each.
fn attributes(
    [send_queue, receive_queue]: [NonNull<abi::ibv_cq>; 2],
    [requests_max, receives_max]: [u32; 2],
) -> abi::ibv_qp_init_attr {
    abi::ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: send_queue.as_ptr(),
        recv_cq: receive_queue.as_ptr(),
        srq: null_mut(),
        cap: abi::ibv_qp_cap {
            max_send_wr: requests_max,
            max_recv_wr: receives_max,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: INLINE_MAX,
        },
        qp_type: abi::IBV_QPT_RC,
        sq_sig_all: 0,
    }
}

pub(super) fn opcode(operation: Operation) -> u32 {
    match operation {
        Operation::Send => abi::IBV_WR_SEND,
        Operation::SendImmediate(_) => abi::IBV_WR_SEND_WITH_IMM,
        Operation::Write(_) => abi::IBV_WR_RDMA_WRITE,
        Operation::Read(_) => abi::IBV_WR_RDMA_READ,
        Operation::FetchAdd(..) => abi::IBV_WR_ATOMIC_FETCH_AND_ADD,
        Operation::CompareSwap(..) => abi::IBV_WR_ATOMIC_CMP_AND_SWP,
    }
}

pub(super) fn target(operation: Operation) -> abi::one_sided {
    let atomic = |target: RemoteMemory, compare_add, swap| abi::one_sided {
        atomic: abi::atomic { remote_addr: target.address, compare_add, swap, rkey: target.key },
    };
    match operation {
        Operation::Send | Operation::SendImmediate(_) => atomic(RemoteMemory { address: 0, key: 0 }, 0, 0),
        Operation::Write(target) | Operation::Read(target) => {
            let mut arms = atomic(RemoteMemory { address: 0, key: 0 }, 0, 0);
            arms.rdma = abi::rdma { remote_addr: target.address, rkey: target.key };
            arms
        }
        Operation::FetchAdd(target, add) => atomic(target, add, 0),
        Operation::CompareSwap(target, expected, new) => atomic(target, expected, new),
    }
}

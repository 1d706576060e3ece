//! What a program learns when a request ends.

use crate::number::QpNumber;
use crate::work_request::CompletionOpcode;

/// How a request ended. The numbers are those of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Done.
    Success = 0,
    /// The local memory, or the receive buffer, has the wrong length.
    LocalLength = 1,
    /// The queue pair cannot do this.
    LocalQpOperation = 2,
    /// A local key, range or right is wrong.
    LocalProtection = 4,
    /// The queue pair is in error; the request was not begun, or not finished.
    Flushed = 5,
    /// A memory window could not be bound, or a key not be taken out of use.
    WindowBind = 6,
    /// The answer made no sense.
    BadResponse = 7,
    /// An RDMA Write with immediate met a wrong key: the receive it would have used.
    LocalAccess = 8,
    /// The target cannot do this: not enabled, misaligned, or the receive is too small.
    RemoteInvalidRequest = 9,
    /// A remote key, range, zone or right is wrong.
    RemoteAccess = 10,
    /// The target could not finish the operation by a fault of its own.
    RemoteOperation = 11,
    /// No answer within retry count and timeout.
    RetryExceeded = 12,
    /// The target had no receive within the RNR retry count.
    RnrRetryExceeded = 13,
    /// A fault inside the device.
    General = 21,
}

impl Status {
    /// Whether this is [`Status::Success`].
    pub fn is_success(self) -> bool {
        self == Self::Success
    }
}

/// The end of one request (`ibv_wc`). Unless `status` is success, only `id`, `status`, `qp_number` and `vendor_error`
/// mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's own mark.
    pub id: u64,
    /// How it ended.
    pub status: Status,
    /// What ended.
    pub opcode: CompletionOpcode,
    /// More about a failure, in nonic's own numbering; 0 if there is nothing to say.
    pub vendor_error: u32,
    /// Bytes received (with the 40 of a datagram's header), read or written.
    pub byte_length: u32,
    /// Immediate data, in the order the sender gave them, or the key a send took out of use.
    pub immediate: Option<u32>,
    /// The local queue pair.
    pub qp_number: QpNumber,
    /// The sender of a datagram.
    pub source_qp: QpNumber,
    /// Whether the first 40 bytes of the buffer are a global routing header.
    pub has_global_header: bool,
    /// Local identifier of a datagram's sender.
    pub source_lid: u16,
    /// Service level of a datagram; on Ethernet the kind of its packet.
    pub service_level: u8,
}

impl Default for Completion {
    fn default() -> Self {
        Self::bare(0, CompletionOpcode::Send, Status::Success, QpNumber(0))
    }
}

impl Completion {
    /// Makes this a completion that says no more than how `id` ended.
    #[inline]
    pub fn set_bare(&mut self, id: u64, opcode: CompletionOpcode, status: Status, qp_number: QpNumber) {
        // Field by field: queues write completions where they stand.
        self.id = id;
        self.status = status;
        self.opcode = opcode;
        self.vendor_error = 0;
        self.byte_length = 0;
        self.immediate = None;
        self.qp_number = qp_number;
        self.source_qp = QpNumber(0);
        self.has_global_header = false;
        self.source_lid = 0;
        self.service_level = 0;
    }

    /// A completion that says no more than how `id` ended.
    pub fn bare(id: u64, opcode: CompletionOpcode, status: Status, qp_number: QpNumber) -> Self {
        Self {
            id,
            status,
            opcode,
            vendor_error: 0,
            byte_length: 0,
            immediate: None,
            qp_number,
            source_qp: QpNumber(0),
            has_global_header: false,
            source_lid: 0,
            service_level: 0,
        }
    }
}

//! What an endpoint can do, as asked for and as it is (`DAT_EP_ATTR`).

use crate::error::{DatError, DatResult};
use crate::introduction::READS_MAX;
use crate::values::CompletionFlags;

/// `DAT_HW_DEFAULT`: the provider chooses.
pub(crate) const HARDWARE_DEFAULT: i32 = -1;
/// Bytes of a message at most.
pub(crate) const MESSAGE_MAX: u64 = 1 << 31;
/// Requests and receives of an endpoint at most.
pub(crate) const TRANSFERS_MAX: i32 = 32_768;
/// Pieces of a request or receive at most.
pub(crate) const PIECES_MAX: i32 = 32;

/// Attributes of an endpoint. Members about transport and provider are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointAttributes {
    /// `DAT_SERVICE_TYPE`: 0, reliable connection.
    pub service_type: u32,
    /// Bytes of a message; 0: the adapter's maximum.
    pub max_message_size: u64,
    /// Bytes of an RDMA; 0: the adapter's maximum.
    pub max_rdma_size: u64,
    /// `DAT_QOS`.
    pub qos: u32,
    /// Which completions of receives notify.
    pub receive_flags: u32,
    /// Which completions of requests notify.
    pub request_flags: u32,
    /// Receives outstanding.
    pub max_receives: i32,
    /// Requests outstanding.
    pub max_requests: i32,
    /// Pieces of a receive.
    pub max_receive_pieces: i32,
    /// Pieces of a send.
    pub max_request_pieces: i32,
    /// RDMA reads of the peer under way at once.
    pub max_reads_in: i32,
    /// RDMA reads under way at once.
    pub max_reads_out: i32,
    /// Receives of a shared receive queue in use before an event tells (`srq_soft_hw`).
    pub shared_soft_watermark: i32,
    /// Pieces of an RDMA read.
    pub max_read_pieces: i32,
    /// Pieces of an RDMA write.
    pub max_write_pieces: i32,
}

impl Default for EndpointAttributes {
    /// What an endpoint gets for which none are given.
    fn default() -> Self {
        let threshold = CompletionFlags::EVD_THRESHOLD.bits();
        Self {
            service_type: 0,
            max_message_size: MESSAGE_MAX,
            max_rdma_size: MESSAGE_MAX,
            qos: 0,
            receive_flags: threshold,
            request_flags: threshold,
            max_receives: 16,
            max_requests: 16,
            max_receive_pieces: 4,
            max_request_pieces: 4,
            max_reads_in: 8,
            max_reads_out: 8,
            shared_soft_watermark: HARDWARE_DEFAULT,
            max_read_pieces: 4,
            max_write_pieces: 4,
        }
    }
}

impl EndpointAttributes {
    /// The attributes with every default filled in, if they can be. `argument` is the one that holds them.
    pub(super) fn judged(self, shared: bool, argument: u8) -> DatResult<Self> {
        let wrong = DatError::argument(argument);
        let defaults = Self::default();
        let size = |asked: u64| match asked {
            0 => Ok(MESSAGE_MAX),
            asked if asked <= MESSAGE_MAX => Ok(asked),
            _ => Err(wrong),
        };
        let count = |asked: i32, default: i32, least: i32, most: i32| match asked {
            HARDWARE_DEFAULT => Ok(default),
            asked if (least..=most).contains(&asked) => Ok(asked),
            _ => Err(wrong),
        };
        if self.service_type != 0 {
            return Err(wrong);
        }
        if self.qos != 0 {
            return Err(DatError::MODEL_NOT_SUPPORTED);
        }
        let silent = CompletionFlags::UNSIGNALLED.bits();
        let threshold = CompletionFlags::EVD_THRESHOLD.bits();
        let solicited = CompletionFlags::SOLICITED_WAIT.bits();
        let requests = silent
            | threshold
            | solicited
            | CompletionFlags::SUPPRESS.bits()
            | CompletionFlags::BARRIER_FENCE.bits();
        if self.receive_flags & !(silent | threshold | solicited) != 0 || self.request_flags & !requests != 0
        {
            return Err(wrong);
        }
        let (receives, receive_pieces) = if shared {
            (defaults.max_receives, defaults.max_receive_pieces)
        } else {
            (
                count(self.max_receives, defaults.max_receives, 0, TRANSFERS_MAX)?,
                count(self.max_receive_pieces, defaults.max_receive_pieces, 1, PIECES_MAX)?,
            )
        };
        let rdma_pieces = |asked: i32, default: i32| match asked {
            // Consumers of the first versions do not know these members.
            0 => Ok(self.max_request_pieces.max(default).min(PIECES_MAX)),
            asked => count(asked, default, 1, PIECES_MAX),
        };
        Ok(Self {
            service_type: 0,
            max_message_size: size(self.max_message_size)?,
            max_rdma_size: size(self.max_rdma_size)?,
            qos: 0,
            receive_flags: self.receive_flags,
            request_flags: self.request_flags,
            max_receives: receives,
            max_requests: count(self.max_requests, defaults.max_requests, 0, TRANSFERS_MAX)?,
            max_receive_pieces: receive_pieces,
            max_request_pieces: count(self.max_request_pieces, defaults.max_request_pieces, 1, PIECES_MAX)?,
            max_reads_in: count(self.max_reads_in, defaults.max_reads_in, 0, READS_MAX)?,
            max_reads_out: count(self.max_reads_out, defaults.max_reads_out, 0, READS_MAX)?,
            shared_soft_watermark: self.shared_soft_watermark,
            max_read_pieces: rdma_pieces(self.max_read_pieces, defaults.max_read_pieces)?,
            max_write_pieces: rdma_pieces(self.max_write_pieces, defaults.max_write_pieces)?,
        })
    }
}

//! What happens to requests and messages of a queue pair, for whoever looks on.

use crate::completion::Status;
use crate::number::Psn;
use crate::refusal::Refusal;
use crate::work_request::{CompletionOpcode, SendRequest};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The send queue took a request.
    Posted {
        /// The program's mark.
        id: u64,
        /// What it is.
        operation: CompletionOpcode,
        /// Pieces of local memory it names.
        pieces: usize,
    },
    /// A request is on its way to the peer.
    Started {
        /// Under this number.
        psn: Psn,
    },
    /// It asks the peer to carry a one-sided request out.
    Asked,
    /// This side itself carried a request out on the peer's memory.
    Moved {
        /// Length in bytes.
        bytes: u64,
    },
    /// A request ended.
    Completed {
        /// The program's mark.
        id: u64,
        /// What it was.
        operation: CompletionOpcode,
        /// How it ended.
        status: Status,
        /// Length in bytes.
        bytes: u32,
    },
    /// A message of the peer's was carried out.
    Taken {
        /// Its number.
        psn: Psn,
        /// Length in bytes.
        bytes: u32,
        /// It filled a receive.
        receive: bool,
    },
    /// A message of the peer's was refused.
    Refused {
        /// Its number.
        psn: Psn,
        /// Why.
        refusal: Refusal,
    },
    /// The peer refused a request.
    Denied {
        /// Its number.
        psn: Psn,
        /// Why.
        refusal: Refusal,
    },
    /// What is under way is sent again.
    Repeated,
    /// A message was dropped without a word: it makes no sense, or nobody may send it.
    Dropped,
}

impl Happening {
    /// The send queue took this request.
    #[inline(always)]
    pub fn posted(request: &SendRequest<'_>) -> Self {
        let (id, pieces) = (request.id, request.pieces.len());
        Self::Posted { id, operation: request.operation.completion_opcode(), pieces }
    }
}

//! Why a peer did not do what it was asked.

/// Why a request was refused (IBTA vol. 1, 9.7.5: what negative acknowledgements say, and what only one host knows).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No receive is posted; try again after this RNR timer code.
    NotReady {
        /// 0 to 31.
        timer: u8,
    },
    /// No such queue pair in a state that receives. A network would be silent; the requester treats it as silence.
    NoAnswer,
    /// A number other than the expected one came.
    OutOfSequence,
    /// The target cannot do this.
    InvalidRequest,
    /// Key, range, zone or right.
    Access,
    /// The target's own memory or queue failed it.
    Operation,
    /// The requester's memory could not be read.
    RequesterMemory,
    /// The target has no way to the requester's memory: the bytes must travel in the message.
    CannotPull,
}

impl Refusal {
    /// Whether it judges the message it names, so that everything before that was done. The others are silence.
    pub fn is_judgement(self) -> bool {
        !matches!(self, Self::NoAnswer | Self::OutOfSequence)
    }
}

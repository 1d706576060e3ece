//! What is wrong with a message of another process.

use std::io;

/// A message that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends early.
    #[error("a message that ends early: {left} bytes are left where {needed} have to follow")]
    Short {
        /// Bytes that should follow.
        needed: usize,
        /// Bytes that do.
        left: usize,
    },
    /// It goes on too long.
    #[error("a message that goes on for {surplus} bytes behind its end")]
    Long {
        /// Bytes behind its end.
        surplus: usize,
    },
    /// Not of this protocol.
    #[error("a message that does not begin with the mark of nonic's {of}")]
    Mark {
        /// The protocol.
        of: &'static str,
    },
    /// Of another version of it.
    #[error(
        "the other process uses version {theirs} of nonic's {of}, this one {ours}: use one nonic for both"
    )]
    Version {
        /// The protocol.
        of: &'static str,
        /// Its version.
        theirs: u32,
        /// This process's.
        ours: u32,
    },
    /// No such kind.
    #[error("a message with a {of} of the unknown kind {kind}")]
    Kind {
        /// What has kinds.
        of: &'static str,
        /// What it says.
        kind: u32,
    },
    /// A count beyond its limit.
    #[error("a message that counts {count} of what there are {limit} at most")]
    Count {
        /// What it says.
        count: usize,
        /// The most.
        limit: usize,
    },
    /// Not with the descriptors that it speaks of.
    #[error("a message with {count} descriptors where there have to be {needed}")]
    Descriptors {
        /// How many came with it.
        count: usize,
        /// How many have to.
        needed: usize,
    },
}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(io::ErrorKind::InvalidData, malformed)
    }
}

//! The words that calls on registered memory take.

/// What may be done with a window, or with a mapping of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
}

impl Protection {
    /// Nothing is allowed.
    pub const NONE: Self = Self { read: false, write: false };
    /// Reading only.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing only.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both.
    pub const READ_WRITE: Self = Self { read: true, write: true };

    /// Whether everything that `wanted` asks is allowed.
    #[inline]
    pub fn allows(self, wanted: Self) -> bool {
        (self.read || !wanted.read) && (self.write || !wanted.write)
    }
}

/// How a remote read or write is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmaFlags {
    /// The calling thread copies (`SCIF_RMA_USECPU`).
    pub use_cpu: bool,
    /// The call returns when the bytes have arrived (`SCIF_RMA_SYNC`).
    pub sync: bool,
    /// The last 64-byte line of the source arrives after all others (`SCIF_RMA_ORDERED`).
    pub ordered: bool,
}

/// Whose remote reads and writes a fence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initiator {
    /// Those this side started.
    Own,
    /// Those the other side started.
    Peer,
}

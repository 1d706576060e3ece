//! The two sides of a connection.

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Who connected.
    Connector,
    /// Who accepted.
    Acceptor,
}

impl Side {
    /// Its place where both have one.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

//! What the layers above are told.

use nonic_roce::Event;

use crate::held::WireConnection;

/// Who is told what becomes of a connection. Called on the manager's thread, with no lock held: it must not block.
pub trait Follows: Send + Sync {
    /// What became of it.
    fn tell(&self, event: Event);
}

/// Who takes requests and questions. Called on the manager's thread, with no lock held: it must not block.
pub trait Takes: Send + Sync {
    /// One that is to be answered, or dropped.
    fn ask(&self, connection: WireConnection, event: Event);
}

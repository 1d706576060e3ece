//! What the layer above is told.

use crate::{Refusal, Request};

/// Takes the requests of a listener. Called on the manager's thread, with no lock held: it must not block.
pub trait ServiceSink: Send + Sync {
    /// Somebody asks for a connection. A request that is dropped is refused.
    fn request(&self, request: Request);
}

/// Follows one connection from the request on. Called on the manager's thread, with no lock held: it must not block. A call
/// may be under way while [`crate::Connection::disconnect`] is called on another thread.
pub trait ConnectionSink: Send + Sync {
    /// The listener accepts, with these facts and this private data. False: this side cannot, and there is no connection.
    /// Comes to who asked only.
    fn accepted(&self, facts: &[u8], data: &[u8]) -> bool;

    /// Who asked has seen the reply. Comes to who accepted only.
    fn established(&self);

    /// There is no connection, or no more. The last call; it does not come after this side has ended the connection itself.
    fn ended(&self, end: End<'_>);
}

/// Why a connection is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// The program that was asked rejects, with this private data.
    Rejected(&'a [u8]),
    /// It was not asked, or did not decide.
    Refused(Refusal),
    /// The time for the attempt ran out.
    TimedOut,
    /// The other side ended it.
    Disconnected,
    /// The other process ended, or the connection failed there.
    Lost,
}

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
    /// The listener accepts, with these facts and this private data. Comes to who asked only.
    fn accepted(&self, facts: &[u8], data: &[u8]) -> Response;

    /// Who asked has seen the reply. Comes to who accepted only.
    fn established(&self);

    /// The other side says something, which belongs to the layer above ([`crate::Connection::say`]).
    fn told(&self, _word: &[u8]) {}

    /// There is no connection, or no more. The last call; it does not come after this side has ended the connection itself.
    fn ended(&self, end: End<'_>);
}

/// What this side makes of being accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// It is connected, and the other side is told so.
    Confirmed,
    /// It says so later ([`crate::Connection::confirm`]).
    Later,
    /// It cannot: there is no connection.
    Declined,
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

//! What the two relays of a connection between hosts say to each other, and what calls of the program have of theirs.

mod frame;
mod link;

pub(crate) use frame::{Frame, HEADER, Header, Kind, PAYLOAD_MOST, VERSION, code_of, error_of};
pub(crate) use link::{Link, Relayed, find, tell_all};

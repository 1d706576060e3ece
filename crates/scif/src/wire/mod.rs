//! What the two relays of a connection between hosts say to each other, and what calls of the program have of theirs.

mod frame;
mod link;
mod operations;

pub(crate) use frame::{
    ASKS, FIRST, Frame, HEADER, Header, Kind, LAST, ORDERED, PAYLOAD_MOST, READ_MOST, VERSION, WRITES,
    code_of, error_of,
};
pub(crate) use link::{Link, REQUESTS_MOST, Relayed, find, tell_all};

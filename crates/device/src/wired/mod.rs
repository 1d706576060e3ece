//! Queue pairs whose peers are on the wire: their machines for packets driven, and datagrams that need none.

mod datagram_run;
mod datagrams;
mod driving;
mod replies;
mod surroundings;

pub(crate) use datagram_run::DatagramRun;
pub(crate) use replies::Replies;

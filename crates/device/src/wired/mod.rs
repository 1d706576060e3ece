//! Queue pairs whose peers are on the wire: their machines for packets driven, and datagrams that need none.

mod datagrams;
mod driving;
mod surroundings;

//! What a queue pair of RoCEv2 says and does about everything that a peer can send, right or wrong, in either role: proves
//! RC-3 (`responder`, `refusals`) and RC-4 (`requester`, `waits`).

#![forbid(unsafe_code)]

mod flushes;
mod hostile;
mod pair;
mod pieces;
mod refusals;
mod requester;
mod responder;
mod silence;
mod unreliable;
mod waits;

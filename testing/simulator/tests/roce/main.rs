//! What a queue pair of RoCEv2 says and does about everything that a peer can send, right or wrong, in either role.

#![forbid(unsafe_code)]

mod hostile;
mod pair;
mod refusals;
mod requester;
mod responder;
mod unreliable;
mod waits;

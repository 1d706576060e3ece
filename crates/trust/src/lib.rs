//! Who may reach a process's memory.
//!
//! Peers that map each other's memory check themselves what they may touch, so a process shows its memory only to one that
//! could reach it anyway: one that the kernel would let at it. A number says little about that. The user 65534 is everybody
//! in a user namespace without a mapping, and the user 0 of a container may be allowed less than anybody. So trust is
//! proved: a process puts a fresh secret where only those can read it whom the kernel allows ([`Challenge`]), and the other
//! side answers with what it read ([`answer()`]). Where no proof is possible, people may trust a user by name ([`TrustedUsers`]).

#![forbid(unsafe_code)]

mod answer;
mod challenge;
mod doubt;
mod peer;
mod users;

pub use answer::{Answer, Route, Silence, answer};
pub use challenge::{Challenge, Question};
pub use doubt::Doubt;
pub use peer::Peer;
pub use users::{TrustedUsers, UnknownUser};

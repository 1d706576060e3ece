//! A simulator of the protocol: pairs of [`nonic_protocol::Connection`] on virtual carriers, in virtual time, from one seed.
//!
//! A run is a few hundred steps, each one thing that can happen: a request or a receive is posted, a message arrives, time
//! passes, a peer stops, goes on, is killed, comes back under another number, takes its key back, drains its queue. After
//! every step the `ledger` is asked whether what happened may happen: each request ends once, in order, with a
//! status that has a cause; each is carried out once at most, in order; its bytes are those that were sent; receives are
//! used in order. At the end everything that hinders is taken away, and then nothing may wait any longer.
//!
//! All that is left to chance goes through [`Chance`], which writes down what it chose. So a run that fails is repeated from its
//! seed to the same step, and then made shorter ([`shrink()`]) by leaving choices out.
//!
//! | what happens | where |
//! |---|---|
//! | peers are stopped and go on, are killed, leave, come back; time passes; what there is to do waits while others go on | `world` |
//! | rings fill, and have room again; a fragment never comes | `carrier`, `pair` |
//! | datagrams are lost, doubled, late, changed, all of a direction for a while | `wire/medium`, `managers/medium` |
//! | a host is killed and comes back with nothing in its memory | [`managers`] |
//! | a peer takes its key back and gives it again, between any two fragments | `world`, `node` |
//! | a host takes keys for writing and for reading back, and sends of its peer take them out of use, between any two packets | `wire/windows` |
//!
//! | what must hold | where it is looked at |
//! |---|---|
//! | each request ends once, in order, with a status that has a cause | `ledger`, `wire/end` |
//! | bytes are those that were sent | `around/surroundings`, `wire/end` |
//! | nothing of a write is placed behind its end | `wire/host` |
//! | nothing lands, and nothing is read, where a key led that is none any more | `wire/grants`, `wire/end` |
//! | receives are used in order | `node` |
//! | whatever is told of a connection has a cause on the other side, once | `managers/told`, `managers/attempts` |
//! | nothing waits for ever | `ending`, and `settle` of [`wire`] and [`managers`] |
//!
//! Whether the device's own gate keeps to what was granted, and lets nothing land after revocation, is not asked here, where there
//! is none but `wire/grants`: `testing/conformance` and the model checker of `crates/memory` do. That the checks notice mistakes is shown by the
//! files RC and CM of `testing/mutations`.
//!
//! Queue pairs of RoCEv2 have a wire of their own ([`wire`]), and so have connection managers ([`managers`]).
//!
//! What drives the queue pairs is the protocol's crate, as in the device; what they find around them (`around`) is this crate's own,
//! and so are the express ways (`pair`), of which the device has its own, too.

#![forbid(unsafe_code)]

mod around;
mod carrier;
mod chance;
mod ending;
mod ledger;
pub mod managers;
mod node;
mod pair;
mod scene;
mod shrink;
pub mod wire;
mod world;

pub use chance::Chance;
pub use shrink::{Failure, Scenario, Shrunk, shrink, tell_choices, try_choices, try_seed};
pub use world::World;

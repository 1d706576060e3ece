//! A process that breaks every rule it can, to see what that costs others. What it does is chosen by a seed and bounded in
//! count and time; it ends by itself. There is one file for each kind of victim.

#![forbid(unsafe_code)]

mod campaign;
mod chance;
pub mod datagrams;
pub mod engine;
pub mod folder;
pub mod manager;
mod packet;
pub mod scif;
mod wire;

pub use campaign::{Liar, Record};
pub use chance::Chance;

//! SCIF (Symmetric Communications Interface) without cards: endpoints that are real descriptors, byte streams between
//! them, registered address spaces, remote reads, writes and mappings, and fences.

mod error;
mod memory;

pub use error::ScifError;

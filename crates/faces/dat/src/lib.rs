//! The uDAPL face: what the calls of `libdat.so.1` (uDAPL 1.2) and of the provider for `libdat2.so.2` (uDAPL 2.0) do.
//!
//! A thin translation. Handles of programs become objects of `nonic-dat` (`handles`), structures and numbers of each version
//! its words, its refusals `DAT_RETURN`s (`error`, `guard`). Whatever is decided about endpoints, events and memory is decided
//! there.

mod error;
mod guard;
mod handles;
pub mod layouts;
pub mod v2;

//! uDAPL 2.0: the provider that the registry of distributions (`libdat2.so.2`) loads by way of `libdaplnonic.so.2`.
//!
//! The calls are those of 1.2 (`entry`), in the layouts and numbers of 2.0 (`version`, `abi`, `numbers`), with a few that differ
//! or are new (`calls`, `extensions`).

pub mod abi;
mod arguments;
mod calls;
pub mod entry_points;
mod extended_completions;
mod extensions;
mod named_attributes;
mod nowhere;
pub mod numbers;
mod provider;
pub mod registry;
mod version;

//! The uDAPL face: what the calls of `libdat.so.1` (uDAPL 1.2) and of the provider for `libdat2.so.2` (uDAPL 2.0) do.
//!
//! A thin translation. Handles of programs become objects of `nonic-dat` (`handles`, `opened`), structures and numbers of each
//! version its words (`version`, `v1`), its refusals `DAT_RETURN`s (`error`, `guard`). The calls are the same code for all
//! versions (`entry`). Whatever is decided about endpoints, events and memory is decided in `nonic-dat`.
//!
//! For 1.2 the registry is here as well (`registry`): which names lead to which provider.

#[macro_use]
pub mod calls;
pub mod endpoint_attributes;
mod entry;
mod error;
mod guard;
mod handles;
pub mod layouts;
mod names;
mod opened;
mod registry;
mod strerror;
pub mod v1;
pub mod v2;
mod version;

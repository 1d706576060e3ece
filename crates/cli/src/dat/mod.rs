//! uDAPL as a program sees it: `libdat.so.1`, loaded at run time and called through its exported functions; adapters,
//! endpoints, regions and events as objects. What is unsafe about the library ends here.

mod adapter;
mod endpoint;
mod event;
mod library;
mod region;

pub(crate) use adapter::Adapter;
pub(crate) use endpoint::{Endpoint, Listener};
pub(crate) use event::Status;
pub(crate) use library::{DatError, DatLibrary};
pub(crate) use region::{Privileges, Region, Remote, Window};

//! The connection manager as a program sees it: `librdmacm.so.1`, loaded at run time and called through its exported
//! functions; channels, events and identifiers as objects. What is unsafe about the library ends here.

mod abi;
mod address;
mod event;
mod identifier;
mod library;

pub(crate) use event::{Channel, Event, EventKind};
pub(crate) use identifier::Identifier;
pub(crate) use library::{RdmacmError, RdmacmLibrary};

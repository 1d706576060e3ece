//! SCIF as a program sees it: `libscif.so.0`, loaded at run time and called through its exported functions; and the
//! endpoints of all processes, as the kernel lists them. What is unsafe about the library ends here.

mod endpoint;
mod library;
mod ports;

pub(crate) use endpoint::{Endpoint, PortId};
pub(crate) use library::{ScifError, ScifLibrary};
pub(crate) use ports::{Listed, listing};

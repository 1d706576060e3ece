//! How processes of one host find each other that are in different network namespaces, where abstract sockets do not reach: in a folder
//! that they share, such as a common volume of two containers.
//!
//! Each process has a folder of its own there, whose name is drawn by chance and never used again, so that nothing in it is ever
//! another's: sockets with names, and a *life sign*, a file that says in which namespace the process is and which addresses that has. The kernel
//! says of the life sign whether the process lives; what those have left that were killed is taken away by whoever of the same user comes next. Which
//! of two processes of a namespace has a name is decided by abstract sockets, as without the folder.
//!
//! Who may enter the folder may say anything. What comes of it is a connection that somebody refuses, or a peer that is trusted no
//! more than any other.

#![forbid(unsafe_code)]

mod member;
mod place;

pub use member::{Member, Namespace, members};
pub use place::{Place, join, place};

//! How what two processes say to each other over a socket becomes bytes, and how bytes of a process that may lie become it again.
//!
//! A message is a type of its crate. [`kinds!`] and [`parts!`] say once in which order its parts stand, and writing and reading
//! both follow from that; a [`Protocol`] puts its mark and its version in front. Numbers have a fixed width and their least byte first.
//! Whatever can be long has a limit, which is looked at before anything is kept. A message is read in full or refused, with the
//! reason ([`Malformed`]): nothing is read behind its end, and nothing may stand there.
//!
//! ```
//! use nonic_message::{Malformed, Protocol, kinds, parts};
//!
//! const PROTOCOL: Protocol = Protocol::new(*b"greeting", "greetings").version(1);
//!
//! #[derive(Debug, PartialEq)]
//! struct Name { first: Box<[u8]>, born: Option<u16> }
//! parts!(Name { first at most 20, born });
//!
//! #[derive(Debug, PartialEq)]
//! enum Greeting { Hello(Name), Goodbye }
//! kinds!(Greeting { 1 => Hello(name), 2 => Goodbye });
//!
//! let bytes = PROTOCOL.emit(&Greeting::Goodbye);
//! assert_eq!(bytes, *b"greeting\x01\0\0\0\x02\0\0\0");
//! assert_eq!(PROTOCOL.parse(&bytes), Ok(Greeting::Goodbye));
//! assert_eq!(PROTOCOL.parse::<Greeting>(&bytes[..14]), Err(Malformed::Short { needed: 4, left: 2 }));
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod declare;
mod descriptors;
mod malformed;
mod part;
mod protocol;

pub use bytes::{Reader, Writer};
pub use descriptors::Descriptors;
pub use malformed::Malformed;
pub use part::{Limited, Part};
pub use protocol::Protocol;

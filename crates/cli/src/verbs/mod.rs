//! The C library as a program sees it: loaded at run time, called through its exported functions and through the tables
//! of pointers that the header's inline functions use. What is unsafe about that ends here: the objects of this module
//! cannot be misused by safe code.

mod abi;
mod buffer;
mod completion_queue;
mod constants;
mod library;
mod port;
mod poster;
mod queue_pair;
mod region;
mod request;
mod session;
mod window;

pub(crate) use buffer::{Buffer, Mismatch, pattern};
pub(crate) use completion_queue::{CompletionQueue, Entries};
pub(crate) use library::{CallError, Library};
pub(crate) use poster::Poster;
pub(crate) use queue_pair::{Address, Maker, Operation, Piece, QueuePair, REQUESTS_MAX, RemoteMemory};
pub(crate) use region::Region;
pub(crate) use request::{Receive, Request};
pub(crate) use session::{Completion, Rights, Session};
pub(crate) use window::MemoryWindow;

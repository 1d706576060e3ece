//! The verbs face: `libibverbs.so.1`, for programs compiled against `infiniband/verbs.h`.
//!
//! A thin translation. The layouts of the C interface are in [`abi`], its functions in [`entry`]; between
//! them pointers become objects (`registry`, `objects`), words become the engine's words (`convert`), and
//! refusals become errno (`errno`). Whatever is decided about memory, queues or states is decided by the
//! engine.
//!
//! Functions are exported under two names: their own, beginning with `nonic_`, and the versioned one of the
//! original library, which `versions!` gives them. Other faces that hand out the same objects (the connection manager's) call
//! the plain functions beside these; what they need to keep objects of their own in the same way is public too.

#[macro_use]
mod version;

pub mod abi;
mod builder;
pub mod cancellable;
pub mod convert;
pub mod entry;
pub mod errno;
pub mod guard;
pub mod identity;
mod objects;
mod operations;
mod reader;
pub mod registry;

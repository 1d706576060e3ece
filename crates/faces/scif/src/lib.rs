//! The SCIF face: what the calls of `libscif.so.0` do, for programs compiled against `scif.h`.
//!
//! A thin translation. Flags and NULL are judged here (`flags`), results of the engine become the values and the errno
//! of the C interface (`guard`, `errno`), and words that calls store through pointers of the program are stored so that
//! a wrong pointer is an error and not a fault (`program_words`). Whatever is decided about endpoints and memory is
//! decided by `nonic-scif`.
//!
//! The functions have no names for the linker: `libscif.so.0` is a library of its own (`nonic-scif-library`), which
//! reaches them through one table, [`table::nonic_scif_table`].

#[macro_use]
pub mod calls;
mod entry;
mod errno;
mod flags;
mod guard;
mod program_words;
pub mod table;

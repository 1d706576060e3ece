//! `libnonic.so`: the faces of nonic in one shared object.
//!
//! A process that loads several of its names (`libibverbs.so.1` and others to come) has one engine behind
//! them: the loader knows a file by its inode, whatever it is called. The build makes a folder of such names,
//! `nonic-lib`, beside the library.

pub use nonic_verbs as verbs;

//! Reads the source tree, for the tests beside it, which hold the tree to the house style of CONTRIBUTING.md.
//!
//! Nothing here understands Rust as the compiler does: files are cut into words ([`words`]), and a use is a path that
//! begins with `crate::` or `super::` ([`module_uses`]). That is enough for code that is formatted and compiles.

#![forbid(unsafe_code)]

mod cycles;
mod packages;
mod paths;
mod tree;
mod uses;
mod word;

pub use cycles::cycle;
pub use packages::{Package, packages};
pub use tree::{RustFile, read, root, rust_files};
pub use uses::{Place, Uses, module_uses};
pub use word::{Word, without_tests, words};

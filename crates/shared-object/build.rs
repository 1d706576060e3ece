//! Passes the version nodes to the linker and makes the folder with the names programs load.

use std::io;

use nonic_library_folder::{link, make_names, source};

/// Names under which programs, and the small libraries beside it, ask for the library.
const NAMES: [(&str, &str); 3] = [
    ("libibverbs.so.1", "../libnonic.so"),
    ("libibverbs.so", "../libnonic.so"),
    ("libnonic.so", "../libnonic.so"),
];

fn main() -> io::Result<()> {
    link("libibverbs.so.1", &source("../faces/verbs/exports.map").canonicalize()?);
    // Threads, handlers around fork and at exit, and the ends of the program's threads lead into it for as long as the process
    // lives.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    make_names(&NAMES)
}

//! Passes name and version nodes to the linker, and puts the names that programs load the library by into the folder
//! `nonic-lib`.

use std::io;

use nonic_library_folder::{link, make_names, source};

/// The library's name, and the names that lead to it, each by the one before.
const NAMES: [(&str, &str); 3] = [
    ("librdmacm.so.1.3.44.0", "../librdmacm.so"),
    ("librdmacm.so.1", "librdmacm.so.1.3.44.0"),
    ("librdmacm.so", "librdmacm.so.1"),
];

fn main() -> io::Result<()> {
    link("librdmacm.so.1", &source("exports.map"));
    make_names(&NAMES)
}

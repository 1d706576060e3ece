//! Passes name and version node to the linker, and puts into the folder `nonic-lib` what SCIF programs load and what
//! they are compiled with: the library's names, the header and a file for pkg-config.

use std::{fs, io};

use nonic_library_folder::{folder, link, make_names, source};

/// The library's name, and the names that lead to it, each by the one before.
const NAMES: [(&str, &str); 3] = [
    ("libscif.so.0.0.1", "../libscif.so"),
    ("libscif.so.0", "libscif.so.0.0.1"),
    ("libscif.so", "libscif.so.0"),
];

fn main() -> io::Result<()> {
    link("libscif.so.0", &source("exports.map"));
    make_names(&NAMES)?;
    fs::copy(source("../../../include/scif.h"), folder("include")?.join("scif.h"))?;
    let package = fs::read_to_string(source("scif.pc"))?.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(folder("pkgconfig")?.join("scif.pc"), package)
}

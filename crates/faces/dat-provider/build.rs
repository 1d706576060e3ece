//! Passes name and version node to the linker, and puts into the folder `nonic-lib` the library's names and the
//! `dat.conf` that leads to it.

use std::{fs, io};

use nonic_library_folder::{folder, link, make_names, source};

/// The library's names, each by the one before.
const NAMES: [(&str, &str); 2] =
    [("libdaplnonic.so.2.0.0", "../libdaplnonic.so"), ("libdaplnonic.so.2", "libdaplnonic.so.2.0.0")];

fn main() -> io::Result<()> {
    link("libdaplnonic.so.2", &source("exports.map"));
    make_names(&NAMES)?;
    fs::copy(source("dat.conf"), folder("")?.join("dat.conf")).map(|_| ())
}

//! Passes name and version node to the linker, and puts into the folder `nonic-lib` what uDAPL 1.2 programs load and what
//! they are compiled with: the library's names, the headers and a file for pkg-config.

use std::{fs, io};

use nonic_library_folder::{folder, link, make_names, source};

/// The library's name, and the names that lead to it, each by the one before.
const NAMES: [(&str, &str); 3] =
    [("libdat.so.1.0.2", "../libdat.so"), ("libdat.so.1", "libdat.so.1.0.2"), ("libdat.so", "libdat.so.1")];

fn main() -> io::Result<()> {
    link("libdat.so.1", &source("exports.map"));
    make_names(&NAMES)?;
    let headers = folder("include/dat")?;
    for header in fs::read_dir(source("../../../include/dat"))? {
        let header = header?;
        fs::copy(header.path(), headers.join(header.file_name()))?;
    }
    fs::copy(source("dat.pc"), folder("pkgconfig")?.join("dat.pc")).map(|_| ())
}

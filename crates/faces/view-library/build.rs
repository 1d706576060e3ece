//! Puts the name by which programs load the library into the folder `nonic-lib`.

use std::io;

use nonic_library_folder::make_names;

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnonic-view.so");
    make_names(&[("libnonic-view.so", "../libview.so")])
}

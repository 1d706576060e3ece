//! Passes name and version node to the linker, and puts into the folder `nonic-lib` the library's names and the
//! `dat.conf` that leads to it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The library's names, each by the one before.
const NAMES: [(&str, &str); 2] =
    [("libdaplnonic.so.2.0.0", "../libdaplnonic.so"), ("libdaplnonic.so.2", "libdaplnonic.so.2.0.0")];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let [nodes, configuration] = ["exports.map", "dat.conf"].map(|name| here.join(name));
    for file in [&nodes, &configuration, &here.join("build.rs")] {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", nodes.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdaplnonic.so.2");
    let folder = profile_folder().join("nonic-lib");
    make_names(&folder)?;
    fs::copy(&configuration, folder.join("dat.conf")).map(|_| ())
}

/// Where the library will be: the folder that holds `build`, in which our own `OUT_DIR` is.
fn profile_folder() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let build =
        out.ancestors().find(|folder| folder.ends_with("build")).expect("OUT_DIR is below a folder `build`");
    build.parent().expect("`build` is in a folder").to_path_buf()
}

/// Relative links, so that the build folder may be moved or mounted elsewhere.
fn make_names(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, target) in NAMES {
        let link = folder.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(target, &link)?,
        }
    }
    Ok(())
}

//! Passes name and version node to the linker, and puts into the folder `nonic-lib` what uDAPL 1.2 programs load and what
//! they are compiled with: the library's names, the headers and a file for pkg-config.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The library's name, and the names that lead to it, each by the one before.
const NAMES: [(&str, &str); 3] =
    [("libdat.so.1.0.2", "../libdat.so"), ("libdat.so.1", "libdat.so.1.0.2"), ("libdat.so", "libdat.so.1")];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let [nodes, headers, package] =
        ["exports.map", "../../../include/dat", "dat.pc"].map(|name| here.join(name));
    for file in [&nodes, &headers, &package, &here.join("build.rs")] {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", nodes.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdat.so.1");
    let folder = profile_folder().join("nonic-lib");
    make_names(&folder)?;
    for inner in ["include/dat", "pkgconfig"] {
        fs::create_dir_all(folder.join(inner))?;
    }
    for header in fs::read_dir(&headers)? {
        let header = header?;
        fs::copy(header.path(), folder.join("include/dat").join(header.file_name()))?;
    }
    fs::copy(&package, folder.join("pkgconfig/dat.pc")).map(|_| ())
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

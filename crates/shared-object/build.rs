//! Passes the version nodes to the linker and makes the folder with the names programs load.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Names under which programs, and `libscif.so.0`, ask for the library.
const NAMES: [&str; 3] = ["libibverbs.so.1", "libibverbs.so", "libnonic.so"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let nodes = here.join("../faces/verbs/exports.map").canonicalize()?;
    println!("cargo:rerun-if-changed={}", nodes.display());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", nodes.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
    make_names(&profile_folder())
}

/// Where the library will be: the folder that holds `build`, in which our own `OUT_DIR` is.
fn profile_folder() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let build =
        out.ancestors().find(|folder| folder.ends_with("build")).expect("OUT_DIR is below a folder `build`");
    build.parent().expect("`build` is in a folder").to_path_buf()
}

/// Relative links, so that the build folder may be moved or mounted elsewhere.
fn make_names(profile: &Path) -> io::Result<()> {
    let folder = profile.join("nonic-lib");
    fs::create_dir_all(&folder)?;
    for name in NAMES {
        let link = folder.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::os::unix::fs::symlink("../libnonic.so", &link)?,
        }
    }
    Ok(())
}

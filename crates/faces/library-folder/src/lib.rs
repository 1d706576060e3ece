//! For build scripts of libraries that programs load: their names in the folder `nonic-lib`, which lies beside the libraries
//! themselves, and what the linker is told.

#![forbid(unsafe_code)]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// A file of the crate whose build script runs; the script runs again when it changes.
pub fn source(name: &str) -> PathBuf {
    let path = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(name);
    println!("cargo:rerun-if-changed={}", path.display());
    path
}

/// Tells the linker the library's own name and its version nodes.
pub fn link(name: &str, nodes: &Path) {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", nodes.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
}

/// The folder `nonic-lib`, or a folder in it, made if it is not there.
pub fn folder(inner: &str) -> io::Result<PathBuf> {
    let folder = profile_folder().join("nonic-lib").join(inner);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Makes names that lead to others, which need not be there yet. The links are relative, so that the build folder may be moved
/// or mounted elsewhere.
pub fn make_names(names: &[(&str, &str)]) -> io::Result<()> {
    let folder = folder("")?;
    for (name, target) in names {
        let link = folder.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(target, &link)?,
        }
    }
    Ok(())
}

/// Where the libraries will be: the folder that holds `build`, in which the script's own `OUT_DIR` is.
fn profile_folder() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let build =
        out.ancestors().find(|folder| folder.ends_with("build")).expect("OUT_DIR is below a folder `build`");
    build.parent().expect("`build` is in a folder").to_path_buf()
}

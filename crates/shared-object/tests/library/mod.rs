//! The libraries under test. Cargo builds a shared object for `cargo build` but not for the tests of its own
//! package, so the tests ask for it.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the build under test: the one that `NONIC_TESTED_BUILD` names, or that of the build profile; a test program is
/// in `deps` below it.
pub(crate) fn profile_folder() -> PathBuf {
    if let Some(folder) = env::var_os("NONIC_TESTED_BUILD") {
        return folder.into();
    }
    let program = env::current_exe().expect("a test program knows where it is");
    let deps =
        program.ancestors().find(|folder| folder.ends_with("deps")).expect("cargo puts tests into `deps`");
    deps.parent().expect("`deps` is in a folder").to_path_buf()
}

/// `libnonic.so`: as it was built before, or built with the small libraries from the sources as they are, in the profile of the
/// tests.
pub(crate) fn path() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let folder = profile_folder();
    if env::var_os("NONIC_TESTED_BUILD").is_some() {
        let library = folder.join("libnonic.so");
        assert!(library.is_file(), "no build of the workspace in {folder:?}");
        return library;
    }
    let profile = folder.file_name().expect("a profile has a name").to_string_lossy().into_owned();
    // The one profile whose folder has another name.
    let profile = if profile == "debug" { "dev".to_owned() } else { profile };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "nonic-shared-object"])
        .args(["--package", "nonic-scif-library", "--package", "nonic-dat-library"])
        .args(["--package", "nonic-dat-provider", "--package", "nonic-rdmacm-library"])
        .args(["--profile", &profile, "--target-dir"])
        .arg(folder.parent().expect("a profile is in the target folder"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "libnonic.so and the libraries that forward to it do not build");
    folder.join("libnonic.so")
}

/// The folder with the names that programs load.
#[allow(dead_code)] // Not every test loads them by name.
pub(crate) fn names() -> PathBuf {
    path().with_file_name("nonic-lib")
}

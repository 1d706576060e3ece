//! C programs of uDAPL 1.2, compiled against the headers of the build and run with its libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::library;

/// An empty folder for one test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for tests can be written to");
    folder
}

/// Compiles `tests/c/NAME.c` to `folder`; `-shared` among the arguments makes it a library, `libNAME.so`.
pub(crate) fn compile(name: &str, folder: &Path, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let file = if arguments.contains(&"-shared") { format!("lib{name}.so") } else { name.to_owned() };
    let binary = folder.join(file);
    let names = library::names();
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-g", "-pthread", "-fPIC"])
        .arg(source)
        .arg(format!("-I{}", names.join("include").display()))
        .arg(format!("-L{}", names.display()))
        .args(arguments)
        .arg("-o")
        .arg(&binary)
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "{name}.c does not compile");
    binary
}

/// Runs a program with the libraries of a folder and a `dat.conf`, or without any.
pub(crate) fn run(
    program: &Path,
    libraries: &Path,
    arguments: &[&str],
    configuration: Option<&Path>,
) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries)
        .env("DAT_OVERRIDE", configuration.unwrap_or(Path::new("/nonexistent/dat.conf")))
        .output()
        .expect("the program starts")
}

/// What a program printed, which must have gone well without complaints.
#[track_caller]
pub(crate) fn succeeds(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    assert_eq!(err, "", "the program complained");
    out.into_owned()
}

//! C programs of this package, compiled against the distribution's own header and library.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::output::summary;
use crate::program::Finished;
use crate::suite::{Verdict, failed};
use crate::toolbox::{program, scratch};

/// What was compiled, by source and further options.
type Compiled = HashMap<(PathBuf, Vec<String>), Result<PathBuf, String>>;

static COMPILED: Mutex<Option<Compiled>> = Mutex::new(None);

/// Compiles `c/<name>.c`, once a test process, to where every user can run it.
pub fn compile(name: &str) -> Verdict<PathBuf> {
    compile_with(name, &[])
}

/// The same with further options of the compiler, such as a sanitizer.
pub fn compile_with(name: &str, options: &[&str]) -> Verdict<PathBuf> {
    compile_source(&package().join("c").join(format!("{name}.c")), options)
}

/// Compiles a program of the folder `examples/c`.
pub fn compile_example(name: &str) -> Verdict<PathBuf> {
    compile_source(&package().join("../../examples/c").join(format!("{name}.c")), &[])
}

/// A file of this package.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compile_source(source: &Path, options: &[&str]) -> Verdict<PathBuf> {
    let compiler = program("gcc")?;
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        return failed(
            "/usr/include/infiniband/verbs.h is missing: run ci/install, which installs libibverbs-dev",
        );
    }
    // Held while compiling: the next test that wants the same program waits for it.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = compiled.get_or_insert_default();
    let key = (source.to_owned(), options.iter().map(|option| option.to_string()).collect());
    let result = known.entry(key).or_insert_with(|| compile_now(&compiler, source, options));
    result.clone().or_else(failed)
}

fn compile_now(compiler: &Path, source: &Path, options: &[&str]) -> Result<PathBuf, String> {
    let mut name = source.file_stem().expect("a source file has a name").to_owned();
    name.push(options.concat().replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let file = scratch().join(name);
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(options)
        .arg("-o")
        .arg(&file)
        .arg(source)
        .arg("-libverbs")
        .output()
        .map_err(|e| format!("{}: {e}", compiler.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} does not compile:\n{}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))
        .map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(file)
}

/// Fails unless the program exited with 0 and its summary counts something passed and nothing failed. Returns the
/// number passed.
pub fn judge(finished: &Finished) -> Verdict<u32> {
    let wrong: Vec<&str> = finished.stdout.lines().filter(|line| line.starts_with("FAIL")).collect();
    let head = if wrong.is_empty() { String::new() } else { format!("{}\n", wrong.join("\n")) };
    match summary(&finished.stdout) {
        Some((passed, 0)) if passed > 0 && finished.succeeded() && wrong.is_empty() => Ok(passed),
        Some((passed, count)) => failed(format!(
            "{head}{passed} passed, {count} failed, {}\n{}",
            finished.status(),
            finished.report()
        )),
        None => {
            failed(format!("{head}it ended without a summary, {}\n{}", finished.status(), finished.report()))
        }
    }
}

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
use crate::toolbox::{Toolbox, program, scratch};

/// What was compiled, by compiler, source and further options.
type Compiled = HashMap<(PathBuf, PathBuf, Vec<String>), Result<PathBuf, String>>;

static COMPILED: Mutex<Option<Compiled>> = Mutex::new(None);

/// Compiles `c/<name>.c`, once a test process, to where every user can run it.
pub fn compile(name: &str) -> Verdict<PathBuf> {
    compile_with(name, &[])
}

/// The same with further options of the compiler, such as a sanitizer.
pub fn compile_with(name: &str, options: &[&str]) -> Verdict<PathBuf> {
    compile_source(&package().join("c").join(format!("{name}.c")), options)
}

/// Compiles `c/scif/<name>` against this project's own header and library of SCIF: C, or C++ if the name says so.
pub fn compile_scif(name: &str) -> Verdict<PathBuf> {
    let language = if name.ends_with(".cpp") { "-std=c++11" } else { "-std=gnu11" };
    compile_against_own("scif", name, language, "-lscif")
}

/// Compiles `c/dat/<name>.c` against this project's own headers and library of uDAPL.
pub fn compile_dat(name: &str) -> Verdict<PathBuf> {
    compile_against_own("dat", &format!("{name}.c"), "-std=gnu99", "-ldat")
}

/// Compiles an example of uDAPL 1.2 in the folder `examples/c` in the same way.
pub fn compile_dat_example(name: &str) -> Verdict<PathBuf> {
    compile_against_own("../../../examples/c", &format!("{name}.c"), "-std=gnu99", "-ldat")
}

/// Compiles a file of a folder of `c` against this project's own headers and one of its libraries.
fn compile_against_own(folder: &str, name: &str, language: &str, library: &str) -> Verdict<PathBuf> {
    let include = package().join("../../include");
    let libraries = &Toolbox::find()?.libraries;
    let source = package().join("c").join(folder).join(name);
    let compiler = program(if name.ends_with(".cpp") { "g++" } else { "gcc" })?;
    let options = [
        language.to_owned(),
        format!("-I{}", include.display()),
        format!("-L{}", libraries.display()),
        format!("-Wl,-rpath-link,{}", libraries.display()),
    ];
    remember(&compiler, &source, &options, &[library, "-ldl"])
}

/// Compiles `c/dat2/<name>.c` against the distribution's header and registry of uDAPL 2.0.
pub fn compile_dat2(name: &str) -> Verdict<PathBuf> {
    if !Path::new("/usr/include/dat2/udat.h").exists() {
        return failed("/usr/include/dat2/udat.h is missing: run ci/install, which installs libdapl-dev");
    }
    let source = package().join("c/dat2").join(format!("{name}.c"));
    remember(&program("gcc")?, &source, &["-std=gnu11".into(), "-DDAT_EXTENSIONS".into()], &["-ldat2"])
}

/// Compiles `c/<name>.c` against the distribution's header and library of the connection manager.
pub fn compile_rdmacm(name: &str) -> Verdict<PathBuf> {
    if !Path::new("/usr/include/rdma/rdma_cma.h").exists() {
        return failed(
            "/usr/include/rdma/rdma_cma.h is missing: run ci/install, which installs librdmacm-dev",
        );
    }
    let source = package().join("c").join(format!("{name}.c"));
    remember(&program("gcc")?, &source, &["-std=gnu11".into()], &["-lrdmacm", "-libverbs"])
}

/// Compiles `c/<name>.c` by the distribution's compiler for MPI.
pub fn compile_mpi(name: &str) -> Verdict<PathBuf> {
    let source = package().join("c").join(format!("{name}.c"));
    remember(&program("mpicc")?, &source, &["-std=gnu11".into()], &[])
}

/// Compiles `c/<name>.c` by the distribution's compiler for MPICH.
pub fn compile_mpich(name: &str) -> Verdict<PathBuf> {
    let source = package().join("c").join(format!("{name}.c"));
    // Its header declares arrays where it takes a word for "none".
    let options = ["-std=gnu11", "-Wno-stringop-overflow"].map(String::from);
    remember(&program("mpicc.mpich")?, &source, &options, &[])
}

/// Compiles `c/<name>.c` against the MPI in a folder, with the headers of one that has the same binary interface.
pub fn compile_against_mpi(name: &str, folder: &Path, headers: &Path) -> Verdict<PathBuf> {
    let source = package().join("c").join(format!("{name}.c"));
    let library = folder.join("lib").display().to_string();
    let options = [
        "-std=gnu11".into(),
        "-Wno-stringop-overflow".into(),
        format!("-I{}", headers.join("include").display()),
        format!("-L{library}"),
        format!("-Wl,-rpath,{library}"),
    ];
    remember(&program("gcc")?, &source, &options, &["-lmpi"])
}

/// Compiles `c/rpma.c` against the distribution's librpma.
pub fn compile_rpma() -> Verdict<PathBuf> {
    let source = package().join("c/rpma.c");
    remember(&program("gcc")?, &source, &["-std=gnu11".into()], &["-lrpma", "-libverbs"])
}

/// Compiles `c/gloo.cpp` against the distribution's Gloo.
pub fn compile_gloo() -> Verdict<PathBuf> {
    let source = package().join("c/gloo.cpp");
    remember(&program("g++")?, &source, &["-std=c++14".into()], &["-lgloo"])
}

/// Compiles an example that the distribution's package of UCX brings.
pub fn compile_ucx_example(name: &str) -> Verdict<PathBuf> {
    let source = Path::new("/usr/share/doc/libucx-dev/examples").join(format!("{name}.c"));
    if !source.exists() {
        return failed(format!("{} is missing: run ci/install, which installs libucx-dev", source.display()));
    }
    remember(&program("gcc")?, &source, &["-w".into()], &["-lucp", "-lucs"])
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
    let options: Vec<_> = ["-std=gnu11"].iter().chain(options).map(|option| option.to_string()).collect();
    remember(&compiler, source, &options, &["-libverbs"])
}

fn remember(compiler: &Path, source: &Path, options: &[String], libraries: &[&str]) -> Verdict<PathBuf> {
    // Held while compiling: the next test that wants the same program waits for it.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = compiled.get_or_insert_default();
    let number = known.len();
    let key = (compiler.to_owned(), source.to_owned(), options.to_vec());
    let result =
        known.entry(key).or_insert_with(|| compile_now(compiler, source, options, libraries, number));
    result.clone().or_else(failed)
}

fn compile_now(
    compiler: &Path,
    source: &Path,
    options: &[String],
    libraries: &[&str],
    number: usize,
) -> Result<PathBuf, String> {
    let stem = source.file_stem().expect("a source file has a name").to_string_lossy();
    // The same source may be compiled with several options.
    let file = scratch().join(format!("{stem}-{number}"));
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(options)
        .arg("-o")
        .arg(&file)
        .arg(source)
        .args(libraries)
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

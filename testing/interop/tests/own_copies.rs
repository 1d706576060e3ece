//! Programs that bring a libibverbs of their own: one that their RPATH leads to, as in conda's environments, or one of another name, as in
//! packages of Python.
#![forbid(unsafe_code)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use nonic_interop::c_program::{compile_with, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{library, scratch};

const NAME: &str = "libibverbs.so.1";

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test("a program whose RPATH leads to another libibverbs uses the device", || uses_device(NAME));
    // As long as the other, so that it fits in its place.
    suite.test("so does one that brings a libibverbs by another name", || uses_device("libibverbs.so.9"));
    suite.run()
}

/// A program that was linked to a copy of that name, which it finds by its RPATH, moves data; without libraries in front it has no device.
fn uses_device(name: &str) -> Verdict {
    let program = linked_to(&copy(name)?)?.display().to_string();
    let place = Place::prepare(AS_IT_COMES)?;
    judge(&place.nonic_run([&program])?.run()?)?;
    let without = place.nonic_run_with(&["--no-preload"], [&program])?.run()?;
    match without.succeeded() {
        true => failed(format!("its own libibverbs has a device\n{}", without.report())),
        false => Ok(()),
    }
}

/// A folder with the distribution's library under that name, which is the one that the loader knows it by.
fn copy(name: &str) -> Verdict<PathBuf> {
    let folder = scratch().join(format!("copy.{name}"));
    match renamed(&library(NAME)?, name, &folder) {
        Ok(()) => Ok(folder),
        Err(error) => failed(format!("{}: {error}", folder.display())),
    }
}

fn renamed(library: &Path, name: &str, folder: &Path) -> io::Result<()> {
    let mut bytes = fs::read(library)?;
    for at in 0..bytes.len() - NAME.len() {
        if bytes[at..].starts_with(NAME.as_bytes()) {
            bytes[at..at + NAME.len()].copy_from_slice(name.as_bytes());
        }
    }
    fs::create_dir(folder)?;
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?;
    fs::write(folder.join(name), bytes)?;
    // Where the compiler looks.
    symlink(name, folder.join("libibverbs.so"))
}

fn linked_to(folder: &Path) -> Verdict<PathBuf> {
    let folder = folder.display();
    let options = [format!("-L{folder}"), format!("-Wl,--disable-new-dtags,-rpath,{folder}")];
    compile_with("everyday", &options.each_ref().map(String::as_str))
}

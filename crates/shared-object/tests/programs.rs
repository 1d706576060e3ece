//! C programs, compiled against the distribution's own header and run with the built library.

mod library;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The header the programs include.
const HEADER: &str = "/usr/include/infiniband/verbs.h";

/// Compiles and runs `tests/c/NAME.c`; a failed check ends it with a message and status 1.
fn run(name: &str, arguments: &[&str]) {
    if !Path::new(HEADER).exists() {
        println!("SKIPPED: {HEADER} is not installed, {name}.c cannot be compiled (package libibverbs-dev)");
        return;
    }
    let library = library::path();
    let names = library.parent().expect("the library is in a folder").join("nonic-lib");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let binary = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"])
        .arg(&source)
        .arg(format!("-L{}", names.display()))
        .args(["-libverbs", "-o"])
        .arg(&binary)
        .status()
        .expect("there is a C compiler");
    assert!(compiled.success(), "{} does not compile", source.display());
    let output = Command::new(&binary)
        .args(arguments)
        .env("LD_LIBRARY_PATH", &names)
        .output()
        .expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{out}{err}", output.status);
    assert!(out.trim_end().ends_with("checks"), "{name} did not reach its end:\n{out}{err}");
    print!("{name}: {out}");
}

#[test]
fn overwritten_handles_and_destroyed_objects_are_refused_everywhere() {
    run("handles", &[]);
}

#[test]
fn wrong_arguments_and_missing_extensions_are_refused_with_their_errno() {
    run("refusals", &[]);
}

#[test]
fn messages_completions_and_events_pass_through_the_c_interface() {
    run("traffic", &[]);
}

#[test]
fn provider_libraries_of_real_devices_load_on_top_of_ours() {
    let installed = |name: &&&str| Path::new("/usr/lib/x86_64-linux-gnu").join(name).exists();
    let wanted = ["libmlx4.so.1", "libmlx5.so.1", "libefa.so.1", "librdmacm.so.1"];
    let found: Vec<_> = wanted.iter().filter(installed).copied().collect();
    if found.len() < wanted.len() {
        println!(
            "SKIPPED in part: of {wanted:?} only {found:?} are installed (ibverbs-providers, librdmacm1)"
        );
    }
    run("providers", &found);
}

//! `libdaplnonic.so.2` as the registry of uDAPL 2.0 and the loader see it.

mod elf;
mod library;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The provider's file.
fn provider() -> PathBuf {
    library::names().join("libdaplnonic.so.2")
}

/// An empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dat-provider").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// Compiles `tests/c/<name>.c` against the distribution's registry; `None` without its headers. Once: what a test runs another
/// one must not write meanwhile.
fn compile(name: &str) -> Option<PathBuf> {
    static DONE: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    done.entry(name.to_owned()).or_insert_with(|| compile_now(name)).clone()
}

fn compile_now(name: &str) -> Option<PathBuf> {
    if !Path::new("/usr/include/dat2/udat.h").exists() {
        println!("SKIPPED: libdapl-dev is not installed, a program of uDAPL 2.0 cannot be compiled");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&program, &source])
        .args(["-ldat2", "-ldl"])
        .status()
        .expect("there is a C compiler");
    assert!(compiled.success(), "{} does not compile", source.display());
    Some(program)
}

/// Runs a program with these libraries and this `dat.conf`.
fn run(program: &Path, libraries: &Path, configuration: &Path) -> Output {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).env("DAT_OVERRIDE", configuration);
    command.output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn exactly_what_the_registry_asks_for_is_exported_under_one_node() {
    let listed = ["dapl_extensions", "dat_provider_fini", "dat_provider_init"];
    let listed: BTreeSet<_> = listed.iter().map(|name| format!("{name}@@DAPL_NONIC_2.0")).collect();
    assert_eq!(elf::versioned_symbols(&provider()), listed);
    assert_eq!(elf::unversioned_symbols(&provider()), BTreeSet::new());
    assert_eq!(elf::name(&provider()), "libdaplnonic.so.2");
}

#[test]
fn the_file_of_adapters_is_beside_the_library_and_every_entry_names_it() {
    let configuration =
        fs::read_to_string(library::names().join("dat.conf")).expect("the build puts it there");
    let entries: Vec<Vec<&str>> = configuration
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let names: BTreeSet<_> = entries.iter().map(|fields| fields[0]).collect();
    assert_eq!(names.len(), entries.len(), "a name is there twice");
    for name in ["nonic", "nonic-noncoherent", "ofa-v2-ib0", "ofa-v2-mlx4_0-1u", "OpenIB-cma"] {
        assert!(names.contains(name), "{name}");
    }
    for fields in &entries {
        assert_eq!(fields[1..5], ["u2.0", "nonthreadsafe", "default", "libdaplnonic.so.2"]);
        assert_eq!((fields[5], fields.len()), ("nonic.2.0", 8));
    }
}

#[test]
fn every_name_of_the_distributions_own_file_is_there() {
    let Ok(theirs) = fs::read_to_string("/etc/dat.conf") else {
        println!("SKIPPED: there is no /etc/dat.conf to compare with");
        return;
    };
    let ours = fs::read_to_string(library::names().join("dat.conf")).expect("the build puts it there");
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned).unwrap_or_default();
    let ours: BTreeSet<_> = ours.lines().map(name).collect();
    let theirs: Vec<_> = theirs.lines().filter(|line| !line.starts_with('#')).map(name).collect();
    let missing: Vec<_> = theirs.iter().filter(|name| !name.is_empty() && !ours.contains(*name)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_process_may_have_both_registries() {
    let Some(program) = compile("dat_both") else { return };
    let output = run(&program, &library::names(), &library::names().join("dat.conf"));
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("both\n".to_owned(), String::new()));
}

#[test]
fn without_the_engine_beside_it_the_provider_says_so_and_the_adapter_is_not_found() {
    let Some(program) = compile("dat_open2") else { return };
    let alone = folder("alone");
    fs::copy(provider(), alone.join("libdaplnonic.so.2")).expect("the library can be copied");
    let output = run(&program, &alone, &library::names().join("dat.conf"));
    assert_eq!(text(&output.stdout), "0x800a0064\n", "DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED");
    let complaint = text(&output.stderr);
    for words in ["libdaplnonic.so.2", "libnonic.so", "cannot be opened"] {
        assert!(complaint.contains(words), "no {words:?} in {complaint}");
    }
}

#[test]
fn an_engine_of_another_version_is_refused() {
    let Some(program) = compile("dat_open2") else { return };
    let other = folder("other-version");
    fs::copy(provider(), other.join("libdaplnonic.so.2")).expect("the library can be copied");
    fs::copy(provider(), other.join("libnonic.so")).expect("the library can be copied"); // It has no table.
    let output = run(&program, &other, &library::names().join("dat.conf"));
    assert_eq!(text(&output.stdout), "0x800a0064\n");
    assert!(text(&output.stderr).contains("another version"), "{output:?}");
}

#[test]
fn an_entry_may_name_the_library_by_its_path() {
    let Some(program) = compile("dat_open2") else { return };
    let folder = folder("by-path");
    let configuration = folder.join("dat.conf");
    let entry = format!("nonic u2.0 nonthreadsafe default {} nonic.2.0 \"\" \"\"\n", provider().display());
    fs::write(&configuration, entry).expect("it can be written");
    let output = run(&program, &folder, &configuration);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("0x00000000\n".to_owned(), String::new()));
}

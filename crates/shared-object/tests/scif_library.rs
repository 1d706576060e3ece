//! `libscif.so.0` as programs and the loader see it.

mod elf;
mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Every call of the interface.
const CALLS: [&str; 22] = [
    "scif_accept",
    "scif_bind",
    "scif_close",
    "scif_connect",
    "scif_fence_mark",
    "scif_fence_signal",
    "scif_fence_wait",
    "scif_get_fd",
    "scif_get_nodeIDs",
    "scif_listen",
    "scif_mmap",
    "scif_munmap",
    "scif_open",
    "scif_poll",
    "scif_readfrom",
    "scif_recv",
    "scif_register",
    "scif_send",
    "scif_unregister",
    "scif_vreadfrom",
    "scif_vwriteto",
    "scif_writeto",
];

fn scif_library() -> PathBuf {
    library::names().join("libscif.so.0")
}

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for tests can be written to");
    folder
}

/// Compiles `tests/c/NAME.c` to `folder`, which the loader looks into first when the program runs.
fn compile(name: &str, folder: &Path, libraries: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let binary = folder.join(name);
    let names = library::names();
    let status = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-pthread"])
        .arg(source)
        .arg(format!("-I{}", names.join("include").display()))
        .arg(format!("-L{}", names.display()))
        .args(libraries)
        .arg("-o")
        .arg(&binary)
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "{name}.c does not compile");
    binary
}

fn run(program: &Path, libraries: &Path, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .expect("the program starts")
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    assert_eq!(err, "", "the program complained");
    out.into_owned()
}

#[test]
fn exactly_the_calls_of_the_interface_are_exported_each_under_the_one_node() {
    let listed: BTreeSet<String> = CALLS.iter().map(|call| format!("{call}@@SCIF_0.0")).collect();
    assert_eq!(elf::versioned_symbols(&scif_library()), listed);
    assert_eq!(elf::unversioned_symbols(&scif_library()), BTreeSet::new());
}

#[test]
fn the_library_has_the_name_and_the_files_of_the_original() {
    assert_eq!(elf::name(&scif_library()), "libscif.so.0");
    let folder = library::names();
    let leads_to = |name: &str| fs::read_link(folder.join(name)).expect("the build made the link");
    assert_eq!(leads_to("libscif.so"), Path::new("libscif.so.0"));
    assert_eq!(leads_to("libscif.so.0"), Path::new("libscif.so.0.0.1"));
    assert!(folder.join("libscif.so.0.0.1").is_file());
}

#[test]
fn the_engine_offers_scif_by_one_symbol_and_no_call_of_it() {
    let symbols = elf::unversioned_symbols(&library::path());
    assert!(symbols.contains("nonic_scif_table"));
    let calls: Vec<_> = symbols.iter().filter(|name| name.starts_with("scif_")).collect();
    assert_eq!(calls, [""; 0]);
}

#[test]
fn programs_that_load_it_late_find_it_by_either_name_and_by_its_version() {
    let folder = folder("late");
    let program = compile("scif_late", &folder, &["-ldl"]);
    for name in ["libscif.so", "libscif.so.0"] {
        let arguments = [&[name], &CALLS[..]].concat();
        let output = succeeds(&run(&program, &library::names(), &arguments));
        assert_eq!(output, "22 calls, closed and loaded again\n");
    }
}

#[test]
fn a_process_with_verbs_and_scif_has_one_engine_whichever_comes_first() {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("SKIPPED: libibverbs-dev is not installed, a program with verbs cannot be compiled");
        return;
    }
    for (name, order) in [("verbs-first", ["-libverbs", "-lscif"]), ("scif-first", ["-lscif", "-libverbs"])] {
        let program = compile("scif_and_verbs", &folder(name), &order);
        let output = succeeds(&run(&program, &library::names(), &[]));
        assert_eq!(output, "one engine\n", "{name}");
    }
}

#[test]
fn without_the_engine_beside_it_the_library_says_so_once_and_every_call_fails_with_enxio() {
    let folder = folder("alone");
    fs::copy(scif_library(), folder.join("libscif.so.0")).expect("the library can be copied");
    let program = compile("scif_alone", &folder, &["-lscif"]);
    let output = run(&program, &folder, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "21 calls failed\n");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let engine = folder.join("libnonic.so");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    for words in ["libscif.so.0", engine.to_str().expect("it is text"), "ENXIO"] {
        assert!(complaint.contains(words), "no {words:?} in {complaint}");
    }
}

#[test]
fn an_engine_of_another_version_is_refused() {
    let folder = folder("other-version");
    fs::copy(scif_library(), folder.join("libscif.so.0")).expect("the library can be copied");
    fs::copy(scif_library(), folder.join("libnonic.so")).expect("the library can be copied"); // It has no table.
    let program = compile("scif_alone", &folder, &["-lscif"]);
    let output = run(&program, &folder, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "21 calls failed\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("another version"), "{output:?}");
}

#[test]
fn the_engine_is_found_beside_the_file_and_beside_the_link_that_led_to_it() {
    let program = compile("scif_engine", &folder("engine"), &["-lscif", "-ldl"]);
    let real = fs::canonicalize(scif_library()).expect("the library is there");

    // A link far away: beside the file there is the engine.
    let far = folder("far-link");
    std::os::unix::fs::symlink(&real, far.join("libscif.so.0")).expect("a link can be made");
    succeeds(&run(&program, &far, &[library::path().to_str().expect("it is text")]));

    // Links to files that lie in folders of their own: beside the link there is one to the engine.
    let forest = folder("forest");
    let store = folder("forest-store");
    fs::copy(&real, store.join("libscif.so.0.0.1")).expect("the library can be copied");
    std::os::unix::fs::symlink(store.join("libscif.so.0.0.1"), forest.join("libscif.so.0")).expect("a link");
    std::os::unix::fs::symlink(library::path(), forest.join("libnonic.so")).expect("a link can be made");
    succeeds(&run(&program, &forest, &[library::path().to_str().expect("it is text")]));
}

#[test]
fn pkg_config_leads_to_header_and_library_wherever_the_folder_is() {
    let tool = Command::new("pkg-config").arg("--version").output();
    if !tool.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: pkg-config is not installed");
        return;
    }
    let moved = folder("moved");
    for part in ["include", "pkgconfig"] {
        fs::create_dir_all(moved.join(part)).expect("folders can be made");
    }
    for file in ["include/scif.h", "pkgconfig/scif.pc", "libscif.so", "libscif.so.0"] {
        fs::copy(library::names().join(file), moved.join(file)).expect("the build made it");
    }
    let ask = |question: &[&str]| {
        let output = Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", moved.join("pkgconfig"))
            .args(question)
            .arg("scif")
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(ask(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    let flags = ask(&["--cflags", "--libs"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/scif_engine.c");
    let program = moved.join("program");
    let status = Command::new("cc")
        .arg(source)
        .args(flags.split_whitespace())
        .args(["-ldl", "-o"])
        .arg(&program)
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "flags {flags:?} do not compile a program");
    succeeds(&run(&program, &library::names(), &[library::path().to_str().expect("it is text")]));
}

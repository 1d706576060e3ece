//! C programs of uDAPL 1.2 at the border of the interface: binaries of old, wrong handles, children, providers of
//! others.

mod dat;
mod library;

use std::fs;

use dat::{compile, folder, run, succeeds};

/// Compiles a program that needs nothing but the library, runs it, and sees that it came to its end.
fn passes(name: &str) {
    let program = compile(name, &folder(name), &["-ldat"]);
    let output = succeeds(&run(&program, &library::names(), &[], None));
    assert!(output.ends_with(" checks\n"), "{output}");
    print!("{name}: {output}");
}

#[test]
fn a_program_that_was_linked_long_ago_runs() {
    passes("dat_old");
}

#[test]
fn every_wrong_handle_is_refused_by_every_call_and_nothing_is_followed() {
    passes("dat_handles");
}

#[test]
fn a_child_has_none_of_its_parents_handles_and_both_go_on() {
    passes("dat_fork");
}

#[test]
fn providers_of_others_are_loaded_used_and_unloaded_beside_ours() {
    let folder = folder("dat-outside");
    let provider = compile("dat_provider", &folder, &["-shared"]);
    let object = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/dat_provider.c");
    let program = compile("dat_outside", &folder, &[object, "-ldat"]);
    let configuration = folder.join("dat.conf");
    let library = provider.display();
    let lines = [
        "# A comment, and an empty line.".to_owned(),
        String::new(),
        format!("outside u1.2 nonthreadsafe default \"{library}\" test.1.2 \"ib0 1\" \"\""),
        "broken u1.2 nonthreadsafe default /nonexistent/libdapl.so test.1.2 \"\" \"\"".to_owned(),
        format!("refusing u1.2 nonthreadsafe default {library} test.1.2 refuse \"\" # behind it"),
        "OpenIB-cma u1.2 nonthreadsafe default libdaplcma.so.of.nowhere dapl.1.2 \"ib0 0\" \"\"".to_owned(),
        "other u2.0 nonthreadsafe default libother.so test.2.0 \"\" \"\"".to_owned(),
        "safe u1.2 threadsafe default libother.so test.1.2 \"\" \"\"".to_owned(),
        "outside u1.2 nonthreadsafe default libtwice.so test.1.2 \"\" \"\"".to_owned(),
        "few u1.2 nonthreadsafe".to_owned(),
        "unwanted u1.2 nonthreadsafe nondefault libother.so test.1.2 \"\" \"\"".to_owned(),
        "mine u1.2 nonthreadsafe default nonic nonic.1.2 \"\" \"\"".to_owned(),
    ];
    fs::write(&configuration, lines.join("\n")).expect("the folder for tests can be written to");
    let notes = folder.join("notes");
    let run = |level: &str| {
        let _ = fs::remove_file(&notes);
        let output = std::process::Command::new(&program)
            .env("LD_LIBRARY_PATH", library::names())
            .env("DAT_OVERRIDE", &configuration)
            .env("DAT_PROVIDER_NOTES", &notes)
            .env("DAT_DBG_TYPE", level)
            .output()
            .expect("the program starts");
        succeeds(&output)
    };
    let quiet = run("0");
    assert!(quiet.ends_with(" checks\n") && quiet.lines().count() == 1, "{quiet}");
    // Who asks is told why an entry does not count, with its line.
    let told = run("0x4");
    for words in [
        "line 9: an earlier line",
        "line 10:",
        "line 11: it is marked nondefault",
        "libdaplcma.so.of.nowhere",
    ] {
        assert!(told.contains(words), "no {words:?} in {told}");
    }
    assert!(!told.contains("line 3:") && !told.contains("line 12:"), "{told}");
}

//! What the README says about installing, done as it stands there.

mod support;

use std::path::Path;
use std::process::Command;

use support::{run, scratch, spawn};

/// The lines that install, for the prefix and the build given.
fn lines(readme: &str, prefix: &str, build: &str) -> String {
    let start = readme.find("\nP=/usr/local\n").expect("the README says how to install");
    let block = &readme[start..];
    let block = &block[..block.find("```").expect("the block ends")];
    block.replace("/usr/local", prefix).replace("target/release", build)
}

#[test]
fn what_the_readme_installs_works_where_it_is_put() {
    support::library();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = support::program();
    let build = program.parent().expect("it is in a folder");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("it can be read");
    let folder = scratch();
    let prefix = folder.to_str().expect("it is text");
    let script = lines(&readme, prefix, build.to_str().expect("it is text"));
    let mut shell = Command::new("bash");
    let status = spawn(shell.args(["-euc", &script]).current_dir(&root)).wait().expect("it ends");
    assert!(status.success(), "{script}");

    let command = folder.join("bin/nonic");
    for arguments in [&["demo", "--step", "refusal"][..], &["demo", "scif"], &["demo", "dat"]] {
        let output = run(support::wrapped(&[], &command).args(arguments)).exits(0).output;
        assert!(output.contains("passed in"), "{output}");
    }
    for page in [
        "man1/nonic.1",
        "man3/scif_open.3",
        "man3/scif_fence_signal.3",
        "man7/scif.7",
        "man3/dat_rmr_bind.3",
        "man5/dat.conf.5",
        "man7/dat.7",
        "man7/rdmacm-nonic.7",
        "man7/nonic-sockets.7",
    ] {
        assert!(folder.join("share/man").join(page).is_file(), "no {page}");
    }
    // What programs are compiled with.
    for file in [
        "librdmacm.so.1",
        "libnonic-sockets.so",
        "pkgconfig/scif.pc",
        "include/scif.h",
        "pkgconfig/dat.pc",
        "include/dat/udat.h",
        "dat.conf",
    ] {
        assert!(folder.join("lib/nonic").join(file).is_file(), "no {file}");
    }
}

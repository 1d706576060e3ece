//! What `ci/stage` and `ci/package` make of the build under test works where it is put, and is the same each time.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{run, scratch, skip, works, wrapped};

/// Files that everything below a prefix is useless without.
const FILES: [&str; 23] = [
    "bin/nonic",
    "lib/TRIPLET/nonic/libibverbs.so.1",
    "lib/TRIPLET/nonic/libnonic.so",
    "lib/TRIPLET/nonic/librdmacm.so.1",
    "lib/TRIPLET/nonic/libnonic-sockets.so",
    "lib/TRIPLET/nonic/libnonic-view.so",
    "lib/TRIPLET/nonic/libdaplnonic.so.2",
    "lib/TRIPLET/nonic/dat.conf",
    // What programs are compiled with.
    "lib/TRIPLET/nonic/libscif.so",
    "lib/TRIPLET/nonic/libdat.so",
    "lib/TRIPLET/nonic/pkgconfig/scif.pc",
    "lib/TRIPLET/nonic/include/scif.h",
    "lib/TRIPLET/nonic/pkgconfig/dat.pc",
    "lib/TRIPLET/nonic/include/dat/udat.h",
    "share/man/man1/nonic.1.gz",
    "share/man/man1/nonic-ctl.1.gz",
    "share/man/man3/scif_open.3.gz",
    "share/man/man3/dat_rmr_bind.3.gz",
    "share/man/man5/dat.conf.5nonic.gz",
    "share/man/man7/rdmacm-nonic.7.gz",
    "share/man/man7/nonic-view.7.gz",
    "share/bash-completion/completions/nonic",
    "share/doc/nonic/copyright",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a script of `ci` on the build under test.
fn ci(script: &str, arguments: &[&str]) {
    support::library();
    let program = support::program();
    let mut command = wrapped(&[], &root().join("ci").join(script));
    command.args(arguments).arg("--build").arg(program.parent().expect("it is in a folder"));
    // Cargo's own of this test are not for what it starts.
    run(command.env_remove("CARGO_MANIFEST_DIR")).exits(0);
}

/// That everything is below this prefix, and that the command finds its libraries from there.
fn works_below(prefix: &Path) {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    for file in FILES {
        let path = prefix.join(file.replace("TRIPLET", &triplet));
        assert!(fs::metadata(&path).is_ok_and(|file| file.len() > 0), "no {}", path.display());
    }
    for arguments in [&["demo", "--step", "refusal"][..], &["demo", "scif"], &["demo", "dat"]] {
        let output = run(wrapped(&[], &prefix.join("bin/nonic")).args(arguments)).exits(0).output;
        assert!(output.contains("passed in"), "{output}");
    }
}

/// The one file in a folder whose name ends so.
fn only(folder: &Path, end: &str) -> PathBuf {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{end}: {found:?}");
    found[0].clone()
}

/// All files below a folder, as they would lie below `/`.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut find = wrapped(&[], "find".as_ref());
    let output = run(find.arg(folder).args(["!", "-type", "d", "-printf", "/%P\n"])).exits(0).output;
    output.lines().map(str::to_owned).collect()
}

#[test]
fn what_is_staged_in_another_folder_for_libraries_is_found_there() {
    let folder = scratch();
    // Where the other kin of Linux have libraries; the packages below are staged the usual way.
    ci("stage", &[folder.to_str().unwrap(), "--libraries", "lib64/nonic"]);
    let output =
        run(wrapped(&[], &folder.join("bin/nonic")).args(["demo", "--step", "refusal"])).exits(0).output;
    assert!(output.contains("passed in"), "{output}");
}

#[test]
fn packages_hold_what_is_staged_replace_nothing_and_are_the_same_each_time() {
    let tools = ["dpkg-deb", "zstd", "strip"];
    if let Some(tool) = tools.iter().find(|tool| !works(&["sh", "-c", &format!("command -v {tool}")])) {
        return skip(&format!("{tool} is not installed"));
    }
    let folder = scratch();
    let made: [PathBuf; 2] = ["first", "second"].map(|name| folder.join(name));
    ci("package", &["deb", "tar", "--output", made[0].to_str().unwrap()]);
    ci("package", &["deb", "--output", made[1].to_str().unwrap()]);
    let [first, second] = [&made[0], &made[1]].map(|folder| fs::read(only(folder, ".deb")).unwrap());
    assert!(first.len() > 1_000_000 && first == second, "two packages of the same build differ");

    let installed = folder.join("installed");
    let mut unpack: Command = wrapped(&["dpkg-deb", "-x"], &only(&made[0], ".deb"));
    run(unpack.arg(&installed)).exits(0);
    works_below(&installed.join("usr"));
    let allowed = ["/usr/bin/nonic", "/usr/lib/x86_64-linux-gnu/nonic/", "/usr/share/"];
    let files = files(&installed);
    for file in &files {
        assert!(allowed.iter().any(|place| file.starts_with(place)), "{file} has no business there");
    }
    // On this machine lie the packages of the distribution for RDMA: a name of theirs could not be installed beside them.
    let mut owners = wrapped(&["dpkg-query", "--search"], files.first().expect("it holds files").as_ref());
    let owned = run(owners.args(&files)).output;
    let others: Vec<_> = owned.lines().filter(|line| !line.starts_with("nonic: ")).collect();
    assert_eq!(others, [""; 0], "files of other packages");

    let anywhere = folder.join("anywhere");
    fs::create_dir(&anywhere).unwrap();
    let mut unpack = wrapped(&["tar", "--strip-components=1", "-xf"], &only(&made[0], ".tar.zst"));
    run(unpack.arg("-C").arg(&anywhere)).exits(0);
    works_below(&anywhere);
}

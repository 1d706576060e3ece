//! C programs, compiled against our headers and run with the built libraries.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::library;

/// How long a program may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Compiles a source file of this package, to be linked with one of our libraries.
pub(crate) fn compile(source: &str, library: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let names = library::names();
    let binary =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().expect("a source file has a name"));
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(&source)
        .arg(format!("-I{}", names.join("include").display()))
        .arg(format!("-L{}", names.display()))
        .args([library, "-o"])
        .arg(&binary)
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "{} does not compile", source.display());
    binary
}

/// Starts a program with our libraries and more in its environment.
pub(crate) fn start(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", library::names())
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// What a program printed, which must have gone well.
#[track_caller]
pub(crate) fn end(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    assert_eq!(err, "", "the program complained");
    out.into_owned()
}

/// Waits until somebody listens at an abstract socket whose name ends so.
pub(crate) fn wait_for_listener(name: &str) {
    let begun = Instant::now();
    loop {
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("the kernel lists sockets");
        if sockets.lines().any(|line| line.ends_with(name) && line.contains(" 00010000 ")) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody listens on {name}");
        std::thread::yield_now();
    }
}

//! What the tests of the command share: starting it with a clean environment and a deadline, and places to put files.
#![allow(dead_code)] // Each test file is a crate of its own and uses a part of this.

pub(crate) mod waiting;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

/// The user and group that root becomes where a test is about an ordinary user.
pub(crate) const NOBODY: u32 = 65534;

/// How long any command may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// What it printed.
    pub(crate) output: String,
    /// What it complained about.
    pub(crate) errors: String,
}

impl Outcome {
    /// Asserts an exit status; shows everything otherwise.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    /// Asserts that the complaint holds each of these words.
    #[track_caller]
    pub(crate) fn complains_of(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.errors.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }
}

/// The command under test: that of the build which `NONIC_TESTED_BUILD` names, or the one cargo built with this test.
pub(crate) fn program() -> PathBuf {
    match std::env::var_os("NONIC_TESTED_BUILD") {
        Some(folder) => Path::new(&folder).join("nonic"),
        None => PathBuf::from(env!("CARGO_BIN_EXE_nonic")),
    }
}

/// The command, with no setting of nonic or the loader left in its environment.
pub(crate) fn nonic() -> Command {
    wrapped(&[], &program())
}

/// The command behind the words of another one, like `setpriv` or `unshare`.
pub(crate) fn nonic_behind(words: &[&str]) -> Command {
    wrapped(words, &program())
}

/// A program behind the words of another one, in an environment without settings.
pub(crate) fn wrapped(words: &[&str], program: &Path) -> Command {
    let mut command = match words.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    let settings = std::env::vars_os().map(|(name, _)| name);
    for name in settings.filter(|name| name.to_string_lossy().starts_with("NONIC_")) {
        command.env_remove(name);
    }
    command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD").stdin(Stdio::null());
    command
}

/// A child must not be born while another test writes a program: it would hold the file open for a moment, and whoever
/// starts that program then would be told that it is busy.
static BIRTHS_AND_WRITES: Mutex<()> = Mutex::new(());

/// Starts a command.
#[track_caller]
pub(crate) fn spawn(command: &mut Command) -> Child {
    let _alone = BIRTHS_AND_WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().expect("the command starts")
}

/// Runs a command to its end, and fails if that does not come.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Outcome {
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(PATIENCE) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        panic!("{command:?} did not end within {PATIENCE:?}");
    };
    let output = output.expect("the output can be read");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome { status: output.status, output: text(output.stdout), errors: text(output.stderr) }
}

/// `nonic run` with a library folder that holds an empty file: enough for everything but using the library.
pub(crate) fn nonic_run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Outcome {
    let folder = stub_folder();
    run(nonic().env("NONIC_LIB_DIR", &*folder).arg("run").args(arguments))
}

/// A folder for one test, which every user may enter. Goes with this object.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl std::ops::Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // What stays behind harms no one.
    }
}

/// A folder that looks like the library folder.
pub(crate) fn stub_folder() -> Scratch {
    let folder = scratch();
    std::fs::write(folder.join("libibverbs.so.1"), "").expect("a file can be written");
    folder
}

/// A new folder for one test.
pub(crate) fn scratch() -> Scratch {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("cli-{}-{number}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    Scratch(folder.canonicalize().expect("it is there"))
}

/// A file with these bytes and this mode.
pub(crate) fn file(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
    let _alone = BIRTHS_AND_WRITES.lock().unwrap_or_else(PoisonError::into_inner);
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("its mode can be set");
    path
}

/// The command as an ordinary user would start it, root having stepped down.
pub(crate) fn nonic_as_ordinary_user() -> Command {
    if is_root() { nonic_behind(&STEP_DOWN) } else { nonic() }
}

/// Words that make root an ordinary user.
pub(crate) const STEP_DOWN: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Whether this test runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says why a test proves nothing here. Counted by `ci/test`.
pub(crate) fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
}

/// Whether a command can be run successfully here.
pub(crate) fn works(words: &[&str]) -> bool {
    let mut command = Command::new("env"); // Says 127 for a program that is not there.
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    spawn(&mut command).wait().is_ok_and(|status| status.success())
}

/// Compiles `int main` that returns 0, with these flags; nothing if that cannot be done here.
pub(crate) fn compiled(folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = file(folder, "main.c", b"int main(void) { return 0; }\n", 0o644);
    let program = folder.join("program");
    let words = [&["cc", "-o", program.to_str()?, source.to_str()?], flags].concat();
    works(&words).then_some(program)
}

/// Makes sure that the library lies beside the command, as `cargo build --workspace` leaves it.
pub(crate) fn library() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let program = program();
        let folder = program.parent().expect("it is in a folder");
        let built = |name: &str| folder.join("nonic-lib").join(name).exists();
        let names = ["libibverbs.so.1", "librdmacm.so.1", "libscif.so.0", "libdat.so.1", "libdaplnonic.so.2"];
        if names.into_iter().all(built) {
            return;
        }
        assert!(std::env::var_os("NONIC_TESTED_BUILD").is_none(), "no build of the workspace in {folder:?}");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--package", "nonic-shared-object", "--package", "nonic-scif-library"]);
        cargo.args(["--package", "nonic-dat-library", "--package", "nonic-dat-provider"]);
        cargo.args(["--package", "nonic-rdmacm-library"]);
        cargo.args(folder.ends_with("release").then_some("--release"));
        cargo.arg("--target-dir").arg(folder.parent().expect("the profile's folder is in the target folder"));
        let status = spawn(&mut cargo).wait().expect("cargo ends");
        assert!(status.success(), "the library cannot be built: {status}");
    });
}

/// Says so where this user, or root, may make no network.
pub(crate) fn lacks_networks() -> bool {
    let words = if is_root() { &["unshare", "-n", "true"][..] } else { &["unshare", "-rn", "true"] };
    let lacks = !works(words);
    if lacks {
        skip("no network namespace can be made here");
    }
    lacks
}

/// Says so where two processes that measure have no processor each.
pub(crate) fn lacks_processors() -> bool {
    let lacks = std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2);
    if lacks {
        skip("two processors are needed to measure two processes");
    }
    lacks
}

/// A folder that whoever runs the command may write to.
pub(crate) fn open_folder() -> Scratch {
    let folder = scratch();
    std::fs::set_permissions(&*folder, PermissionsExt::from_mode(0o777)).expect("its mode can be set");
    folder
}

/// Tags closed in their order, one root, attributes in quotes: enough to find what a browser would refuse.
#[track_caller]
pub(crate) fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some((text, tail)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a stray > in {text:?}");
        let (tag, after) = tail.split_once('>').expect("each < has its >");
        assert!(tag.matches('"').count().is_multiple_of(2), "an open quote in <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
        assert!(!(open.is_empty() && after.contains('<')), "more than one root");
        rest = after;
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "left open: {open:?}");
    assert!(xml.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
}

/// Runs the demo of an interface for machines and checks that it says what a demo that passed says.
#[track_caller]
pub(crate) fn demo_passes(command: &mut Command, interface: &str, steps: &[&str]) -> serde_json::Value {
    library();
    let outcome = run(command.args(["demo", interface, "--json"])).exits(0);
    let report: serde_json::Value = serde_json::from_str(&outcome.output).expect("one JSON object");
    assert!(report["passed"] == true && report["error"].is_null(), "{report:#}");
    let names: Vec<_> =
        report["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, steps);
    report
}

/// Runs the demo of an interface three times at once as an ordinary user, each of which must pass.
#[track_caller]
pub(crate) fn three_demos_pass(interface: &str) {
    let children: Vec<_> = (0..3)
        .map(|_| {
            library();
            let mut command = nonic_as_ordinary_user();
            spawn(command.args(["demo", interface]).stdout(Stdio::piped()).stderr(Stdio::null()))
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Kills each of the two processes of an interface's demo once it has said who they are: it must say what failed, and end.
#[track_caller]
pub(crate) fn demo_ends_with_either_process(interface: &str) {
    library();
    for victim in 0..2 {
        let mut command = nonic();
        let mut child = spawn(command.args(["demo", interface]).stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let mut text = String::new();
        output.read_line(&mut text).expect("it says who takes part");
        // The last two numbers of the line.
        let pids: Vec<i32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let pid = pids[pids.len() - 2..][victim];
        let pid = rustix::process::Pid::from_raw(pid).expect("the number of a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
        output.read_to_string(&mut text).expect("it ends");
        assert_eq!(child.wait().expect("it ends").code(), Some(1), "{text}");
        assert!(text.contains("FAILED") && text.contains("signal: 9"), "{text}");
    }
}

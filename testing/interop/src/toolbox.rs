//! Where the things are that tests run: the build, the programs of the distribution, a scratch folder.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::suite::{Verdict, failed};

/// The user a test steps down to when it starts as root: `nobody` everywhere.
pub const ORDINARY_USER: u32 = 65534;

const BUILD: &str =
    "run `cargo build --release --workspace` first (or without --release for a debug test run)";

/// The command and the libraries under test, where an ordinary user can read them.
#[derive(Debug, Clone)]
pub struct Toolbox {
    /// The command `nonic`.
    pub nonic: PathBuf,
    /// The folder with `libibverbs.so.1`.
    pub libraries: PathBuf,
}

static TOOLBOX: OnceLock<Result<Toolbox, String>> = OnceLock::new();
static SCRATCH: OnceLock<PathBuf> = OnceLock::new();

impl Toolbox {
    /// Finds the build this test belongs to. The first call looks, later ones remember.
    pub fn find() -> Verdict<&'static Self> {
        match TOOLBOX.get_or_init(locate) {
            Ok(toolbox) => Ok(toolbox),
            Err(why) => failed(why.clone()),
        }
    }
}

/// Whether we are root, who has to step down before running anything.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A folder of our own that every user may enter and write to. Removed when the tests end.
pub fn scratch() -> &'static Path {
    SCRATCH.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("nonic-interop-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written to");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).expect("the folder is ours");
        path
    })
}

/// A folder in which everybody may make folders.
pub fn shared_folder(name: &str) -> Verdict<PathBuf> {
    let folder = scratch().join(format!("meet-{name}"));
    let made = fs::create_dir_all(&folder)
        .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)));
    match made {
        Ok(()) => Ok(folder),
        Err(why) => failed(format!("cannot make {}: {why}", folder.display())),
    }
}

/// Removes the scratch folder, if there is one.
pub fn clean_up() {
    if let Some(path) = SCRATCH.get() {
        // Nothing depends on it any more; a leftover in the temporary folder is no reason to fail.
        let _ = fs::remove_dir_all(path);
    }
}

/// The full path of a program of the distribution.
pub fn program(name: &str) -> Verdict<PathBuf> {
    for folder in ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"] {
        let path = Path::new(folder).join(name);
        if path.is_file() {
            return Ok(path);
        }
    }
    failed(format!("{name} is not installed: run ci/install, which names and installs what the tests need"))
}

/// The full path of a shared library of the distribution, in the folder of this machine's architecture.
pub fn library(name: &str) -> Verdict<PathBuf> {
    let folders =
        [format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH), "/usr/lib64".into(), "/usr/lib".into()];
    match folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => failed(format!(
            "{name} is not installed: run ci/install, which names and installs what the tests need"
        )),
    }
}

fn locate() -> Result<Toolbox, String> {
    let here = match std::env::var_os("NONIC_TESTED_BUILD") {
        Some(build) => Path::new(&build).join("nonic"),
        None => std::env::current_exe().map_err(|e| format!("cannot find this test's own file: {e}"))?,
    };
    // target/<profile>/deps/<test>: the command is one folder up, the libraries in a folder beside it.
    for folder in here.ancestors().skip(1).take(3) {
        let nonic = folder.join("nonic");
        let libraries = folder.join("nonic-lib");
        if nonic.is_file() && libraries.join("libibverbs.so.1").exists() {
            return reachable(&Toolbox { nonic, libraries });
        }
    }
    Err(format!(
        "there is no `nonic` with `nonic-lib/libibverbs.so.1` beside it in any folder above {}: {BUILD}",
        here.display()
    ))
}

/// The same toolbox where an ordinary user can read it: as it is, or copied if it lies below a private folder.
fn reachable(found: &Toolbox) -> Result<Toolbox, String> {
    let library = fs::canonicalize(found.libraries.join("libibverbs.so.1")).map_err(|e| {
        format!("{}/libibverbs.so.1 points nowhere ({e}): {BUILD}", found.libraries.display())
    })?;
    if !is_root() || (open_to_all(&found.nonic) && open_to_all(&library)) {
        return Ok(found.clone());
    }
    stage(found)
        .map_err(|e| format!("cannot copy the build from a private folder to {}: {e}", scratch().display()))
}

/// Whether every user can read the file and enter all folders above it.
pub fn open_to_all(file: &Path) -> bool {
    let readable = fs::metadata(file).is_ok_and(|m| m.mode() & 0o004 != 0);
    readable
        && file.ancestors().skip(1).all(|folder| {
            folder.as_os_str().is_empty() || fs::metadata(folder).is_ok_and(|m| m.mode() & 0o001 != 0)
        })
}

/// Copies command and libraries. Names that are one file stay one file: a process must load one engine only.
fn stage(found: &Toolbox) -> io::Result<Toolbox> {
    let root = scratch().join("build");
    let libraries = root.join("nonic-lib");
    fs::create_dir_all(&libraries)?;
    let nonic = root.join("nonic");
    fs::copy(&found.nonic, &nonic)?;
    for entry in fs::read_dir(&found.libraries)? {
        let name = entry?.file_name();
        let file = fs::canonicalize(found.libraries.join(&name))?;
        if file.is_dir() {
            continue; // What programs are compiled with; these run.
        }
        let copy = root.join(file.file_name().expect("a library has a name"));
        if !copy.exists() {
            fs::copy(&file, &copy)?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        }
        let link = libraries.join(&name);
        if !link.exists() {
            std::os::unix::fs::symlink(&copy, &link)?;
        }
    }
    for path in [&root, &libraries, &nonic] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(Toolbox { nonic, libraries })
}

/// The words that make what follows run as an ordinary user that dies with this test.
pub fn step_down(user: u32) -> Verdict<Vec<String>> {
    let mut words = vec![program("setpriv")?.display().to_string(), "--pdeathsig=KILL".into()];
    if is_root() {
        words.extend([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()]);
    }
    words.push("--no-new-privs".into());
    Ok(words)
}

/// Whether a short command succeeds; what it printed if not.
pub fn succeeds(words: &[String]) -> Result<(), String> {
    let output =
        Command::new(&words[0]).args(&words[1..]).output().map_err(|e| format!("{}: {e}", words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

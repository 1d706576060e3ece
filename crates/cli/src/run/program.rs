//! Which file will really be loaded when a program is started, and whether the loader will listen to us.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

use super::elf::{Elf, MAGIC};
use crate::library::{LibraryFolder, VERBS_LIBRARY};

/// How many scripts the kernel follows from one to the next.
const SCRIPTS_MAX: usize = 5;

/// What the kernel reads of a script's first line.
const FIRST_LINE_MAX: usize = 256;

/// Where shells look when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why there is no file to start.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    /// Exit status 127.
    #[error("{0}: no such program")]
    NotFound(String),
    /// Exit status 126.
    #[error("{0}: {1}")]
    NotExecutable(String, String),
}

/// Why a program would not use the libraries it is given.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsuitable {
    /// No dynamic loader runs.
    #[error("it is statically linked, so no library can be put under it; link it dynamically")]
    Static,
    /// No library of ours fits.
    #[error("it is {0}, and the libraries here are for 64-bit {arch}; build it for this machine", arch = std::env::consts::ARCH)]
    Foreign(String),
    /// The loader runs in secure mode and ignores `LD_LIBRARY_PATH`.
    #[error(
        "it {0}, so the loader ignores LD_LIBRARY_PATH; \
         run nonic as the user it changes to (for sudo: sudo nonic run -- PROGRAM), or a copy without that right"
    )]
    Privileged(String),
}

/// What was found out about a program.
#[derive(Debug)]
pub(super) struct Findings {
    /// The file that is loaded in the end: the program, or the interpreter of the script it is.
    pub(super) loaded: PathBuf,
    /// Why it would not use the libraries, if so.
    pub(super) unsuitable: Option<Unsuitable>,
    /// Whether libraries for glibc can be put in front of its own.
    pub(super) takes_preloads: bool,
    /// What may surprise, without being a reason to refuse.
    pub(super) warnings: Vec<String>,
}

/// Finds a program as a shell would: as it is if it has a slash, else in the folders of `PATH`.
pub(crate) fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, LookupError> {
    let shown = name.to_string_lossy().into_owned();
    if name.as_bytes().contains(&b'/') {
        let file = PathBuf::from(name);
        return match executable(&file) {
            Ok(()) => Ok(file),
            Err(Some(reason)) => Err(LookupError::NotExecutable(shown, reason)),
            Err(None) => Err(LookupError::NotFound(shown)),
        };
    }
    let mut refused = None;
    for folder in std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        // An empty entry means the current directory; "./" keeps execve from searching again.
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let file = folder.join(name);
        // A folder this user may not enter is as good as empty, as it is for shells.
        if name.is_empty() || !file.exists() {
            continue;
        }
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(Some(reason)) => refused = refused.or(Some((file.display().to_string(), reason))),
            Err(None) => {}
        }
    }
    Err(match refused {
        Some((file, reason)) => LookupError::NotExecutable(file, reason),
        None => LookupError::NotFound(shown),
    })
}

/// Whether `file` can be executed; else why not, or nothing when it is not there.
fn executable(file: &Path) -> Result<(), Option<String>> {
    let metadata = std::fs::metadata(file).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => None,
        _ => Some(error.to_string()),
    })?;
    if !metadata.is_file() {
        return Err(Some(if metadata.is_dir() { "is a directory" } else { "is no regular file" }.to_owned()));
    }
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK)
        .map_err(|error| Some(format!("cannot be executed: {}", std::io::Error::from(error))))
}

/// Finds out whether the loader would give the program at `file` the libraries of `folder`, of which verbs are loaded first if that is
/// wanted and the program takes it.
pub(super) fn inspect(
    file: &Path,
    folder: &LibraryFolder,
    verbs_first: bool,
    path: Option<&OsStr>,
) -> Findings {
    let mut findings =
        Findings { loaded: file.to_owned(), unsuitable: None, takes_preloads: true, warnings: Vec::new() };
    for _ in 0..SCRIPTS_MAX {
        let Some(opened) = open(&mut findings) else { return findings };
        let mut start = [0; FIRST_LINE_MAX];
        let length = opened.read_at(&mut start, 0).unwrap_or(0);
        if start[..length].starts_with(MAGIC) {
            judge(&opened, folder, verbs_first, &mut findings);
            return findings;
        }
        // A text without "#!" is given to the shell, by execvp as by shells.
        let next = interpreter(&start[..length]).unwrap_or(PathBuf::from("/bin/sh"));
        findings.loaded = find(next.as_os_str(), path).unwrap_or(next);
    }
    findings
}

fn open(findings: &mut Findings) -> Option<File> {
    match File::open(&findings.loaded) {
        Ok(file) => Some(file),
        Err(error) => {
            let shown = findings.loaded.display();
            findings
                .warnings
                .push(format!("cannot read {shown} to check it ({error}); running it unchecked"));
            None
        }
    }
}

/// The program that a script's first line names; for `/usr/bin/env NAME` it is NAME, which env will look up.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t\r\0".contains(byte)).filter(|word| !word.is_empty());
    let program = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    if program.file_name() != Some(OsStr::new("env")) {
        return Some(program);
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    Some(name.map_or(program, |name| PathBuf::from(OsString::from_vec(name.to_vec()))))
}

fn judge(opened: &File, folder: &LibraryFolder, verbs_first: bool, findings: &mut Findings) {
    let metadata = opened.metadata().ok();
    match Elf::read(opened) {
        Ok(Elf::Foreign(words)) => findings.unsuitable = Some(Unsuitable::Foreign(words)),
        Ok(Elf::Static) => findings.unsuitable = Some(Unsuitable::Static),
        Ok(Elf::Dynamic { interpreter, rpath }) => {
            findings.unsuitable =
                metadata.and_then(|metadata| privilege(opened, &findings.loaded, &metadata));
            if interpreter.as_bytes().windows(7).any(|window| window == b"ld-musl") {
                findings.takes_preloads = false;
                findings
                    .warnings
                    .push("it uses musl; the libraries here need glibc and may not load".to_owned());
            }
            let origin = findings.loaded.parent().unwrap_or(Path::new("."));
            let rpath = rpath.as_deref().unwrap_or_default();
            let mut names = folder.library_names();
            names.retain(|name| !(verbs_first && findings.takes_preloads && name == VERBS_LIBRARY));
            findings.warnings.extend(rpath_warning(rpath, origin, &names, folder.path()));
        }
        Err(error) => findings.warnings.push(format!("cannot make out what kind of program it is: {error}")),
    }
}

/// The right that makes the loader distrust the environment, where the kernel would really grant it.
fn privilege(opened: &File, path: &Path, metadata: &Metadata) -> Option<Unsuitable> {
    const SETUID: u32 = 0o4000;
    const SETGID_EXECUTABLE: u32 = 0o2010;
    let ignored = rustix::thread::no_new_privs().unwrap_or(false)
        || rustix::fs::fstatvfs(opened).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    if ignored {
        return None;
    }
    let words = if metadata.mode() & SETUID != 0 && metadata.uid() != rustix::process::getuid().as_raw() {
        format!("is setuid to user {}", metadata.uid())
    } else if metadata.mode() & SETGID_EXECUTABLE == SETGID_EXECUTABLE
        && metadata.gid() != rustix::process::getgid().as_raw()
    {
        format!("is setgid to group {}", metadata.gid())
    } else if !rustix::process::getuid().is_root()
        && rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 64][..]).is_ok()
    {
        "has file capabilities".to_owned()
    } else {
        return None;
    };
    Some(Unsuitable::Privileged(words))
}

/// A warning when the program's own search path, which the loader asks first, holds one of our libraries' names.
fn rpath_warning(
    rpath: &OsStr,
    origin: &Path,
    libraries: &[OsString],
    library_folder: &Path,
) -> Option<String> {
    for entry in std::env::split_paths(rpath) {
        let text = entry.as_os_str().as_bytes();
        let folder = match text.strip_prefix(b"$ORIGIN").or_else(|| text.strip_prefix(b"${ORIGIN}")) {
            Some(rest) => origin.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
            None => entry,
        };
        if folder.canonicalize().is_ok_and(|folder| folder == library_folder) {
            return None; // It finds ours there, and looks no further.
        }
        // The loader looks for names with a version; those without are for compilers.
        let is_looked_for = |name: &&OsString| name.as_bytes().windows(4).any(|part| part == b".so.");
        if let Some(name) = libraries.iter().filter(is_looked_for).find(|name| folder.join(name).exists()) {
            return Some(format!(
                "its RPATH beats LD_LIBRARY_PATH, so it will load {} instead of nonic's; \
                 remove that with: patchelf --remove-rpath PROGRAM",
                folder.join(name).display()
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpreter_of(text: &str) -> Option<String> {
        interpreter(text.as_bytes()).map(|path| path.display().to_string())
    }

    #[test]
    fn the_interpreter_of_a_script_is_the_first_word_and_env_is_looked_through() {
        assert_eq!(interpreter_of("#!/bin/sh\n").as_deref(), Some("/bin/sh"));
        assert_eq!(interpreter_of("#! /bin/sh -e\nls").as_deref(), Some("/bin/sh"));
        assert_eq!(interpreter_of("#!/usr/bin/env python3\n").as_deref(), Some("python3"));
        assert_eq!(interpreter_of("#!/usr/bin/env -S A=b python3 -u\n").as_deref(), Some("python3"));
        assert_eq!(interpreter_of("#!/usr/bin/env").as_deref(), Some("/usr/bin/env"));
        assert_eq!(interpreter_of("echo"), None);
        assert_eq!(interpreter_of("#!"), None);
    }

    #[test]
    fn names_are_looked_up_in_path_and_paths_are_not() {
        let found = find(OsStr::new("sh"), Some(OsStr::new("/nowhere:/bin")));
        assert_eq!(found, Ok(PathBuf::from("/bin/sh")));
        assert!(matches!(find(OsStr::new("./sh-is-not-here"), None), Err(LookupError::NotFound(_))));
        assert!(matches!(find(OsStr::new("/bin"), None), Err(LookupError::NotExecutable(..))));
        assert!(matches!(find(OsStr::new(""), None), Err(LookupError::NotFound(_))));
    }
}

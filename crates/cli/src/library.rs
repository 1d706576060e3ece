//! Where the C libraries are: the folder that `nonic run` puts in front of `LD_LIBRARY_PATH`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The variable that names the folder, before any other place is looked at.
pub(crate) const FOLDER_VARIABLE: &str = "NONIC_LIB_DIR";

/// The library whose presence makes a folder the right one.
pub(crate) const VERBS_LIBRARY: &str = "libibverbs.so.1";

/// The library that speaks SCIF; it lies beside the other in every build.
const SCIF_LIBRARY: &str = "libscif.so.0";

/// The connection manager.
const RDMACM_LIBRARY: &str = "librdmacm.so.1";

/// The library that speaks uDAPL 1.2.
const DAT_LIBRARY: &str = "libdat.so.1";

/// The library that leads TCP connections over RDMA.
pub(crate) const SOCKETS_LIBRARY: &str = "libnonic-sockets.so";

/// The library that shows programs the devices' files.
const VIEW_LIBRARY: &str = "libnonic-view.so";

/// The folder that holds the C libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LibraryFolder {
    path: PathBuf,
}

/// Why there is no library folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    /// The variable names a folder without the library.
    #[error("{FOLDER_VARIABLE} is {}, but there is no {VERBS_LIBRARY} in that folder; unset it or correct it", .0.display())]
    Variable(PathBuf),
    /// None of the usual places.
    #[error(
        "cannot find the folder with nonic's {VERBS_LIBRARY}; looked in {}. \
         Build it (cargo build --release) or name the folder in {FOLDER_VARIABLE}",
        join(.0)
    )]
    Nowhere(Vec<PathBuf>),
    /// The dynamic loader could not be told about this folder.
    #[error(
        "the library folder {} has a ':', ';' or '$' in its name, which LD_LIBRARY_PATH cannot carry; \
         move or link it elsewhere and name that in {FOLDER_VARIABLE}",
        .0.display()
    )]
    Unspeakable(PathBuf),
    /// Not even the place of this command is known.
    #[error("cannot tell where this command lies ({0}); name the library folder in {FOLDER_VARIABLE}")]
    Self_(std::io::Error),
}

impl LibraryFolder {
    /// The folder named by `NONIC_LIB_DIR`, else the one of the build tree or the installation this command is in.
    pub(crate) fn find() -> Result<Self, FindError> {
        if let Some(named) = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty()) {
            let path = PathBuf::from(named);
            return if holds_library(&path) { Self::checked(path) } else { Err(FindError::Variable(path)) };
        }
        let program = own_program().map_err(FindError::Self_)?;
        let places = places(program.parent().unwrap_or(Path::new(".")));
        match places.iter().find(|place| holds_library(place)) {
            Some(place) => Self::checked(place.clone()),
            None => Err(FindError::Nowhere(places)),
        }
    }

    fn checked(path: PathBuf) -> Result<Self, FindError> {
        // Absolute, because the program may change its directory before it loads the library.
        let path = path.canonicalize().unwrap_or(path);
        if path.as_os_str().as_bytes().iter().any(|byte| b":;$".contains(byte)) {
            return Err(FindError::Unspeakable(path));
        }
        Ok(Self { path })
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The library in it that speaks verbs.
    pub(crate) fn verbs_library(&self) -> PathBuf {
        self.path.join(VERBS_LIBRARY)
    }

    /// The library in it that speaks SCIF.
    pub(crate) fn scif_library(&self) -> PathBuf {
        self.path.join(SCIF_LIBRARY)
    }

    /// The connection manager in it.
    pub(crate) fn rdmacm_library(&self) -> PathBuf {
        self.path.join(RDMACM_LIBRARY)
    }

    /// The library in it that speaks uDAPL 1.2.
    pub(crate) fn dat_library(&self) -> PathBuf {
        self.path.join(DAT_LIBRARY)
    }

    /// The library in it that leads TCP connections over RDMA.
    pub(crate) fn sockets_library(&self) -> PathBuf {
        self.path.join(SOCKETS_LIBRARY)
    }

    /// The library in it that shows programs the devices' files.
    pub(crate) fn view_library(&self) -> PathBuf {
        self.path.join(VIEW_LIBRARY)
    }

    /// Names of the libraries in it, which a program must find here and nowhere else.
    pub(crate) fn library_names(&self) -> Vec<OsString> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name()).filter(|name| is_library(name)).collect();
        names.sort();
        names
    }

    /// This folder in front of the search path that was there already.
    pub(crate) fn search_path(&self, before: Option<&OsStr>) -> OsString {
        let mut path = self.path.clone().into_os_string();
        // An empty entry would mean the current directory, so an empty value adds nothing.
        if let Some(before) = before.filter(|value| !value.is_empty()) {
            path.push(":");
            path.push(before);
        }
        path
    }
}

/// This command as it could be executed once more; works without /proc too.
pub(crate) fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe().or_else(|_| {
        let name = OsStr::from_bytes(rustix::param::linux_execfn().to_bytes());
        Path::new(name).canonicalize()
    })
}

/// The places to look in, in order, for a command that lies in `program_folder`.
fn places(program_folder: &Path) -> Vec<PathBuf> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let mut places = vec![program_folder.join("nonic-lib")];
    let parent = program_folder.parent();
    if let Some(parent) = parent {
        if program_folder.ends_with("deps") {
            places.push(parent.join("nonic-lib")); // A test executable of the build tree.
        }
        places.push(parent.join("lib/nonic"));
        places.push(parent.join("lib").join(triplet).join("nonic"));
        places.push(parent.join("lib64/nonic"));
    }
    places
}

fn holds_library(folder: &Path) -> bool {
    folder.join(VERBS_LIBRARY).is_file()
}

fn is_library(name: &OsStr) -> bool {
    name.as_bytes().windows(3).any(|window| window == b".so")
}

fn join(places: &[PathBuf]) -> String {
    let shown: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_command_looks_in_the_usual_library_folders() {
        let triplet = format!("/usr/lib/{}-linux-gnu/nonic", std::env::consts::ARCH);
        let expected = ["/usr/bin/nonic-lib", "/usr/lib/nonic", triplet.as_str(), "/usr/lib64/nonic"];
        let expected = expected.map(PathBuf::from);
        assert_eq!(places(Path::new("/usr/bin")), expected);
    }

    #[test]
    fn a_test_in_the_build_tree_finds_the_folder_one_level_up() {
        assert!(places(Path::new("target/debug/deps")).contains(&PathBuf::from("target/debug/nonic-lib")));
    }

    #[test]
    fn the_users_search_path_stays_behind_ours_and_an_empty_one_adds_no_entry() {
        let folder = LibraryFolder { path: PathBuf::from("/n") };
        assert_eq!(folder.search_path(Some(OsStr::new("/a:/b"))), "/n:/a:/b");
        assert_eq!(folder.search_path(Some(OsStr::new(""))), "/n");
        assert_eq!(folder.search_path(None), "/n");
    }

    #[test]
    fn a_folder_the_loader_would_split_is_refused() {
        assert!(matches!(LibraryFolder::checked(PathBuf::from("/a:b")), Err(FindError::Unspeakable(_))));
    }
}

//! The folder in which the tree stands, so that the kernel answers what programs ask of it: folders that are listed, links that are
//! followed, paths that begin at a descriptor.
//!
//! It stands in memory (`XDG_RUNTIME_DIR`, else `/dev/shm`, else `/tmp`), at `nonic-view.UID/HASH`, where the hash is that of all that
//! is in it: a tree never changes. Who has one holds a shared lock on its folder (`flock(2)`), which goes with the process,
//! however it ends; whoever gets the lock alone takes the tree away: the last one that leaves in order, and, where all were
//! killed, the next one that comes.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nonic_sys::{effective_user, is_still_at, own_user};
use rustix::fs::{FlockOperation, flock};

use crate::calls::FOLDER;
use crate::tree::{Node, Tree};

/// How often something that others do at the same moment may be in the way.
const TRIES: usize = 32;

/// How many names for the folder of trees are tried, if others have taken one.
const NAMES: u32 = 4;

/// Modes as sysfs has them, but for the owner, who could write to the folders.
const FILE_MODE: u32 = 0o444;
const FOLDER_MODE: u32 = 0o555;
const OPEN_FOLDER_MODE: u32 = 0o755;

/// A tree that this process has.
#[derive(Debug)]
pub(crate) struct Standing {
    path: PathBuf,
    /// Its folder, with the lock.
    lock: File,
    process: u32,
}

impl Standing {
    /// Finds the tree where it stands, or puts it up.
    pub(crate) fn put_up(tree: &Tree) -> io::Result<Self> {
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for base in bases() {
            for home in homes(&base) {
                match put_up_in(&home, tree) {
                    Ok(standing) => return Ok(standing),
                    Err(error) => why = error,
                }
            }
        }
        Err(why)
    }

    /// Its path, for C.
    pub(crate) fn path(&self) -> CString {
        CString::new(self.path.as_os_str().as_bytes()).unwrap_or_default()
    }

    /// Whether this process still has it: a child has to have its own lock, a program may have closed this one, and whoever was
    /// left alone with the lock may have taken the tree away.
    pub(crate) fn is_there(&self) -> bool {
        self.process == std::process::id() && stands_at(&self.lock, &self.path)
    }

    /// Takes a tree away that this process has no more, unless it is the one that it has now, or somebody else has it.
    pub(crate) fn clear(&self, now: &Self) {
        if self.path != now.path
            && let Ok(folder) = open_folder(&self.path)
            && lock_alone(&folder, &self.path)
        {
            take_away(&self.path);
        }
    }

    /// Takes the tree away if nobody else has it.
    pub(crate) fn leave(&self) {
        if !self.is_there() {
            return;
        }
        if lock_alone(&self.lock, &self.path) {
            take_away(&self.path);
        } else {
            // The shared lock went with the attempt, and who cannot become another program goes on as this one.
            let _ = flock(&self.lock, FlockOperation::NonBlockingLockShared);
        }
    }
}

/// Where there is memory that looks like files.
fn bases() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    own.into_iter().chain(["/dev/shm", "/tmp"].map(PathBuf::from)).collect()
}

/// The folders for this user's trees, the best first. Where this user's number stands for others, too (a user namespace that does not
/// map it), a folder that is there already may be theirs: then a process has one of its own.
fn homes(base: &Path) -> Vec<PathBuf> {
    let user = effective_user();
    if own_user().is_none() {
        let now = nonic_sys::raw_clock_ns();
        let own = base.join(format!("{FOLDER}{user}.{}.{now}", std::process::id()));
        let made = DirBuilder::new().mode(OPEN_FOLDER_MODE).create(&own);
        return made.map(|()| own).into_iter().collect();
    }
    let name = |number| match number {
        0 => format!("{FOLDER}{user}"),
        number => format!("{FOLDER}{user}.{number}"),
    };
    (0..NAMES).map(|number| base.join(name(number))).collect()
}

/// What tells trees apart.
fn hash(tree: &Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.hash(&mut hasher);
    hasher.finish()
}

fn put_up_in(home: &Path, tree: &Tree) -> io::Result<Standing> {
    let name = format!("{:016x}", hash(tree));
    let path = home.join(&name);
    let mut why = io::Error::from(io::ErrorKind::ResourceBusy);
    for _ in 0..TRIES {
        check_home(home)?;
        sweep(home, &name);
        match lock(&path).map(|lock| (lock.is_some(), lock)) {
            Ok((true, Some(lock))) => return Ok(Standing { path, lock, process: std::process::id() }),
            Ok(_) => std::thread::yield_now(), // Somebody is taking it away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => match build(home, &path, tree) {
                Ok(lock) => return Ok(Standing { path, lock, process: std::process::id() }),
                Err(error) => why = error,
            },
            Err(error) => return Err(error),
        }
    }
    Err(why)
}

/// Sees that the folder of trees is there and this user's alone to write to: anybody may have put anything there.
fn check_home(home: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(OPEN_FOLDER_MODE).create(home) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(home)?;
    let ours = found.is_dir() && found.uid() == effective_user() && found.mode() & 0o022 == 0;
    if !ours {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "somebody else has taken the folder's name",
        ));
    }
    // Whatever the program's mask has taken away.
    if found.mode() & 0o777 != OPEN_FOLDER_MODE {
        fs::set_permissions(home, Permissions::from_mode(OPEN_FOLDER_MODE))?;
    }
    Ok(())
}

fn open_folder(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Whether the folder is what stands there. One that has been taken away can be locked by anybody, while another tree is put up in
/// its place: who has locked a folder looks.
fn stands_at(folder: &File, path: &Path) -> bool {
    path.to_str().is_some_and(|path| is_still_at(folder.as_fd(), path))
}

/// Opens a tree and shares its lock; `None` if whoever has it alone is taking it away.
fn lock(path: &Path) -> io::Result<Option<File>> {
    Ok(share(out_of_the_way(open_folder(path)?), path))
}

/// Shares the lock of a folder that was opened at a path; `None` if somebody takes it away, or has taken it away since.
fn share(folder: File, path: &Path) -> Option<File> {
    let shared = flock(&folder, FlockOperation::NonBlockingLockShared).is_ok();
    (shared && stands_at(&folder, path)).then_some(folder)
}

/// Locks a tree against all others; `false` if somebody has it, or it is gone.
fn lock_alone(folder: &File, path: &Path) -> bool {
    flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok() && stands_at(folder, path)
}

/// The same folder under a number that programs do not count on, where there is one.
fn out_of_the_way(folder: File) -> File {
    const HIGH: i32 = 700;
    rustix::io::fcntl_dupfd_cloexec(&folder, HIGH).map_or(folder, File::from)
}

/// Makes a tree beside its place and moves it there whole.
fn build(home: &Path, path: &Path, tree: &Tree) -> io::Result<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Another pid namespace may have the same number; then the name is taken, and the next one tried.
    let new = home.join(format!("new.{}.{count}", std::process::id()));
    DirBuilder::new().mode(OPEN_FOLDER_MODE).create(&new)?;
    // Who sweeps may have taken it away before it was locked: what is made under the name then would be nobody's.
    let taken = || io::Error::new(io::ErrorKind::ResourceBusy, "somebody took it away while it was made");
    let made = lock(&new).and_then(|folder| folder.ok_or_else(taken)).and_then(|folder| {
        fill(&new, tree)?;
        fs::rename(&new, path)?;
        Ok(folder)
    });
    if made.is_err() {
        remove(&new);
    }
    made
}

fn fill(root: &Path, tree: &Tree) -> io::Result<()> {
    for (path, node) in tree {
        let place = root.join(path.trim_start_matches('/'));
        let folder = place.parent().unwrap_or(root);
        if !folder.is_dir() {
            fs::create_dir_all(folder)?;
        }
        match node {
            Node::Link(target) => symlink(target, &place)?,
            Node::File(text) => {
                fs::write(&place, text)?;
                fs::set_permissions(&place, Permissions::from_mode(FILE_MODE))?;
            }
        }
    }
    set_folder_modes(root, FOLDER_MODE)
}

/// Gives every folder below, and this one, a mode. Links are not followed.
fn set_folder_modes(folder: &Path, mode: u32) -> io::Result<()> {
    if mode & 0o200 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(mode))?;
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            set_folder_modes(&entry.path(), mode)?;
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(mode))
}

/// Takes away the trees that nobody has, but for the one of this name, which is about to be used.
fn sweep(home: &Path, kept: &str) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name() != kept
            && let Ok(folder) = open_folder(&path)
            && lock_alone(&folder, &path)
        {
            remove(&path);
        }
    }
}

/// Takes a tree away whose lock the caller has alone, and the folder it was in if it was the last.
fn take_away(path: &Path) {
    remove(path);
    if let Some(home) = path.parent() {
        let _ = fs::remove_dir(home);
    }
}

fn remove(path: &Path) {
    let _ = set_folder_modes(path, OPEN_FOLDER_MODE);
    let _ = fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        vec![
            ("/sys/class/x/file".to_owned(), Node::File(text.to_owned())),
            ("/sys/class/x/link".to_owned(), Node::Link("file".to_owned())),
        ]
    }

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nonic-view-test.{}.{name}", std::process::id()));
            Self(path)
        }

        fn trees(&self) -> usize {
            fs::read_dir(&self.0).map_or(0, |entries| entries.count())
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            remove(&self.0);
        }
    }

    #[test]
    fn a_tree_is_put_up_once_and_taken_away_by_the_last_that_leaves() {
        let home = Home::new("last");
        let first = put_up_in(&home.0, &tree("a\n")).unwrap();
        let second = put_up_in(&home.0, &tree("a\n")).unwrap();
        assert_eq!((first.path.clone(), home.trees()), (second.path.clone(), 1));
        assert_eq!(fs::read_to_string(first.path.join("sys/class/x/link")).unwrap(), "a\n");
        let mode = |path: &str| fs::metadata(first.path.join(path)).unwrap().mode() & 0o777;
        assert_eq!(
            (mode("sys/class/x/file"), mode("sys/class"), mode("")),
            (FILE_MODE, FOLDER_MODE, FOLDER_MODE)
        );
        second.leave();
        assert!(first.is_there() && home.trees() == 1, "the first one has it");
        drop(second);
        first.leave();
        assert!(!first.is_there() && !home.0.exists(), "nothing is left");
    }

    #[test]
    fn what_the_killed_have_left_goes_when_the_next_one_comes() {
        let home = Home::new("killed");
        let killed = put_up_in(&home.0, &tree("a\n")).unwrap();
        drop(killed); // Its lock goes, its tree does not: as with a process that is killed.
        fs::create_dir(home.0.join("new.1.1")).unwrap();
        assert_eq!(home.trees(), 2);
        let next = put_up_in(&home.0, &tree("b\n")).unwrap();
        assert_eq!(home.trees(), 1);
        next.leave();
        assert!(!home.0.exists());
    }

    #[test]
    fn a_tree_that_is_swept_before_it_is_locked_is_made_anew() {
        let home = Home::new("swept");
        check_home(&home.0).unwrap();
        let new = home.0.join("new.1.1");
        fs::create_dir(&new).unwrap();
        let opened = open_folder(&new).unwrap();
        sweep(&home.0, "another");
        assert!(!new.exists());
        // What is made under the name now is not what was opened.
        fs::create_dir(&new).unwrap();
        assert!(share(opened, &new).is_none());
        assert!(lock(&new).unwrap().is_some());
        put_up_in(&home.0, &tree("a\n")).unwrap().leave();
        assert!(!home.0.exists());
    }

    #[test]
    fn who_has_opened_a_tree_that_is_gone_takes_none_away_that_is_put_up_in_its_place() {
        let home = Home::new("replaced");
        let first = put_up_in(&home.0, &tree("a\n")).unwrap();
        let opened = open_folder(&first.path).unwrap(); // As by somebody who sweeps, and is slow.
        first.leave();
        drop(first);
        let second = put_up_in(&home.0, &tree("a\n")).unwrap();
        assert!(!lock_alone(&opened, &second.path));
        assert!(second.is_there());
        second.leave();
        assert!(!home.0.exists());
    }

    #[test]
    fn who_could_not_take_the_tree_away_still_has_it() {
        let home = Home::new("stays");
        let first = put_up_in(&home.0, &tree("a\n")).unwrap();
        let second = put_up_in(&home.0, &tree("a\n")).unwrap();
        first.leave(); // Before a program that cannot be executed.
        second.leave();
        assert!(first.is_there(), "it has the lock that it had");
        drop(second);
        first.leave();
        assert!(!home.0.exists());
    }

    #[test]
    fn a_folder_that_somebody_else_could_write_to_is_not_used_and_stays_as_it_is() {
        let home = Home::new("foreign");
        fs::create_dir(&home.0).unwrap();
        fs::set_permissions(&home.0, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(put_up_in(&home.0, &tree("a\n")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!((home.trees(), fs::metadata(&home.0).unwrap().mode() & 0o777), (0, 0o777));
        fs::remove_dir(&home.0).unwrap();
        symlink("/tmp", &home.0).unwrap();
        assert!(put_up_in(&home.0, &tree("a\n")).is_err());
        fs::remove_file(&home.0).unwrap();
    }
}

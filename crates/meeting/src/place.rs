//! This process's part of the folder.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_sys::{
    Folder, LifeSign, PacketSocket, PerProcess, Seldom, at_exit, current_generation, nap, random_u64,
};

use crate::member::{FILES_MAX, Member, Namespace, SIGN, UNFINISHED_PREFIX};

/// How long what was seen counts where nothing depends on it.
const KNOWN_FOR: Duration = Duration::from_millis(20);
/// Names of a process that are looked at, at most.
const NAMES_MAX: usize = 1 << 12;
/// How often a socket is tried whose queue is full, and the pause between.
const CONNECT_TRIES: u32 = 8;
const CONNECT_PAUSE: Duration = Duration::from_micros(50);

/// A process's part of a folder in which it meets others.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    folder: Folder,
    own: Folder,
    token: u64,
    namespace: Namespace,
    generation: u32,
    _life: LifeSign,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    looked: Option<Instant>,
    members: Vec<Member>,
    by_gid: HashMap<[u8; 16], Namespace>,
}

static PLACE: PerProcess<Mutex<Option<Arc<Place>>>> = PerProcess::new();
static UNSEEN: Seldom = Seldom::new();
static TWICE: Seldom = Seldom::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place that this process has.
pub fn place() -> Option<Arc<Place>> {
    lock(PLACE.get()?).clone()
}

/// Has this process be met in a folder by these GIDs. One that is in a folder already stays there: it has one place.
pub fn join(path: &Path, gids: &[[u8; 16]]) -> io::Result<Arc<Place>> {
    let mut place = lock(PLACE.get_or_make(Mutex::default));
    if let Some(place) = &*place {
        return Ok(Arc::clone(place));
    }
    let made = Arc::new(Place::make(path, gids)?);
    at_exit(leave);
    *place = Some(Arc::clone(&made));
    Ok(made)
}

/// The process exits in order, and takes away what it has there.
extern "C" fn leave() {
    let place = PLACE.get().and_then(|place| place.try_lock().ok()?.clone());
    if let Some(place) = place {
        let _ = place.folder.remove_folder(&Member::folder(place.token), SIGN, FILES_MAX);
    }
}

impl Place {
    fn make(path: &Path, gids: &[[u8; 16]]) -> io::Result<Self> {
        let folder = Folder::open(path)?;
        // Takes away what those have left that are gone.
        Member::look(&folder)?;
        let namespace = Namespace::own()?;
        let token = random_u64();
        // Nobody looks at it before it is whole.
        let unfinished = format!("{UNFINISHED_PREFIX}{token:016x}");
        let own = folder.make(&unfinished)?;
        let made = own.show_life(SIGN, Member::sign(namespace, gids).as_bytes());
        let life = made.and_then(|life| folder.rename(&unfinished, &Member::folder(token)).map(|()| life));
        let life = life.inspect_err(|_| drop(folder.remove_folder(&unfinished, SIGN, FILES_MAX)))?;
        let (path, generation) = (path.to_owned(), current_generation());
        tracing::info!(path = %path.display(), "processes of other network namespaces are met in a folder");
        Ok(Self { path, folder, own, token, namespace, generation, _life: life, known: Mutex::default() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number by which others find this process ([`Self::connect_to_process`]).
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Makes a socket by which other namespaces find this process under a name, which only it has in its namespace, and it only once.
    pub fn listen(&self, name: &str) -> io::Result<PacketSocket> {
        match self.own.listen(name) {
            // What had it before in this process has ended.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                self.own.remove(name)?;
                self.own.listen(name)
            }
            made => made,
        }
    }

    /// Shows a name to other namespaces, behind which nobody listens, until it is taken away or this process ends.
    pub fn show(&self, name: &str) -> io::Result<()> {
        self.listen(name).map(drop)
    }

    /// Takes a name away.
    pub fn forget(&self, name: &str) {
        if self.generation == current_generation() {
            let _ = self.own.remove(name);
        }
    }

    /// The namespace, other than this process's, in which somebody is reached by a GID: as it was a moment ago.
    pub fn namespace_of(&self, gid: &[u8; 16]) -> Option<Namespace> {
        let mut known = lock(&self.known);
        if known.looked.is_none_or(|looked| looked.elapsed() >= KNOWN_FOR) {
            self.look(&mut known);
        }
        known.by_gid.get(gid).copied()
    }

    /// The same as it is now: for what stays as it is decided.
    pub fn namespace_now(&self, gid: &[u8; 16]) -> Option<Namespace> {
        let mut known = lock(&self.known);
        self.look(&mut known);
        known.by_gid.get(gid).copied()
    }

    /// What `read` makes of names that processes of other namespaces have now: who asks has seen some of them come.
    pub fn names<T>(&self, read: impl Fn(&str) -> Option<T>) -> Vec<(Namespace, T)> {
        let mut known = lock(&self.known);
        self.look(&mut known);
        let processes: Vec<_> = known.members.iter().map(|member| (member.namespace, member.token)).collect();
        drop(known);
        let mut found = Vec::new();
        for (namespace, token) in processes {
            let names = self.folder.enter(&Member::folder(token)).and_then(|there| there.names(NAMES_MAX));
            let names = names.unwrap_or_default();
            found.extend(names.iter().filter_map(|name| Some((namespace, read(name)?))));
        }
        found
    }

    /// Whether a process now has a name in the other namespace that is reached by a GID.
    pub fn has_name(&self, gid: &[u8; 16], name: &str) -> bool {
        let Some(namespace) = self.namespace_now(gid) else { return false };
        let has = |token| {
            let there = self.folder.enter(&Member::folder(token));
            there.and_then(|there| there.owner_of(name)).is_ok()
        };
        self.processes_in(namespace).into_iter().any(has)
    }

    /// The processes of a namespace, as they were last seen.
    fn processes_in(&self, namespace: Namespace) -> Vec<u64> {
        let known = lock(&self.known);
        let members = known.members.iter().filter(|member| member.namespace == namespace);
        members.map(|member| member.token).collect()
    }

    fn look(&self, known: &mut Known) {
        known.looked = Some(Instant::now());
        known.by_gid.clear();
        known.members = match Member::look(&self.folder) {
            Ok(members) => members,
            Err(error) => {
                if let Some(unsaid) = UNSEEN.turn() {
                    tracing::warn!(folder = %self.path.display(), %error, unsaid, "nobody is met in a folder that cannot be read");
                }
                Vec::new()
            }
        };
        known.members.retain(|member| member.namespace != self.namespace);
        for member in &known.members {
            for gid in &member.gids {
                let first = *known.by_gid.entry(*gid).or_insert(member.namespace);
                if first != member.namespace
                    && let Some(unsaid) = TWICE.turn()
                {
                    let gid = format!("{:032x}", u128::from_be_bytes(*gid));
                    let (folder, process, user) = (self.path.display(), member.process, member.user);
                    tracing::warn!(
                        gid, process, user, %folder, unsaid,
                        "two network namespaces say in a folder that they have the same address: that of the first is used"
                    );
                }
            }
        }
    }

    /// Connects to whoever in a namespace has a name; `ConnectionRefused` if nobody has it, `WouldBlock` if it takes no connections.
    pub fn connect(&self, namespace: Namespace, name: &str) -> io::Result<PacketSocket> {
        self.look(&mut lock(&self.known));
        let tokens = self.processes_in(namespace);
        let mut last = io::ErrorKind::ConnectionRefused.into();
        for token in tokens {
            match self.connect_to_process(token, name) {
                Ok(socket) => return Ok(socket),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Connects to a socket of the process with a token.
    pub fn connect_to_process(&self, token: u64, name: &str) -> io::Result<PacketSocket> {
        let refused = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
        let there = self.folder.enter(&Member::folder(token)).map_err(refused)?;
        for _ in 1..CONNECT_TRIES {
            match there.connect(name) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    nap(CONNECT_PAUSE);
                }
                other => return other,
            }
        }
        there.connect(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a place in it that counts as another namespace's.
    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nonic-meeting.{name}.{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        path
    }

    fn elsewhere(path: &Path, namespace: u64, gids: &[[u8; 16]]) -> Place {
        let folder = Folder::open(path).unwrap();
        let token = random_u64();
        let own = folder.make(&Member::folder(token)).unwrap();
        let life = own.show_life(SIGN, Member::sign(Namespace(namespace), gids).as_bytes()).unwrap();
        let (path, generation) = (path.to_owned(), current_generation());
        let (namespace, known) = (Namespace(namespace), Mutex::default());
        Place { path, folder, own, token, namespace, generation, _life: life, known }
    }

    const GID: [u8; 16] = [7; 16];

    #[test]
    fn who_is_elsewhere_is_found_by_a_gid_and_a_name_and_not_any_more_when_it_has_ended() {
        let path = folder("found");
        let near = Place::make(&path, &[[1; 16]]).unwrap();
        let far = elsewhere(&path, 2, &[GID]);
        let beside = elsewhere(&path, 2, &[[8; 16]]);
        assert_eq!(near.namespace_now(&GID), Some(Namespace(2)));
        assert_eq!(near.namespace_now(&[1; 16]), None, "its own namespace is found in another way");
        drop(beside.listen("name").unwrap());
        let listener = beside.listen("name").unwrap();
        let socket = near.connect(Namespace(2), "name").unwrap();
        assert!(listener.accept().is_ok());
        assert!(near.connect_to_process(beside.token(), "name").is_ok());
        for (namespace, name) in [(2, "other"), (3, "name")] {
            let refused = near.connect(Namespace(namespace), name).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        }
        drop((far, socket, listener, beside));
        // Nothing was said: as if they had been killed.
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 3);
        assert_eq!(near.namespace_now(&GID), None);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1, "what they left is taken away");
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn names_that_others_show_are_seen_until_they_are_taken_away_and_ones_own_are_not() {
        let path = folder("names");
        let near = Place::make(&path, &[]).unwrap();
        let far = elsewhere(&path, 2, &[GID]);
        let shown = || near.names(|name| name.strip_prefix("number.")?.parse::<u32>().ok());
        assert!(shown().is_empty());
        for name in ["number.1", "number.2", "number.x", "other"] {
            far.show(name).unwrap();
        }
        near.show("number.3").unwrap();
        let mut found = shown();
        found.sort_unstable();
        assert_eq!(found, [1, 2].map(|number| (Namespace(2), number)));
        assert!(
            near.has_name(&GID, "other") && !near.has_name(&[9; 16], "other") && !near.has_name(&GID, "none")
        );
        far.forget("number.1");
        assert_eq!(shown(), [(Namespace(2), 2)]);
        drop(far);
        assert_eq!(near.namespace_now(&GID), None);
        assert!(shown().is_empty() && !near.has_name(&GID, "other"));
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn rubbish_in_the_folder_is_passed_over_and_stays() {
        let path = folder("rubbish");
        let near = Place::make(&path, &[]).unwrap();
        std::fs::write(path.join("file"), "text").unwrap();
        std::fs::write(path.join(Member::folder(1)), "text").unwrap();
        std::fs::create_dir(path.join(Member::folder(2))).unwrap();
        std::fs::create_dir_all(path.join(Member::folder(3)).join(SIGN)).unwrap();
        std::os::unix::fs::symlink("/", path.join(Member::folder(4))).unwrap();
        let _nonsense = {
            let folder = Folder::open(&path).unwrap();
            folder.make(&Member::folder(5)).unwrap().show_life(SIGN, b"\xff").unwrap()
        };
        let far = elsewhere(&path, 2, &[GID]);
        assert_eq!(near.namespace_now(&GID), Some(Namespace(2)));
        assert_eq!(near.connect_to_process(4, "tmp").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 8);
        drop(far);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn who_crowds_the_folder_hides_nobody_but_itself() {
        let path = folder("crowd");
        let near = Place::make(&path, &[]).unwrap();
        let before = elsewhere(&path, 2, &[GID]);
        // Only root can have somebody else's here.
        let is_root = nonic_sys::effective_user() == 0;
        std::fs::write(path.join("file"), "").unwrap();
        for number in 0..8000 {
            std::fs::hard_link(path.join("file"), path.join(format!("link{number}"))).unwrap();
        }
        for number in 0..if is_root { 600 } else { 0 } {
            let stranger = path.join(Member::folder(number));
            std::fs::create_dir(&stranger).unwrap();
            std::os::unix::fs::chown(stranger, Some(65_533), None).unwrap();
        }
        let after = elsewhere(&path, 3, &[[9; 16]]);
        assert_eq!(near.namespace_now(&GID), Some(Namespace(2)));
        assert_eq!(near.namespace_now(&[9; 16]), Some(Namespace(3)));
        drop((before, after));
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn what_is_not_from_here_stays_although_its_folder_has_the_name_of_one_that_was_left_behind() {
        let path = folder("renamed");
        // Of this user's, and given these names by whoever may change the folder.
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        let left: Vec<_> =
            [format!("{UNFINISHED_PREFIX}0"), Member::folder(1)].map(|name| path.join(name)).into();
        for folder in &left {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("work"), "of years").unwrap();
            std::fs::write(folder.join(SIGN), "").unwrap();
            std::fs::File::open(folder).unwrap().set_modified(long_ago).unwrap();
        }
        let place = Place::make(&path, &[]).unwrap();
        for folder in &left {
            assert_eq!(std::fs::read(folder.join("work")).unwrap(), b"of years");
            assert!(!folder.join(SIGN).exists(), "what it looked at");
        }
        drop(place);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_an_error_that_leaves_nothing() {
        let path = folder("closed");
        assert!(Place::make(&path.join("nothing"), &[]).is_err());
        std::fs::write(path.join("file"), "").unwrap();
        assert!(Place::make(&path.join("file"), &[]).is_err());
        std::fs::remove_dir_all(path).unwrap();
    }
}

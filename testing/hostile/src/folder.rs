//! Lies in the folder in which processes of different network namespaces meet: there anybody may put anything who gets in.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::PathBuf;

use nonic_sys::{Folder, Life, LifeSign, PacketSocket, Received, host_number};
use nonic_transport::met_block_name;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::campaign::{Kept, Liar, Record, spoil};
use crate::chance::Chance;
use crate::wire::{HELLO, WELCOME, introduction, message};

/// A GID that the liars say to have, and nobody else.
pub const FALSE_GID: [u8; 16] = *b"\xfd\x00nobody's gid..";
/// The block of queue-pair numbers of which they have sockets.
pub const FALSE_BLOCK: u32 = 0x123;

/// How the name of a process's folder begins, and that of one which is not finished.
const PREFIX: &str = "nonic-meet.1.";
const UNFINISHED: &str = ".nonic-meet.";
const SIGN: &str = "life";
/// Names that are made at once.
const CROWD: usize = 40;
/// Of the sockets of somebody else's so many names are taken on.
const NAMES: usize = 16;

/// One way to be a nuisance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Is a process like any other, in a namespace of its own.
    Member,
    /// Says that it is where somebody else is, and has the GIDs and sockets of that.
    Impostor,
    /// Is one that has ended.
    Dead,
    /// Has a life sign that makes no sense, or is none.
    OddSign,
    /// Has a name like a process's on something else, or one that is no number.
    OddName,
    /// Leaves folders that are not finished.
    Unfinished,
    /// Comes many times at once.
    Crowd,
    /// Shuts a folder that has been looked at, or opens it again.
    Shutting,
    /// Changes what is somebody else's: names, signs, sockets.
    Taking,
    /// Takes those who connect, and is silent, leaves, or says anything.
    Accepting,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Member,
        Self::Impostor,
        Self::Dead,
        Self::OddSign,
        Self::OddName,
        Self::Unfinished,
        Self::Crowd,
        Self::Shutting,
        Self::Taking,
        Self::Accepting,
    ];
}

/// Something with a name in the folder.
#[derive(Debug)]
struct Presence {
    path: PathBuf,
    _sign: Option<LifeSign>,
    sockets: Vec<PacketSocket>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.path, Permissions::from_mode(0o755));
        let _ = fs::remove_dir_all(&self.path).or_else(|_| fs::remove_file(&self.path));
    }
}

/// Lies to all who meet in a folder.
#[derive(Debug)]
pub struct Hostile {
    path: PathBuf,
    chance: Chance,
    kept: Kept<Presence>,
    /// Connections that were taken.
    taken: Kept<PacketSocket>,
    record: Record<Action>,
}

impl Liar for Hostile {
    type Action = Action;

    fn act(&mut self, action: Action) {
        let outcome = match action {
            Action::Member => self.be_a_member(),
            Action::Impostor => self.be_an_impostor(),
            Action::Dead => self.be_dead(),
            Action::OddSign => self.show_oddly(),
            Action::OddName => self.be_named_oddly(),
            Action::Unfinished => self.leave_unfinished(),
            Action::Crowd => (0..CROWD).try_for_each(|_| self.be_a_member()),
            Action::Shutting => self.shut(),
            Action::Taking => self.take_what_is_others(),
            Action::Accepting => self.accept(),
        };
        self.record.note(action, &outcome);
    }

    fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    fn connections(&mut self) -> usize {
        self.taken.left(PacketSocket::is_hung_up)
    }

    fn report(&self) -> Vec<String> {
        self.record.lines().collect()
    }
}

impl Hostile {
    /// One in this folder.
    pub fn new(path: PathBuf, seed: u64) -> Self {
        let (chance, record) = (Chance::new(seed), Record::default());
        Self { path, chance, kept: Kept::new(), taken: Kept::new(), record }
    }

    /// Names it has.
    pub fn names(&self) -> usize {
        self.kept.0.len()
    }

    fn new_name(&mut self, prefix: &str) -> String {
        format!("{prefix}{:016x}", self.chance.number())
    }

    fn keep(&mut self, path: PathBuf, sign: Option<LifeSign>, sockets: Vec<PacketSocket>) {
        self.kept.keep(Presence { path, _sign: sign, sockets }, &mut self.chance);
    }

    /// Somebody else's folder, by its name.
    fn other(&mut self) -> io::Result<String> {
        let (folder, own) = (Folder::open(&self.path)?, nonic_sys::effective_user());
        let names = folder.names(usize::MAX)?;
        let others: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| name.starts_with(PREFIX) && folder.owner_of(name).is_ok_and(|user| user != own))
            .collect();
        if others.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(self.chance.one_of(&others).into())
        }
    }

    /// Makes a folder with a life sign in it, and sockets of these names.
    fn appear(&mut self, sign: &str, names: &[String]) -> io::Result<()> {
        let name = self.new_name(PREFIX);
        let inner = Folder::open(&self.path)?.make(&name)?;
        let life = inner.show_life(SIGN, sign.as_bytes())?;
        let sockets = names.iter().filter_map(|name| inner.listen(name).ok()).collect();
        self.keep(self.path.join(name), Some(life), sockets);
        Ok(())
    }

    fn be_a_member(&mut self) -> io::Result<()> {
        let gid = if self.chance.below(2) == 0 { FALSE_GID } else { [self.chance.number() as u8; 16] };
        let namespace = self.chance.number();
        self.appear(&sign(namespace, &[gid]), &[met_block_name(FALSE_BLOCK)])
    }

    fn be_an_impostor(&mut self) -> io::Result<()> {
        let other = self.other()?;
        let other = Folder::open(&self.path)?.enter(&other)?;
        // It may be another liar's.
        let Life::Of { bytes, .. } = other.life(SIGN, 1 << 12)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        // Beside its own namespace, or with an address of its own.
        match self.chance.below(3) {
            0 => text = text.replace("namespace ", "namespace 1"),
            1 => text += &format!("gid {:032x}\n", u128::from_be_bytes(FALSE_GID)),
            _ => {}
        }
        let names = other.names(NAMES)?;
        self.appear(&text, &names)
    }

    fn be_dead(&mut self) -> io::Result<()> {
        let name = self.new_name(PREFIX);
        let inner = Folder::open(&self.path)?.make(&name)?;
        drop(inner.show_life(SIGN, sign(1, &[FALSE_GID]).as_bytes())?);
        self.keep(self.path.join(name), None, vec![inner.listen(&met_block_name(FALSE_BLOCK))?]);
        Ok(())
    }

    fn show_oddly(&mut self) -> io::Result<()> {
        let name = self.new_name(PREFIX);
        let inner = Folder::open(&self.path)?.make(&name)?;
        let (path, mode) = (self.path.join(&name), Mode::from_raw_mode(0o666));
        let life = path.join(SIGN);
        let mut held = None;
        match self.chance.below(8) {
            0 => {
                let long = "gid 00000000000000000000000000000001\n".repeat(1 << 12);
                held = Some(inner.show_life(SIGN, (sign(2, &[FALSE_GID]) + &long).as_bytes())?);
            }
            1 => {
                let bytes: Vec<u8> =
                    (0..self.chance.below(4096)).map(|_| self.chance.number() as u8).collect();
                held = Some(inner.show_life(SIGN, &bytes)?);
            }
            2 => {
                let mut text = sign(self.chance.number(), &[FALSE_GID]).into_bytes();
                spoil(&mut text, &mut self.chance);
                held = Some(inner.show_life(SIGN, &text)?);
            }
            // Whoever opened it without care would wait for ever.
            3 => mknodat(CWD, &life, FileType::Fifo, mode, 0)?,
            4 => drop(inner.listen(SIGN)?),
            5 => fs::create_dir(&life)?,
            6 => symlink(self.chance.one_of(&["/dev/zero", "/dev/tty", "life", "/proc/self/mem"]), &life)?,
            _ => {
                // More than anybody reads, and nothing on the disk.
                held = Some(inner.show_life(SIGN, b"")?);
                File::options().write(true).open(&life)?.set_len(1 << 40)?;
            }
        }
        self.keep(path, held, Vec::new());
        Ok(())
    }

    fn be_named_oddly(&mut self) -> io::Result<()> {
        let odd =
            self.chance.one_of(&["", "zz", "-1", "00000000000000000000000000000000ffff", "\u{fc}\n", ".."]);
        let name = format!("{PREFIX}{odd}{:x}", self.chance.number());
        let path = self.path.join(&name);
        match self.chance.below(4) {
            0 => fs::create_dir(&path)?,
            1 => fs::write(&path, b"no folder")?,
            2 => mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0)?,
            _ => symlink(self.other()?, &path)?,
        }
        self.keep(path, None, Vec::new());
        Ok(())
    }

    fn leave_unfinished(&mut self) -> io::Result<()> {
        let name = self.new_name(UNFINISHED);
        let inner = Folder::open(&self.path)?.make(&name)?;
        let sign = inner.show_life(SIGN, b"host")?;
        self.keep(self.path.join(name), Some(sign), Vec::new());
        Ok(())
    }

    fn shut(&mut self) -> io::Result<()> {
        let one = self.kept.take(&mut self.chance).ok_or(io::ErrorKind::NotFound)?;
        let mode = self.chance.one_of(&[0o000, 0o111, 0o444, 0o755]);
        let done = fs::set_permissions(&one.path, Permissions::from_mode(mode));
        self.kept.keep(one, &mut self.chance);
        done
    }

    /// Nothing of it may succeed where only the owner may change a name in the folder.
    fn take_what_is_others(&mut self) -> io::Result<()> {
        let other = self.other()?;
        let path = self.path.join(&other);
        let new = self.new_name(PREFIX);
        match self.chance.below(5) {
            0 => fs::rename(&path, self.path.join(new)),
            1 => fs::remove_file(path.join(SIGN)),
            2 => {
                // It may be a pipe of another liar's.
                let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
                let file =
                    File::options().write(true).custom_flags(flags.bits() as i32).open(path.join(SIGN));
                file?.write_all(b"nonsense")
            }
            3 => Folder::open(&path)?.listen(&met_block_name(FALSE_BLOCK)).map(drop),
            _ => {
                // Its sign in a folder of the liar's, by another name of the same file.
                let own = self.path.join(new);
                fs::create_dir(&own)?;
                let done = fs::hard_link(path.join(SIGN), own.join(SIGN));
                self.keep(own, None, Vec::new());
                done
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let sockets = self.kept.0.iter().flat_map(|one| &one.sockets);
        let taken: Vec<_> = sockets.filter_map(|socket| socket.accept().ok()).collect();
        for socket in taken {
            let mut bytes = [0; 1024];
            match self.chance.below(4) {
                0 => {}
                1 => continue,
                2 => {
                    let kind = self.chance.one_of(&[HELLO, WELCOME]);
                    let _ =
                        socket.send(&message(kind, &introduction(self.chance.number(), &[FALSE_BLOCK])), &[]);
                }
                _ => {
                    if let Received::Message(length, _) = socket.receive(&mut bytes) {
                        let _ = socket.send(&bytes[..length], &[]);
                    }
                }
            }
            self.taken.keep(socket, &mut self.chance);
        }
        Ok(())
    }
}

/// A life sign as a process writes it.
fn sign(namespace: u64, gids: &[[u8; 16]]) -> String {
    let mut text =
        format!("host {:016x}\nnamespace {namespace:016x}\nprocess {}\n", host_number(), std::process::id());
    for gid in gids {
        text += &format!("gid {:032x}\n", u128::from_be_bytes(*gid));
    }
    text
}

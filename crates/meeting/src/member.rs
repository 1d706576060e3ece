//! What a process says of itself in the folder.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

use nonic_sys::{Folder, Life, effective_user, host_number, namespace_number, stable_number};

/// Names that are looked at in a folder, at most.
const NAMES_MAX: usize = 1 << 16;
/// Of these, processes of one other user, and of all other users, at most: those of the own are all looked at.
const OF_A_USER_MAX: usize = 128;
const OF_OTHERS_MAX: usize = 512;
/// Files that a process has there, at most, as far as others take them away.
pub(crate) const FILES_MAX: usize = 1 << 16;
/// Bytes of a life sign that are read, at most.
const SIGN_MAX: usize = 16 << 10;
/// Addresses of a process, at most.
const GIDS_MAX: usize = 256;
/// After so many seconds what was never finished counts as left behind.
const UNFINISHED: u64 = 60;

/// How the name of a process's folder begins, with the version of what is in it; a number of 64 bits follows.
pub(crate) const PREFIX: &str = "nonic-meet.1.";
/// The same as long as it is being made.
pub(crate) const UNFINISHED_PREFIX: &str = ".nonic-meet.";
/// The life sign.
pub(crate) const SIGN: &str = "life";

/// A network namespace, as processes of one host name it to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(pub u64);

impl Namespace {
    /// That of this process.
    pub fn own() -> io::Result<Self> {
        // The host's, too: the folder may be one of several hosts.
        let (host, number) = (host_number(), namespace_number("net")?);
        Ok(Self(stable_number(&format!("namespace {host:016x} {number}"))))
    }
}

/// A process that can be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The number in the name of its folder.
    pub token: u64,
    /// The user whose its life sign is.
    pub user: u32,
    /// Its number where it lives, as it says.
    pub process: u32,
    /// Its network namespace, as it says.
    pub namespace: Namespace,
    /// The GIDs by which it is reached, as it says.
    pub gids: Vec<[u8; 16]>,
}

impl Member {
    /// The name of its folder.
    pub(crate) fn folder(token: u64) -> String {
        format!("{PREFIX}{token:016x}")
    }

    /// What its life sign says.
    pub(crate) fn sign(namespace: Namespace, gids: &[[u8; 16]]) -> String {
        let mut text = format!(
            "host {:016x}\nnamespace {:016x}\nprocess {}\n",
            host_number(),
            namespace.0,
            std::process::id()
        );
        for gid in gids.iter().take(GIDS_MAX) {
            let _ = writeln!(text, "gid {:032x}", u128::from_be_bytes(*gid));
        }
        text
    }

    /// From what a life sign says; `None` if that makes no sense, or the process is on another host.
    fn read(token: u64, user: u32, text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = |word: &str| lines.next()?.strip_prefix(word)?.strip_prefix(' ');
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        if number(next("host")?)? != host_number() {
            return None;
        }
        let namespace = Namespace(number(next("namespace")?)?);
        let process = next("process")?.parse().ok()?;
        let gid = |line: &str| u128::from_str_radix(line.strip_prefix("gid ")?, 16).ok();
        let gids = lines.take(GIDS_MAX).map_while(gid).map(u128::to_be_bytes).collect();
        Some(Self { token, user, process, namespace, gids })
    }

    /// What in a folder has a name like a process's folder. Whoever else may write there can give as many as they like, and by that
    /// hide others like themselves only.
    fn names(folder: &Folder) -> io::Result<Vec<String>> {
        let own = effective_user();
        let mut of_users = HashMap::<u32, usize>::new();
        let mut of_others = 0;
        let mut names = folder.names(NAMES_MAX)?;
        names.retain(|name| {
            if !name.starts_with(PREFIX) && !name.starts_with(UNFINISHED_PREFIX) {
                return false;
            }
            let Ok(user) = folder.owner_of(name) else { return false };
            if user == own {
                return true;
            }
            let of_user = of_users.entry(user).or_default();
            let counts = *of_user < OF_A_USER_MAX && of_others < OF_OTHERS_MAX;
            *of_user += usize::from(counts);
            of_others += usize::from(counts);
            counts
        });
        Ok(names)
    }

    /// Looks at all in a folder. What those of this user have left that do not live any more is taken away.
    pub(crate) fn look(folder: &Folder) -> io::Result<Vec<Self>> {
        let own = effective_user();
        let mut found = Vec::new();
        for name in Self::names(folder)? {
            if name.starts_with(UNFINISHED_PREFIX) {
                let facts = folder.enter(&name).and_then(|inner| inner.facts());
                if facts.is_ok_and(|(user, age)| user == own && age > UNFINISHED) {
                    let _ = folder.remove_folder(&name, SIGN, FILES_MAX);
                }
                continue;
            }
            let token = name.strip_prefix(PREFIX).and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let Some(token) = token else { continue };
            let Ok(inner) = folder.enter(&name) else { continue };
            // A sign that is somebody else's was put there by a link.
            let Ok((whose, _)) = inner.facts() else { continue };
            match inner.life(SIGN, SIGN_MAX) {
                Ok(Life::Of { user, .. } | Life::Ended { user }) if user != whose => {}
                Ok(Life::Of { user, bytes }) => {
                    found.extend(
                        std::str::from_utf8(&bytes).ok().and_then(|text| Self::read(token, user, text)),
                    );
                }
                Ok(Life::Ended { user }) if user == own => {
                    tracing::debug!(name, "what a process has left that is gone is taken away");
                    let _ = folder.remove_folder(&name, SIGN, FILES_MAX);
                }
                Ok(Life::Ended { .. }) | Err(_) => {}
            }
        }
        // What is said by this user counts before what others say; otherwise it is the same each time.
        found.sort_by_key(|member| (member.user != own, member.token));
        Ok(found)
    }
}

/// Everybody who can be met in a folder.
pub fn members(path: &Path) -> io::Result<Vec<Member>> {
    Member::look(&Folder::open(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_sign_is_read_as_it_was_written_and_nonsense_is_nobodys() {
        let gids = [[0xfe; 16], [7; 16]];
        let text = Member::sign(Namespace(0x1234), &gids);
        let member = Member::read(5, 6, &text).unwrap();
        let expected = Member {
            token: 5,
            user: 6,
            process: std::process::id(),
            namespace: Namespace(0x1234),
            gids: gids.into(),
        };
        assert_eq!(member, expected);
        let elsewhere = text.replacen("host ", "host f", 1);
        for nonsense in ["", "host\n", "namespace 1", &text[..30], &elsewhere] {
            assert_eq!(Member::read(5, 6, nonsense), None, "{nonsense}");
        }
        assert_eq!(Member::read(5, 6, &format!("{text}other words")).unwrap().gids, gids);
    }
}

//! What somebody changes of a device from outside, in words: what `nonic ctl` says to a process, what a file of `NONIC_FAULTS` is made
//! of, and what is shown of it afterwards.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A change of the port of a device, or of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The port works no more.
    PortDown,
    /// It works again.
    PortUp,
    /// An address in the first entry of the GID table that is empty.
    GidAdd([u8; 16]),
    /// An address in this entry, in the place of what was there.
    GidSet(u32, [u8; 16]),
    /// The entry is empty from now on.
    GidRemove(u32),
    /// Another local identifier, 1 to 0xbfff.
    Lid(u16),
    /// Another key in this entry of the P_Key table.
    PkeySet(u16, u16),
    /// The entry holds no key from now on.
    PkeyRemove(u16),
    /// The subnet manager asks everybody to register again.
    ClientReregister,
    /// Another subnet manager, with this local identifier if that is another one, too.
    SubnetManager(Option<u16>),
    /// The device fails for good, and is there anew.
    Fatal,
}

/// Why words are no change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChange {
    /// The words as a whole.
    #[error("\"{0}\" is no change of a device: {CHANGES}")]
    Words(String),
    /// A number.
    #[error("\"{word}\" is not {what}")]
    Number {
        /// The word that stands for it.
        word: String,
        /// What it should have been.
        what: &'static str,
    },
}

/// All there are.
pub const CHANGES: &str = "port down, port up, gid add ADDRESS, gid set INDEX ADDRESS, gid remove INDEX, lid LID, \
                           pkey set INDEX KEY, pkey remove INDEX, client-reregister, sm-change [LID], fatal";

/// The last local identifier of a port; those above are of groups (IBTA vol. 1, 4.1.3).
const UNICAST_LID_MAX: u16 = 0xbfff;

fn number<T: TryFrom<u64>>(word: &str, what: &'static str) -> Result<T, NoChange> {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    let value = parsed.ok().and_then(|value| value.try_into().ok());
    value.ok_or_else(|| NoChange::Number { word: word.to_owned(), what })
}

fn lid(word: &str) -> Result<u16, NoChange> {
    const WHAT: &str = "a local identifier, 1 to 0xbfff";
    let fits = |lid: &u16| (1..=UNICAST_LID_MAX).contains(lid);
    let lid = number(word, WHAT)?;
    Some(lid).filter(fits).ok_or_else(|| NoChange::Number { word: word.to_owned(), what: WHAT })
}

/// A GID is written as an IPv6 address; an IPv4 address stands for the one that it is mapped to.
fn gid(word: &str) -> Result<[u8; 16], NoChange> {
    let gid = match word.parse() {
        Ok(IpAddr::V4(four)) => four.to_ipv6_mapped(),
        Ok(IpAddr::V6(six)) => six,
        Err(_) => Ipv6Addr::UNSPECIFIED,
    };
    if gid.is_unspecified() || gid.octets()[0] == 0xff {
        return Err(NoChange::Number { word: word.to_owned(), what: "the address of a port" });
    }
    Ok(gid.octets())
}

/// A key's number in its partition: an entry that has 0 there is empty (IBTA vol. 1, 10.9.2).
fn key(word: &str) -> Result<u16, NoChange> {
    const WHAT: &str = "a partition key, 1 to 0xffff and not 0x8000";
    let key: u16 = number(word, WHAT)?;
    if key & 0x7fff == 0 {
        return Err(NoChange::Number { word: word.to_owned(), what: WHAT });
    }
    Ok(key)
}

impl FromStr for Change {
    type Err = NoChange;

    fn from_str(text: &str) -> Result<Self, NoChange> {
        const INDEX: &str = "the index of an entry";
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        Ok(match words[..] {
            ["port", "down"] => Self::PortDown,
            ["port", "up"] => Self::PortUp,
            ["gid", "add", address] => Self::GidAdd(gid(address)?),
            ["gid", "set", index, address] => Self::GidSet(number(index, INDEX)?, gid(address)?),
            ["gid", "remove", index] => Self::GidRemove(number(index, INDEX)?),
            ["lid", word] => Self::Lid(lid(word)?),
            ["pkey", "set", index, word] => Self::PkeySet(number(index, INDEX)?, key(word)?),
            ["pkey", "remove", index] => Self::PkeyRemove(number(index, INDEX)?),
            ["client-reregister"] => Self::ClientReregister,
            ["sm-change"] => Self::SubnetManager(None),
            ["sm-change", word] => Self::SubnetManager(Some(lid(word)?)),
            ["fatal"] => Self::Fatal,
            _ => return Err(NoChange::Words(text.escape_debug().to_string())),
        })
    }
}

impl fmt::Display for Change {
    /// The words that it is read from.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PortDown => formatter.write_str("port down"),
            Self::PortUp => formatter.write_str("port up"),
            Self::GidAdd(gid) => write!(formatter, "gid add {}", Ipv6Addr::from(gid)),
            Self::GidSet(index, gid) => write!(formatter, "gid set {index} {}", Ipv6Addr::from(gid)),
            Self::GidRemove(index) => write!(formatter, "gid remove {index}"),
            Self::Lid(lid) => write!(formatter, "lid {lid:#x}"),
            Self::PkeySet(index, key) => write!(formatter, "pkey set {index} {key:#x}"),
            Self::PkeyRemove(index) => write!(formatter, "pkey remove {index}"),
            Self::ClientReregister => formatter.write_str("client-reregister"),
            Self::SubnetManager(None) => formatter.write_str("sm-change"),
            Self::SubnetManager(Some(lid)) => write!(formatter, "sm-change {lid:#x}"),
            Self::Fatal => formatter.write_str("fatal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_from_the_words_that_it_is_shown_by() {
        for words in [
            "port down",
            "port up",
            "gid add fe80::5",
            "gid set 63 ::ffff:10.0.0.9",
            "gid remove 0",
            "lid 0xbfff",
            "pkey set 0 0x8001",
            "pkey remove 0",
            "client-reregister",
            "sm-change",
            "sm-change 0x7",
            "fatal",
        ] {
            assert_eq!(words.parse::<Change>().unwrap().to_string(), words);
        }
        let mapped = "  gid   set 1  10.0.0.9 ".parse::<Change>().unwrap();
        assert_eq!(mapped.to_string(), "gid set 1 ::ffff:10.0.0.9");
    }

    #[test]
    fn words_that_are_no_change_are_refused_with_the_word_that_is_wrong() {
        for (words, wrong) in [
            ("", "\"\""),
            ("port", "\"port\""),
            ("port sideways", "\"port sideways\""),
            ("gid set one ::1", "\"one\""),
            ("gid set -1 ::1", "\"-1\""),
            ("gid add here", "\"here\""),
            ("gid add ::", "\"::\""),
            ("gid add ff02::1", "\"ff02::1\""),
            ("lid 0", "\"0\""),
            ("lid 0xc000", "\"0xc000\""),
            ("lid 65537", "\"65537\""),
            ("pkey set 0 0", "\"0\""),
            ("pkey set 0 0x8000", "\"0x8000\""),
            ("pkey set 65536 1", "\"65536\""),
            ("fatal now", "\"fatal now\""),
        ] {
            let error = words.parse::<Change>().unwrap_err().to_string();
            assert!(error.starts_with(wrong), "{words}: {error}");
        }
    }
}

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
    /// So much of what goes to other hosts and comes from them is lost.
    Loss(Loss),
    /// The device fails for good, and is there anew.
    Fatal,
}

/// Packets that are lost, of a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss(u32);

/// Packets in a million that are one of a hundred.
const PERCENT: u32 = 10_000;

impl Loss {
    /// 0 to 1,000,000.
    pub fn per_million(self) -> u32 {
        self.0
    }
}

impl FromStr for Loss {
    type Err = NoChange;

    /// A percentage: up to four digits behind the point, and a percent sign that may be left out.
    fn from_str(word: &str) -> Result<Self, NoChange> {
        let wrong = || NoChange::Number {
            word: word.to_owned(),
            what: "a percentage of packets, 0 to 100, with at most four digits behind the point",
        };
        let bare = word.strip_suffix('%').unwrap_or(word);
        let (whole, part) = bare.split_once('.').unwrap_or((bare, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(part) || part.len() > 4 {
            return Err(wrong());
        }
        let part: u32 = format!("{part:0<4}").parse().map_err(|_| wrong())?;
        let all = whole.parse().ok().and_then(|whole: u32| whole.checked_mul(PERCENT)?.checked_add(part));
        all.filter(|all| *all <= 100 * PERCENT).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}%", f64::from(self.0) / f64::from(PERCENT))
    }
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
                           pkey set INDEX KEY, pkey remove INDEX, client-reregister, sm-change [LID], loss PERCENT, fatal";

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
            ["loss", word] => Self::Loss(word.parse()?),
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
            Self::Loss(loss) => write!(formatter, "loss {loss}"),
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
            "loss 1%",
            "loss 0.0001%",
            "loss 12.5%",
            "loss 100%",
            "loss 0%",
            "fatal",
        ] {
            assert_eq!(words.parse::<Change>().unwrap().to_string(), words);
        }
        let mapped = "  gid   set 1  10.0.0.9 ".parse::<Change>().unwrap();
        assert_eq!(mapped.to_string(), "gid set 1 ::ffff:10.0.0.9");
        assert_eq!("loss 0.50".parse::<Change>().unwrap().to_string(), "loss 0.5%");
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
            ("loss", "\"loss\""),
            ("loss %", "\"%\""),
            ("loss 100.0001%", "\"100.0001%\""),
            ("loss 0.00001", "\"0.00001\""),
            ("loss -1", "\"-1\""),
            ("loss .5", "\".5\""),
            ("loss 1%%", "\"1%%\""),
        ] {
            let error = words.parse::<Change>().unwrap_err().to_string();
            assert!(error.starts_with(wrong), "{words}: {error}");
        }
    }
}

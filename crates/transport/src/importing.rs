//! How a process is asked what it made, by another that uses that as its own: the question goes the way of [`crate::Asked`], and the
//! answer says by which names of the owner's the other finds it. That it may is for the two to prove to each other, as always.

use std::fmt;
use std::str::FromStr;

use nonic_memory::{Access, Key, ZoneId};

use crate::change::NoChange;
use crate::reach::NamedMemory;

/// What another process would use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The open device itself.
    Device,
    /// The zone that the program knows by this handle.
    Zone(u32),
    /// The region.
    Region(u32),
    /// The device memory.
    DeviceMemory(u32),
}

impl fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => formatter.write_str("device"),
            Self::Zone(handle) => write!(formatter, "zone {handle}"),
            Self::Region(handle) => write!(formatter, "region {handle}"),
            Self::DeviceMemory(handle) => write!(formatter, "memory {handle}"),
        }
    }
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// There is no such thing (any more).
    Nothing,
    /// It is of a kind that nobody else can use.
    Unfit,
    /// The device.
    Device {
        /// Its number.
        index: u32,
        /// A number of queue pairs by which its process is found.
        number: u32,
    },
    /// A zone, by the owner's number.
    Zone(u32),
    /// A region, or device memory.
    Memory {
        /// The owner's names for it.
        memory: NamedMemory,
        /// The first address as the owner's requests have it.
        base: u64,
        /// Length in bytes.
        length: u64,
        /// Its rights.
        access: Access,
    },
}

impl fmt::Display for Granted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Nothing => formatter.write_str("nothing"),
            Self::Unfit => formatter.write_str("unfit"),
            Self::Device { index, number } => write!(formatter, "device {index} {number}"),
            Self::Zone(zone) => write!(formatter, "zone {zone}"),
            Self::Memory { memory: NamedMemory { zone, key }, base, length, access } => {
                write!(formatter, "memory {} {} {base} {length} {}", zone.0, key.0, access.bits())
            }
        }
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, NoChange> {
    word.parse().map_err(|_| NoChange::Number { word: word.escape_debug().to_string(), what: "a number" })
}

impl FromStr for Wanted {
    type Err = NoChange;

    fn from_str(text: &str) -> Result<Self, NoChange> {
        let words: Vec<_> = text.split(' ').collect();
        Ok(match words[..] {
            ["device"] => Self::Device,
            ["zone", handle] => Self::Zone(number(handle)?),
            ["region", handle] => Self::Region(number(handle)?),
            ["memory", handle] => Self::DeviceMemory(number(handle)?),
            _ => return Err(NoChange::Words(text.escape_debug().to_string())),
        })
    }
}

impl FromStr for Granted {
    type Err = NoChange;

    /// Whatever the other process says: a length that goes round the end of all addresses is none.
    fn from_str(text: &str) -> Result<Self, NoChange> {
        let wrong = || NoChange::Words(text.escape_debug().to_string());
        let words: Vec<_> = text.split(' ').collect();
        Ok(match words[..] {
            ["nothing"] => Self::Nothing,
            ["unfit"] => Self::Unfit,
            ["device", index, meeting] => Self::Device { index: number(index)?, number: number(meeting)? },
            ["zone", zone] => Self::Zone(number(zone)?),
            ["memory", zone, key, base, length, access] => {
                let memory = NamedMemory { zone: ZoneId(number(zone)?), key: Key(number(key)?) };
                let (base, length): (u64, u64) = (number(base)?, number(length)?);
                let access = Access::from_bits(number(access)?).ok_or_else(wrong)?;
                if base.checked_add(length.saturating_sub(1)).is_none() {
                    return Err(wrong());
                }
                Self::Memory { memory, base, length, access }
            }
            _ => return Err(wrong()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_and_granted_is_read_from_what_is_said() {
        for wanted in [Wanted::Device, Wanted::Zone(1), Wanted::Region(u32::MAX), Wanted::DeviceMemory(7)] {
            assert_eq!(wanted.to_string().parse(), Ok(wanted));
        }
        let memory = NamedMemory { zone: ZoneId(5), key: Key(0x80_0001) };
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        for granted in [
            Granted::Nothing,
            Granted::Unfit,
            Granted::Device { index: 3, number: 0xff_f000 },
            Granted::Zone(9),
            Granted::Memory { memory, base: u64::MAX - 9, length: 10, access },
            Granted::Memory { memory, base: 0, length: 0, access: Access::LOCAL_READ },
        ] {
            assert_eq!(granted.to_string().parse(), Ok(granted));
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for nonsense in ["", "zone", "zone x", "zone 1 2", "region -1", "memory 4294967296", "devices"] {
            assert!(nonsense.parse::<Wanted>().is_err(), "{nonsense}");
        }
        for nonsense in [
            "",
            "device 1",
            "zone 99999999999",
            "memory 1 2 3 4",
            "memory 1 2 3 4 128",
            "memory 1 2 18446744073709551615 2 1",
            "nothing at all",
        ] {
            assert!(nonsense.parse::<Granted>().is_err(), "{nonsense}");
        }
    }
}

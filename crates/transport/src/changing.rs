//! How a process is asked to change its device, or what it made on it: over a socket whose name is in its segment, which its user and root can read. The name is
//! drawn by chance, and both sides look at who is at the other end: whoever else finds it is hung up on.
//!
//! One message asks and one answers; both are words.

use std::fmt;
use std::io;
use std::str::FromStr;

use nonic_sys::{PacketSocket, listen_abstract};

use crate::change::{Change, NoChange};
use crate::importing::Wanted;
use crate::layout::VERSION;

/// Bytes of a question, and of an answer, at most.
pub const CHANGING_MESSAGE_MAX: usize = 4096;

/// The name of the socket.
fn name(token: u64) -> String {
    format!("nonic.{VERSION}/ctl/{token:016x}")
}

/// Listens where changes are asked for.
pub fn listen_for_changes(token: u64) -> io::Result<PacketSocket> {
    let socket = listen_abstract(&name(token))?;
    socket.refuse_descriptors();
    Ok(socket)
}

/// Connects to the process whose segment names this token.
pub fn connect_to_change(token: u64) -> io::Result<PacketSocket> {
    PacketSocket::connect_abstract(&name(token))
}

/// What a process is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To change a device of this name, or all that it has.
    Change(Option<String>, Change),
    /// What was changed, and by whom.
    History,
    /// What something is that was made on the open device of this number.
    Import(u64, Wanted),
}

impl fmt::Display for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(device, change) => {
                write!(formatter, "change {} {change}", device.as_deref().unwrap_or("*"))
            }
            Self::History => formatter.write_str("history"),
            Self::Import(context, wanted) => write!(formatter, "import {context} {wanted}"),
        }
    }
}

impl FromStr for Asked {
    type Err = NoChange;

    fn from_str(text: &str) -> Result<Self, NoChange> {
        if text == "history" {
            return Ok(Self::History);
        }
        let wrong = || NoChange::Words(text.escape_debug().to_string());
        if let Some(rest) = text.strip_prefix("import ") {
            let (context, wanted) = rest.split_once(' ').ok_or_else(wrong)?;
            return Ok(Self::Import(context.parse().map_err(|_| wrong())?, wanted.parse()?));
        }
        let (device, change) =
            text.strip_prefix("change ").and_then(|rest| rest.split_once(' ')).ok_or_else(wrong)?;
        let device = Some(device).filter(|device| *device != "*").map(str::to_owned);
        Ok(Self::Change(device, change.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_from_what_is_said() {
        for asked in [
            Asked::History,
            Asked::Change(None, Change::PortDown),
            Asked::Change(Some("mlx5_1".to_owned()), Change::Lid(7)),
            Asked::Import(u64::MAX, Wanted::Region(7)),
        ] {
            assert_eq!(asked.to_string().parse(), Ok(asked));
        }
        for nonsense in ["", "change", "change *", "change * dance", "histories", "import", "import x device"]
        {
            assert!(nonsense.parse::<Asked>().is_err(), "{nonsense}");
        }
    }
}

//! The switch.

use std::sync::OnceLock;

/// The variable that says which sockets are taken.
const VARIABLE: &str = "NONIC_SOCKETS";

/// Which sockets are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Taken {
    /// All.
    All,
    /// Those that connect; those that listen do so by TCP alone.
    Connecting,
    /// None.
    None,
}

impl Taken {
    /// The one that a number stands for.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        [Self::All, Self::Connecting, Self::None].into_iter().find(|taken| *taken as u64 == number)
    }
}

/// What the environment says, as it was when this was first asked.
pub(crate) fn taken() -> Taken {
    static TAKEN: OnceLock<Taken> = OnceLock::new();
    *TAKEN.get_or_init(|| {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        meaning(&value.to_string_lossy()).unwrap_or_else(|| {
            tracing::warn!(?value, "{VARIABLE} is none of on, connect and off; all TCP sockets are taken");
            Taken::All
        })
    })
}

/// What a value says, if it is one that there is.
fn meaning(value: &str) -> Option<Taken> {
    match value {
        "" | "on" => Some(Taken::All),
        "connect" => Some(Taken::Connecting),
        "off" => Some(Taken::None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_which_sockets_are_taken_and_what_makes_no_sense_says_nothing() {
        assert_eq!(["", "on"].map(meaning), [Some(Taken::All); 2]);
        assert_eq!(meaning("connect"), Some(Taken::Connecting));
        assert_eq!(meaning("off"), Some(Taken::None));
        assert_eq!(["0", "maybe", "ON"].map(meaning), [None; 3]);
        for taken in [Taken::All, Taken::Connecting, Taken::None] {
            assert_eq!(Taken::from_number(taken as u64), Some(taken));
        }
        assert_eq!(Taken::from_number(3), None);
    }
}

//! What is loaded before a program's libraries unasked: the one that shows it the files of its devices, and verbs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::library::LibraryFolder;
use crate::preload::Stands;

/// The variable that the library reads, too.
const VARIABLE: &str = "NONIC_VIEW";

/// The flag of `nonic run` and `nonic env`.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Files")]
pub(crate) struct ViewOptions {
    /// Whether programs see the devices' files, /sys/class/infiniband and /dev/infiniband [NONIC_VIEW, default on]
    ///
    /// Loads libnonic-view.so in front of the C library (LD_PRELOAD), in the program and in programs that it starts: paths that begin
    /// there lead to files that say what the device says of itself; all others go on as they came.
    #[arg(long, value_name = "SWITCH")]
    view: Option<Switch>,

    /// Load nothing in front of the program's own libraries (LD_PRELOAD)
    ///
    /// A program that brings a libibverbs of its own, as packages of Python do, or finds one by its RPATH then uses that one, which knows
    /// no devices of nonic's; else libibverbs.so.1 is loaded first and its functions are used. And devices' files are not shown.
    #[arg(long, conflicts_with = "sockets", help_heading = "Libraries")]
    no_preload: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl ViewOptions {
    /// The variable, if it was asked for.
    pub(crate) fn environment(&self) -> Option<(&'static str, OsString)> {
        let word = self.view?.to_possible_value()?.get_name().to_owned();
        Some((VARIABLE, word.into()))
    }

    /// Whether they are shown.
    pub(crate) fn is_on(&self) -> bool {
        match self.view {
            Some(switch) => switch == Switch::On,
            None => is_on_in(std::env::var(VARIABLE).ok().as_deref()),
        }
    }

    /// The libraries to load, and whether each stands in front of those that the user named, or behind them.
    pub(crate) fn libraries(&self, folder: &LibraryFolder) -> Vec<(PathBuf, Stands)> {
        if self.no_preload {
            return Vec::new();
        }
        let view = self.is_on().then(|| (folder.view_library(), Stands::InFront));
        [(folder.verbs_library(), Stands::Behind)].into_iter().chain(view).collect()
    }

    /// All that may be among them.
    pub(crate) fn all_libraries(folder: &LibraryFolder) -> [PathBuf; 2] {
        [folder.verbs_library(), folder.view_library()]
    }
}

fn is_on_in(value: Option<&str>) -> bool {
    !value.is_some_and(|value| value.trim().eq_ignore_ascii_case("off"))
}

/// Whether a variable is the one of this.
pub(crate) fn is_variable(name: &str) -> bool {
    name == VARIABLE
}

/// What is wrong with its value, if anything.
pub(crate) fn complaint_about(value: &str) -> Option<String> {
    Switch::from_str(value, true).is_err().then(|| "must be one of on, off".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_off_switches_it_off() {
        assert!(is_on_in(None) && is_on_in(Some("on")) && is_on_in(Some("")));
        assert!(!is_on_in(Some("off")) && !is_on_in(Some("OFF")));
        assert!(complaint_about("never").is_some() && complaint_about("Off").is_none());
        let off = ViewOptions { view: Some(Switch::Off), ..ViewOptions::default() };
        assert_eq!((off.environment(), off.is_on()), (Some((VARIABLE, "off".into())), false));
        assert_eq!(ViewOptions::default().environment(), None);
    }
}

//! Whether a program is shown the files of its devices.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::library::LibraryFolder;

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

    /// The library to load for it, unless it is switched off; why it cannot be, if so.
    pub(crate) fn library(&self, folder: &LibraryFolder) -> Option<std::path::PathBuf> {
        self.is_on().then(|| folder.view_library())
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
        let off = ViewOptions { view: Some(Switch::Off) };
        assert_eq!((off.environment(), off.is_on()), (Some((VARIABLE, "off".into())), false));
        assert_eq!(ViewOptions::default().environment(), None);
    }
}

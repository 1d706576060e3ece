//! What is loaded before a program's libraries unasked: the one that shows it the files of its devices, and verbs.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Args, ValueEnum};

use crate::library::LibraryFolder;
use crate::preload;

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

    /// Whether verbs are loaded before a program's own libraries.
    pub(crate) fn loads_verbs(&self) -> bool {
        !self.no_preload
    }

    /// The loader's variable with the libraries that are loaded unasked, each once; one that cannot be is told of, with `without`, how
    /// to do without.
    pub(crate) fn put_in(
        &self,
        folder: &LibraryFolder,
        before: Option<OsString>,
        without: &'static str,
    ) -> Option<OsString> {
        let mut value = before;
        if self.no_preload {
            return value;
        }
        let mut put = |library: &Path, put: fn(&Path, Option<&OsStr>) -> OsString| match preload::check(
            library, without,
        ) {
            Ok(()) => value = Some(put(library, value.as_deref())),
            Err(error) => eprintln!("nonic: not loaded before programs' own libraries: {error}"),
        };
        // What the user preloads may be a tool that stands before the functions of verbs.
        put(&folder.verbs_library(), preload::behind);
        if self.is_on() {
            put(&folder.view_library(), preload::in_front);
        }
        value
    }

    /// The variable without any of them.
    pub(crate) fn taken_from(folder: &LibraryFolder, value: Option<&OsStr>) -> Option<OsString> {
        let left = preload::without(value, &folder.verbs_library());
        preload::without(left.as_deref(), &folder.view_library())
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

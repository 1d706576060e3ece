//! `nonic env`: what `nonic run` would set, as lines for a shell or for the file in which a CI keeps its environment.

mod lines;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::EXIT_REFUSED;
use crate::dat_options::DatOptions;
use crate::device_options::DeviceOptions;
use crate::library::LibraryFolder;
use crate::preload;
use crate::scif_options::ScifOptions;
use crate::style::print;
use crate::view_options::ViewOptions;
use lines::{Change, Form};

const SEARCH_PATH: &str = "LD_LIBRARY_PATH";
const DAT_OVERRIDE: &str = "DAT_OVERRIDE";

/// Print the environment that puts every following program on the software device
///
/// For a shell or a CI in which `nonic run` cannot stand before each program: eval "$(nonic env)". Every program that is started
/// there afterwards finds nonic's libraries first. Where one does not use them, nothing says so, as `nonic run` would.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct EnvArguments {
    /// How the lines are written
    #[arg(long, value_name = "SHELL", default_value = "sh")]
    shell: Form,

    /// Lines for the environment file of GitHub Actions and of those that read the same: NAME=VALUE
    #[arg(long, conflicts_with = "shell")]
    github: bool,

    /// Take it back: nonic's folder leaves LD_LIBRARY_PATH, its library LD_PRELOAD, and every variable of nonic's is unset
    #[arg(long, conflicts_with = "github")]
    off: bool,

    #[command(flatten)]
    view: ViewOptions,

    #[command(flatten)]
    device: DeviceOptions,

    #[command(flatten)]
    scif: ScifOptions,

    #[command(flatten)]
    dat: DatOptions,
}

const AFTER_HELP: &str = "\
Examples:
  eval \"$(nonic env)\"; ib_write_bw & ib_write_bw localhost
  eval \"$(nonic env --tier ring --log debug)\"
  eval \"$(nonic env --off)\"
  nonic env --shell fish | source
  nonic env --github >> \"$GITHUB_ENV\"       every following step of the job

Environment:
  NONIC_LIB_DIR    folder with the libraries; default: beside this command
  LD_LIBRARY_PATH  kept, behind nonic's folder, which stands there once
  LD_PRELOAD       kept, behind nonic's library for files, which stands there once; without it with --view off
  ASAN_OPTIONS     verify_asan_link_order=0 behind what is there, with that library
  DAT_OVERRIDE     kept; else set to nonic's dat.conf
  NONIC_*          set by the flags that nonic run has, too; others stay as they are, but for --off

Exit status:
  0  the lines are printed
  2  bad usage, no libraries, or a value that such a line cannot carry";

/// Prints the lines.
pub(crate) fn main(arguments: &EnvArguments) -> ExitCode {
    match lines_for(arguments) {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("nonic: {words}");
            ExitCode::from(EXIT_REFUSED)
        }
    }
}

fn lines_for(arguments: &EnvArguments) -> Result<String, String> {
    let folder = LibraryFolder::find().map_err(|error| error.to_string())?;
    let now: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let changes = if arguments.off {
        taking_back(&folder, &now)
    } else {
        let set = |(name, value): (&str, OsString)| Change::set(name, value);
        let before = now.get(OsStr::new(SEARCH_PATH)).map(OsString::as_os_str);
        let mut changes =
            vec![Change::set(SEARCH_PATH, folder.search_path(without(before, folder.path()).as_deref()))];
        changes.extend(preloading(&arguments.view, &folder, &now));
        changes.extend(arguments.view.environment().into_iter().map(set));
        changes.extend(arguments.dat.environment(folder.path()).into_iter().map(set));
        changes.extend(arguments.device.environment().into_iter().map(set));
        changes.extend(arguments.scif.environment().into_iter().map(set));
        changes
    };
    let form = if arguments.github { Form::Github } else { arguments.shell };
    form.write(&changes)
}

/// What becomes of the libraries to put in front: the one that shows files is there once, or not at all, where it cannot be.
fn preloading(view: &ViewOptions, folder: &LibraryFolder, now: &BTreeMap<OsString, OsString>) -> Vec<Change> {
    let before = now.get(OsStr::new(preload::VARIABLE)).map(OsString::as_os_str);
    let Some(library) = view.library(folder) else { return leaving(folder, now) };
    match preload::check(&library, "nonic env --view off") {
        Ok(()) => {
            let options = now.get(OsStr::new(preload::SANITIZER_VARIABLE)).map(OsString::as_os_str);
            let options = preload::with_sanitizer_option(options);
            let set = options.map(|options| Change::set(preload::SANITIZER_VARIABLE, options));
            let front = Change::set(preload::VARIABLE, preload::in_front(&library, before));
            [front].into_iter().chain(set).collect()
        }
        Err(error) => {
            eprintln!("nonic: the device's files are not shown: {error}");
            leaving(folder, now)
        }
    }
}

/// The changes that take that library out, and what was set for it, if it is there.
fn leaving(folder: &LibraryFolder, now: &BTreeMap<OsString, OsString>) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut leave = |name: &str, left: &dyn Fn(&OsStr) -> Option<OsString>| {
        let Some(value) = now.get(OsStr::new(name)) else { return };
        match left(value) {
            Some(left) if left == *value => {}
            Some(left) => changes.push(Change::set(name, left)),
            None => changes.push(Change::unset(name)),
        }
    };
    leave(preload::VARIABLE, &|value| preload::without(Some(value), &folder.view_library()));
    leave(preload::SANITIZER_VARIABLE, &preload::without_sanitizer_option);
    changes
}

/// A search path without a folder; `None` if nothing is left.
fn without(path: Option<&OsStr>, folder: &Path) -> Option<OsString> {
    let kept: Vec<&[u8]> = path?
        .as_bytes()
        .split(|byte| *byte == b':')
        .filter(|entry| Path::new(OsStr::from_bytes(entry)) != folder)
        .collect();
    let kept = kept.join(&b':');
    (!kept.is_empty()).then(|| OsString::from_vec(kept))
}

fn taking_back(folder: &LibraryFolder, now: &BTreeMap<OsString, OsString>) -> Vec<Change> {
    let mut changes = Vec::new();
    if let Some(path) = now.get(OsStr::new(SEARCH_PATH)) {
        changes.push(match without(Some(path), folder.path()) {
            Some(left) => Change::set(SEARCH_PATH, left),
            None => Change::unset(SEARCH_PATH),
        });
    }
    changes.extend(leaving(folder, now));
    let own = folder.path().join("dat.conf");
    if now.get(OsStr::new(DAT_OVERRIDE)).is_some_and(|value| Path::new(value) == own) {
        changes.push(Change::unset(DAT_OVERRIDE));
    }
    let names = now.keys().filter_map(|name| name.to_str()).filter(|name| name.starts_with("NONIC_"));
    changes.extend(names.filter(|name| lines::is_name(name)).map(Change::unset));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_leaves_the_search_path_and_everything_else_stays_in_order() {
        let left = |path: &str| without(Some(OsStr::new(path)), Path::new("/opt/nonic"));
        assert_eq!(left("/opt/nonic:/a:/b").as_deref(), Some(OsStr::new("/a:/b")));
        assert_eq!(left("/a:/opt/nonic:/b").as_deref(), Some(OsStr::new("/a:/b")));
        assert_eq!(left("/opt/nonic"), None);
        assert_eq!(without(None, Path::new("/opt/nonic")), None);
    }
}

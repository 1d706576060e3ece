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

    /// Take it back: nonic's folder leaves LD_LIBRARY_PATH, its libraries LD_PRELOAD, and every variable of nonic's is unset
    #[arg(long, conflicts_with_all = ["github", "sockets"])]
    off: bool,

    /// TCP connections of every following program go over RDMA where the other side listens so, too; else over TCP as ever
    ///
    /// Has the loader put libnonic-sockets.so in front of the C library (LD_PRELOAD).
    #[arg(long)]
    sockets: bool,

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
  eval \"$(nonic env --sockets)\"; redis-server & redis-cli ping
  eval \"$(nonic env --off)\"
  nonic env --shell fish | source
  nonic env --github >> \"$GITHUB_ENV\"       every following step of the job

Environment:
  NONIC_LIB_DIR    folder with the libraries; default: beside this command
  LD_LIBRARY_PATH  kept, behind nonic's folder, which stands there once
  LD_PRELOAD       kept, behind nonic's library for files and before the one for verbs, which stand there once; without
                   the first with --view off, without both with --no-preload; and behind its library for TCP with
                   --sockets, which then stays there until --off
  ASAN_OPTIONS     verify_asan_link_order=0 behind what is there, with one of these
  DAT_OVERRIDE     kept; else set to nonic's dat.conf
  NONIC_*          set by the flags that nonic run has, too; others stay as they are, but for --off;
                   NONIC_SOCKETS=off leaves one program's TCP to the kernel

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
        changes.extend(preloading(arguments, &folder, &now)?);
        changes.extend(arguments.view.environment().into_iter().map(set));
        changes.extend(arguments.dat.environment(folder.path()).into_iter().map(set));
        changes.extend(arguments.device.environment().into_iter().map(set));
        changes.extend(arguments.scif.environment().into_iter().map(set));
        changes
    };
    let form = if arguments.github { Form::Github } else { arguments.shell };
    form.write(&changes)
}

/// What becomes of the libraries to put in front. Those for verbs and files are there once, or not at all, where they cannot be; the one for
/// sockets once, if that is asked for, and else where it was. The error, a sentence, is for what was asked for and cannot be.
fn preloading(
    arguments: &EnvArguments,
    folder: &LibraryFolder,
    now: &BTreeMap<OsString, OsString>,
) -> Result<Vec<Change>, String> {
    let mut value = now.get(OsStr::new(preload::VARIABLE)).cloned();
    let sockets = folder.sockets_library();
    if arguments.sockets {
        preload::check(&sockets, "nonic env without --sockets").map_err(|error| error.to_string())?;
        value = Some(preload::in_front(&sockets, value.as_deref()));
    }
    value = ViewOptions::taken_from(folder, value.as_deref());
    value = arguments.view.put_in(folder, value, "nonic env --no-preload");
    let is_ours = without_ours(folder, value.as_deref()) != value;
    Ok(loading(value, is_ours, now))
}

/// What is loaded first without the libraries of ours.
fn without_ours(folder: &LibraryFolder, value: Option<&OsStr>) -> Option<OsString> {
    let left = ViewOptions::taken_from(folder, value);
    preload::without(left.as_deref(), &folder.sockets_library())
}

/// The changes that have the loader put this in front, with what AddressSanitizer must be told if a library of ours is among it.
fn loading(value: Option<OsString>, is_ours: bool, now: &BTreeMap<OsString, OsString>) -> Vec<Change> {
    let before = |name: &str| now.get(OsStr::new(name)).cloned();
    let options = before(preload::SANITIZER_VARIABLE);
    let told = if is_ours {
        preload::with_sanitizer_option(options.as_deref()).or_else(|| options.clone())
    } else {
        options.as_deref().and_then(preload::without_sanitizer_option)
    };
    let all = [(preload::VARIABLE, value), (preload::SANITIZER_VARIABLE, told)];
    let change = |(name, after): (&str, Option<OsString>)| match after {
        // What is set is set again: these lines may be the only ones that a job keeps.
        Some(after) if is_ours || before(name).as_ref() != Some(&after) => Some(Change::set(name, after)),
        Some(_) => None,
        None => before(name).map(|_| Change::unset(name)),
    };
    all.into_iter().filter_map(change).collect()
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
    let preloads = now.get(OsStr::new(preload::VARIABLE)).map(OsString::as_os_str);
    let left = without_ours(folder, preloads);
    changes.extend(loading(left, false, now));
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

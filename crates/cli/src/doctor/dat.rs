//! uDAPL: whether its library works, which providers the site's `dat.conf` names and why a line of it does not count, and
//! which services programs of this host listen on.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use nonic_dat_conf::{Entry, Place};
use serde::{Deserialize, Serialize};

use super::peer::ask_helper;
use super::report::Line;
use super::services;
use crate::dat::{Adapter, DatError, DatLibrary, Endpoint, Listener, Privileges, Region};
use crate::library::LibraryFolder;
use crate::system::LoadedLibrary;
use crate::verbs::Buffer;

/// The adapter that is tried.
const ADAPTER: &str = "nonic";

/// The name under which programs of uDAPL 2.0 load their registry.
const REGISTRY_2: &str = "libdat2.so.2";

/// The provider that this registry is led to.
const PROVIDER_2: &str = "libdaplnonic.so.2";

/// Services of uDAPL among those that processes listen on.
const SPACE: &str = "dat";

/// What the helper process saw.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Seen {
    number: u64,
    coherent: bool,
    error: Option<String>,
}

/// What the helper process that loads a provider saw.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Loaded {
    /// Whether the registry was found that it belongs to.
    has_registry: bool,
    error: Option<String>,
}

/// All findings about uDAPL.
pub(super) fn examine() -> Vec<Line> {
    // Where it is missing it is said above, where the verbs library is looked for.
    let folder = LibraryFolder::find().ok();
    let mut lines =
        folder.iter().flat_map(|folder| [library(folder), provider_2(folder)]).collect::<Vec<_>>();
    lines.extend(configuration(folder.map(|folder| folder.dat_library()).as_deref()));
    lines.extend(services::list("services", |service| {
        (service.space == SPACE).then(|| format!("service {}", service.number))
    }));
    lines
}

/// Loads the library in a process of its own, where it can do no harm.
fn library(folder: &LibraryFolder) -> Line {
    const NAME: &str = "libdat.so.1";
    // A note: programs for verbs run without it.
    let fault = |words: String| Line::note(NAME, words).fix("build again: cargo build --release --workspace");
    let file = folder.dat_library();
    if !file.exists() {
        return fault(format!("{} is missing: programs of uDAPL 1.2 cannot run", file.display()));
    }
    let seen = match ask_helper::<Seen>(&["dat".as_ref(), file.as_os_str()]) {
        Ok(Seen { error: Some(error), .. }) => return fault(error),
        Ok(seen) => seen,
        Err(error) => return fault(error.to_string()),
    };
    let memory = if seen.coherent { "coherent" } else { "not coherent (NONIC_NONCOHERENT)" };
    Line::ok(
        NAME,
        format!(
            "works: adapter {ADAPTER} listened as service {}, connected to itself and wrote; memory is {memory}",
            seen.number
        ),
    )
}

/// In the helper process: loads the library, connects two endpoints, moves eight bytes and prints what was seen.
pub(super) fn load_and_tell(file: &Path) -> ExitCode {
    let seen = look(file).unwrap_or_else(|error| Seen { error: Some(error.to_string()), ..Seen::default() });
    println!("{}", serde_json::to_string(&seen).expect("strings and numbers only"));
    ExitCode::SUCCESS
}

fn look(file: &Path) -> Result<Seen, DatError> {
    const GREETING: u64 = u64::from_ne_bytes(*b"nonic ok");
    let library = DatLibrary::load(file)?;
    let adapter = Adapter::open(&library, ADAPTER)?;
    let listener = Listener::new(&adapter)?;
    let target = Region::new(&adapter, Buffer::new(8), Privileges::ALL)?;
    let source = Region::new(&adapter, Buffer::new(8), Privileges::LOCAL)?;
    source.buffer().store(0, GREETING);
    let (connector, acceptor) = (Endpoint::new(&adapter)?, Endpoint::new(&adapter)?);
    connector.start_connecting(listener.number())?;
    listener.accept(&acceptor)?;
    connector.finish_connecting()?;
    connector.post_write(&source, 0, target.remote().part(0, 8))?;
    connector.finish()?;
    target.sync_writes(0, 8)?;
    let heard = target.buffer().load(0);
    if heard != GREETING {
        return Err(DatError::Event(format!("wrote {GREETING:#x}, and {heard:#x} is there")));
    }
    Ok(Seen { number: listener.number(), coherent: adapter.is_coherent()?, error: None })
}

/// What programs of uDAPL 2.0 need.
fn provider_2(folder: &LibraryFolder) -> Line {
    const NAME: &str = "uDAPL 2.0";
    let provider = folder.path().join(PROVIDER_2);
    if !provider.exists() {
        return Line::note(NAME, format!("{} is missing: its programs cannot run", provider.display()))
            .fix("build again: cargo build --release --workspace");
    }
    let loaded = try_provider(&provider.to_string_lossy(), Some(Path::new(REGISTRY_2)));
    match loaded.error {
        Some(error) => Line::note(NAME, format!("{}: {error}", provider.display()))
            .fix("build again: cargo build --release --workspace"),
        None if loaded.has_registry => {
            Line::ok(NAME, format!("{REGISTRY_2} is installed; nonic run leads it to {PROVIDER_2}"))
        }
        // Not a note: most have no such programs.
        None => Line::ok(
            NAME,
            format!(
                "{REGISTRY_2}, the registry that its programs load, is not installed (Debian: libdat2-2)"
            ),
        ),
    }
}

/// The file that tells registries about providers, and every line of it that does not count.
fn configuration(registry_1: Option<&Path>) -> Vec<Line> {
    const NAME: &str = "dat.conf";
    let Some(Place { path, is_override }) = nonic_dat_conf::place() else {
        return vec![Line::ok(NAME, "none: nonic's own adapters need none")];
    };
    let name = if is_override {
        format!("{} ({})", path.display(), nonic_dat_conf::OVERRIDE)
    } else {
        path.display().to_string()
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let line = Line::note(NAME, format!("{name} cannot be read: {error}; it counts as empty"));
            return vec![line.fix(format!("correct or unset {}", nonic_dat_conf::OVERRIDE))];
        }
    };
    let (entries, mut lines) = judge(&String::from_utf8_lossy(&bytes));
    let mut first =
        vec![Line::ok(NAME, format!("{name}: {} that count", counted(entries.len(), "entry", "entries")))];
    lines.extend(providers(&entries, registry_1));
    first.append(&mut lines);
    first
}

/// The entries that count, and a line for each other one.
fn judge(text: &str) -> (Vec<Entry>, Vec<Line>) {
    let mut entries: Vec<Entry> = Vec::new();
    let mut lines = Vec::new();
    let mut leave_out = |line: usize, reason: String| {
        let name = format!("dat.conf, line {line}");
        lines.push(Line::note(name, format!("left out: {reason}")));
    };
    for line in nonic_dat_conf::parse(text) {
        match line {
            nonic_dat_conf::Line::Rejected { line, reason } => leave_out(line, reason.to_string()),
            nonic_dat_conf::Line::Entry(entry) => {
                let same = entries.iter().find(|other| key(other) == key(&entry));
                match (entry.why_unused(), same) {
                    (Some(reason), _) => leave_out(entry.line, reason.to_owned()),
                    // The registry of 2.0 tries each in turn.
                    (None, Some(other)) if entry.version.0 < 2 => leave_out(
                        entry.line,
                        format!("{:?} with the same version is in line {} already", entry.name, other.line),
                    ),
                    (None, _) => entries.push(entry),
                }
            }
        }
    }
    (entries, lines)
}

/// What an entry is found by.
fn key(entry: &Entry) -> (&str, (u32, u32), bool) {
    (&entry.name, entry.version, entry.is_thread_safe)
}

/// One line for each library that the entries name.
fn providers(entries: &[Entry], registry_1: Option<&Path>) -> Vec<Line> {
    let mut libraries: BTreeMap<(&str, u32), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        libraries.entry((&entry.library, entry.version.0)).or_default().push(entry);
    }
    let line = |((library, major), entries): ((&str, u32), Vec<&Entry>)| {
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let words = format!("{library} for {} of uDAPL {major}", named(&names));
        if entries.iter().all(|entry| entry.is_nonic()) {
            return Line::ok("provider", format!("{words}: nonic's own"));
        }
        let registry = if major == 1 { registry_1 } else { Some(Path::new(REGISTRY_2)) };
        match try_provider(library, registry).error {
            None => Line::ok("provider", format!("{words}: loads")),
            Some(error) => Line::note("provider", format!("{words}: {error}"))
                .fix("install the library, or correct its name in dat.conf"),
        }
    };
    libraries.into_iter().map(line).collect()
}

/// Loads a provider in a process of its own. Most need functions of a registry, which a program has loaded before.
fn try_provider(library: &str, registry: Option<&Path>) -> Loaded {
    let mut role = vec![OsStr::new("dat-provider"), library.as_ref()];
    role.extend(registry.map(Path::as_os_str));
    ask_helper(&role).unwrap_or_else(|error| Loaded { has_registry: false, error: Some(error.to_string()) })
}

/// In the helper process: loads a provider as a registry does, and says what is wrong with it.
pub(super) fn load_provider_and_tell(library: &Path, registry: Option<&Path>) -> ExitCode {
    // Where it is missing the provider says what it misses.
    let has_registry = registry.is_some_and(|registry| LoadedLibrary::open_for_all(registry).is_ok());
    let error = match LoadedLibrary::open(library) {
        Err(error) => Some(error.to_string()),
        Ok(loaded) if loaded.has(c"dat_provider_init") => None,
        Ok(_) => Some("it has no dat_provider_init, so it is no provider".to_owned()),
    };
    println!("{}", serde_json::to_string(&Loaded { has_registry, error }).expect("strings and words only"));
    ExitCode::SUCCESS
}

/// The first names of a list, and how many there are.
fn named(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    match names {
        [] => "nothing".to_owned(),
        names if names.len() <= SHOWN => names.join(", "),
        names => format!("{} and {} more", names[..SHOWN].join(", "), names.len() - SHOWN),
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "ib0 u1.2 nonthreadsafe default libdaplcma.so.1 dapl.1.2 \"ib0 0\" \"\"\n";

    #[track_caller]
    fn only_note(text: &str) -> String {
        let (_, lines) = judge(text);
        assert_eq!(lines.len(), 1, "{lines:?}");
        serde_json::to_string(&lines[0]).unwrap()
    }

    #[test]
    fn a_line_that_does_not_count_is_named_with_its_reason() {
        let note = only_note(&format!("# a comment\n{SOUND}ib1 u1.2 nonthreadsafe\n"));
        assert!(note.contains("dat.conf, line 3") && note.contains("3 of 8 words"), "{note}");
        let note = only_note(&SOUND.replace("u1.2", "k1.2"));
        assert!(note.contains("for the kernel"), "{note}");
    }

    #[test]
    fn of_two_entries_of_one_name_the_first_counts_but_for_the_registry_of_2_0_both_do() {
        let note = only_note(&format!("{SOUND}{SOUND}"));
        assert!(note.contains("line 2") && note.contains("in line 1 already"), "{note}");
        let newer = SOUND.replace("u1.2", "u2.0");
        assert_eq!(judge(&format!("{SOUND}{newer}{newer}")).0.len(), 3);
    }

    #[test]
    fn long_lists_are_cut_and_short_ones_are_not() {
        assert_eq!(named(&["a", "b", "c"]), "a, b, c");
        assert_eq!(named(&["a", "b", "c", "d"]), "a, b, c and 1 more");
        assert_eq!(
            (counted(1, "entry", "entries"), counted(0, "entry", "entries")),
            ("1 entry".into(), "0 entries".into())
        );
    }
}

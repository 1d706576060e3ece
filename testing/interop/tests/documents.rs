//! The commands of the documents, run as they stand there, and what they print beside what the documents show.
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nonic_interop::c_program::{compile_mpi, package};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::program::{Finished, Program};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{Toolbox, scratch};

/// Commands that are not for this test to run, and who runs them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("sudo apt-get install ./nonic_*.deb", "ci/package-test"),
    ("tar --strip-components=1 -C ~/.local -xf nonic-*.tar.zst", "ci/package-test"),
    ("cargo build --release && target/release/nonic demo", "ci/package-test, and ci/test its parts"),
    ("ci/install && ci/all", ".ci/run"),
    ("ci/stage /usr/local", "ci/package-test"),
    ("ci/package", "ci/package-test"),
    ("ci/bench --write-docs", "a person, on a machine that does nothing else"),
    ("nonic doctor --pid 4711", "testing/interop/tests/sockets_shown.rs, of programs that it starts"),
    ("nonic bench", "crates/cli/tests/bench.rs, with less of each"),
    ("nonic run --scif-hosts 10.0.0.1,10.0.0.2 -- ./window card 2050", "testing/interop/tests/wire_scif.rs"),
    (
        "nonic run --scif-hosts 10.0.0.1,10.0.0.2 -- ./window host 1 2050",
        "testing/interop/tests/wire_scif.rs",
    ),
];
/// Pages whose commands are all run elsewhere.
const PAGES_ELSEWHERE: &[(&str, &str)] = &[
    ("docs/changing-a-device.md", "testing/interop/tests/changes.rs, beside programs that it starts"),
    ("docs/ci.md", "ci/package-test, in fresh roots"),
    ("docs/other-hosts.md", "testing/interop/tests/wire.rs, on two hosts that it makes"),
];
/// Programs that serve until they are told to end.
const SERVERS: &[&str] = &["redis-server"];
/// How long a client may find nobody who listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fenced block: its page, its line, and its commands, each with the lines that follow it.
struct Block {
    page: String,
    line: usize,
    commands: Vec<(String, String)>,
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let blocks = blocks();
    let said: Vec<String> =
        blocks.iter().flat_map(|block| &block.commands).map(|(command, _)| command.clone()).collect();
    suite.test("every command that is run elsewhere stands in a document", move || {
        if let Some((page, _)) = PAGES_ELSEWHERE.iter().find(|(page, _)| !root().join(page).exists()) {
            return failed(format!("there is no {page} any more"));
        }
        let gone = ELSEWHERE.iter().find(|(command, _)| !said.iter().any(|said| said == command));
        gone.map_or(Ok(()), |(command, who)| failed(format!("no document says `{command}` any more ({who})")))
    });
    for block in blocks {
        if block.commands.iter().any(|(command, _)| !is_elsewhere(command)) {
            let first = &block.commands[0].0;
            let name = format!("what {} tells people to type works, from `{first}`", block.page);
            suite.test(name, move || run(&block));
        }
    }
    suite.run()
}

fn is_elsewhere(command: &str) -> bool {
    ELSEWHERE.iter().any(|(elsewhere, _)| command == *elsewhere)
}

fn root() -> PathBuf {
    package().join("../..")
}

/// The blocks of all documents that have commands in them.
fn blocks() -> Vec<Block> {
    let mut pages = vec!["README.md".to_owned()];
    let folder = fs::read_dir(root().join("docs")).expect("the folder of the documents is there");
    let names = folder.map(|entry| entry.expect("it can be read").file_name().into_string().expect("UTF-8"));
    pages.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    pages.sort();
    pages.retain(|page| PAGES_ELSEWHERE.iter().all(|(elsewhere, _)| page != elsewhere));
    pages.iter().flat_map(|page| blocks_of(page)).filter(|block| !block.commands.is_empty()).collect()
}

fn blocks_of(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(root().join(page)).expect("the page can be read");
    let (mut found, mut inside): (Vec<Block>, Option<&str>) = (Vec::new(), None);
    for (index, line) in text.lines().enumerate() {
        if let Some(kind) = line.strip_prefix("```") {
            inside = if inside.is_none() { Some(kind) } else { None };
            if inside.is_some() {
                found.push(Block { page: page.to_owned(), line: index + 1, commands: Vec::new() });
            }
            continue;
        }
        let commands = found.last_mut().map(|block| &mut block.commands);
        match (inside, commands) {
            (Some("sh"), Some(commands)) => commands.push((uncommented(line), String::new())),
            (Some("console"), Some(commands)) => match line.strip_prefix("$ ") {
                Some(command) => commands.push((uncommented(command), String::new())),
                None => {
                    let printed = &mut commands.last_mut().expect("a command comes first").1;
                    printed.push_str(line);
                    printed.push('\n');
                }
            },
            _ => {}
        }
    }
    found
}

/// A command without what is said about it behind two blanks and a `#`.
fn uncommented(line: &str) -> String {
    line.split("  #").next().unwrap_or(line).trim().to_owned()
}

/// Where the commands of a block run: what a person would have there is there.
struct Room {
    folder: PathBuf,
    place: Place,
    /// Lines before each command.
    preparation: String,
}

impl Room {
    fn new() -> Verdict<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = scratch().join(format!("typed-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let toolbox = Toolbox::find()?;
        let mpi = compile_mpi("mpi")?;
        let build = toolbox.nonic.parent().expect("the command is in a folder");
        fs::create_dir_all(folder.join("target"))
            .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)))
            .and_then(|()| symlink(build, folder.join("target/release")))
            .and_then(|()| symlink(mpi, folder.join("program")))
            .or_else(|error| failed(format!("{}: {error}", folder.display())))?;
        let place = Place::prepare(AS_IT_COMES)?
            .inside(Namespace::with_only_lo()?)
            .variable("HOME", &folder.display().to_string())
            .variable("TMPDIR", &folder.display().to_string())
            // Of Open MPI: three ranks wherever this runs, and no word about a device that its list of makers lacks.
            .variable("OMPI_MCA_rmaps_base_oversubscribe", "1")
            .variable("OMPI_MCA_btl_openib_warn_no_device_params_found", "0");
        let preparation = format!("cd '{}' && PATH='{}':$PATH\n", folder.display(), build.display());
        Ok(Self { folder, place, preparation })
    }

    /// The command as an ordinary user types it.
    fn program(&self, command: &str) -> Verdict<Program> {
        let script = format!("{}exec {command}", self.preparation);
        let script = if command.contains('|') { script.replacen("exec ", "", 1) } else { script };
        self.place.bare(["/bin/sh", "-c", &script])
    }

    /// Runs a compiler where the sources and the build are, which may be folders of one user's.
    fn compile(&self, command: &str) -> Verdict {
        let build = original_build()?;
        let within = self.folder.join("compile");
        fs::create_dir_all(within.join("target"))
            .and_then(|()| symlink(build, within.join("target/release")))
            .and_then(|()| symlink(root().join("examples"), within.join("examples")))
            .or_else(|error| failed(format!("{}: {error}", within.display())))?;
        let script = self.preparation.lines().skip(1).collect::<Vec<_>>().join("\n") + "\n" + command;
        let output = Command::new("/bin/sh").args(["-c", &script]).current_dir(&within).output();
        let output = output.or_else(|error| failed(format!("/bin/sh: {error}")))?;
        if !output.status.success() {
            return failed(format!("{command}\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        self.take_over(&within).or_else(|error| failed(format!("{}: {error}", within.display())))
    }

    /// Moves what was compiled to where it runs.
    fn take_over(&self, within: &Path) -> io::Result<()> {
        for entry in fs::read_dir(within)? {
            let made = entry?.path();
            if made.is_file() {
                fs::copy(&made, self.folder.join(made.file_name().expect("it has a name")))?;
            }
        }
        fs::remove_dir_all(within)
    }
}

/// The build under test where it was made, with what programs are compiled with.
fn original_build() -> Verdict<PathBuf> {
    let tested = std::env::var_os("NONIC_TESTED_BUILD").map(PathBuf::from);
    let own = || std::env::current_exe().ok()?.ancestors().nth(2).map(Path::to_owned);
    tested.or_else(own).map_or_else(|| failed("where this build is cannot be found"), Ok)
}

fn run(block: &Block) -> Verdict {
    let mut room = Room::new()?;
    let mut servers = Vec::new();
    let mut unanswered = false;
    for (command, shown) in &block.commands {
        let at = |why: &str| format!("{}, block of line {}: `{command}` {why}", block.page, block.line);
        if command.is_empty() || is_elsewhere(command) {
            continue;
        } else if command.starts_with("export ") {
            room.preparation += &format!("{command}\n");
        } else if command.starts_with("cc ") {
            room.compile(command)?;
        } else if let Some(server) = command.strip_suffix('&') {
            servers.push((server.to_owned(), room.program(server)?.start()?));
            unanswered = true;
        } else {
            let mut before = String::new();
            let finished = match unanswered {
                true => until_served(&room, command, &mut before)?,
                false => room.program(command)?.run()?,
            };
            unanswered = false;
            if !finished.succeeded() {
                let servers: String = servers.iter().map(|(_, server)| server.stands()).collect();
                return failed(format!("{}\n{before}{}{servers}", at("fails"), finished.report()));
            }
            check_printed(&finished, shown)
                .or_else(|why| failed(format!("{}\n{why}", at("prints otherwise"))))?;
        }
    }
    for (command, server) in servers {
        if SERVERS.iter().any(|server| command.contains(server)) {
            server.kill();
            continue;
        }
        let finished = server.finish()?;
        if !finished.succeeded() {
            return failed(finished.report());
        }
    }
    Ok(())
}

/// Runs a client until its server listens, as a person would. Attempts that failed otherwise than the one after them are told `before`.
fn until_served(room: &Room, command: &str, before: &mut String) -> Verdict<Finished> {
    let until = Instant::now() + PATIENCE;
    let mut last: Option<Finished> = None;
    loop {
        let finished = room.program(command)?.run()?;
        if let Some(last) = last.filter(|last| last.printed() != finished.printed()) {
            *before += &last.report();
        }
        if finished.succeeded() || Instant::now() > until {
            return Ok(finished);
        }
        last = Some(finished);
    }
}

/// Fails unless nine tenths of the words shown were printed, in their order. Figures differ from run to run, and so may a remark
/// about them.
fn check_printed(finished: &Finished, shown: &str) -> Result<(), String> {
    let (shown, printed) = (words(shown), words(&finished.stdout));
    let common = common_words(&shown, &printed);
    if common * 10 >= shown.len() * 9 {
        return Ok(());
    }
    Err(format!("only {common} of {} words are those of the document\n{}", shown.len(), finished.report()))
}

/// The words of a text; one with a digit in it counts as a figure, and one in quotes as itself: some programs quote for a person
/// at a terminal only.
fn words(text: &str) -> Vec<&str> {
    let word = |word| if str::contains(word, |c: char| c.is_ascii_digit()) { "0" } else { word };
    text.split_whitespace().map(|text| word(text.trim_matches('"'))).collect()
}

/// The length of the longest sequence of words that both have.
fn common_words(one: &[&str], other: &[&str]) -> usize {
    let mut lengths = vec![0; other.len() + 1];
    for word in one {
        let mut diagonal = 0;
        for (index, candidate) in other.iter().enumerate() {
            let above = lengths[index + 1];
            lengths[index + 1] = if word == candidate { diagonal + 1 } else { above.max(lengths[index]) };
            diagonal = above;
        }
    }
    lengths[other.len()]
}

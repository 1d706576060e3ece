//! Processes that are killed: what their peers see, and what is left behind.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nonic_interop::c_program::{compile, compile_dat, compile_scif, compile_with, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Place, ways};
use nonic_interop::pair::Pair;
use nonic_interop::port::TcpPort;
use nonic_interop::scif;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{program, scratch};

/// Peers killed per library and tier; `NONIC_KILLS` asks for more.
const KILLS: u32 = 20;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for way in ways() {
        let environment = Environment { only_lo: true, ..way };
        for face in [Face::Verbs, Face::Scif, Face::Dat] {
            if face.differs(environment) {
                suite.test(
                    format!("a process survives the kill -9 of its peers by {}, {}", face.name(), way.name),
                    move || survives(face, environment),
                );
            }
        }
        suite.test(
            format!("a process lives through peers that write rubbish and serves the others, {}", way.name),
            move || endures(environment),
        );
    }
    for way in ways() {
        suite.test(
            format!("what is written to a peer that calls exec never reaches its next program, {}", way.name),
            move || becomes_another(way),
        );
    }
    for way in ways() {
        suite.test(format!("nothing holds the memory of a killed peer, {}", way.name), move || remains(way));
    }
    suite.test("a perftest server that is killed under load does not hang its client", || {
        server_killed("ib_write_bw", &["-D", "30"])
    });
    suite.test("a perftest server that is killed does not hang a client that waits for events", || {
        server_killed("ib_send_bw", &["-e", "-n", "100000000"])
    });
    suite.test("a port and a device are free again after both sides of a pair were killed", start_again);
    suite.run()
}

fn kills() -> u32 {
    std::env::var("NONIC_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// A number that a failed run prints and a rerun takes: `NONIC_SEED`.
fn seed() -> u64 {
    std::env::var("NONIC_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64 & 0xffff_ffff
    })
}

/// Names of `nonic` in places where a process could leave files.
fn left_in_the_file_system() -> BTreeSet<String> {
    ["/dev/shm", "/run", "/var/tmp", "/run/lock"]
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().display().to_string()))
        .filter(|path| path.contains("nonic"))
        .collect()
}

/// Through which library a survivor and its peers know each other.
#[derive(Clone, Copy, PartialEq)]
enum Face {
    Verbs,
    Scif,
    Dat,
}

impl Face {
    fn name(self) -> &'static str {
        match self {
            Self::Verbs => "verbs",
            Self::Scif => "SCIF",
            Self::Dat => "uDAPL",
        }
    }

    /// Whether the way bytes take makes a difference. SCIF has no tiers, but its windows may hold adopted pages or not.
    fn differs(self, environment: Environment) -> bool {
        self != Self::Scif || environment.tier.is_none_or(|tier| matches!(tier.0, "auto" | "mapped"))
    }

    fn survivor(self) -> Verdict<PathBuf> {
        match self {
            Self::Verbs => compile("survivor"),
            Self::Scif => compile_scif("survivor.c"),
            Self::Dat => compile_dat("survivor"),
        }
    }
}

fn survives(face: Face, environment: Environment) -> Verdict {
    let before = left_in_the_file_system();
    // A temporary folder of its own shows whether anything was put there.
    let temporary =
        scratch().join(format!("survivor-{}-{}", face.name(), environment.name.replace(' ', "-")));
    let made = fs::create_dir_all(&temporary)
        .and_then(|()| fs::set_permissions(&temporary, std::os::unix::fs::PermissionsExt::from_mode(0o1777)));
    if let Err(why) = made {
        return failed(format!("cannot make {}: {why}", temporary.display()));
    }
    let rounds = kills();
    let words = [face.survivor()?.display().to_string(), rounds.to_string(), seed().to_string()];
    let finished = scif::place(environment)?
        .variable("TMPDIR", &temporary.display().to_string())
        .nonic_run(words)?
        .deadline(Duration::from_secs(60) + Duration::from_secs(2) * rounds)
        .run()?;
    judge(&finished)?;
    println!(
        "{}",
        finished.stdout.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
    );
    let left = fs::read_dir(&temporary).map_or(0, Iterator::count);
    let new: Vec<String> = left_in_the_file_system().difference(&before).cloned().collect();
    if left > 0 || !new.is_empty() {
        return failed(format!(
            "{left} files left in the temporary folder, and {new:?}\n{}",
            finished.report()
        ));
    }
    Ok(())
}

fn endures(environment: Environment) -> Verdict {
    let rounds = kills();
    let words = [compile("rubbish")?.display().to_string(), rounds.to_string(), seed().to_string()];
    let deadline = Duration::from_secs(60) + Duration::from_secs(2) * rounds;
    judge(&Place::prepare(environment)?.nonic_run(words)?.deadline(deadline).run()?).map(drop)
}

fn becomes_another(environment: Environment) -> Verdict {
    // Linked with nothing it does not use: it is there sooner.
    let next = compile_with("next_program", &["-Wl,--as-needed"])?.display().to_string();
    let words = [compile("exec")?.display().to_string(), kills().to_string(), seed().to_string(), next];
    judge(&Place::prepare(environment)?.nonic_run(words)?.deadline(Duration::from_secs(120)).run()?).map(drop)
}

fn remains(environment: Environment) -> Verdict {
    let words = [compile("remains")?.display().to_string()];
    judge(&Place::prepare(environment)?.nonic_run(words)?.deadline(Duration::from_secs(60)).run()?).map(drop)
}

/// The client of a killed server ends by itself, by an error, within its timeouts.
fn server_killed(name: &str, more: &[&str]) -> Verdict {
    // Line by line, so that the beginning of the load can be seen.
    let place =
        Place::prepare(AS_IT_COMES)?.wrapped([program("stdbuf")?.display().to_string(), "-oL".into()]);
    let port = TcpPort::claim()?;
    let words = ["-F", "-u", "14"].iter().chain(more).chain(&["-p"]);
    let mut command = vec![program(name)?.display().to_string()];
    command.extend(words.map(ToString::to_string));
    command.push(port.number().to_string());
    let mut server = place.nonic_run(command.clone())?.start()?;
    server.listens_on(port.number())?;
    command.push("127.0.0.1".into());
    let mut client = place.nonic_run(command)?.deadline(Duration::from_secs(25)).start()?;
    // perftest prints the addresses once connected; the load begins right behind them.
    client.prints(|line| line.contains("remote address"))?;
    client.prints(|line| line.contains("#bytes"))?;
    drop(server.kill());
    let client = client.finish()?;
    if client.succeeded() {
        return failed(format!("a client whose server was killed reports success\n{}", client.report()));
    }
    Ok(())
}

fn start_again() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?;
    let mut command = vec![program("ibv_rc_pingpong")?.display().to_string(), "-g".into(), "0".into()];
    command.extend(["-n".into(), "1000000000".into(), "-p".into(), port.number().to_string()]);
    let mut server = place.nonic_run(command.clone())?.start()?;
    server.listens_on(port.number())?;
    command.push("127.0.0.1".into());
    let mut client = place.nonic_run(command)?.start()?;
    // Both run for hours if left alone: wait until they are connected. The output of the program is not flushed, so
    // look at the server's port, which it closes once the addresses are exchanged.
    while nonic_interop::port::is_listening(server.id(), port.number()) {
        if server.has_ended() || client.has_ended() {
            return failed(format!(
                "they ended early\n{}{}",
                client.report("client"),
                server.report("server")
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    drop((server.kill(), client.kill()));
    let arguments = ["-g", "0", "-n", "500", "-c"].map(String::from);
    Pair::run(&place, "ibv_rc_pingpong", &arguments)?.is_clean()
}

//! Packages of Python as they are in its registry: four that move memory for machine learning, Mooncake's transfer engine, DLSlime and
//! InfiniStore, which use the machine's libibverbs, and NIXL, which brings one of its own and a UCX over it; and ibverbs, which looks its
//! calls up by name. `ci/install` gets them.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use nonic_interop::c_program::package;
use nonic_interop::environment::{AS_IT_COMES, ONE_CPU, Place, ways};
use nonic_interop::namespace::Namespace;
use nonic_interop::suite::{Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::{program, shared_folder};

/// Where `ci/install` puts them.
const FOLDER: &str = "/usr/local/lib/nonic-tests/wheels";
const LOOPBACK: [&str; 2] = ["127.0.0.1"; 2];
/// What Ethernet carries.
const ETHERNET: u32 = 1500;

/// A package, and what the program that uses it is called.
#[derive(Clone, Copy)]
struct Wheel {
    name: &'static str,
    folder: &'static str,
    script: &'static str,
}

const MOONCAKE: Wheel = Wheel { name: "Mooncake", folder: "mooncake", script: "mooncake_pair.py" };
const IBVERBS: Wheel = Wheel { name: "ibverbs", folder: "ibverbs", script: "ibverbs_pair.py" };
const DLSLIME: Wheel = Wheel { name: "DLSlime", folder: "dlslime", script: "dlslime_pair.py" };
const INFINISTORE: Wheel =
    Wheel { name: "InfiniStore", folder: "infinistore", script: "infinistore_pair.py" };
const NIXL: Wheel = Wheel { name: "NIXL", folder: "nixl", script: "nixl_pair.py" };

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for wheel in [MOONCAKE, DLSLIME, INFINISTORE, NIXL, IBVERBS] {
        let name = wheel.name;
        // NIXL and UCX poll under a spin lock: what spins for it must get it where it shares the poller's CPU.
        for (number, environment) in ways().into_iter().chain([ONE_CPU]).enumerate() {
            suite.test(
                format!("{name} writes and reads another process's memory, {}", environment.name),
                move || {
                    let places = [Place::prepare(environment)?, Place::prepare(environment)?];
                    moves(wheel, &places, LOOPBACK, &[], &format!("{}-{number}", wheel.folder))
                },
            );
        }
        suite.test(format!("{name} writes and reads memory of another host"), move || {
            let places =
                Namespace::joined(ETHERNET)?.map(|host| Ok(Place::prepare(AS_IT_COMES)?.inside(host)));
            let [near, far] = places;
            let addresses = [Namespace::ADDRESSES[0], Namespace::FAR_ADDRESSES[0]];
            moves(wheel, &[near?, far?], addresses, &["--wire", "roce"], &format!("{}-hosts", wheel.folder))
        });
    }
    suite.run()
}

/// Runs both sides, each in its place with the address of it; both check every byte.
fn moves(wheel: Wheel, places: &[Place; 2], addresses: [&str; 2], options: &[&str], name: &str) -> Verdict {
    if !Path::new(FOLDER).join(wheel.folder).is_dir() {
        return skipped(format!(
            "{} is not in {FOLDER}: ci/install puts it there, where a registry is reached",
            wheel.name
        ));
    }
    let folder = shared_folder(name)?;
    for script in ["meeting.py", wheel.script] {
        let copied = fs::copy(package().join("wheels").join(script), folder.join(script))
            .and_then(|_| fs::set_permissions(folder.join(script), PermissionsExt::from_mode(0o644)));
        if let Err(why) = copied {
            return failed(format!("{script}: {why}"));
        }
    }
    let python = program("python3")?.display().to_string();
    let script = folder.join(wheel.script).display().to_string();
    let start = |role: &str, place: &Place, address: &str| {
        let words = [&python, "-B", &script, role, &folder.display().to_string(), address];
        let program = place.nonic_run_with(options, words)?;
        // No other of UCX's transports.
        program.variable("PYTHONPATH", FOLDER).variable("UCX_TLS", "rc,self").start()
    };
    let running = [start("passive", &places[0], addresses[0])?, start("active", &places[1], addresses[1])?];
    let ended = running.map(|side| side.finish());
    let mut reports = Vec::new();
    for (role, side) in ["passive", "active"].into_iter().zip(ended) {
        let side = side?;
        let moved = side.succeeded() && side.stdout.contains(&format!("{role}: 4194304 bytes each way"));
        // InfiniStore waits for its channel to be readable or writable, and complains when it has no event then.
        if !moved || side.stdout.contains("Failed to get CQ event") {
            reports.push(side.report());
        }
    }
    match reports.is_empty() {
        true => Ok(()),
        false => failed(reports.join("\n")),
    }
}

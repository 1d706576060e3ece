//! The distribution's own Python tests of verbs, as its package has them: they run without failure or error, and skip what
//! the device says it does not have, and nothing else.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use nonic_interop::c_program::{judge, package};
use nonic_interop::environment::{Environment, Place, ways};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{program, scratch};

/// Where the package `python3-pyverbs` puts them, some of them compressed.
const TESTS: &str = "/usr/share/doc/rdma-core/tests";

/// Tests of other vendors' interfaces and hardware.
const OF_OTHERS: [&str; 3] = ["test_mlx5", "test_efa", "test_cuda"];

/// What the tests say when they skip, and why that is right here.
const SKIPS: &[(&str, &str)] = &[
    ("skip RoCE test", "the port is an InfiniBand port unless told otherwise"),
    ("Extended CQ is not supported", "no completion queue knows of tags"),
    ("by root on Ethernet link layer", "raw packets and flow rules are not there"),
    ("Allocating dmabuf is not supported", "the distribution's package cannot allocate dmabuf"),
    (
        "ODP is unavailable - Operation not supported",
        "there are no atomics on memory that is paged on demand",
    ),
    ("There are no huge pages", "the machine has set none aside"),
];

/// Classes of which no test may be skipped.
const COMPLETE: [&str; 9] = [
    "test_mr.MRTest",
    "test_mr.MWTest",
    "test_mr.DeviceMemoryAPITest",
    "test_mr.DeviceMemoryTest",
    "test_device.DMTest",
    "test_device.SharedDMTest",
    "test_shared_pd.SharedPDTestCase",
    "test_cqex.CQEXAPITest",
    "test_rdmacm.CMTestCase",
];

/// Tests of other classes that may not be skipped.
const NEEDED: [&str; 4] = [
    "test_qpex.QpExTestCase.test_qp_ex_rc_atomic_write",
    "test_odp.OdpTestCase.test_odp_rc_rdma_write",
    "test_odp.OdpTestCase.test_odp_implicit_sync_prefetch_rc_traffic",
    "test_odp.OdpTestCase.test_odp_xrc_traffic",
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for way in ways() {
        suite.test(
            format!("the distribution's Python tests of verbs run without failure or error, {}", way.name),
            move || tests_of_the_distribution(way),
        );
    }
    suite.run()
}

fn tests_of_the_distribution(environment: Environment) -> Verdict {
    static UNPACKED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = UNPACKED.get_or_init(unpack).clone().or_else(failed)?;
    let runner = folder.join("distribution.py");
    let words = [program("python3")?, "-B".into(), runner, folder.join("tests")];
    let words = words.iter().map(|word| word.display().to_string());
    // One of the tests wants offsets refused that are no whole words, as some cards do.
    // In a network of its own: the groups and ports of the tests are always the same.
    let environment = Environment { only_lo: true, ..environment };
    let place = Place::prepare(environment)?.variable("NONIC_DEVICE_MEMORY_GRANULE", "4");
    let finished = place.nonic_run(words)?.run()?;
    judge(&finished)?;
    for line in finished.stdout.lines() {
        let Some((test, reason)) = line.strip_prefix("skipped ").and_then(|rest| rest.split_once(": "))
        else {
            continue;
        };
        if COMPLETE.iter().any(|class| test.contains(class))
            || !SKIPS.iter().any(|(says, _)| reason.contains(says))
        {
            return failed(format!("{test} was skipped: {reason}\n{}", finished.report()));
        }
    }
    let ran =
        |test: &&&str| finished.stdout.lines().any(|line| line.starts_with(&format!("ok tests.{test}:")));
    if let Some(test) = NEEDED.iter().find(|test| !ran(test)) {
        return failed(format!("{test} did not run\n{}", finished.report()));
    }
    match COMPLETE.iter().find(|class| !finished.stdout.contains(&format!("ok tests.{class}."))) {
        Some(class) => failed(format!("no test of {class} ran\n{}", finished.report())),
        None => Ok(()),
    }
}

/// Copies the tests to where an ordinary user can read them.
fn unpack() -> Result<PathBuf, String> {
    let folder = scratch().join("pyverbs");
    let tests = folder.join("tests");
    let why = |error: std::io::Error| format!("cannot unpack {TESTS} to {}: {error}", tests.display());
    fs::create_dir_all(&tests).map_err(why)?;
    let found = fs::read_dir(TESTS).map_err(|error| {
        format!(
            "{TESTS}: {error}; python3-pyverbs is not installed (run ci/install), or dpkg was told to leave documentation out"
        )
    })?;
    for entry in found {
        let packed = entry.map_err(why)?.path();
        let name = packed.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !OF_OTHERS.iter().any(|prefix| name.starts_with(prefix)) {
            let name = name.trim_end_matches(".gz");
            fs::write(tests.join(name), read(&packed).map_err(why)?).map_err(why)?;
        }
    }
    let runner = "distribution.py";
    fs::copy(package().join("hosts").join(runner), folder.join(runner)).map_err(why)?;
    Ok(folder)
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file.extension().is_none_or(|extension| extension != "gz") {
        return fs::read(file);
    }
    let output = Command::new("gzip").arg("-dc").arg(file).output()?;
    if output.status.success() { Ok(output.stdout) } else { Err(std::io::Error::other("gzip fails")) }
}

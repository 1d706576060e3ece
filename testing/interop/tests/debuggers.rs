//! Debuggers, checkers and core dumps look at registered memory as at any other.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nonic_interop::c_program::{compile, compile_with, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Pages, Place};
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::{program, scratch};

const ADOPTED: Environment = Environment { pages: Some(Pages::Adopted), ..AS_IT_COMES };
const ADDRESS_SANITIZER: &[&str] = &["-fsanitize=address"];

/// A program for each family of calls beside the ordinary ones.
const FAMILIES: [&str; 8] =
    ["import", "imports", "beyond", "domains", "reregistration", "paging", "extended", "extended_queues"];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test("gdb reads and writes registered memory of a live process, and dumps its core", debugged);
    suite.test("the kernel's core dump of a program has its registered memory", dumped);
    suite.test("valgrind finds nothing wrong in a sound program", || valgrind_is_silent("plain"));
    for (mode, finding) in
        [("overflow", "Invalid write of size 1"), ("use-after-free", "Invalid write of size 1")]
    {
        suite.test(format!("valgrind finds an {mode} in registered memory"), move || {
            valgrind_finds(mode, finding)
        });
    }
    for family in FAMILIES {
        suite.test(format!("valgrind finds nothing wrong in the calls of {family}.c"), move || {
            let words = [program("valgrind")?, compile(family)?].map(|word| word.display().to_string());
            let [valgrind, program] = words;
            let words = [valgrind, "--quiet".into(), "--error-exitcode=9".into(), program];
            judge(&Place::prepare(AS_IT_COMES)?.nonic_run(words)?.run()?).map(drop)
        });
        suite.test(format!("the calls of {family}.c run under AddressSanitizer"), move || {
            judge(&under_address_sanitizer(family, &[])?).map(drop)
        });
    }
    suite.test("a sound program runs under AddressSanitizer", || {
        judge(&under_address_sanitizer("debuggee", &["plain"])?).map(drop)
    });
    suite.test("threads that register what they allocate run under AddressSanitizer", || {
        judge(&under_address_sanitizer("allocators", &["60", "1"])?).map(drop)
    });
    suite.test("memory that only the library's objects lead to is not lost to AddressSanitizer", || {
        judge(&under_address_sanitizer("contexts", &[])?).map(drop)
    });
    suite.test(
        "a child that goes on with the device loses nothing of its parent's under AddressSanitizer",
        || judge(&under_address_sanitizer("generations", &[])?).map(drop),
    );
    for (mode, finding) in [("overflow", "heap-buffer-overflow"), ("use-after-free", "heap-use-after-free")] {
        suite.test(format!("AddressSanitizer finds an {mode} in registered memory"), move || {
            finds(&under_address_sanitizer("debuggee", &[mode])?, finding)
        });
    }
    suite.run()
}

fn debuggee() -> Verdict<String> {
    Ok(compile("debuggee")?.display().to_string())
}

/// Where `nobody` may leave a core.
fn folder(name: &str) -> Verdict<PathBuf> {
    let path = scratch().join(name);
    let made = fs::create_dir_all(&path)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)));
    match made {
        Ok(()) => Ok(path),
        Err(why) => failed(format!("cannot make {}: {why}", path.display())),
    }
}

fn gdb(commands: &[&str]) -> Verdict<Vec<String>> {
    let mut words = vec![program("gdb")?.display().to_string(), "-nx".into(), "--batch".into()];
    for command in commands {
        words.extend(["-ex".into(), command.to_string()]);
    }
    Ok(words)
}

/// The first bytes of `message` in `debuggee.c` after the peer's last write, as gdb's `x/8xb` prints them.
fn message() -> String {
    let byte = |i: usize| ((i * 31 + 5 * 97 + 7) ^ (i >> 8)) as u8;
    (0..8).map(|i| format!("0x{:02x}", byte(i))).collect::<Vec<_>>().join("\t")
}

fn shows(finished: &Finished, wanted: &[&str]) -> Verdict {
    match wanted.iter().find(|text| !finished.printed().contains(**text)) {
        None => Ok(()),
        Some(text) => failed(format!("{text:?} is missing\n{}", finished.report())),
    }
}

fn debugged() -> Verdict {
    let core = folder("gdb")?.join("core");
    let save = format!("generate-core-file {}", core.display());
    let mut words = gdb(&[
        "set startup-with-shell off",
        "break look_here",
        "run",
        "up",
        "x/8xb message",
        "set var message[100] = '!'",
        &save,
        "continue",
    ])?;
    words.extend(["--args".into(), debuggee()?, "stop".into()]);
    let finished = Place::prepare(ADOPTED)?.expecting_as_asked().nonic_run(words)?.run()?;
    judge(&finished)?;
    shows(&finished, &[&message(), "the program sees what the debugger wrote", "exited normally"])?;
    // gdb also dumps what a thread's allocator has only reserved, 64 MiB.
    is_small(&core, 96)?;
    let finished = look_into(&core, &["up", "x/8xb message", "x/1xb message + 100"])?;
    shows(&finished, &[&message(), "0x21"])
}

fn look_into(core: &Path, commands: &[&str]) -> Verdict<Finished> {
    let mut words = gdb(commands)?;
    words.extend([debuggee()?, core.display().to_string()]);
    Place::prepare(AS_IT_COMES)?.bare(words)?.run()
}

/// The program's memory is in the core; the device's, 64 MiB and as much again for its tables, is not.
fn is_small(core: &Path, most_mib: u64) -> Verdict {
    let size = fs::metadata(core).map_or(u64::MAX, |about| about.len());
    println!("  a core of {} KiB", size >> 10);
    if size < most_mib << 20 { Ok(()) } else { failed(format!("the core is as large as {} KiB", size >> 10)) }
}

fn dumped() -> Verdict {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim().is_empty() || pattern.starts_with(['|', '/']) {
        return skipped(format!("cores go elsewhere here: kernel.core_pattern is {:?}", pattern.trim()));
    }
    let folder = folder("core")?;
    let script = format!("cd {} && ulimit -c unlimited && exec \"$@\"", folder.display());
    let shell = ["/bin/sh", "-c", &script, "sh"];
    let finished = Place::prepare(ADOPTED)?
        .expecting_as_asked()
        .wrapped(shell)
        .nonic_run([debuggee()?, "crash".into()])?
        .run()?;
    if finished.succeeded() || finished.stdout.contains("FAIL active") {
        return failed(format!("it should have crashed, and nothing else\n{}", finished.report()));
    }
    let cores: Vec<PathBuf> =
        fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    let [core] = cores.as_slice() else {
        return failed(format!("one core is expected, found {cores:?}\n{}", finished.report()));
    };
    is_small(core, 32)?;
    shows(&look_into(core, &["frame function program", "x/8xb message"])?, &[&message()])
}

fn under_valgrind(mode: &str) -> Verdict<Finished> {
    let words = [program("valgrind")?.display().to_string(), "--quiet".into(), "--error-exitcode=9".into()];
    let words = words.into_iter().chain([debuggee()?, mode.into()]);
    // Adoption turns itself off there, and says so.
    let place = Place::prepare(ADOPTED)?.expecting(Pages::Plain).variable("NONIC_LOG", "debug");
    place.nonic_run(words)?.run()
}

fn valgrind_is_silent(mode: &str) -> Verdict {
    let finished = under_valgrind(mode)?;
    judge(&finished)?;
    shows(&finished, &["reason=Emulated"])?;
    // Its own words stand behind the number of the process: ==123==. A system call that it does not know yet is told
    // behind dashes.
    match finished.stderr.lines().find(|line| line.starts_with("==")) {
        None => Ok(()),
        Some(line) => failed(format!("valgrind complains: {line}\n{}", finished.report())),
    }
}

fn valgrind_finds(mode: &str, finding: &str) -> Verdict {
    finds(&under_valgrind(mode)?, finding)
}

fn finds(finished: &Finished, finding: &str) -> Verdict {
    if finished.succeeded() || !finished.stderr.contains(finding) {
        return failed(format!("{finding:?} was not found\n{}", finished.report()));
    }
    Ok(())
}

fn under_address_sanitizer(name: &str, arguments: &[&str]) -> Verdict<Finished> {
    let mut words = vec![compile_with(name, ADDRESS_SANITIZER)?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    // As often as it can, like an allocator that purges.
    let place = Place::prepare(ADOPTED)?.expecting_as_asked();
    let place = place.variable("ASAN_OPTIONS", "allocator_release_to_os_interval_ms=0");
    place.nonic_run(words)?.run()
}

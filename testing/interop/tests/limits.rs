//! Programs under limits, filters and without folders they might expect: they work.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use nonic_interop::c_program::{compile, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Pages, Place};
use nonic_interop::pair::Pair;
use nonic_interop::suite::{Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::program;

const ADOPTED: Environment = Environment { pages: Some(Pages::Adopted), ..AS_IT_COMES };

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test("every kind of transfer works with 64 descriptors", || {
        under(&["prlimit", "--nofile=64", "--"])
    });
    suite.test("every kind of transfer works with 64 KiB of locked memory", || {
        under(&["prlimit", "--memlock=65536", "--"])
    });
    for (calls, sentence) in [
        ("process_vm", "without process_vm_readv and process_vm_writev"),
        ("userfaultfd", "without userfaultfd"),
        ("membarrier", "without membarrier"),
        ("process_vm,userfaultfd,membarrier", "without process_vm, userfaultfd and membarrier"),
        ("container", "under the filter of a container"),
        ("container,process_vm", "under the filter of a container on an older kernel"),
    ] {
        suite.test(format!("every kind of transfer works {sentence}"), move || denied(calls));
    }
    for (limit, sentence, pages) in [
        ("--fsize=1073741824", "with files limited to 1 GiB", Pages::Plain),
        ("--as=2147483648", "with 2 GiB of address space", Pages::Adopted),
    ] {
        suite.test(format!("every kind of transfer works {sentence}"), move || {
            under(&["prlimit", limit, "--"])
        });
        suite.test(format!("registered memory behaves {sentence}"), move || {
            let prlimit = [program("prlimit")?.display().to_string(), limit.into(), "--".into()];
            registered_memory(prlimit, "aftermath", &[], pages)
        });
    }
    suite.test("registered memory of a program with one thread behaves without userfaultfd", || {
        without_userfaultfd("aftermath", &[], Pages::Adopted)
    });
    suite.test("registered memory of a program with several threads behaves without userfaultfd", || {
        without_userfaultfd("allocators", &["200", "1"], Pages::Plain)
    });
    for (name, arguments) in [
        ("ibv_rc_pingpong", "-g 0 -n 500 -c"),
        ("ibv_srq_pingpong", "-g 0 -n 500 -c"),
        ("ib_write_bw", "-F -n 1000"),
        ("ib_send_lat", "-F -n 500"),
    ] {
        suite.test(format!("{name} {arguments} runs under a container's filter"), move || {
            let words = [compile("deny")?.display().to_string(), "userfaultfd".into()];
            let arguments: Vec<String> = arguments.split(' ').map(Into::into).collect();
            Pair::run(&Place::prepare(ADOPTED)?.wrapped(words), name, &arguments)?.is_clean()
        });
    }
    suite.test(
        "without a thread to be had a queue pair is refused with the reason, and made when there is one",
        || {
            let finished = Place::prepare(AS_IT_COMES)?
                .nonic_run([compile("no_threads")?.display().to_string()])?
                .run()?;
            judge(&finished)?;
            if finished.printed().matches("no thread can be started").count() == 1 {
                return Ok(());
            }
            failed(format!("the reason is not said once\n{}", finished.report()))
        },
    );
    for (word, sentence) in [("alone", "one thread"), ("threads", "several threads")] {
        suite.test(
            format!("a program with {sentence} may register two thirds of the memory that it is allowed"),
            move || within_memory(word),
        );
    }
    suite.test("without process_vm_readv and process_vm_writev on-demand paging is refused", no_paging);
    suite.test("with files limited to 64 KiB the program is told so and goes on", no_large_files);
    suite.test("without memfd_create the program works or is told what is missing", no_memfd);
    for (mounts, sentence) in [
        ("mount -t tmpfs -o ro,size=4k none /proc", "without /proc"),
        ("mount -t tmpfs -o ro,size=4k none /dev/shm", "without /dev/shm"),
        ("mount -o remount,ro,bind / && mount -t tmpfs -o ro,size=4k none /dev/shm", "on a read-only root"),
        ("mount -t tmpfs -o ro,size=4k none /sys", "without /sys"),
    ] {
        suite.test(format!("every kind of transfer works {sentence}"), move || with_mounts(mounts));
    }
    suite.test("every kind of transfer works with ptrace_scope 1", restricted_ptrace);
    suite.test("the benchmark of the C library runs and prints every figure", benchmark);
    suite.run()
}

fn everyday() -> Verdict<String> {
    Ok(compile("everyday")?.display().to_string())
}

fn under(wrapper: &[&str]) -> Verdict {
    let mut words = vec![program(wrapper[0])?.display().to_string()];
    words.extend(wrapper[1..].iter().map(|word| word.to_string()));
    judge(&Place::prepare(AS_IT_COMES)?.wrapped(words).nonic_run([everyday()?])?.run()?).map(drop)
}

fn denied(calls: &str) -> Verdict {
    let words = [compile("deny")?.display().to_string(), calls.into()];
    judge(&Place::prepare(AS_IT_COMES)?.wrapped(words).nonic_run([everyday()?])?.run()?).map(drop)
}

/// On-demand paging needs the kernel to copy within the process.
fn no_paging() -> Verdict {
    let words = [compile("deny")?.display().to_string(), "process_vm".into()];
    let resources = compile("resources")?.display().to_string();
    let finished = Place::prepare(AS_IT_COMES)?.wrapped(words).nonic_run([resources])?.run()?;
    if finished.stdout.contains("ON_DEMAND without that capability is EOPNOTSUPP") {
        return judge(&finished).map(drop);
    }
    failed(format!("it announces on-demand paging\n{}", finished.report()))
}

/// As under Docker's default profile.
fn without_userfaultfd(name: &str, arguments: &[&str], expected: Pages) -> Verdict {
    registered_memory(
        [compile("deny")?.display().to_string(), "userfaultfd".into()],
        name,
        arguments,
        expected,
    )
}

fn registered_memory(
    wrapper: impl IntoIterator<Item = String>,
    name: &str,
    arguments: &[&str],
    expected: Pages,
) -> Verdict {
    let mut words = vec![compile(name)?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    judge(&Place::prepare(ADOPTED)?.expecting(expected).wrapped(wrapper).nonic_run(words)?.run()?).map(drop)
}

/// In a control group with a limit half as much again as `memory_limit` registers; a second process is in it, too.
fn within_memory(word: &str) -> Verdict {
    let group = MemoryGroup::with_limit(word, 384 << 20)?;
    let place = Place::prepare(ADOPTED)?
        .expecting(Pages::Adopted)
        .mounting(&format!("echo $$ > {}/cgroup.procs", group.0.display()))?;
    let words = [compile("memory_limit")?.display().to_string(), word.into()];
    judge(&place.nonic_run(words)?.run()?).map(drop)
}

/// A control group of this test, with a limit on memory; gone with this value.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn with_limit(name: &str, bytes: u64) -> Verdict<Self> {
        let name = format!("nonic-{name}-{}", std::process::id());
        for (parent, limit) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let group = Path::new(parent).join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            // Created, a file of that name would be no limit.
            if group.0.join(limit).exists() && fs::write(group.0.join(limit), bytes.to_string()).is_ok() {
                return Ok(group);
            }
        }
        skipped("no control group with a limit on memory can be made here")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Until the last process that was killed in it is gone.
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The device cannot be opened; `SIGXFSZ` must not end the program.
fn no_large_files() -> Verdict {
    let words = [program("prlimit")?.display().to_string(), "--fsize=65536".into(), "--".into()];
    let devinfo = program("ibv_devinfo")?.display().to_string();
    let finished = Place::prepare(AS_IT_COMES)?.wrapped(words).nonic_run([devinfo])?.run()?;
    if finished.printed().contains("RLIMIT_FSIZE") && finished.printed().contains("Failed to open device") {
        return Ok(());
    }
    failed(format!("it names no limit, or did not go on\n{}", finished.report()))
}

fn no_memfd() -> Verdict {
    let words = [compile("deny")?.display().to_string(), "memfd".into()];
    let finished = Place::prepare(AS_IT_COMES)?.wrapped(words).nonic_run([everyday()?])?.run()?;
    if judge(&finished).is_ok() || finished.printed().contains("memfd") {
        return Ok(());
    }
    failed(format!("it neither works nor names memfd_create\n{}", finished.report()))
}

/// Runs in a mount namespace where a shell has mounted something over a folder.
fn with_mounts(mounts: &str) -> Verdict {
    judge(&Place::prepare(AS_IT_COMES)?.mounting(mounts)?.nonic_run([everyday()?])?.run()?).map(drop)
}

fn restricted_ptrace() -> Verdict {
    let path = "/proc/sys/kernel/yama/ptrace_scope";
    match fs::read_to_string(path) {
        Err(_) => skipped(format!("this kernel has no {path}")),
        Ok(text) if text.trim() == "0" => {
            skipped(format!("{path} is 0, and a test does not change the whole machine"))
        }
        Ok(_) => judge(&Place::prepare(AS_IT_COMES)?.nonic_run([everyday()?])?.run()?).map(drop),
    }
}

/// Only that it runs: figures from a machine under test mean little. `ci/bench-verbs` is for reading them.
fn benchmark() -> Verdict {
    let words =
        [compile("bench_verbs")?.display().to_string(), "--quick".into(), "--idle".into(), "2".into()];
    let place = Place::prepare(Environment { ..AS_IT_COMES })?;
    let finished = place.nonic_run(words)?.deadline(Duration::from_secs(120)).run()?;
    if !finished.succeeded() {
        return failed(format!("it ended with {}\n{}", finished.status(), finished.report()));
    }
    for figure in [
        "reference: eventfd",
        "open device, the first",
        "resident memory of an open device",
        "CPU of an open device",
        "register 4 KiB, median",
        "change the rights of a region, median",
        "10,000 queue pairs, made in",
        "10,000 queue pairs, memory of each",
        "RC send of 8 bytes",
        "polls in vain, ratio",
        "RDMA write of 65536 bytes, rate",
        "CPU of an idle connection",
    ] {
        if !finished.stdout.contains(figure) {
            return failed(format!("the figure `{figure}` is missing\n{}", finished.report()));
        }
    }
    Ok(())
}

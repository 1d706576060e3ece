//! SCIF under limits, filters and without folders it might expect.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile, compile_scif, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::scif::place;
use nonic_interop::suite::{Suite, Verdict, everything};
use nonic_interop::toolbox::program;

/// The programs that prove what SCIF promises.
const PROMISES: &[&str] =
    &["endpoints", "stream", "windows", "mappings", "freed_mapping", "transfers", "fences", "descriptors"];
/// Those that do not go on beside refused proofs.
const WITHOUT_PROCESS_VM: &[&str] =
    &["stream", "windows", "mappings", "freed_mapping", "transfers", "fences", "descriptors"];
/// Those that need no more than a few descriptors themselves.
const WITH_FEW_DESCRIPTORS: &[&str] = &["stream", "mappings", "freed_mapping", "transfers", "fences"];
const PLACES: [(&str, &str); 2] = [("between two processes", "two"), ("within one process", "alone")];

/// Those that register nothing, and one that tries.
const WITHOUT_PROC: &[&str] = &["endpoints", "stream", "no_map"];

/// What is kept from the programs: system calls, or more than a limit.
const RESTRICTIONS: &[(&str, Restriction, &[&str])] = &[
    ("without userfaultfd", Restriction::Denied("userfaultfd"), PROMISES),
    ("without process_vm_readv and process_vm_writev", Restriction::Denied("process_vm"), WITHOUT_PROCESS_VM),
    ("without membarrier", Restriction::Denied("membarrier"), PROMISES),
    (
        "without process_vm, userfaultfd and membarrier",
        Restriction::Denied("process_vm,userfaultfd,membarrier"),
        WITHOUT_PROCESS_VM,
    ),
    ("under the filter of a container", Restriction::Denied("container"), PROMISES),
    (
        "under the filter of a container on an older kernel",
        Restriction::Denied("container,process_vm"),
        WITHOUT_PROCESS_VM,
    ),
    (
        "without /proc",
        Restriction::Mounted("mount --bind /proc /mnt && mount -t tmpfs -o ro,size=4k none /proc"),
        WITHOUT_PROC,
    ),
    ("without /dev/shm", Restriction::Mounted("mount -t tmpfs -o ro,size=4k none /dev/shm"), PROMISES),
    (
        "on a read-only root",
        Restriction::Mounted("mount -o remount,ro,bind / && mount -t tmpfs -o ro,size=4k none /dev/shm"),
        PROMISES,
    ),
    ("with 2 GiB of address space", Restriction::Limited("--as=2147483648"), PROMISES),
    ("with 64 KiB of locked memory", Restriction::Limited("--memlock=65536"), PROMISES),
    ("with 256 descriptors", Restriction::Limited("--nofile=256"), WITH_FEW_DESCRIPTORS),
];

#[derive(Clone, Copy)]
enum Restriction {
    Denied(&'static str),
    Limited(&'static str),
    Mounted(&'static str),
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (name, restriction, promises) in RESTRICTIONS {
        for promise in *promises {
            for (between, word) in PLACES {
                suite.test(format!("{promise} are what they should be {name}, {between}"), move || {
                    run(restriction.place()?, promise, &[word])
                });
            }
        }
    }
    let (rounds, idle) = if everything() { ("10000", "200") } else { ("600", "24") };
    for (between, word) in PLACES {
        suite
            .test(format!("every one of many windows keeps its pages and is mapped, {between}"), move || {
                run(place(AS_IT_COMES)?, "many_windows", &[word, rounds, idle])
            });
        suite.test(
            format!("every one of many windows keeps its pages and is mapped without userfaultfd, {between}"),
            move || {
                let place = Restriction::Denied("userfaultfd").place()?;
                run(place, "many_windows", &[word, rounds, idle, "unshielded"])
            },
        );
    }
    suite.run()
}

impl Restriction {
    fn place(self) -> Verdict<Place> {
        let place = place(AS_IT_COMES)?;
        Ok(match self {
            Self::Denied(calls) => place.wrapped([compile("deny")?.display().to_string(), calls.into()]),
            Self::Limited(limit) => {
                place.wrapped([program("prlimit")?.display().to_string(), limit.into(), "--".into()])
            }
            Self::Mounted(mounts) => place.mounting(mounts)?,
        })
    }
}

fn run(place: Place, name: &str, arguments: &[&str]) -> Verdict {
    let mut words = vec![compile_scif(&format!("{name}.c"))?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    judge(&place.nonic_run(words)?.run()?).map(drop)
}

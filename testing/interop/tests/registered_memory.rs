//! Memory while it is registered and afterwards: every kind of it, over every allocator, through fork and exec, in great
//! numbers and for a long time. Afterwards it is as if it had never been registered.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use nonic_interop::c_program::{compile, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Pages, Place, Tier, ways};
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, everything, failed};
use nonic_interop::toolbox::library;

struct Case {
    sentence: &'static str,
    /// A file of `c/`.
    program: &'static str,
    arguments: &'static [&'static str],
    /// What it is asked where each write is a message to a thread that has no CPU of its own, which takes two hundred times as long.
    by_messages: Option<&'static str>,
    /// Runs on every tier, not only with memory adopted and not.
    every_tier: bool,
}

impl Case {
    fn arguments(&self, environment: Environment) -> Vec<&'static str> {
        let by_messages = environment.tier.is_some_and(|Tier(tier)| tier == "ring") && !everything();
        self.by_messages.filter(|_| by_messages).map_or(self.arguments.to_vec(), |argument| vec![argument])
    }
}

const CASES: &[Case] = &[
    Case {
        sentence: "memory behaves after its deregistration as if it had never been registered",
        program: "aftermath",
        arguments: &[],
        by_messages: None,
        every_tier: true,
    },
    Case {
        sentence: "every kind of memory is registered, written, read and given back, or refused unchanged",
        program: "memory_kinds",
        arguments: &[],
        by_messages: None,
        every_tier: true,
    },
    Case {
        sentence: "processes that part by fork have their own bytes",
        program: "forks",
        arguments: &[],
        by_messages: None,
        every_tier: true,
    },
    Case {
        sentence: "processes that part by fork after ibv_fork_init have their own bytes",
        program: "forks",
        arguments: &["fork-init"],
        by_messages: None,
        every_tier: false,
    },
    Case {
        sentence: "pages that the kernel holds for io_uring stay the program's",
        program: "kernel_pins",
        arguments: &[],
        by_messages: None,
        every_tier: false,
    },
    Case {
        sentence: "pages that a driver may hold stay the program's",
        program: "driver_pins",
        arguments: &[],
        by_messages: None,
        every_tier: false,
    },
    Case {
        sentence: "the last byte of a write never comes before the rest",
        program: "last_byte",
        arguments: &[],
        by_messages: Some("quick"),
        every_tier: true,
    },
];

const ADOPTED: Environment = Environment { name: "adopted", pages: Some(Pages::Adopted), ..AS_IT_COMES };
const PLAIN: Environment = Environment { name: "not adopted", pages: Some(Pages::Plain), ..AS_IT_COMES };
/// An allocator, and what makes it give pages back to the kernel as often as it can.
struct Allocator {
    name: &'static str,
    library: Option<&'static str>,
    variables: &'static [&'static str],
}

const ALLOCATORS: &[Allocator] = &[
    Allocator { name: "glibc's arenas", library: None, variables: &[] },
    Allocator {
        name: "one arena of glibc, trimmed at once",
        library: None,
        variables: &["MALLOC_ARENA_MAX=1", "MALLOC_TRIM_THRESHOLD_=0", "MALLOC_TOP_PAD_=0"],
    },
    Allocator {
        name: "jemalloc, purging at once",
        library: Some("libjemalloc.so.2"),
        variables: &["MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0,abort_conf:true"],
    },
    Allocator {
        name: "jemalloc, purging lazily first",
        library: Some("libjemalloc.so.2"),
        variables: &["MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:50,abort_conf:true"],
    },
    Allocator {
        name: "tcmalloc, purging at once",
        library: Some("libtcmalloc_minimal.so.4"),
        variables: &["TCMALLOC_AGGRESSIVE_DECOMMIT=1", "TCMALLOC_RELEASE_RATE=10"],
    },
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in CASES {
        let every_way = case.every_tier || everything();
        for environment in if every_way { ways() } else { vec![ADOPTED, PLAIN] } {
            suite.test(format!("{}, {}", case.sentence, environment.name), move || {
                run(case.program, &case.arguments(environment), environment)
            });
        }
    }
    for environment in [ADOPTED, PLAIN] {
        // Half of either number, with two mappings each, would be more than the program lets pass.
        let count = if everything() { "100000" } else { "40000" };
        suite.test(
            format!("{count} small regions in one heap need few mappings, {}", environment.name),
            move || run("many_regions", &[count], environment),
        );
    }
    for environment in ways() {
        suite.test(
            format!("forks meet regions that live, come and go under load, {}", environment.name),
            move || run("forks", &["load", &number("NONIC_FORKS", 100).to_string()], environment),
        );
    }
    for allocator in ALLOCATORS {
        for environment in [ADOPTED, PLAIN] {
            suite.test(
                format!(
                    "no allocator is confused by registered memory: {}, {}",
                    allocator.name, environment.name
                ),
                move || allocates(allocator, environment),
            );
        }
    }
    for environment in [ADOPTED, PLAIN] {
        suite.test(
            format!("registering and deregistering for long does not grow a process, {}", environment.name),
            move || does_not_grow(environment),
        );
    }
    suite.run()
}

/// The place, with what a program may expect of its pages there.
fn place(environment: Environment) -> Verdict<Place> {
    Ok(Place::prepare(environment)?.expecting_as_asked())
}

fn run(program: &str, arguments: &[&str], environment: Environment) -> Verdict {
    let mut words = vec![compile(program)?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    let finished = place(environment)?.nonic_run(words)?.deadline(Duration::from_secs(300)).run()?;
    judge(&finished)?;
    show(&finished);
    Ok(())
}

/// Figures, and kinds of memory that the machine does not have.
fn show(finished: &Finished) {
    for line in finished.stdout.lines() {
        if line.starts_with("  ") {
            println!("{line}");
        }
        if line.starts_with("SKIPPED") {
            eprintln!("{}", line.replacen("SKIPPED", "SKIPPED:", 1));
        }
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A number that a failed run prints and a rerun takes: `NONIC_SEED`.
fn seed() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    number("NONIC_SEED", u64::from(now.subsec_nanos()) + 1).to_string()
}

fn allocates(allocator: &Allocator, environment: Environment) -> Verdict {
    let mut words = vec!["/usr/bin/env".to_owned()];
    if let Some(name) = allocator.library {
        words.push(format!("LD_PRELOAD={}", library(name)?.display()));
    }
    words.extend(allocator.variables.iter().map(|variable| variable.to_string()));
    let rounds = number("NONIC_ALLOCATOR_ROUNDS", 200).to_string();
    words.extend([compile("allocators")?.display().to_string(), rounds, seed()]);
    let finished = place(environment)?.nonic_run(words)?.deadline(Duration::from_secs(600)).run()?;
    judge(&finished)?;
    show(&finished);
    if finished.stderr.contains("cannot be preloaded") {
        return failed(format!("the allocator was not loaded\n{}", finished.report()));
    }
    Ok(())
}

/// 2,000 rounds; `NONIC_LOOP_ROUNDS` asks for more, as `ci/registration-loop` does. In a network of its own: its descriptors include
/// sockets at the port of the wire, which it would get later where other users' programs have it at first.
fn does_not_grow(environment: Environment) -> Verdict {
    let environment = Environment { only_lo: true, ..environment };
    let rounds = number("NONIC_LOOP_ROUNDS", 2000);
    let words = [
        compile("registration_loop")?.display().to_string(),
        rounds.to_string(),
        (rounds / 10).to_string(),
        seed(),
    ];
    let deadline = Duration::from_secs(60) + Duration::from_millis(10) * rounds as u32;
    let finished = place(environment)?.nonic_run(words)?.deadline(deadline).run()?;
    judge(&finished)?;
    show(&finished);
    Ok(())
}

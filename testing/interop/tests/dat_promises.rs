//! C programs that prove what uDAPL 1.2 promises and refuses, each refusal with a proof that nothing moved: between two
//! processes and within one, on every way that bytes can take, with memory that is coherent and with memory that is not.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile_dat, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, ONE_CPU, Place, ways};
use nonic_interop::suite::{Suite, Verdict, everything};

/// What the three reference pages promise, and the file of `c/dat` that proves it.
const PROMISES: &[(&str, &str)] = &[
    ("regions are what they were registered as, and what they do not allow moves nothing", "lmr"),
    ("binds begin and end when they should, and what they do not allow moves nothing", "rmr"),
    ("what is synchronized is shown, and nothing else where memory is not coherent", "sync"),
    ("the three pages hold from the first call to the last", "three_pages"),
];

/// Of no use on more than one way: what is tried does not depend on it.
const CALLS: &[(&str, &str)] = &[
    ("adapters, the registry and their attributes refuse what makes no sense", "adapters"),
    ("what is no handle is refused by every call, by name", "handles"),
    ("dispatchers and notification objects wake whom they should", "dispatchers"),
    ("who waits for two queues learns of them in the order of a wire", "notification_order"),
    ("connections begin and end as the table of states says", "connections"),
    ("transfers bring their bytes, and failed ones say why", "transfers"),
    ("what runs out is named, and nothing else happens", "exhaustion"),
    ("a message that nobody is ready for fails after the time it was given", "impatient"),
];

/// What is between processes and not within one.
const SHARING: (&str, &str) = ("a cookie names one memory for all processes of a user", "cookies");

/// Whether incoming writes are to be invisible until they are synchronized.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Coherent,
    /// By the variable, as `nonic run --noncoherent` sets it.
    NonCoherent,
    /// By the name of the adapter.
    NonCoherentByName,
}

impl Memory {
    fn name(self) -> &'static str {
        match self {
            Self::Coherent => "",
            Self::NonCoherent => ", not coherent",
            Self::NonCoherentByName => ", not coherent by name",
        }
    }

    fn settle(self, place: Place) -> Place {
        match self {
            Self::Coherent => place,
            Self::NonCoherent => place.variable("NONIC_NONCOHERENT", "1"),
            Self::NonCoherentByName => place.variable("DAT_TEST_ADAPTER", "nonic-noncoherent"),
        }
    }
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (sentence, program) in PROMISES {
        for environment in ways().into_iter().chain([ONE_CPU]) {
            for memory in [Memory::Coherent, Memory::NonCoherent] {
                let name = format!("{sentence}, {}{}", environment.name, memory.name());
                suite.test(name, move || run(program, environment, memory, &[]));
            }
        }
    }
    for (sentence, program) in PROMISES.iter().chain(CALLS) {
        for memory in [Memory::Coherent, Memory::NonCoherentByName] {
            // That takes two million regions each time.
            let each_way = *program != "exhaustion" || everything();
            let is_call = CALLS.iter().any(|(_, call)| call == program);
            if is_call && (each_way || memory != Memory::Coherent) {
                let name = format!("{sentence}, between processes{}", memory.name());
                suite.test(name, move || run(program, AS_IT_COMES, memory, &[]));
            }
            if each_way || memory == Memory::Coherent {
                let name = format!("{sentence}, within one process{}", memory.name());
                suite.test(name, move || run(program, AS_IT_COMES, memory, &["alone"]));
            }
        }
    }
    let (sentence, program) = SHARING;
    for environment in ways() {
        for memory in [Memory::Coherent, Memory::NonCoherent, Memory::NonCoherentByName] {
            let name = format!("{sentence}, {}{}", environment.name, memory.name());
            suite.test(name, move || run(program, environment, memory, &[]));
        }
    }
    for (sentence, program) in [PROMISES[3], CALLS[3], CALLS[4]] {
        let name = format!("{sentence}, looked for and not waited for");
        suite.test(name, move || run(program, AS_IT_COMES, Memory::Coherent, &["poll"]));
    }
    for seed in ["1", "2", "18446744073709551615"] {
        let (sentence, program) = PROMISES[2];
        let name = format!("{sentence}, with a cache of seed {seed}");
        suite.test(name, move || {
            let place = Memory::NonCoherent.settle(Place::prepare(AS_IT_COMES)?);
            let command = vec![compile_dat(program)?.display().to_string(), "noncoherent".into()];
            judge(&place.variable("NONIC_CACHE_SEED", seed).nonic_run(command)?.run()?).map(drop)
        });
    }
    for (sentence, program) in CALLS {
        if everything() {
            for environment in ways().into_iter().chain([ONE_CPU]) {
                let name = format!("{sentence}, {}", environment.name);
                suite.test(name, move || run(program, environment, Memory::Coherent, &[]));
            }
        }
    }
    suite.run()
}

fn run(program: &str, environment: Environment, memory: Memory, words: &[&str]) -> Verdict {
    let mut command = vec![compile_dat(program)?.display().to_string()];
    command.extend(words.iter().map(|word| word.to_string()));
    if memory != Memory::Coherent {
        command.push("noncoherent".into());
    }
    let place = memory.settle(Place::prepare(environment)?);
    judge(&place.nonic_run(command)?.run()?).map(drop)
}

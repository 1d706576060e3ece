//! C programs, compiled against the distribution's header, that prove promises and refusals, on every tier.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile, compile_example, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, ways};
use nonic_interop::suite::{Suite, Verdict, everything, failed};

struct Case {
    sentence: &'static str,
    /// A file of `c/`.
    program: &'static str,
    /// Of no use on more than one tier: nothing crosses between processes.
    one_tier: bool,
}

const CASES: &[Case] = &[
    Case {
        sentence: "refusals of creation, registration and posting change nothing",
        program: "resources",
        one_tier: true,
    },
    Case {
        sentence: "requests built call by call are posted as a whole or not at all",
        program: "wr_calls",
        one_tier: true,
    },
    Case {
        sentence: "a flush ends when what was written is there, for who was given the right",
        program: "flushes",
        one_tier: true,
    },
    Case {
        sentence: "families that are not there say so, and keys and flags keep datagrams apart",
        program: "beyond",
        one_tier: true,
    },
    Case {
        sentence: "objects are used under another name within a process",
        program: "import",
        one_tier: true,
    },
    Case {
        sentence: "what one process made another uses that was given a descriptor and handles, until its owner takes it back",
        program: "imports",
        one_tier: false,
    },
    Case {
        sentence: "parent domains are protection domains by another name, and kept as long as they are used",
        program: "domains",
        one_tier: true,
    },
    Case { sentence: "queue pairs move between states as the table says", program: "states", one_tier: true },
    Case {
        sentence: "failed transfers say why and move nothing",
        program: "transfer_errors",
        one_tier: false,
    },
    Case {
        sentence: "unreliable services drop in silence what does not fit",
        program: "unreliable",
        one_tier: false,
    },
    Case {
        sentence: "completion and asynchronous events come when they should",
        program: "events",
        one_tier: false,
    },
    Case {
        sentence: "completions are read one by one as ibv_poll_cq tells them, and events tell of several together",
        program: "extended_queues",
        one_tier: false,
    },
    Case {
        sentence: "a region that is registered anew is reached by what holds now, and by nothing that held before",
        program: "reregistration",
        one_tier: false,
    },
    Case {
        sentence: "paged memory is reached if it is there, a null region is always, and what is missing is an error",
        program: "paging",
        one_tier: false,
    },
    Case { sentence: "every kind of transfer brings its bytes", program: "everyday", one_tier: false },
    Case {
        sentence: "peers that were silent are heard, however a program waits and whatever became of others",
        program: "silent_peers",
        one_tier: true,
    },
    Case {
        sentence: "extended reliable connections bring requests to the queues they name, and refusals change nothing",
        program: "extended",
        one_tier: false,
    },
    Case {
        sentence: "memory windows are bound, used and taken back, and what is wrong moves nothing",
        program: "windows",
        one_tier: false,
    },
];

/// The device memory given to the program that compares it with `max_dm_size`.
const DEVICE_MEMORY: &str = "1048576";
const GRANULE: &str = "--device-memory-granule=4";

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (number, environment) in ways().into_iter().enumerate() {
        let name = environment.name;
        for case in CASES.iter().filter(|case| !case.one_tier || number == 0 || everything()) {
            suite.test(format!("{}, {name}", case.sentence), move || run(case.program, environment));
        }
        suite.test(format!("device memory keeps every promise of its manual page, {name}"), move || {
            device_memory(environment, &[])
        });
    }
    for link in [Link::InfiniBand, Link::Ethernet] {
        for case in CASES {
            let environment = Environment { link: Some(link), ..AS_IT_COMES };
            suite.test(format!("{}, port {}", case.sentence, link.value()), move || {
                run(case.program, environment)
            });
        }
    }
    suite.test("device memory keeps every promise of its manual page, its size as it comes", || {
        judge(
            &Place::prepare(AS_IT_COMES)?
                .nonic_run([compile("device_memory")?.display().to_string()])?
                .run()?,
        )
        .map(drop)
    });
    suite.test("device memory keeps every promise of its manual page, its size from the flag", || {
        device_memory(AS_IT_COMES, &["--device-memory", DEVICE_MEMORY])
    });
    suite.test(
        "device memory keeps every promise of its manual page where it is copied in whole words",
        || device_memory(AS_IT_COMES, &["--device-memory", DEVICE_MEMORY, GRANULE]),
    );
    suite.test("what is imported is used and taken back with the express ways off", || {
        let words = [compile("imports")?.display().to_string()];
        judge(&Place::prepare(AS_IT_COMES)?.variable("NONIC_EXPRESS", "off").nonic_run(words)?.run()?)
            .map(drop)
    });
    for (example, last_words) in EXAMPLES {
        let sentence = format!("the example {example} does what it says");
        suite.test(sentence, move || runs(example, last_words));
    }
    suite.run()
}

/// Every program of `examples/c`, and what it prints when all went well.
const EXAMPLES: &[(&str, &str)] = &[
    ("remote_write", "my memory now says: these bytes were written by another process"),
    ("shared_counter", "the counter says 4000"),
];

fn runs(example: &str, last_words: &str) -> Verdict {
    let finished =
        Place::prepare(AS_IT_COMES)?.nonic_run([compile_example(example)?.display().to_string()])?.run()?;
    if finished.succeeded() && finished.stdout.contains(last_words) {
        return Ok(());
    }
    failed(format!("it should exit with 0 and print {last_words:?}\n{}", finished.report()))
}

fn run(program: &str, environment: Environment) -> Verdict {
    let words = [compile(program)?.display().to_string()];
    judge(&Place::prepare(environment)?.nonic_run(words)?.run()?).map(drop)
}

/// With a small device memory, so that its end is near; set by the variable unless options say otherwise.
fn device_memory(environment: Environment, options: &[&str]) -> Verdict {
    let granule = if options.contains(&GRANULE) { "4" } else { "1" };
    let words = [compile("device_memory")?.display().to_string(), DEVICE_MEMORY.into(), granule.into()];
    let mut place = Place::prepare(environment)?;
    if options.is_empty() {
        place = place.variable("NONIC_DEVICE_MEMORY", DEVICE_MEMORY);
    }
    judge(&place.nonic_run_with(options, words)?.run()?).map(drop)
}

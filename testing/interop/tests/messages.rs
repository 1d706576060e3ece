//! What the libraries have to say reaches a person, whichever of them a program has loaded.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use nonic_interop::c_program::{compile, compile_dat, compile_dat2, compile_rdmacm, compile_scif, judge};
use nonic_interop::environment::AS_IT_COMES;
use nonic_interop::namespace::Namespace;
use nonic_interop::scif;
use nonic_interop::suite::{Suite, Verdict, failed};

/// How a program is made, by its name.
type Compile = fn(&str) -> Verdict<PathBuf>;

const PROGRAMS: &[(&str, Compile, &str, &[&str])] = &[
    ("libibverbs", compile, "states", &[]),
    ("librdmacm", compile_rdmacm, "rdmacm_later", &[]),
    ("libdat", compile_dat, "handles", &["alone"]),
    ("a provider of libdat2", compile_dat2, "provider", &[]),
    ("libscif", |name| compile_scif(&format!("{name}.c")), "endpoints", &["alone"]),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (library, compile, name, words) in PROGRAMS {
        suite.test(format!("who loads {library} is told of a setting that is none"), move || {
            run(*compile, name, words)
        });
    }
    suite.run()
}

fn run(compile: Compile, name: &str, words: &[&str]) -> Verdict {
    let mut command = vec![compile(name)?.display().to_string()];
    command.extend(words.iter().map(|word| word.to_string()));
    let place = scif::place(AS_IT_COMES)?.inside(Namespace::with_only_lo()?).variable("NONIC_LOG", "loud");
    let finished = place.nonic_run(command)?.run()?;
    judge(&finished)?;
    if !finished.stderr.contains("NONIC_LOG is off, error, warn, info, debug or trace") {
        return failed(format!("it does not say that NONIC_LOG=loud is no level\n{}", finished.report()));
    }
    Ok(())
}

//! Hosts that are no C programs: Python with the distribution's pyverbs, Go through cgo.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use nonic_interop::c_program::{judge, package};
use nonic_interop::environment::{AS_IT_COMES, Environment, Pages, Place};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{program, scratch};

const ADOPTED: Environment = Environment { name: "adopted", pages: Some(Pages::Adopted), ..AS_IT_COMES };
const PLAIN: Environment = Environment { name: "not adopted", pages: Some(Pages::Plain), ..AS_IT_COMES };

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for environment in [AS_IT_COMES, ADOPTED, PLAIN] {
        suite.test(
            format!("Python's memory is registered, written, forked and used again, {}", environment.name),
            move || python(environment, "host.py"),
        );
        suite.test(
            format!("Python binds memory windows and takes them back, {}", environment.name),
            move || python(environment, "windows.py"),
        );
        suite.test(
            format!("Go's memory is registered, written, collected and used again, {}", environment.name),
            move || go(environment),
        );
    }
    suite.run()
}

fn run(environment: Environment, words: Vec<String>) -> Verdict {
    judge(&Place::prepare(environment)?.expecting_as_asked().nonic_run(words)?.run()?).map(drop)
}

fn python(environment: Environment, name: &str) -> Verdict {
    // Copies, since the package may lie where only its owner can read.
    let folder = scratch().join(format!("{name}-{}", environment.name.replace(' ', "-")));
    for script in ["host.py", "windows.py"] {
        let copied = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::copy(package().join("hosts").join(script), folder.join(script)));
        if let Err(why) = copied {
            return failed(format!("cannot copy {script} to {}: {why}", folder.display()));
        }
    }
    let script = folder.join(name);
    let python = program("python3")?.display().to_string();
    run(environment, vec![python, "-B".into(), script.display().to_string()])
}

fn go(environment: Environment) -> Verdict {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let compiler = program("go")?;
    match BUILT.get_or_init(|| build(compiler)) {
        Ok(host) => run(environment, vec![host.display().to_string()]),
        Err(why) => failed(why.clone()),
    }
}

fn build(compiler: PathBuf) -> Result<PathBuf, String> {
    let host = scratch().join("host-go");
    let output = Command::new(compiler)
        .args(["build", "-o"])
        .arg(&host)
        .arg(package().join("hosts/host.go"))
        .env("GO111MODULE", "off")
        .env("GOCACHE", scratch().join("go-cache"))
        .output()
        .map_err(|e| format!("go build: {e}"))?;
    if output.status.success() {
        return Ok(host);
    }
    Err(format!("host.go does not compile:\n{}", String::from_utf8_lossy(&output.stderr)))
}

//! Memory taken back while peers write it, run, are stopped or killed; and what a peer does that cannot reach memory.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use nonic_interop::c_program::{compile, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Pages, Place, Tier, ways};
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, failed};

/// Times that memory is taken back from a running peer, per tier; `NONIC_REVOCATIONS` asks for more.
const REVOCATIONS: u32 = 200;

/// Peers write it with their own instructions: what they are stopped in is a copy.
const MAPPED: Environment =
    Environment { name: "adopted", tier: Some(Tier("mapped")), pages: Some(Pages::Adopted), ..AS_IT_COMES };

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test("memory is taken back from a peer that was stopped inside a copy, for good", || {
        run(Place::prepare(MAPPED)?, &["stopped"]).map(drop)
    });
    suite.test("device memory is taken back from a peer that was stopped inside a copy, for good", || {
        run(Place::prepare(MAPPED)?, &["device-memory"]).map(drop)
    });
    for way in ways() {
        suite.test(
            format!("memory is taken back at once from a peer that was killed inside a write, {}", way.name),
            move || run(Place::prepare(way)?, &["killed"]).map(drop),
        );
        suite.test(
            format!(
                "nothing lands after memory was taken back from a peer that goes on writing, {}",
                way.name
            ),
            move || run(Place::prepare(way)?, &["running", &revocations()]).map(drop),
        );
    }
    suite.test(
        "a window's key is out of use when a peer stopped inside a copy has left, and not before",
        || run_program("window_revocation", Place::prepare(MAPPED)?, &["stopped"]).map(drop),
    );
    for way in ways() {
        suite.test(
            format!("a window is taken back from a peer that was killed inside a write, {}", way.name),
            move || run_program("window_revocation", Place::prepare(way)?, &["killed"]).map(drop),
        );
        suite.test(
            format!("nothing lands through a key that was taken out of use, {}", way.name),
            move || {
                run_program("window_revocation", Place::prepare(way)?, &["running", &revocations()]).map(drop)
            },
        );
    }
    suite.test("a send whose bytes the receiver cannot reach travels through the ring", unreachable);
    suite.run()
}

fn revocations() -> String {
    std::env::var("NONIC_REVOCATIONS").unwrap_or_else(|_| REVOCATIONS.to_string())
}

fn run(place: Place, arguments: &[&str]) -> Verdict<Finished> {
    run_program("revocation", place, arguments)
}

fn run_program(program: &str, place: Place, arguments: &[&str]) -> Verdict<Finished> {
    let place = match place.pages() {
        Some(Pages::Adopted) => place.variable("EXPECT_PAGES", "adopted"),
        Some(Pages::Plain) => place.variable("EXPECT_PAGES", "plain"),
        None => place,
    };
    let mut words = vec![compile(program)?.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    let finished = place.nonic_run(words)?.deadline(Duration::from_secs(240)).run()?;
    judge(&finished)?;
    for line in finished.stdout.lines().filter(|line| line.starts_with("  ")) {
        println!("{line}");
    }
    Ok(finished)
}

/// The sender believes that its pages can be mapped; the receiver has no address space left for that, and the kernel
/// copies nothing.
fn unreachable() -> Verdict {
    let words = [compile("deny")?.display().to_string(), "process_vm".into()];
    let place = Place::prepare(MAPPED)?.wrapped(words).variable("NONIC_LOG", "debug");
    let finished = run(place, &["unreachable"])?;
    if finished.stderr.contains("an aperture onto a peer's memory cannot be mapped") {
        return Ok(());
    }
    failed(format!("the receiver never tried to map the sender's pages\n{}", finished.report()))
}

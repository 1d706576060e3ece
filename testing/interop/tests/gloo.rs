//! Gloo of the distribution, the collectives of machine learning, over its own transport for verbs.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::compile_gloo;
use nonic_interop::environment::{AS_IT_COMES, Place, ways};
use nonic_interop::namespace::Namespace;
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::shared_folder;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (number, environment) in ways().into_iter().enumerate() {
        suite.test(format!("three ranks of Gloo reduce and broadcast, {}", environment.name), move || {
            ranks(&[Place::prepare(environment)?], 3, 0, &format!("gloo-{number}"))
        });
    }
    suite.test("eight ranks of Gloo, each with each", || {
        ranks(&[Place::prepare(AS_IT_COMES)?], 8, 0, "gloo-many")
    });
    suite.test("four ranks of Gloo on two hosts", || {
        let [near, far] = Namespace::joined(1500)?;
        let places = [Place::prepare(AS_IT_COMES)?.inside(near), Place::prepare(AS_IT_COMES)?.inside(far)];
        // Index 1 is the address of IPv4.
        ranks(&places, 4, 1, "gloo-hosts")
    });
    suite.run()
}

/// Runs as many ranks, in turn in each of the places, which meet in a folder of that name.
fn ranks(places: &[Place], count: usize, gid_index: usize, folder: &str) -> Verdict {
    let program = compile_gloo()?.display().to_string();
    let folder = shared_folder(folder)?.display().to_string();
    let numbers = |rank: usize| [rank.to_string(), count.to_string()];
    let mut running = Vec::new();
    for (rank, place) in places.iter().cycle().take(count).enumerate() {
        let words =
            [numbers(rank).as_slice(), &[folder.clone(), "nonic0".into(), gid_index.to_string()]].concat();
        running.push(place.nonic_run([vec![program.clone()], words].concat())?.start()?);
    }
    let ended = running.into_iter().map(|rank| rank.finish()).collect::<Verdict<Vec<_>>>()?;
    let right = |(rank, finished): (usize, &Finished)| {
        finished.succeeded()
            && finished.stdout.contains(&format!("rank {rank} of {count}: all that was reduced is right"))
    };
    match ended.iter().enumerate().all(right) {
        true => Ok(()),
        false => failed(ended.iter().map(|rank| rank.report()).collect::<Vec<_>>().join("\n")),
    }
}

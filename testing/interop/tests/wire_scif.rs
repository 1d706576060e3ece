//! Programs that talk SCIF on two hosts: two network namespaces joined by a cable of Ethernet, whose addresses are nodes 0 and 1.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nonic_interop::c_program::compile_scif;
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::port::is_bound;
use nonic_interop::program::{Finished, Running};
use nonic_interop::scif::ended_well;
use nonic_interop::suite::{Suite, Verdict, failed};

/// The MTU of Ethernet, with which a packet carries 1024 bytes.
const ETHERNET: u32 = 1500;
/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;
/// The port of the tutorials.
const PORT: u16 = 2050;

/// A program of `c/scif/` with its options, how many connect, and on which node it accepts.
#[derive(Clone, Copy)]
struct Case {
    sentence: &'static str,
    program: &'static str,
    options: &'static [&'static str],
    connecting: usize,
}

const fn case(sentence: &'static str, program: &'static str, connecting: usize) -> Case {
    Case { sentence, program, options: &[], connecting }
}

const CASES: &[Case] = &[
    case("two sides connect and exchange bytes, blocking and not", "connect_accept", 1),
    case("poll waits for requests, bytes, room and the end", "poll", 1),
    case("the library chooses ports, and a child serves its parent's connection", "launch", 1),
    case("a listener has several connections", "multiple", 1),
    Case { options: &["-e"], ..case("connections outlive their listener", "multiple", 1) },
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in CASES {
        for family in [0, 1] {
            let sentence = format!("{}, by {}", case.sentence, Namespace::ADDRESSES[family]);
            suite.test(sentence, move || Hosts::join(family)?.run(case));
        }
    }
    suite.run()
}

/// Two hosts, which are nodes 0 and 1.
struct Hosts {
    nodes: [Place; 2],
}

impl Hosts {
    fn join(family: usize) -> Verdict<Self> {
        let list = [Namespace::ADDRESSES[family], Namespace::FAR_ADDRESSES[family]].join(",");
        let [near, far] = Namespace::joined(ETHERNET)?;
        let place = |namespace| {
            let place = Place::prepare(AS_IT_COMES)?.inside(namespace);
            Ok(place.variable("NONIC_SCIF_HOSTS", &list).variable("NONIC_LOG", "debug"))
        };
        Ok(Self { nodes: [place(near)?, place(far)?] })
    }

    fn start(&self, node: usize, case: &Case, words: &[String]) -> Verdict<Running> {
        let program = compile_scif(&format!("{}.c", case.program))?.display().to_string();
        let options = case.options.iter().map(|option| option.to_string());
        let words = [program].into_iter().chain(words.iter().cloned()).chain(options);
        self.nodes[node].nonic_run(words)?.start()
    }

    /// The side that accepts, on node 1, once it listens.
    fn accepting(&self, case: &Case) -> Verdict<(Running, u16)> {
        let mut running = self.start(1, case, &["accept".into(), PORT.to_string()])?;
        let line = running.prints(|line| line.starts_with("listening on "))?;
        match line.rsplit(' ').next().and_then(|word| word.parse().ok()) {
            Some(port) => Ok((running, port)),
            None => failed(format!("it printed no port: {line}")),
        }
    }

    fn connecting(&self, case: &Case, port: u16, number: usize) -> Verdict<Running> {
        self.start(0, case, &["connect".into(), format!("1:{port}"), number.to_string()])
    }

    fn run(&self, case: &Case) -> Verdict {
        let (accepting, port) = self.accepting(case)?;
        let running: Verdict<Vec<_>> =
            (1..=case.connecting).map(|number| self.connecting(case, port, number)).collect();
        let mut sides: Vec<Finished> = Vec::new();
        for side in running? {
            match side.finish() {
                Ok(side) => sides.push(side),
                Err(why) => {
                    return failed(format!("{why}\nthe accepting side:\n{}", accepting.report("then")));
                }
            }
        }
        let well = sides.iter().all(Finished::succeeded);
        sides.push(if well { accepting.finish()? } else { accepting.kill() });
        ended_well(&sides)
    }
}

//! Programs that talk SCIF: a side that accepts, and others that connect to it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::c_program::compile_scif;
use crate::environment::{Environment, Place};
use crate::program::{Finished, Program, Running};
use crate::suite::{Verdict, failed};

/// The nodes of the accepting side and of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// A process on the host, node 0, and others on a card, node 1.
    HostAndCard,
    /// Processes of one node.
    Loopback,
    /// One process, which connects to itself.
    OneProcess,
}

impl Nodes {
    /// Completes the sentence that names a test.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostAndCard => "between nodes 0 and 1",
            Self::Loopback => "between processes of node 0",
            Self::OneProcess => "within one process",
        }
    }
}

/// A place in which only programs of one test meet: ports of others do not exist there.
pub fn place(environment: Environment) -> Verdict<Place> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let fabric = format!("test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    // What becomes of each request is said: a rare refusal under load is not seen a second time.
    let log = "debug";
    Ok(Place::prepare(environment)?.variable("NONIC_SCIF_FABRIC", &fabric).variable("NONIC_LOG", log))
}

/// The programs of a test, in one place.
pub struct Sides {
    place: Place,
    words: Vec<String>,
    options: Vec<String>,
}

impl Sides {
    /// Compiles `c/scif/<name>.c`.
    pub fn compile(place: Place, name: &str, options: &[&str]) -> Verdict<Self> {
        let words = vec![compile_scif(&format!("{name}.c"))?.display().to_string()];
        Ok(Self { place, words, options: options.iter().map(|option| option.to_string()).collect() })
    }

    fn program(&self, node: u16, arguments: &[String]) -> Verdict<Program> {
        let words = self.words.iter().chain(arguments).chain(&self.options).cloned();
        self.place.nonic_run_with(&["--node", &node.to_string()], words)
    }

    /// The side that accepts, on its node, once it listens; and the port.
    pub fn accepting(&self, node: u16, port: u16) -> Verdict<(Running, u16)> {
        listening(self.program(node, &["accept".into(), port.to_string()])?)
    }

    /// A side that connects from a node.
    pub fn connecting(&self, node: u16, to: (u16, u16), number: usize) -> Verdict<Program> {
        self.program(node, &["connect".into(), format!("{}:{}", to.0, to.1), number.to_string()])
    }

    /// Runs all sides; each must exit with 0.
    pub fn run(&self, nodes: Nodes, port: u16, connecting: usize) -> Verdict {
        if nodes == Nodes::OneProcess {
            return ended_well(&[self.program(0, &["both".into(), port.to_string()])?.run()?]);
        }
        let other = if nodes == Nodes::HostAndCard { 1 } else { 0 };
        // The host is the one that starts things: it connects to the card.
        let (accepting, port) = self.accepting(other, port)?;
        let running = (1..=connecting).map(|number| self.connecting(0, (other, port), number)?.start());
        all_end_well(accepting, running.collect::<Verdict<_>>()?)
    }
}

/// Starts a side that accepts, and tells the port on which it listens.
pub fn listening(program: Program) -> Verdict<(Running, u16)> {
    let mut running = program.start()?;
    let line = running.prints(|line| line.starts_with("listening on "))?;
    match line.rsplit(' ').next().and_then(|word| word.parse().ok()) {
        Some(port) => Ok((running, port)),
        None => failed(format!("it printed no port: {line}")),
    }
}

/// Waits for all sides. The one that accepts is killed if another failed, which leaves it waiting.
pub fn all_end_well(accepting: Running, connecting: Vec<Running>) -> Verdict {
    let mut sides: Vec<Finished> = Vec::new();
    for side in connecting {
        match side.finish() {
            Ok(side) => sides.push(side),
            Err(why) => return failed(format!("{why}\nthe accepting side:\n{}", accepting.report("then"))),
        }
    }
    let well = sides.iter().all(Finished::succeeded);
    sides.push(if well { accepting.finish()? } else { accepting.kill() });
    ended_well(&sides)
}

/// Fails unless all exited with 0, that is, with an `errno` nobody touched.
pub fn ended_well(sides: &[Finished]) -> Verdict {
    if sides.iter().all(Finished::succeeded) {
        return Ok(());
    }
    failed(sides.iter().map(Finished::report).collect::<String>())
}

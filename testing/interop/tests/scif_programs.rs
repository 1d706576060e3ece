//! Pairs of programs that use SCIF as the tutorials of its makers taught, between nodes and through the own node; and
//! programs that use it as public projects do.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::compile_scif;
use nonic_interop::environment::{AS_IT_COMES, Environment};
use nonic_interop::scif::{Nodes, Sides, ended_well, place};
use nonic_interop::suite::{Suite, Verdict, everything, failed};

struct Case {
    sentence: &'static str,
    /// A file of `c/scif/`, and its options.
    program: &'static str,
    options: &'static [&'static str],
    connecting: usize,
}

const fn case(sentence: &'static str, program: &'static str, connecting: usize) -> Case {
    Case { sentence, program, options: &[], connecting }
}

const fn case_with(sentence: &'static str, program: &'static str, options: &'static [&'static str]) -> Case {
    Case { sentence, program, options, connecting: 1 }
}

const CASES: &[Case] = &[
    case("two sides connect and exchange bytes, blocking and not", "connect_accept", 1),
    case("poll waits for requests, bytes, room and the end", "poll", 1),
    case("the library chooses ports, and a child serves its parent's connection", "launch", 1),
    case("a listener has several connections", "multiple", 1),
    case_with("connections outlive their listener", "multiple", &["-e"]),
    case_with("the library chooses a window's offset, and the peer maps it", "register", &["-m", "0"]),
    case_with("a window at a fixed offset is mapped over the own buffer", "register", &["-m", "1"]),
    case_with("a window at its own address is mapped over the own buffer", "register", &["-m", "2"]),
    case_with("a mapped window at a fixed offset is unregistered", "register", &["-m", "1", "-u"]),
    case_with("a mapped window at its own address is unregistered", "register", &["-m", "2", "-u"]),
    case("windows are read and written both ways by two clients", "readwrite", 2),
    case("plain memory is read into and written from by two clients", "vreadwrite", 2),
    case("one buffer is registered on two connections", "one_buffer", 2),
    case("a mapping beyond the window is ENXIO until a second window is beside it", "rma_mmap", 1),
    case("a child uses its parent's windows and does not disturb them", "rma_fork", 1),
    case("a ring of messages in registered memory runs by loads and stores", "ringbuffer", 1),
    case("marks and signals tell when transfers are done", "rma_fence", 1),
];

/// Programs of `c/scif/styles/`, each written as a public project uses SCIF.
const STYLES: &[(&str, &str)] = &[
    ("an offload runtime with a pipe to itself", "offload_runtime.cpp"),
    ("a message library with windows at addresses", "message_library.c"),
    ("a task runtime with signals as remote stores", "task_runtime.c"),
    ("a small communicator in C++", "communicator.cpp"),
    ("a monitor that loads the library late", "loaded_late.c"),
    ("an MPI port with a mesh of connections", "connection_mesh.c"),
];

/// The port of the tutorials.
const PORT: u16 = 2050;
const ONE_CPU: Environment = Environment { name: "with all on one CPU", one_cpu: true, ..AS_IT_COMES };

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in CASES {
        for nodes in [Nodes::HostAndCard, Nodes::Loopback, Nodes::OneProcess] {
            suite.test(format!("{}, {}", case.sentence, nodes.name()), move || run(case, AS_IT_COMES, nodes));
        }
        if everything() || ["connect_accept", "poll", "ringbuffer", "rma_fence"].contains(&case.program) {
            suite.test(format!("{}, {}", case.sentence, ONE_CPU.name), move || {
                run(case, ONE_CPU, Nodes::HostAndCard)
            });
        }
    }
    suite.test("a side that comes before its listener is refused and tries again", refused_at_first);
    for (sentence, source) in STYLES {
        suite.test(format!("{sentence} compiles and runs"), move || runs(source));
    }
    suite.run()
}

fn run(case: &Case, environment: Environment, nodes: Nodes) -> Verdict {
    Sides::compile(place(environment)?, case.program, case.options)?.run(nodes, PORT, case.connecting)
}

fn refused_at_first() -> Verdict {
    let sides = Sides::compile(place(AS_IT_COMES)?, "connect_accept", &[])?;
    let mut early = sides.connecting(0, (1, PORT), 1)?.start()?;
    early.prints(|line| line == "refused, trying again")?;
    let (accepting, _) = sides.accepting(1, PORT)?;
    ended_well(&[early.finish()?, accepting.finish()?])
}

fn runs(source: &str) -> Verdict {
    let program = compile_scif(&format!("styles/{source}"))?;
    let finished = place(AS_IT_COMES)?.nonic_run([program.display().to_string()])?.run()?;
    if finished.succeeded() && finished.stdout.ends_with("works\n") {
        return Ok(());
    }
    failed(format!("it should exit with 0 and print \"works\"\n{}", finished.report()))
}

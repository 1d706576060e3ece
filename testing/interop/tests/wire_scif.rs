//! Programs that talk SCIF on two hosts: two network namespaces joined by a cable of Ethernet, whose addresses are nodes 0 and 1.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nonic_interop::c_program::{compile_scif, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::port::is_bound;
use nonic_interop::program::{Program, Running};
use nonic_interop::scif::{self, ended_well};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::shared_folder;

/// The MTU of Ethernet, with which a packet carries 1024 bytes.
const ETHERNET: u32 = 1500;
/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;
/// Longer than the longest of these programs takes.
const LONG: Duration = Duration::from_secs(120);
/// Within this time the end of a killed peer is noticed.
const MISSED: Duration = Duration::from_secs(15);
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
    case("windows are read and written both ways by two clients", "readwrite", 2),
    case("plain memory is read into and written from by two clients", "vreadwrite", 2),
    case("marks and signals tell when transfers are done", "rma_fence", 1),
];

/// Programs of `c/scif/` that tell a far end on another host what to do.
const PROMISES: &[(&str, &str)] = &[
    ("what is particular to SCIF between hosts holds", "hosts"),
    ("transfers move every byte that was asked for, and refused ones none", "transfers"),
    ("marks and signals come after the transfers before them", "fences"),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in CASES {
        for family in [0, 1] {
            let sentence = format!("{}, by {}", case.sentence, Namespace::ADDRESSES[family]);
            suite.test(sentence, move || Hosts::join(family)?.run(case));
        }
    }
    for (sentence, program) in PROMISES {
        suite.test(*sentence, || promises(program));
    }
    suite.test("the example of a window runs between hosts as between nodes", || example(&Hosts::join(0)?));
    suite.test("nodes of one host that meet in a folder need no wire", met);
    suite.test("a peer that is killed ends a receive, a copy and a poll of this side", killed);
    suite.test("two processes of a node listen, and each gets its own clients", two_listeners);
    suite.test("a node of the same host is reached within it, and mapped", same_host);
    suite.test("a host that is not in the list is refused, and the listener goes on", stranger);
    suite.test("programs of another fabric are refused", other_fabric);
    suite.test("without a list nothing is opened, and there is no other node", no_list);
    suite.test("with --wire off nothing is opened, and other nodes are not there", forbidden);
    suite.run()
}

const CONNECT: Case = case("", "connect_accept", 1);
/// An address that nobody has.
const NOBODY: &str = "10.77.0.9";

/// Two hosts, which are nodes 0 and 1.
struct Hosts {
    nodes: [Place; 2],
    /// The list that both are given.
    list: String,
}

impl Hosts {
    fn join(family: usize) -> Verdict<Self> {
        Self::join_with(family, &[])
    }

    /// With more nodes, which are not there.
    fn join_with(family: usize, more: &[&str]) -> Verdict<Self> {
        let mut list = vec![Namespace::ADDRESSES[family], Namespace::FAR_ADDRESSES[family]];
        list.extend(more);
        let [near, far] = Namespace::joined(ETHERNET)?;
        let place =
            |namespace| Ok(Place::prepare(AS_IT_COMES)?.inside(namespace).variable("NONIC_LOG", "debug"));
        Ok(Self { nodes: [place(near)?, place(far)?], list: list.join(",") })
    }

    /// With a variable on both.
    fn variable(self, name: &str, value: &str) -> Self {
        Self { nodes: self.nodes.map(|place| place.variable(name, value)), ..self }
    }

    /// A program on a node, with a list of hosts.
    fn program(&self, node: usize, list: &str, case: &Case, words: &[String]) -> Verdict<Program> {
        let program = compile_scif(&format!("{}.c", case.program))?.display().to_string();
        let options = case.options.iter().map(|option| option.to_string());
        let words = [program].into_iter().chain(words.iter().cloned()).chain(options);
        let hosts: &[&str] = if list.is_empty() { &[] } else { &["--scif-hosts", list] };
        self.nodes[node].nonic_run_with(hosts, words)
    }

    /// The side that accepts, on node 1, once it listens.
    fn accepting(&self, case: &Case) -> Verdict<(Running, u16)> {
        self.accepting_at(case, &self.list, PORT)
    }

    fn accepting_at(&self, case: &Case, list: &str, port: u16) -> Verdict<(Running, u16)> {
        scif::listening(self.program(1, list, case, &["accept".into(), port.to_string()])?)
    }

    fn connecting(&self, case: &Case, port: u16, number: usize) -> Verdict<Program> {
        self.program(0, &self.list, case, &["connect".into(), format!("1:{port}"), number.to_string()])
    }

    fn run(&self, case: &Case) -> Verdict {
        let (accepting, port) = self.accepting(case)?;
        let running = (1..=case.connecting).map(|number| self.connecting(case, port, number)?.start());
        scif::all_end_well(accepting, running.collect::<Verdict<_>>()?)
    }
}

/// A program of which one process, on node 1, does what the other one tells it.
fn promises(program: &'static str) -> Verdict {
    let hosts = Hosts::join_with(0, &[NOBODY])?;
    let case = Case { program, ..CONNECT };
    let (address, port) = (Namespace::FAR_ADDRESSES[0], PORT.to_string());
    let words = ["serve", address, &port].map(String::from);
    let mut serving = hosts.program(1, &hosts.list, &case, &words)?.deadline(LONG).start()?;
    serving.prints(|line| line == "serving")?;
    let words = ["to", address, &port, "1"].map(String::from);
    let near = hosts.program(0, &hosts.list, &case, &words)?.deadline(LONG).run();
    match near.and_then(|near| judge(&near)) {
        Ok(_) => ended_well(&[serving.finish()?]),
        Err(why) => failed(format!("{why:?}\nthe far end:\n{}", serving.report("then"))),
    }
}

/// The wire is forbidden to them, so what arrives has not come by it.
fn met() -> Verdict {
    let folder = shared_folder("scif")?;
    let hosts = Hosts::join(0)?.variable("NONIC_WIRE", "off");
    example(&hosts.variable("NONIC_MEET", &folder.display().to_string()))
}

/// `examples/c/scif_window.c`, as it stands.
fn example(hosts: &Hosts) -> Verdict {
    let case = Case { program: "../../../../examples/c/scif_window", ..CONNECT };
    let port = PORT.to_string();
    let mut card = hosts.program(1, &hosts.list, &case, &["card".into(), port.clone()])?.start()?;
    card.offers("scif", PORT)?;
    let host = hosts.program(0, &hosts.list, &case, &["host".into(), "1".into(), port])?.run()?;
    let card = if host.succeeded() { card.finish()? } else { card.kill() };
    if !host.printed().contains("has seen every number") {
        return failed(format!("{}{}", host.report(), card.report()));
    }
    ended_well(&[host, card])
}

fn killed() -> Verdict {
    let hosts = Hosts::join(0)?;
    let case = Case { program: "host_ends", ..CONNECT };
    let (accepting, port) = hosts.accepting(&case)?;
    let mut connecting = hosts.connecting(&case, port, 1)?.start()?;
    connecting.prints(|line| line == "connected")?;
    accepting.kill();
    let since = Instant::now();
    let connecting = connecting.finish()?;
    ended_well(std::slice::from_ref(&connecting))?;
    if since.elapsed() > MISSED {
        return failed(format!("it took {:?}\n{}", since.elapsed(), connecting.report()));
    }
    Ok(())
}

fn two_listeners() -> Verdict {
    let hosts = Hosts::join(0)?;
    let (first, port) = hosts.accepting_at(&CONNECT, &hosts.list, PORT)?;
    let (second, other) = hosts.accepting_at(&CONNECT, &hosts.list, PORT + 1)?;
    let clients =
        [hosts.connecting(&CONNECT, other, 1)?.start()?, hosts.connecting(&CONNECT, port, 1)?.start()?];
    let mut sides = Vec::new();
    for side in clients.into_iter().chain([first, second]) {
        sides.push(side.finish()?);
    }
    ended_well(&sides)
}

/// Two nodes of one host, beside one of another: they reach each other as ever.
fn same_host() -> Verdict {
    let list = format!("{NOBODY},127.0.0.1,127.0.0.2");
    let place = scif::place(AS_IT_COMES)?;
    let program = compile_scif("ringbuffer.c")?.display().to_string();
    let words = [program.clone(), "accept".into(), PORT.to_string()];
    let mut accepting = place.nonic_run_with(&["--scif-hosts", &list, "--node", "2"], words)?.start()?;
    accepting.prints(|line| line.starts_with("listening on "))?;
    let words = [program, "connect".into(), format!("2:{PORT}"), "1".into()];
    let connecting = place.nonic_run_with(&["--scif-hosts", &list], words)?.run()?;
    ended_well(&[connecting, accepting.finish()?])
}

/// A client that is not let in, and then one that is, by the same listener.
fn refused(hosts: &Hosts, list: &str, not_let_in: Program, let_in: Program) -> Verdict {
    let (accepting, _) = hosts.accepting_at(&CONNECT, list, PORT)?;
    let mut client = not_let_in.start()?;
    client.prints(|line| line == "refused, trying again")?;
    client.kill();
    let client = let_in.run()?;
    let accepting = if client.succeeded() { accepting.finish()? } else { accepting.kill() };
    ended_well(&[client, accepting])
}

fn stranger() -> Verdict {
    let hosts = Hosts::join(0)?;
    // Node 0 of the listener's list is another host; node 2 is the second address of the one that connects.
    let [own, second] = [Namespace::FAR_ADDRESSES[0], "10.77.0.3"];
    if let Some(namespace) = hosts.nodes[0].namespace() {
        namespace.shell(&format!("IP address add {second}/24 dev near"))?;
    }
    let words = ["connect".into(), format!("1:{PORT}"), "1".into()];
    let stranger = hosts.program(0, &hosts.list, &CONNECT, &words)?;
    let known = hosts.program(0, &[second, own].join(","), &CONNECT, &words)?;
    refused(&hosts, &[NOBODY, own, second].join(","), stranger, known)
}

fn other_fabric() -> Verdict {
    let hosts = Hosts::join(0)?;
    let other = hosts.connecting(&CONNECT, PORT, 1)?.variable("NONIC_SCIF_FABRIC", "other");
    refused(&hosts, &hosts.list, other, hosts.connecting(&CONNECT, PORT, 1)?)
}

fn no_list() -> Verdict {
    not_there(&Hosts { list: String::new(), ..Hosts::join(0)? })
}

fn forbidden() -> Verdict {
    not_there(&Hosts::join(0)?.variable("NONIC_WIRE", "off"))
}

/// The listener opens nothing, and who connects hears that there is no such node.
fn not_there(hosts: &Hosts) -> Verdict {
    let (accepting, port) = hosts.accepting(&CONNECT)?;
    if is_bound(accepting.id(), ROCE) {
        return failed(accepting.report("opened the port of RoCEv2"));
    }
    let client = hosts.connecting(&CONNECT, port, 1)?.run()?;
    if client.succeeded() || !client.printed().contains("No such device") {
        return failed(client.report());
    }
    Ok(())
}

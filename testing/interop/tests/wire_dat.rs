//! uDAPL between two network namespaces joined by a cable of Ethernet: the distribution's programs of 2.0, which know IPv4 only, and
//! programs of 1.2 and 2.0 by both families of addresses.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use nonic_interop::c_program::{compile_dat, compile_dat_example, compile_dat2};
use nonic_interop::dapl::{ADAPTER, Ready, Room, Sides, figure, serves};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::output::complaints;
use nonic_interop::port::is_bound;
use nonic_interop::program::{Finished, Running};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::shared_folder;

/// Between two network namespaces with the MTU of Ethernet, where a packet carries 1024 bytes.
const ETHERNET: u32 = 1500;
/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;
/// The TCP port by which the programs of `dapl2-utils` exchange addresses.
const MEETING: Ready = Ready::Port(15828);
/// The service number of a server of `dapltest`.
const SERVED: u64 = 45278;
/// Service numbers of the programs of 1.2; they take the next ones as well.
const NUMBER: u64 = 52000;
const DEADLINE: Duration = Duration::from_secs(90);
/// Addresses of the cable's networks where nobody is, and such as no way leads to.
const SILENT: [&str; 2] = ["10.77.0.9", "fd77::9"];
const NOWHERE: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
const FOUR: &str = Namespace::ADDRESSES[0];

/// Options of `dtest`.
const DTESTS: &[&str] = &["-b 65536 -B 20", "-p -b 4096 -B 50", "-w -b 65536 -B 50"];

/// Option lines of `dapltest`, and the operations.
const TRANSACTIONS: &[(&str, &str)] = &[
    ("-t 1 -w 1 -i 500 -V", "client SR server SR"),
    ("-t 1 -w 1 -i 500 -P", "client SR 64 1 server SR 64 1"),
    (
        "-t 2 -w 4 -i 50 -V",
        "client RW 4096 1 server RR 2048 2 client RR 8192 1 server RW 1024 4 client SR 256 1 server SR 256 1",
    ),
    ("-t 1 -w 1 -i 10 -V", "client RW 1048576 1 server RR 1048576 1 client SR 1048576 1 server SR 1048576 1"),
];
const PERFORMANCES: &[(&str, &str)] = &[
    ("-m b -i 500 -p 16", "RW 4096 1"),
    ("-m p -i 500 -p 16", "RW 4096 1"),
    ("-m p -i 200 -p 8", "RR 65536 1"),
];

fn main() -> ExitCode {
    // Each has networks of its own, and waits for what nobody answers for most of its time.
    let mut suite = Suite::new().crowd(2);
    for options in DTESTS {
        suite.test(format!("dtest {options} moves what it should"), move || dtest(options));
    }
    suite.test("dtestcm makes a hundred connections, ten at a time", || {
        let sides = Cable::lay()?.sides("dtestcm", "-c 100 -b 10 -v")?;
        sides.both_say(&["DAPL Connection Test Complete."])?;
        sides.says(&sides.server, "ALL 100 CONNECTED on Server!")?;
        sides.says(&sides.client, "ALL 100 CONNECTED on Client!")
    });
    suite.test("dtestx writes with immediate data and does atomics", || {
        let sides = Cable::lay()?.sides("dtestx", "-v")?;
        sides.both_say(&["RDMA_WRITE_WITH_IMMEDIATE_DATA test - PASSED", "immed/atomic test PASSED"])
    });
    suite.test("dapltest -T T and -T P count what they moved", dapltest);
    for address in Namespace::ADDRESSES {
        for (version, adapter) in [("1.2", "nonic"), ("1.2", "nonic-noncoherent"), ("2.0", "nonic")] {
            let sentence = "what connecting leads to, and what of memory arrives,";
            suite.test(format!("{sentence} at {address} by {adapter} of {version}"), move || {
                hosts(version, adapter, address)
            });
        }
        suite.test(format!("who is killed is missed by who writes to it at {address}"), move || {
            killed(address)
        });
        suite.test(
            format!("memory that is lent is written to by {address}'s peer, and not afterwards"),
            move || example("dat_window", ["lend", "borrow"], address, &[]),
        );
    }
    suite.test("memory that is not coherent is written to by another host", || {
        example("dat_write", ["listen", "connect"], FOUR, &[("NONIC_NONCOHERENT", "1".into())])
    });
    for address in Namespace::ADDRESSES {
        suite.test(
            format!("memory is lent to who is met in a folder at {address}, without a wire"),
            move || example("dat_window", ["lend", "borrow"], address, &Cable::without_wire(address)?),
        );
    }
    suite.test("memory that is not coherent is written to by who is met in a folder", || {
        let off = Cable::without_wire("noncoherent")?;
        let variables = [&off[..], &[("NONIC_NONCOHERENT", "1".to_owned())]].concat();
        example("dat_write", ["listen", "connect"], FOUR, &variables)
    });
    suite.test("dtest -b 65536 -B 20 meets its peer in a folder, without a wire", || {
        let mut cable = Cable::lay()?;
        for (name, value) in Cable::without_wire("dtest")? {
            cable = cable.variable(name, &value);
        }
        cable.sides("dtest", "-b 65536 -B 20")?.both_say(&["CONNECTED!", "DAPL Test Complete. PASSED"])
    });
    suite.test("with --wire off nothing is opened, and the other host is not reached", forbidden);
    suite.test("without a network nothing is opened", alone);
    suite.run()
}

/// Two network namespaces, the first of them the server's.
struct Cable {
    server: Place,
    client: Place,
}

impl Cable {
    fn lay() -> Verdict<Self> {
        let [near, far] = Namespace::joined(ETHERNET)?;
        let place = |namespace| Ok(Place::prepare(AS_IT_COMES)?.inside(namespace));
        Ok(Self { server: place(near)?, client: place(far)? })
    }

    /// What has both sides meet in a folder only.
    fn without_wire(name: &str) -> Verdict<[(&'static str, String); 2]> {
        let folder = shared_folder(&format!("dat-{}", name.replace(':', "")))?;
        Ok([("NONIC_WIRE", "off".into()), ("NONIC_MEET", folder.display().to_string())])
    }

    /// With a variable on both sides.
    fn variable(self, name: &str, value: &str) -> Self {
        Self { server: self.server.variable(name, value), client: self.client.variable(name, value) }
    }

    fn sides(self, name: &str, options: &str) -> Verdict<Sides> {
        let rooms = [Room::of(self.server), Room::of(self.client)];
        let arguments: Vec<_> = options.split_whitespace().collect();
        Sides::apart([&rooms[0], &rooms[1]], FOUR, &[], name, &arguments, MEETING)
    }
}

fn wrong<T>(why: &str, client: &Finished, server: &Finished) -> Verdict<T> {
    failed(format!("{why}\nthe client:\n{}the server:\n{}", client.report(), server.report()))
}

fn dtest(options: &str) -> Verdict {
    let sides = Cable::lay()?.sides("dtest", options)?;
    sides.both_say(&["CONNECTED!", "DAPL Test Complete. PASSED"])?;
    if !options.contains("-w") {
        sides.says(&sides.server, "SERVER: RDMA write buffer contains: client RDMA write data...")?;
        sides.says(&sides.client, "CLIENT: RDMA write buffer contains: server RDMA write data...")?;
    }
    match figure(&sides.client.stdout, "RDMA write (bi-direction): Total=") {
        Some(microseconds) if microseconds > 0.0 => Ok(()),
        other => sides.wrong(format!("it measured {other:?}")),
    }
}

/// A server of `dapltest`, its clients one after the other, and its end.
fn dapltest() -> Verdict {
    let cable = Cable::lay()?;
    let [near, far] = [Room::of(cable.server), Room::of(cable.client)];
    let number = SERVED.to_string();
    let mut server = near.start(&[], "dapltest", &["-T", "S", "-D", ADAPTER, "-n", &number])?;
    serves(&mut server, SERVED)?;
    let client = |line: &str, operations: &str| -> Verdict<Finished> {
        let mut words: Vec<_> = line.split_whitespace().collect();
        words.extend(["-s", FOUR, "-D", ADAPTER, "-n", &number]);
        words.extend(operations.split_whitespace());
        let client = match far.start(&[], "dapltest", &words)?.finish() {
            Ok(client) => client,
            Err(why) => return failed(format!("{line}: {why}\nthe server:\n{}", server.report("then"))),
        };
        if !is_clean(&client) {
            return failed(format!("{}\nthe server:\n{}", client.report(), server.report("then")));
        }
        Ok(client)
    };
    for (options, operations) in TRANSACTIONS {
        let client = client(&format!("-T T {options}"), operations)?;
        if !client.stdout.contains("----- Stats ---- :") || figure(&client.stdout, "Total WQE").is_none() {
            return failed(format!("{options}: there are no statistics\n{}", client.report()));
        }
    }
    for (options, operation) in PERFORMANCES {
        let client = client(&format!("-T P {options}"), operation)?;
        if figure(&client.stdout, "Bandwidth").is_none_or(|rate| rate <= 0.0) {
            return failed(format!("{options}: nothing was measured\n{}", client.report()));
        }
    }
    client("-T Q", "")?;
    let server = server.finish()?;
    if is_clean(&server) { Ok(()) } else { failed(server.report()) }
}

/// It exited with 0 and complains of nothing.
fn is_clean(finished: &Finished) -> bool {
    let printed = finished.printed();
    finished.succeeded() && complaints(&printed).iter().all(|line| line.contains("0 failures"))
}

/// Starts a program of 1.2 in a place, with its role and further words; it serves if a number is given.
fn start(place: &Place, words: Vec<String>, serves_at: Option<u64>) -> Verdict<Running> {
    let mut running = place.nonic_run(words)?.deadline(DEADLINE).start()?;
    if let Some(number) = serves_at {
        serves(&mut running, number)?;
    }
    Ok(running)
}

fn both_succeed(client: Running, server: Running) -> Verdict<[Finished; 2]> {
    let client = match client.finish() {
        Ok(client) => client,
        Err(why) => return failed(format!("the client: {why}\nthe server:\n{}", server.report("then"))),
    };
    let server = if client.succeeded() { server.finish()? } else { server.kill() };
    if client.succeeded() && server.succeeded() {
        Ok([client, server])
    } else {
        wrong("one of the sides failed", &client, &server)
    }
}

/// An example, which says at its end what it has found on either side.
fn example(name: &str, roles: [&str; 2], address: &str, variables: &[(&str, String)]) -> Verdict {
    let mut cable = Cable::lay()?;
    for (name, value) in variables {
        cable = cable.variable(name, value);
    }
    let program = compile_dat_example(name)?.display().to_string();
    let number = NUMBER.to_string();
    let server = vec![program.clone(), roles[0].into(), number.clone()];
    let server = start(&cable.server, server, Some(NUMBER))?;
    let client = start(&cable.client, vec![program, roles[1].into(), number, address.into()], None)?;
    let [client, server] = both_succeed(client, server)?;
    let says = match name {
        "dat_window" => {
            ["a write through a context that was taken back was refused", "and nothing afterwards"]
        }
        _ => ["numbers written to service", "were written here and add up to"],
    };
    if client.stdout.contains(says[0]) && server.stdout.contains(says[1]) {
        Ok(())
    } else {
        wrong("they do not print what they should", &client, &server)
    }
}

fn hosts(version: &str, adapter: &str, address: &str) -> Verdict {
    let cable = Cable::lay()?;
    let program = if version == "1.2" { compile_dat("hosts")? } else { compile_dat2("hosts")? };
    let program = program.display().to_string();
    let family = usize::from(address != FOUR);
    let number = NUMBER.to_string();
    let words = |role: &str, more: &[&str]| -> Vec<String> {
        let words = [program.as_str(), role, adapter, number.as_str()];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let server = start(&cable.server, words("serve", &[]), Some(NUMBER + 3))?;
    let client = words("ask", &[address, SILENT[family], NOWHERE[family]]);
    let client = start(&cable.client, client, None)?;
    let [client, server] = both_succeed(client, server)?;
    if client.stdout.ends_with("asked\n") && server.stdout.ends_with("served\n") {
        Ok(())
    } else {
        wrong("they do not come to their end", &client, &server)
    }
}

fn killed(address: &str) -> Verdict {
    // 67 ms before a packet is sent again: long enough for a machine that is busy.
    let cable = Cable::lay()?.variable("DAPL_ACK_TIMER", "14");
    let program = compile_dat("hosts")?.display().to_string();
    let number = NUMBER.to_string();
    let server = vec![program.clone(), "hold".into(), ADAPTER.into(), number.clone()];
    let server = start(&cable.server, server, Some(NUMBER))?;
    if !is_bound(server.id(), ROCE) {
        return failed(format!("other hosts do not find the server\n{}", server.report("then")));
    }
    let client = vec![program, "miss".into(), ADAPTER.into(), number, address.into()];
    let mut client = start(&cable.client, client, None)?;
    client.prints(|line| line == "connected")?;
    let server = server.kill();
    let client = client.finish()?;
    if client.succeeded() && client.stdout.ends_with("missed\n") {
        Ok(())
    } else {
        wrong("it was not missed", &client, &server)
    }
}

fn forbidden() -> Verdict {
    let cable = Cable::lay()?.variable("NONIC_WIRE", "off");
    let program = compile_dat("hosts")?.display().to_string();
    let number = NUMBER.to_string();
    let server = vec![program.clone(), "hold".into(), ADAPTER.into(), number.clone()];
    let server = start(&cable.server, server, Some(NUMBER))?;
    let is_open = is_bound(server.id(), ROCE);
    let client = vec![program, "miss".into(), ADAPTER.into(), number, FOUR.into()];
    let client = start(&cable.client, client, None)?.finish()?;
    let server = server.kill();
    // UNREACHABLE in place of ESTABLISHED.
    if is_open || client.succeeded() || !client.stdout.contains("event 0x4008") {
        return wrong("something was opened, or reached", &client, &server);
    }
    Ok(())
}

fn alone() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?.inside(Namespace::with_only_lo()?);
    let program = compile_dat("hosts")?.display().to_string();
    let server = vec![program, "hold".into(), ADAPTER.into(), NUMBER.to_string()];
    let server = start(&place, server, Some(NUMBER))?;
    let is_open = is_bound(server.id(), ROCE);
    let server = server.kill();
    if is_open { failed(format!("the listener opened a socket\n{}", server.report())) } else { Ok(()) }
}

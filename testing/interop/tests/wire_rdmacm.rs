//! Programs that find each other by the RDMA connection manager, in two network namespaces joined by a cable of Ethernet: what the
//! managers say and what the queue pairs carry goes by RoCEv2.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use nonic_interop::c_program::{compile_rdmacm, compile_with, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::output::{complaints, perftest};
use nonic_interop::port::{TcpPort, datagrams_of, is_bound};
use nonic_interop::program::{Finished, Running};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::program;

/// Between two network namespaces with the MTU of Ethernet, where a packet carries 1024 bytes.
const ETHERNET: u32 = 1500;
/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;
/// Longer than it takes until a request that nobody acknowledges has failed.
const LONG: Duration = Duration::from_secs(120);
/// Between two looks at what the kernel tells nobody.
const LOOK: Duration = Duration::from_millis(2);

/// Two network namespaces, the first of them the server's.
struct Cable {
    server: Place,
    client: Place,
}

/// Two sides of a program. `PORT` and `ADDRESS` stand for themselves.
#[derive(Clone, Copy)]
struct Case {
    server: &'static str,
    client: &'static str,
    /// The server listens on a port of this space.
    space: &'static str,
    /// What each side prints.
    served: &'static str,
    got: &'static str,
    /// The server ends by itself, with 0.
    ends: bool,
    /// The port if it cannot be chosen.
    port: Option<u16>,
    /// By both families: a server that is told no address takes IPv4.
    addresses: &'static [&'static str],
}

const fn case(server: &'static str, client: &'static str, served: &'static str, got: &'static str) -> Case {
    Case {
        server,
        client,
        space: "tcp",
        served,
        got,
        ends: true,
        port: None,
        addresses: &Namespace::ADDRESSES,
    }
}

const FOUR: &[&str] = &[Namespace::ADDRESSES[0]];
const SIX: &[&str] = &[Namespace::ADDRESSES[1]];
const RPING: &str = "rping -c -a ADDRESS -p PORT -C 5 -v";

const CASES: &[Case] = &[
    case("rping -s -a ADDRESS -p PORT -C 5 -v", RPING, "server ping data: rdma-ping-4", "rdma-ping-4"),
    // Wildcards, with which the device is known only when a request comes.
    Case {
        addresses: FOUR,
        ..case("rping -s -p PORT -C 5 -v", RPING, "server ping data: rdma-ping-4", "rdma-ping-4")
    },
    // Its own queue pair, moved by rdma_init_qp_attr and rdma_establish.
    case(
        "rping -s -q -a ADDRESS -p PORT -C 5 -v",
        "rping -c -q -a ADDRESS -p PORT -C 5 -v",
        "rdma-ping-4",
        "rdma-ping-4",
    ),
    case(
        "rping -s -a ADDRESS -p PORT -C 5 -S 60000",
        "rping -c -a ADDRESS -p PORT -C 5 -S 60000 -V",
        "server DISCONNECT EVENT",
        "",
    ),
    Case { ends: false, ..case("rping -s -P -a ADDRESS -p PORT", RPING, "", "rdma-ping-4") },
    case("ucmatose -b ADDRESS -p PORT", "ucmatose -s ADDRESS -p PORT", "return status 0", "return status 0"),
    case(
        "ucmatose -c 64 -C 5 -S 3000 -b ADDRESS -p PORT",
        "ucmatose -c 64 -C 5 -S 3000 -s ADDRESS -p PORT",
        "return status 0",
        "return status 0",
    ),
    Case {
        space: "udp",
        port: Some(7174),
        ..case(
            "udaddy -c 3 -C 20 -b ADDRESS",
            "udaddy -c 3 -C 20 -s ADDRESS",
            "return status 0",
            "return status 0",
        )
    },
    case(
        "rdma_server -s ADDRESS -p PORT",
        "rdma_client -s ADDRESS -p PORT",
        "rdma_server: end 0",
        "rdma_client: end 0",
    ),
    Case {
        addresses: FOUR,
        ..case(
            "rstream -p PORT -S 5000 -C 20",
            "rstream -s ADDRESS -p PORT -S 5000 -C 20",
            "custom",
            "custom",
        )
    },
    // By a GID, which an address of IPv6 is.
    Case {
        addresses: SIX,
        ..case(
            "rstream -f gid -b ADDRESS -p PORT -S 5000 -C 20",
            "rstream -f gid -s ADDRESS -p PORT -S 5000 -C 20",
            "custom",
            "custom",
        )
    },
];

/// perftest with `-R`.
const PERFTEST: &[&str] = &["ib_write_bw -n 500", "ib_send_bw -n 500", "ib_send_bw -n 300 -c UD -s 1024"];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for case in CASES {
        for address in case.addresses {
            let sentence = format!("{} serves {} of another network", case.server, case.client);
            suite.test(sentence.replace("ADDRESS", address), move || Cable::lay()?.run(case, address));
        }
    }
    for words in PERFTEST {
        suite.test(format!("{words} -R measures something between two networks"), move || measure(words));
    }
    for address in Namespace::ADDRESSES {
        suite.test(
            format!("a request by the GID of {address} has all of its field, for who listens by one"),
            || services(address),
        );
        for (words, who) in FAMILIES {
            suite.test(
                format!("at one port of {address} {who} by IP and by GIDs, and each gets its own requests"),
                || families(address, words),
            );
        }
    }
    suite.test("the server may be in either network", swapped);
    suite.test("who asks where nobody listens is refused, and the listener beside goes on", nobody_listens);
    suite.test("two servers of a user share the port of RoCEv2, and each gets its own clients", two_servers);
    suite.test("who is killed is missed by the other side, whose request fails", killed);
    suite.test("who only receives misses a peer that is killed, and not one that is there", silent);
    suite.test("who is not heard to be ready is known by its first message", not_ready);
    suite.test("a process that has queue pairs only refuses requests, or hands them on", queue_pairs_only);
    suite.test("a listener at a wildcard takes requests at addresses that come later", later_addresses);
    suite.test("who exits in order ends its connections, though it says nothing", exits);
    suite.test("with --wire off nothing is opened, and there is no way to the other host", forbidden);
    suite.test("a listener on a loopback address opens nothing", loopback);
    suite.run()
}

/// A line as the words of a command, of which the first is looked for among the distribution's programs.
fn command(text: &str, address: &str, port: u16) -> Verdict<Vec<String>> {
    let text = text.replace("ADDRESS", address).replace("PORT", &port.to_string());
    let mut words: Vec<String> = text.split_whitespace().map(Into::into).collect();
    words[0] = program(&words[0])?.display().to_string();
    Ok(words)
}

fn wrong<T>(why: &str, client: &Finished, server: &Finished) -> Verdict<T> {
    failed(format!("{why}\nthe client:\n{}the server:\n{}", client.report(), server.report()))
}

impl Cable {
    fn lay() -> Verdict<Self> {
        let [near, far] = Namespace::joined(ETHERNET)?;
        let place = |namespace| Ok(Place::prepare(AS_IT_COMES)?.inside(namespace));
        Ok(Self { server: place(near)?, client: place(far)? })
    }

    fn serve(&self, text: &str, space: &str, address: &str, port: u16) -> Verdict<Running> {
        let mut server = self.server.nonic_run(command(text, address, port)?)?.start()?;
        server.offers(space, port)?;
        Ok(server)
    }

    fn run(&self, case: &Case, address: &str) -> Verdict {
        let claim = TcpPort::claim()?;
        let port = case.port.unwrap_or(claim.number());
        let server = self.serve(case.server, case.space, address, port)?;
        let client = self.client.nonic_run(command(case.client, address, port)?)?.run();
        let client = match client {
            Ok(client) => client,
            Err(why) => return failed(format!("the client: {why}\nthe server:\n{}", server.report("then"))),
        };
        let ends = case.ends && client.succeeded();
        let server = if ends { server.finish()? } else { server.kill() };
        if !client.succeeded() || (ends && !server.succeeded()) {
            return wrong("one of the sides failed", &client, &server);
        }
        let says = [&client, &server].into_iter().any(|side| !complaints(&side.printed()).is_empty());
        if says || !client.printed().contains(case.got) || !server.printed().contains(case.served) {
            return wrong("they do not print what they should", &client, &server);
        }
        Ok(())
    }
}

fn measure(words: &str) -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let [address, _] = Namespace::ADDRESSES;
    let words = format!("{words} -R -F -p PORT");
    let server = cable.serve(&words, "tcp", address, port.number())?;
    let client =
        cable.client.nonic_run(command(&format!("{words} ADDRESS"), address, port.number())?)?.run()?;
    let server = if client.succeeded() { server.finish()? } else { server.kill() };
    if !client.succeeded() || !server.succeeded() {
        return wrong("one of the sides failed", &client, &server);
    }
    match perftest(&client.stdout).as_slice() {
        [row] if row.is_positive() => Ok(()),
        rows => wrong(&format!("the client measured {rows:?}"), &client, &server),
    }
}

fn swapped() -> Verdict {
    let Cable { server, client } = Cable::lay()?;
    let cable = Cable { server: client, client: server };
    cable.run(&CASES[0], Namespace::FAR_ADDRESSES[0])
}

fn services(address: &str) -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let number = port.number().to_string();
    let program = compile_rdmacm("wire_services")?.display().to_string();
    let words = [&program, address, &number].map(str::to_owned);
    let mut server = cable.server.nonic_run(words.clone())?.start()?;
    // The last of those that it listens for.
    server.offers("tcp", port.number())?;
    let client = cable.client.nonic_run([&words[..], &["asks".into()]].concat())?.run()?;
    let server = if client.succeeded() { server.finish()? } else { server.kill() };
    if !client.succeeded() || !server.succeeded() {
        return wrong("they do not find what they should", &client, &server);
    }
    judge(&client)?;
    judge(&server)?;
    Ok(())
}

/// Who serves by which families: one process by both, or two by one each, the first of which has the port first.
const FAMILIES: [(&[&str], &str); 3] = [
    (&["both"], "one process listens"),
    (&["ip", "gid"], "two processes listen"),
    (&["gid", "ip"], "two processes, the other one first, listen"),
];

fn families(address: &str, words: &[&str]) -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let last = TcpPort::claim()?;
    let [number, last] = [&port, &last].map(|port| port.number().to_string());
    let program = compile_rdmacm("wire_services")?.display().to_string();
    let command = |word: &str| [&program, address, &number, word, &last].map(str::to_owned);
    let mut servers = Vec::new();
    for word in words {
        let mut server = cable.server.nonic_run(command(word))?.start()?;
        server.prints(|line| line == "listens")?;
        servers.push(server);
    }
    let client = cable.client.nonic_run(command("asks-both"))?.run()?;
    for server in servers {
        let server = if client.succeeded() { server.finish()? } else { server.kill() };
        if !client.succeeded() || !server.succeeded() {
            return wrong("they do not find what they should", &client, &server);
        }
        judge(&server)?;
    }
    judge(&client)?;
    Ok(())
}

fn nobody_listens() -> Verdict {
    let cable = Cable::lay()?;
    let [listening, other] = [TcpPort::claim()?, TcpPort::claim()?];
    let [address, _] = Namespace::ADDRESSES;
    let server = cable.serve("rping -s -a ADDRESS -p PORT -C 5 -v", "tcp", address, listening.number())?;
    let refused = cable.client.nonic_run(command(RPING, address, other.number())?)?.run()?;
    if refused.succeeded() || !refused.printed().contains("RDMA_CM_EVENT_REJECTED, error 8") {
        return failed(format!("the client was not refused\n{}", refused.report()));
    }
    let served = cable.client.nonic_run(command(RPING, address, listening.number())?)?.run()?;
    let server = server.finish()?;
    if served.succeeded() && server.succeeded() {
        Ok(())
    } else {
        wrong("the listener did not go on", &served, &server)
    }
}

fn two_servers() -> Verdict {
    let cable = Cable::lay()?;
    let [address, _] = Namespace::ADDRESSES;
    let ports = [TcpPort::claim()?, TcpPort::claim()?];
    let text = "rping -s -P -a ADDRESS -p PORT";
    let mut servers = Vec::new();
    for port in &ports {
        servers.push(cable.serve(text, "tcp", address, port.number())?);
    }
    // Of each several, from ports that the kernel shares out among the servers' sockets.
    for _ in 0..4 {
        for port in &ports {
            let client = cable.client.nonic_run(command(RPING, address, port.number())?)?.run()?;
            if !client.succeeded() {
                let [one, other] = [0, 1].map(|number: usize| servers[number].report("then"));
                return failed(format!("{}\nthe servers:\n{one}{other}", client.report()));
            }
        }
    }
    // With one gone the other goes on, and what was for the first is refused.
    servers.remove(0).kill();
    let client = cable.client.nonic_run(command(RPING, address, ports[1].number())?)?.run()?;
    if !client.succeeded() {
        return failed(format!("the server that is left\n{}{}", servers[0].report("then"), client.report()));
    }
    let refused = cable.client.nonic_run(command(RPING, address, ports[0].number())?)?.run()?;
    if refused.printed().contains("RDMA_CM_EVENT_REJECTED, error 8") {
        Ok(())
    } else {
        failed(format!("the client of the other was not refused\n{}", refused.report()))
    }
}

fn killed() -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let [address, _] = Namespace::ADDRESSES;
    // Writes that go on for minutes: whoever only receives does not miss its peer.
    let words = "ib_write_bw -R -F -D 100 -p PORT";
    let server = cable.serve(words, "tcp", address, port.number())?;
    let words = command(&format!("{words} ADDRESS"), address, port.number())?;
    let mut client = cable.client.nonic_run(words)?.deadline(LONG).start()?;
    while datagrams_of(server.id()) < 1000 {
        if client.has_ended() {
            return failed(client.report("ended before it wrote"));
        }
        std::thread::sleep(LOOK);
    }
    server.kill();
    let client = client.finish()?;
    if client.succeeded() || !client.printed().contains("Failed status 12") {
        return failed(format!("the other side did not fail as it should\n{}", client.report()));
    }
    Ok(())
}

/// What is asked so often, half a second apart, takes longer than a peer may be silent.
const QUESTIONS: u64 = 6;

fn silent() -> Verdict {
    let Cable { server, client } = Cable::lay()?;
    let cable = Cable { server: server.variable("NONIC_WIRE_SILENCE", "2"), client };
    let port = TcpPort::claim()?;
    let [address, _] = Namespace::ADDRESSES;
    let mut server = cable.serve("rping -s -v -a ADDRESS -p PORT", "tcp", address, port.number())?;
    let program = compile_rdmacm("wire_ends")?.display().to_string();
    let words = [program, address.into(), port.number().to_string(), "stays".into()];
    let mut client = cable.client.nonic_run(words)?.deadline(LONG).start()?;
    client.prints(|line| line == "connected")?;
    // The server waits for a message, and has its peer asked.
    let before = datagrams_of(client.id());
    while datagrams_of(client.id()) < before + QUESTIONS {
        if server.has_ended() {
            return failed(server.report("ended while its peer was there"));
        }
        std::thread::sleep(LOOK);
    }
    let client = client.kill();
    let server = server.finish()?;
    let printed = server.printed();
    if printed.contains("DISCONNECT EVENT") && printed.contains("does not answer any more") {
        Ok(())
    } else {
        wrong("it was not missed", &client, &server)
    }
}

fn not_ready() -> Verdict {
    let Cable { server, client } = Cable::lay()?;
    let lost = compile_with("never_ready", &["-shared", "-fPIC"])?.display().to_string();
    let cable = Cable { server, client: client.variable("LD_PRELOAD", &lost) };
    let port = TcpPort::claim()?;
    for address in Namespace::ADDRESSES {
        let server = cable.serve("rping -s -a ADDRESS -p PORT -C 5 -v", "tcp", address, port.number())?;
        let client = cable.client.nonic_run(command(RPING, address, port.number())?)?.run()?;
        let server = if client.succeeded() { server.finish()? } else { server.kill() };
        if !client.succeeded() || !server.succeeded() || !client.printed().contains("not said") {
            return wrong("they did not connect without that message, or it was not lost", &client, &server);
        }
    }
    Ok(())
}

fn queue_pairs_only() -> Verdict {
    let cable = Cable::lay()?;
    let [listening, other, measured] = [TcpPort::claim()?, TcpPort::claim()?, TcpPort::claim()?];
    let [address, _] = Namespace::ADDRESSES;
    // Writes that go on for minutes, by queue pairs that know no connection manager.
    let mut words = vec![program("ib_write_bw")?.display().to_string()];
    words.extend(["-p", &measured.number().to_string(), "-F", "-x", "1", "-D", "100"].map(Into::into));
    let mut writes_to = cable.server.nonic_run(words.clone())?.start()?;
    writes_to.listens_on(measured.number())?;
    words.push(address.into());
    let mut writer = cable.client.nonic_run(words)?.start()?;
    while datagrams_of(writes_to.id()) < 100 {
        if writer.has_ended() || writes_to.has_ended() {
            return failed(format!("{}{}", writer.report("wrote"), writes_to.report("was written to")));
        }
        std::thread::sleep(LOOK);
    }
    let refused = |port: &TcpPort| {
        let client = cable.client.nonic_run(command(RPING, address, port.number())?)?.run()?;
        if client.printed().contains("RDMA_CM_EVENT_REJECTED, error 8") {
            return Ok(());
        }
        failed(format!("the client was not refused\n{}", client.report()))
    };
    refused(&other)?;
    let mut server = cable.serve("rping -s -P -a ADDRESS -p PORT", "tcp", address, listening.number())?;
    for _ in 0..2 {
        let client = cable.client.nonic_run(command(RPING, address, listening.number())?)?.run()?;
        if !client.succeeded() {
            return failed(format!("{}{}", client.report(), server.report("then")));
        }
        refused(&other)?;
    }
    if writer.has_ended() || writes_to.has_ended() || server.has_ended() {
        return failed("one of those beside ended");
    }
    Ok(())
}

/// Addresses that come to the server's interface while it listens, and their neighbours at the client's.
const LATER: [[&str; 2]; 2] = [["10.78.0.1/24", "10.78.0.2/24"], ["fd78::1/64", "fd78::2/64"]];

fn later_addresses() -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let (Some(near), Some(far)) = (cable.server.namespace(), cable.client.namespace()) else {
        return failed("they are in no namespaces");
    };
    // At both families.
    let mut server = cable.serve("rping -s -P -a :: -p PORT", "tcp", "::", port.number())?;
    for [here, there] in LATER {
        near.shell(&format!("IP address add {here} dev near"))?;
        far.shell(&format!("IP address add {there} dev far"))?;
        let (address, _) = here.split_once('/').unwrap_or_default();
        let client = cable.client.nonic_run(command(RPING, address, port.number())?)?.run()?;
        if !client.succeeded() || server.has_ended() {
            return failed(format!("{address} was not found\n{}{}", client.report(), server.report("then")));
        }
    }
    // An interface that is down has no address, until it is up.
    near.shell("IP link set near down && IP address add 10.79.0.1/24 dev near && IP link set near up")?;
    far.shell("IP address add 10.79.0.2/24 dev far")?;
    let client = cable.client.nonic_run(command(RPING, "10.79.0.1", port.number())?)?.run()?;
    if client.succeeded() { Ok(()) } else { failed(format!("{}{}", client.report(), server.report("then"))) }
}

fn exits() -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let [address, _] = Namespace::ADDRESSES;
    let server = cable.serve("rping -s -C 1 -v -a ADDRESS -p PORT", "tcp", address, port.number())?;
    let client = compile_rdmacm("wire_ends")?.display().to_string();
    let client = cable.client.nonic_run([client, address.into(), port.number().to_string()])?.run()?;
    if !client.succeeded() {
        return failed(format!("the client did not connect\n{}", client.report()));
    }
    // It ends when it is told of the end of its connection.
    let server = server.finish()?;
    if server.printed().contains("DISCONNECT EVENT") {
        Ok(())
    } else {
        wrong("it was not told", &client, &server)
    }
}

fn forbidden() -> Verdict {
    let cable = Cable::lay()?;
    let cable = Cable { server: cable.server, client: cable.client.variable("NONIC_WIRE", "off") };
    let port = TcpPort::claim()?;
    let [address, _] = Namespace::ADDRESSES;
    let client = cable.client.nonic_run(command(RPING, address, port.number())?)?.run()?;
    if client.succeeded() || !client.printed().contains("RDMA_CM_EVENT_ADDR_ERROR, error -113") {
        return failed(format!("the client found a way\n{}", client.report()));
    }
    // A listener says nothing of it, and opens nothing.
    let cable = Cable { server: cable.client, client: cable.server };
    let server = cable.serve("rping -s -p PORT -C 5", "tcp", address, port.number())?;
    let is_open = is_bound(server.id(), ROCE);
    let server = server.kill();
    if is_open { failed(format!("the listener opened a socket\n{}", server.report())) } else { Ok(()) }
}

fn loopback() -> Verdict {
    let cable = Cable::lay()?;
    let port = TcpPort::claim()?;
    let text = "rping -s -a ADDRESS -p PORT -C 5";
    let server = cable.serve(text, "tcp", "127.0.0.1", port.number())?;
    let is_open = is_bound(server.id(), ROCE);
    let words = command(RPING, "127.0.0.1", port.number())?;
    let client = cable.server.nonic_run(words)?.run()?;
    let server = if client.succeeded() { server.finish()? } else { server.kill() };
    if is_open || !client.succeeded() {
        return wrong("the listener opened a socket, or did not serve", &client, &server);
    }
    Ok(())
}

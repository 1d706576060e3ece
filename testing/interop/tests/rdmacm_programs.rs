//! Programs of the distribution that find each other by the RDMA connection manager: those of `rdmacm-utils`, perftest with `-R`,
//! qperf with `-cm1`, fio with `ioengine=rdma`, and C programs that
//! compare refusals and events with what the interface says.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use nonic_interop::c_program::{compile_rdmacm, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, ways};
use nonic_interop::output::{complaints, perftest, qperf};
use nonic_interop::port::TcpPort;
use nonic_interop::program::{Finished, Running};
use nonic_interop::suite::{Suite, Verdict, everything, failed, skipped};
use nonic_interop::toolbox::{ORDINARY_USER, is_root, program};

/// Both loopback addresses. Programs whose name is looked up take either.
const ADDRESSES: &[&str] = &["127.0.0.1", "::1"];
const FOUR: &[&str] = &["127.0.0.1"];

/// Two sides of a program. `PORT` and `ADDRESS` stand for themselves.
#[derive(Clone, Copy)]
struct Case {
    server: &'static str,
    client: &'static str,
    /// The server listens on a port of this space.
    space: &'static str,
    addresses: &'static [&'static str],
    /// What each side prints.
    served: &'static str,
    got: &'static str,
    end: End,
    /// The port if it cannot be chosen; then both are in a network of their own.
    fixed_port: Option<u16>,
}

/// How the server ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// By itself, with 0.
    Itself,
    /// Never: it is killed.
    Never,
}

const RPING_SERVER: &str = "rping -s -a ADDRESS -p PORT -C 5 -v";
const RPING_CLIENT: &str = "rping -c -a ADDRESS -p PORT -C 5 -v";

const fn case(server: &'static str, client: &'static str, served: &'static str, got: &'static str) -> Case {
    Case {
        server,
        client,
        space: "tcp",
        addresses: ADDRESSES,
        served,
        got,
        end: End::Itself,
        fixed_port: None,
    }
}

const CASES: &[Case] = &[
    case(RPING_SERVER, RPING_CLIENT, "server ping data: rdma-ping-4", "ping data: rdma-ping-4"),
    // Wildcards, with which the device is known only when a request comes.
    case("rping -s -p PORT -C 5 -v", "rping -c -a 127.0.0.1 -p PORT -C 5 -v", "rdma-ping-4", "rdma-ping-4"),
    // Its own queue pair, moved by rdma_init_qp_attr and rdma_establish.
    case(
        "rping -s -q -a ADDRESS -p PORT -C 5 -v",
        "rping -c -q -a ADDRESS -p PORT -C 5 -v",
        "rdma-ping-4",
        "rdma-ping-4",
    ),
    case(
        "rping -s -q -a ADDRESS -p PORT -C 5 -S 60000",
        "rping -c -a ADDRESS -p PORT -C 5 -S 60000 -V",
        "server DISCONNECT EVENT",
        "",
    ),
    Case { end: End::Never, ..case("rping -s -P -a ADDRESS -p PORT", RPING_CLIENT, "", "rdma-ping-4") },
    case(
        "ucmatose -c 4 -C 20 -S 3000 -b ADDRESS -p PORT",
        "ucmatose -c 4 -C 20 -S 3000 -s ADDRESS -p PORT",
        "return status 0",
        "return status 0",
    ),
    // The listener moves to another channel, and so does what it takes.
    case(
        "ucmatose -m -c 2 -b ADDRESS -p PORT",
        "ucmatose -m -c 2 -s ADDRESS -p PORT",
        "return status 0",
        "return status 0",
    ),
    Case {
        space: "udp",
        fixed_port: Some(7174),
        ..case(
            "udaddy -c 3 -C 20 -b ADDRESS",
            "udaddy -c 3 -C 20 -s ADDRESS",
            "return status 0",
            "return status 0",
        )
    },
    Case {
        end: End::Never,
        ..case("cmtime -b ADDRESS -p PORT -c 200", "cmtime -s ADDRESS -p PORT -c 200", "", "disconnect   :")
    },
    // Endpoints.
    case(
        "rdma_server -s ADDRESS -p PORT",
        "rdma_client -s ADDRESS -p PORT",
        "rdma_server: end 0",
        "rdma_client: end 0",
    ),
    Case {
        addresses: FOUR,
        ..case(
            "rdma_xserver -c r -p PORT",
            "rdma_xclient -c r -s ADDRESS -p PORT",
            "rdma_xserver: end 0",
            "rdma_xclient: end 0",
        )
    },
    // Over an extended reliable connection, to a shared receive queue whose number comes as private data.
    Case {
        space: "ib",
        addresses: FOUR,
        ..case(
            "rdma_xserver -c x -p PORT",
            "rdma_xclient -c x -s ADDRESS -p PORT",
            "rdma_xserver: end 0",
            "rdma_xclient: end 0",
        )
    },
    Case {
        addresses: FOUR,
        ..case(
            "fio --name=receiver --ioengine=rdma --port=PORT --rw=read --bs=64k --size=8m --iodepth=1",
            "fio --name=sender --ioengine=rdma --hostname=ADDRESS --port=PORT --verb=write --rw=write --bs=64k --size=8m \
             --iodepth=8",
            "err= 0",
            "io=8192KiB",
        )
    },
    Case {
        addresses: FOUR,
        ..case(
            "fio --name=receiver --ioengine=rdma --port=PORT --rw=read --bs=64k --size=8m --iodepth=1",
            "fio --name=sender --ioengine=rdma --hostname=ADDRESS --port=PORT --verb=read --rw=write --bs=64k --size=8m \
             --iodepth=8",
            "err= 0",
            "io=8192KiB",
        )
    },
    // Not verb=send: fio asks for no repetition where no receive is there yet, and begins to send before it receives.
];

/// perftest with `-R`: program and options.
const PERFTEST: &[&str] = &[
    "ib_write_bw -n 500",
    "ib_write_bw -n 200 -q 4",
    "ib_read_bw -n 500",
    "ib_send_bw -n 500",
    "ib_send_bw -n 500 -b",
    "ib_send_bw -n 500 -e",
    "ib_send_bw -n 300 --use-srq",
    "ib_send_bw -n 300 -c UD -s 1024",
    "ib_send_bw -n 300 -T 32",
    "ib_atomic_bw -n 500",
    "ib_send_lat -n 200",
    "ib_send_lat -n 200 -c UD",
    "ib_read_lat -n 200",
    "ib_atomic_lat -n 200",
];

/// qperf with `-cm1`.
const QPERF: &[&str] = &["rc_lat", "rc_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "ver_rc_compare_swap"];

fn main() -> ExitCode {
    let mut suite = Suite::new().crowd(2);
    for (number, environment) in environments().into_iter().enumerate() {
        let name = environment.name;
        for case in CASES {
            for address in case.addresses.iter().filter(|_| number == 0 || everything() || case.is_first()) {
                let sentence = format!("{} serves {}, {name}", case.server, case.client);
                let sentence = sentence.replace("ADDRESS", address);
                suite.test(sentence, move || case.run(environment, address));
            }
        }
    }
    for words in PERFTEST {
        suite.test(format!("{words} -R measures something"), move || perftest_by_rdma_cm(words));
    }
    for test in QPERF {
        suite.test(format!("qperf {test} -cm1 measures something"), move || qperf_by_rdma_cm(test));
    }
    for (name, gid) in GIDS {
        suite.test(format!("ucmatose finds its peer by a GID, {name}"), move || by_gid(*gid));
    }
    suite.test("rping is told that nobody listens", nobody_listens);
    for (server, client) in [(0, ORDINARY_USER), (ORDINARY_USER, 0)] {
        let sentence = format!("rping of user {server} serves one of user {client}");
        suite.test(sentence, move || users(server, client));
    }
    suite.test("a member of a group gets what is sent to it", group);
    for environment in environments() {
        let sentence = format!(
            "events say what happened, and what the interface refuses has no effect, {}",
            environment.name
        );
        suite.test(sentence, move || promises(environment));
    }
    suite.run()
}

/// The best way bytes can take, the others, and both kinds of ports.
fn environments() -> Vec<Environment> {
    let ethernet = Environment { name: "on an Ethernet port", link: Some(Link::Ethernet), ..AS_IT_COMES };
    ways().into_iter().chain([ethernet]).collect()
}

impl Case {
    /// Whether it runs in every environment.
    fn is_first(&self) -> bool {
        [RPING_CLIENT, "ucmatose -c 4 -C 20 -S 3000 -s ADDRESS -p PORT"].contains(&self.client)
            || self.space == "ib"
    }

    fn run(&self, environment: Environment, address: &str) -> Verdict {
        let only_lo = environment.only_lo || self.fixed_port.is_some();
        let place = Place::prepare(Environment { only_lo, ..environment })?;
        let claim = TcpPort::claim()?;
        let port = self.fixed_port.unwrap_or(claim.number());
        let words = |text: &str| -> Verdict<Vec<String>> {
            command(&text.replace("ADDRESS", address).replace("PORT", &port.to_string()))
        };
        let mut server = place.nonic_run(words(self.server)?)?.start()?;
        server.offers(self.space, port)?;
        let client = place.nonic_run(words(self.client)?)?.run();
        let pair = Sides::end(server, client, self.end)?;
        pair.is_clean()?;
        if !pair.client.printed().contains(self.got) {
            return pair.wrong(format!("the client does not print {:?}", self.got));
        }
        if !pair.server.printed().contains(self.served) {
            return pair.wrong(format!("the server does not print {:?}", self.served));
        }
        Ok(())
    }
}

/// A line as the words of a command, of which the first is looked for among the distribution's programs.
fn command(text: &str) -> Verdict<Vec<String>> {
    let mut words: Vec<String> = text.split_whitespace().map(Into::into).collect();
    words[0] = program(&words[0])?.display().to_string();
    Ok(words)
}

/// Addresses as GIDs; none: the port's own.
const GIDS: &[(&str, Option<&str>)] = &[
    ("an address of IPv6", Some("::1")),
    ("an address of IPv4", Some("::ffff:127.0.0.1")),
    ("the port's own", None),
];

/// The GID that the distribution's programs are to use, of this environment.
fn own_gid(place: &Place) -> Verdict<String> {
    let path = "/sys/class/infiniband/nonic0/ports/1/gids/0";
    let told = place.nonic_run(command(&format!("cat {path}"))?)?.run()?;
    if told.succeeded() { Ok(told.stdout.trim().to_owned()) } else { failed(told.report()) }
}

fn by_gid(gid: Option<&str>) -> Verdict {
    let own = gid.is_none().then(|| own_gid(&Place::prepare(AS_IT_COMES)?)).transpose()?;
    let gid = gid.map(str::to_owned).or(own).unwrap_or_default();
    let status = "return status 0";
    let server = "ucmatose -f gid -c 2 -C 20 -S 3000 -b ADDRESS -p PORT";
    case(server, "ucmatose -f gid -c 2 -C 20 -S 3000 -s ADDRESS -p PORT", status, status)
        .run(AS_IT_COMES, &gid)?;
    // All that a wildcard stands for.
    let server = "ucmatose -f gid -c 2 -C 20 -S 3000 -p PORT";
    case(server, "ucmatose -f gid -c 2 -C 20 -S 3000 -s ADDRESS -p PORT", status, status)
        .run(AS_IT_COMES, &gid)
}

/// What both sides did.
struct Sides {
    server: Finished,
    client: Finished,
    end: End,
}

impl Sides {
    fn end(server: Running, client: Verdict<Finished>, end: End) -> Verdict<Self> {
        let client = match client {
            Ok(client) => client,
            Err(why) => {
                return failed(format!("the client: {why}\nthe server:\n{}", server.report("at that time")));
            }
        };
        // A client that failed leaves a server that waits for it for ever.
        let server = if client.succeeded() && end == End::Itself {
            match server.finish() {
                Ok(server) => server,
                Err(why) => return failed(format!("the server: {why}\nthe client:\n{}", client.report())),
            }
        } else {
            server.kill()
        };
        Ok(Self { server, client, end })
    }

    /// Fails unless both exited with 0, but for a server that had to be killed, and neither complained.
    fn is_clean(&self) -> Verdict {
        if !self.client.succeeded() {
            return self.wrong(format!("the client ended with {}", self.client.status()));
        }
        if self.end == End::Itself && !self.server.succeeded() {
            return self.wrong(format!("the server ended with {}", self.server.status()));
        }
        for (side, finished) in [("client", &self.client), ("server", &self.server)] {
            if let Some(line) = complaints(&finished.printed()).first() {
                return self.wrong(format!("the {side} says: {line}"));
            }
        }
        Ok(())
    }

    fn wrong<T>(&self, why: impl Into<String>) -> Verdict<T> {
        failed(format!(
            "{}\nthe client:\n{}the server:\n{}",
            why.into(),
            self.client.report(),
            self.server.report()
        ))
    }
}

fn perftest_by_rdma_cm(words: &str) -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?;
    let mut words = command(words)?;
    words.extend(["-R", "-F", "-p", &port.number().to_string()].map(String::from));
    let mut server = place.nonic_run(words.clone())?.start()?;
    // Its sides first talk over a connection, whatever they measure then.
    server.offers("tcp", port.number())?;
    words.push("127.0.0.1".into());
    let client = place.nonic_run(words)?.run();
    let pair = Sides::end(server, client, End::Itself)?;
    if !pair.client.succeeded() || !pair.server.succeeded() {
        return pair.wrong("one of the sides failed");
    }
    match perftest(&pair.client.stdout).as_slice() {
        [row] if row.is_positive() => Ok(()),
        rows => pair.wrong(format!("the client measured {rows:?}")),
    }
}

fn qperf_by_rdma_cm(test: &str) -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?;
    let mut words = command("qperf --listen_port")?;
    words.push(port.number().to_string());
    let mut server = place.nonic_run(words.clone())?.start()?;
    server.listens_on(port.number())?;
    words.extend(["127.0.0.1", "-cm1", "--time", "1", "--precision", "6", test].map(Into::into));
    let pair = Sides::end(server, place.nonic_run(words)?.run(), End::Never)?;
    pair.is_clean()?;
    let figures = qperf(&pair.client.stdout);
    if figures.is_empty() || figures.iter().any(|(_, value)| value.is_nan() || *value <= 0.0) {
        return pair.wrong(format!("expected figures above 0, got {figures:?}"));
    }
    Ok(())
}

fn nobody_listens() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?;
    let words = command(&format!("rping -c -a 127.0.0.1 -p {} -C 1", port.number()))?;
    let client = place.nonic_run(words)?.run()?;
    if client.succeeded() || !client.printed().contains("RDMA_CM_EVENT_REJECTED, error 8") {
        return failed(format!("expected a rejection\n{}", client.report()));
    }
    Ok(())
}

/// One side may reach into the other, which may not. Several times: who comes first is a matter of luck.
fn users(server: u32, client: u32) -> Verdict {
    if !is_root() {
        return skipped("two users need root");
    }
    for _ in 0..5 {
        let port = TcpPort::claim()?;
        let words = |text: &str| {
            command(&text.replace("ADDRESS", "127.0.0.1").replace("PORT", &port.number().to_string()))
        };
        let served = Place::prepare(AS_IT_COMES)?.user(server);
        let mut server = served.nonic_run(words(RPING_SERVER)?)?.start()?;
        server.offers("tcp", port.number())?;
        let got = Place::prepare(AS_IT_COMES)?.user(client).nonic_run(words(RPING_CLIENT)?)?;
        let pair = Sides::end(server, got.deadline(Duration::from_secs(30)).run(), End::Itself)?;
        pair.is_clean()?;
    }
    Ok(())
}

/// In a network of its own, as the group cannot be claimed.
fn group() -> Verdict {
    let place = Place::prepare(Environment { only_lo: true, ..AS_IT_COMES })?;
    let sender = command("mckey -b 127.0.0.1 -m 239.1.2.3 -s")?;
    // Line by line, or nothing is seen of it before its end.
    let receiver = command("stdbuf -oL mckey -b 127.0.0.1 -m 239.1.2.3")?;
    let mut server = place.nonic_run(receiver)?.start()?;
    server.prints(|line| line.contains("receiving data transfers"))?;
    let client = place.nonic_run(sender)?.run();
    let pair = Sides::end(server, client, End::Itself)?;
    pair.is_clean()?;
    if !pair.server.printed().contains("return status 0") {
        return pair.wrong("the receiver does not say that it has received");
    }
    Ok(())
}

/// What the interface promises, sentence by sentence.
const C_PROGRAMS: [&str; 6] = [
    "rdmacm_refusals",
    "rdmacm_events",
    "rdmacm_later",
    "rdmacm_processes",
    "rdmacm_services",
    "event_polls",
];

fn promises(environment: Environment) -> Verdict {
    let place = Place::prepare(environment)?;
    for name in C_PROGRAMS {
        let binary = compile_rdmacm(name)?;
        judge(&place.nonic_run([binary.display().to_string()])?.run()?)?;
    }
    Ok(())
}

//! Libraries of the distribution that connect by the RDMA connection manager: libfabric, and the provider of uDAPL 2.0 that OFED
//! made.
#![forbid(unsafe_code)]

use std::fs;
use std::net::UdpSocket;
use std::process::ExitCode;

use nonic_interop::environment::{AS_IT_COMES, Environment, Place};
use nonic_interop::pair::Pair;
use nonic_interop::port::TcpPort;
use nonic_interop::program::{Finished, Running};
use nonic_interop::suite::{Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::{program, scratch};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for kind in ["-p verbs -e msg", "-p verbs;ofi_rxm -e rdm"] {
        suite.test(format!("fi_pingpong {kind} measures something"), move || libfabric(kind));
    }
    suite.test("dtest passes over libdaplofa.so.2", dapl);
    suite.run()
}

/// Runs the client against a server that is ready.
fn meet(server: Running, place: &Place, client: Vec<String>) -> Verdict<Pair> {
    let client = match place.nonic_run(client)?.run() {
        Ok(client) => client,
        Err(why) => {
            return failed(format!("the client: {why}\nthe server:\n{}", server.report("at that time")));
        }
    };
    // A client that failed leaves a server that waits for it for ever.
    let server = if client.succeeded() { server.finish()? } else { server.kill() };
    Ok(Pair { server, client })
}

/// What libfabric says of a send in its own list when it hears of a connection's end before it has looked for the send's completion, which
/// is there: a side that gets no CPU at that moment counts its last message as lost. Both sides have their figures by then.
const HEARD_OF_THE_END_FIRST: &str = "cq_readerr: work request flushed";

fn has_measured(side: &Finished) -> bool {
    side.stdout.lines().any(|line| line.starts_with("1k") && line.contains("=100"))
}

/// Once more where libfabric loses its own last message, which is seldom.
fn libfabric(kind: &str) -> Verdict {
    for _ in 0..2 {
        let pair = one_measurement(kind)?;
        let sides = [&pair.client, &pair.server];
        let is_late = |side: &&Finished| side.stderr.contains(HEARD_OF_THE_END_FIRST);
        if !(sides.iter().all(|side| has_measured(side)) && sides.iter().any(is_late)) {
            return judge(&pair);
        }
    }
    judge(&one_measurement(kind)?)
}

fn judge(pair: &Pair) -> Verdict {
    pair.is_clean()?;
    if has_measured(&pair.client) { Ok(()) } else { pair.wrong("the client measured nothing") }
}

/// libfabric takes no loopback interface, so this is for hosts that have another.
fn one_measurement(kind: &str) -> Verdict<Pair> {
    let address = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // Nothing is sent: the kernel says from where it would be.
        socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr())
    });
    let Ok(address) = address else { return skipped("no interface but loopback leads anywhere") };
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?;
    let mut words = vec![program("fi_pingpong")?.display().to_string()];
    words.extend(format!("{kind} -I 100 -S 1024").split_whitespace().map(Into::into));
    let listen = [words.clone(), vec!["-B".into(), port.number().to_string()]].concat();
    let mut server = place.nonic_run(listen)?.start()?;
    server.listens_on(port.number())?;
    words.extend(["-P".into(), port.number().to_string(), address.ip().to_string()]);
    meet(server, &place, words)
}

fn dapl() -> Verdict {
    /// Where the server tells its address.
    const MEETING: u16 = 15_828;
    let registry = scratch().join("rdmacm-dat.conf");
    let line = "lo u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"lo 0\" \"\"\n";
    if let Err(error) = fs::write(&registry, line) {
        return failed(format!("{}: {error}", registry.display()));
    }
    let place = Place::prepare(Environment { only_lo: true, ..AS_IT_COMES })?
        .variable("DAT_OVERRIDE", &registry.display().to_string());
    let mut words = vec![program("dtest")?.display().to_string()];
    words.extend("-P lo -b 4096 -B 10".split_whitespace().map(Into::into));
    let mut server = place.nonic_run(words.clone())?.start()?;
    server.listens_on(MEETING)?;
    words.extend(["-h".into(), "127.0.0.1".into()]);
    let pair = meet(server, &place, words)?;
    for (side, finished) in [("client", &pair.client), ("server", &pair.server)] {
        if !finished.stdout.contains("DAPL Test Complete. PASSED") {
            return pair.wrong(format!("the {side} does not say that it has passed"));
        }
    }
    Ok(())
}

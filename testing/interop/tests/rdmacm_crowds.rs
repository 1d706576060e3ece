//! Programs of the RDMA connection manager where there are many connections, and at addresses of interfaces.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::port::TcpPort;
use nonic_interop::suite::{Suite, Verdict, everything, failed};
use nonic_interop::toolbox::{Toolbox, program};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let count = if everything() { 511 } else { 48 };
    suite.test(format!("one rping serves {count} others and keeps nothing of them"), move || crowd(count));
    suite.test("nonic doctor says of both sides with whom they are connected", doctor);
    for address in Namespace::ADDRESSES {
        for case in INTERFACE {
            suite.test(format!("{} reaches {address}, of an interface", case.client), move || {
                case.run(address)
            });
        }
    }
    suite.run()
}

/// Two sides, and the line that each prints.
#[derive(Clone, Copy)]
struct Case {
    server: &'static str,
    client: &'static str,
    got: &'static str,
}

const INTERFACE: [Case; 3] = [
    Case {
        server: "rping -s -a ADDRESS -p PORT -C 5 -v",
        client: "rping -c -a ADDRESS -p PORT -C 5 -v",
        got: "rdma-ping-4",
    },
    Case {
        server: "ucmatose -c 2 -C 20 -S 3000 -b ADDRESS -p PORT",
        client: "ucmatose -c 2 -C 20 -S 3000 -s ADDRESS -p PORT",
        got: "return status 0",
    },
    Case {
        server: "rdma_server -s ADDRESS -p PORT",
        client: "rdma_client -s ADDRESS -p PORT",
        got: ": end 0",
    },
];

/// A line as the words of a command, of which the first is looked for among the distribution's programs.
fn command(text: &str, address: &str, port: u16) -> Verdict<Vec<String>> {
    let text = text.replace("ADDRESS", address).replace("PORT", &port.to_string());
    let mut words: Vec<String> = text.split_whitespace().map(Into::into).collect();
    words[0] = program(&words[0])?.display().to_string();
    Ok(words)
}

impl Case {
    fn run(&self, address: &str) -> Verdict {
        let place = Place::prepare(AS_IT_COMES)?.inside(Namespace::with_interface()?);
        let port = TcpPort::claim()?.number();
        let mut server = place.nonic_run(command(self.server, address, port)?)?.start()?;
        server.offers("tcp", port)?;
        let client = place.nonic_run(command(self.client, address, port)?)?.run()?;
        if !client.succeeded() || !client.printed().contains(self.got) {
            return failed(format!("the client:\n{}\n{}", client.report(), server.report("at that time")));
        }
        let server = server.finish()?;
        if !server.succeeded() || !server.printed().contains(self.got) {
            return failed(format!("the server:\n{}", server.report()));
        }
        Ok(())
    }
}

/// One after the other: of two requests at once rping forgets the first.
fn crowd(count: usize) -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?.number();
    let mut server = place.nonic_run(command("rping -s -P -a 127.0.0.1 -p PORT", "", port)?)?.start()?;
    server.offers("tcp", port)?;
    let mut held = Vec::new();
    for number in 0..count {
        let client = place.nonic_run(command("rping -c -v -a 127.0.0.1 -p PORT -C 5", "", port)?)?.run()?;
        if !client.succeeded() || !client.printed().contains("rdma-ping-4") {
            return failed(format!(
                "number {number}:\n{}\n{}",
                client.report(),
                server.report("at that time")
            ));
        }
        held.push(descriptors(server.id())?);
    }
    // What the last few used may not be given back yet; what those before them did is.
    let (first, last) = (held[0], held[held.len() - 1]);
    if last > first + 32 {
        return failed(format!(
            "it held {first} descriptors beside the first, and holds {last} beside the last"
        ));
    }
    Ok(())
}

fn doctor() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?.number();
    let listening = format!("listening tcp 127.0.0.1:{port}");
    let mut server = place.nonic_run(command("rping -s -P -a 127.0.0.1 -p PORT", "", port)?)?.start()?;
    server.offers("tcp", port)?;
    // Goes on until it is killed.
    let client =
        place.nonic_run(command("rping -c -a 127.0.0.1 -p PORT -C 2000000000", "", port)?)?.start()?;
    let connected =
        [format!("connected tcp 127.0.0.1:{port} to 127.0.0.1:"), format!(" to 127.0.0.1:{port}")];
    for (pid, words) in [server.id(), client.id()].into_iter().zip(&connected) {
        let since = Instant::now();
        loop {
            let nonic = Toolbox::find()?.nonic.display().to_string();
            let told = place.bare([&nonic, "doctor", "--pid", &pid.to_string()])?.run()?;
            let text = told.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            let listens = pid != server.id() || text.contains(&listening);
            if told.succeeded() && listens && text.contains("connected tcp") && text.contains(words) {
                break;
            }
            // A client that has just begun has no device yet.
            if since.elapsed() > PATIENCE {
                return failed(format!("{words:?} is not told:\n{}", told.report()));
            }
        }
    }
    Ok(())
}

fn descriptors(pid: u32) -> Verdict<usize> {
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(folder) => Ok(folder.count()),
        Err(error) => failed(format!("the descriptors of {pid}: {error}")),
    }
}

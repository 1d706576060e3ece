//! Which way TCP connections go, as `nonic doctor --pid` tells it, and shells that have `nonic env --sockets`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::port::TcpPort;
use nonic_interop::program::{Program, Running};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{Toolbox, program};

const HOLDING: &str = include_str!("../python/holding.py");
/// What a program says of a connection by a stream, if it is asked to say so much.
const STREAM: &str = "a stream sends and receives nothing more";

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test(
        "a shell that takes nonic env --sockets leads its programs' connections over RDMA, until it is off",
        shell,
    );
    suite.test("the doctor says which connections go by RDMA, and why the others do not", ways);
    suite.test("the doctor says of a forked child's connection who carries it", child);
    suite.test("the doctor says when the sockets of a process are not taken", switched);
    suite.run()
}

fn nonic() -> Verdict<String> {
    Ok(Toolbox::find()?.nonic.display().to_string())
}

/// The program that holds connections, behind these words.
fn holding(place: &Place, before: &[&str], mode: &str, ports: &[u16]) -> Verdict<Program> {
    let mut words: Vec<String> = before.iter().map(ToString::to_string).collect();
    words.extend([program("python3")?.display().to_string(), "-c".into(), HOLDING.into(), mode.into()]);
    words.extend(ports.iter().map(u16::to_string));
    place.bare(words)
}

fn listening(place: &Place, before: &[&str], mode: &str, port: u16) -> Verdict<Running> {
    let mut listening = holding(place, before, mode, &[port])?.start()?;
    listening.listens_on(port)?;
    Ok(listening)
}

fn connected(place: &Place, before: &[&str], ports: &[u16]) -> Verdict<Running> {
    let mut connected = holding(place, before, "connect", ports)?.start()?;
    connected.prints(|line| line == "connected")?;
    Ok(connected)
}

/// Fails unless the doctor says all of this of a process, wherever lines are broken.
fn told(place: &Place, pid: u32, wanted: &[&str]) -> Verdict {
    let finished = place.bare([nonic()?, "doctor".into(), "--pid".into(), pid.to_string()])?.run()?;
    let text = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    match wanted.iter().find(|wanted| !text.contains(**wanted)) {
        _ if !finished.succeeded() => failed(format!("the doctor failed\n{}", finished.report())),
        Some(missing) => failed(format!("the doctor does not say: {missing}\n{}", finished.report())),
        None => Ok(()),
    }
}

fn shell() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let [port, other] = [TcpPort::claim()?, TcpPort::claim()?];
    let (nonic, python) = (nonic()?, program("python3")?.display().to_string());
    let url = |port: &TcpPort| format!("http://127.0.0.1:{}/", port.number());
    let begin = format!("eval \"$({nonic} env --sockets)\"; export NONIC_LOG=debug");
    let serve = |begin: &str, port: &TcpPort| -> Verdict<Running> {
        let line = format!("{begin}; exec {python} -m http.server {} --bind 127.0.0.1", port.number());
        let mut server = place.bare(["/bin/sh", "-c", &line])?.start()?;
        server.listens_on(port.number())?;
        Ok(server)
    };
    let curl = format!("{} -sS -o /dev/null -w '%{{http_code}}\\n'", program("curl")?.display());
    let end = format!(
        "eval \"$({nonic} env --off)\"; echo \"left ${{LD_PRELOAD-nothing}}\"; export NONIC_LOG=debug"
    );
    for (port, begin, over_stream) in
        [(&port, begin.clone(), true), (&other, format!("{begin}; {end}"), false)]
    {
        let _server = serve(&begin, port)?;
        let line = format!("{begin}; {curl} {}", url(port));
        let client = place.bare(["/bin/sh", "-c", &line])?.run()?;
        let printed = client.printed();
        let is_well =
            client.succeeded() && printed.contains("200") && printed.contains(STREAM) == over_stream;
        if !is_well || printed.contains("left nothing") == over_stream {
            return failed(format!("it went the other way, or not at all\n{}", client.report()));
        }
    }
    Ok(())
}

fn ways() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let (nonic, ports) = (nonic()?, [TcpPort::claim()?, TcpPort::claim()?]);
    let [near, plain] = [0, 1].map(|place: usize| ports[place].number());
    let sockets = [nonic.as_str(), "run", "--sockets", "--"];
    let mut server = listening(&place, &sockets, "listen", near)?;
    let _plain = listening(&place, &[], "listen", plain)?;
    let client = connected(&place, &sockets, &[near, plain])?;
    let _bare = connected(&place, &[], &[near])?;
    server.prints(|line| line == "holds 2")?;
    let both = format!("listening 127.0.0.1:{near} by RDMA and by TCP");
    let [accepted, by_tcp] = ["by RDMA", "by TCP"].map(|way| format!("{way} 127.0.0.1:{near} to 127.0.0.1:"));
    let loaded = "libnonic-sockets.so is in the process, and takes all its TCP sockets";
    told(&place, server.id(), &[loaded, &both, &accepted, &by_tcp, "accepted: its peer connected by TCP"])?;
    let asked = format!("to 127.0.0.1:{near} ");
    let nobody = format!("to 127.0.0.1:{plain}: nobody listens there by a stream");
    told(&place, client.id(), &[loaded, "by RDMA 127.0.0.1:", &asked, "by TCP 127.0.0.1:", &nobody])?;
    // What had been told of a connection goes with it.
    server.kill();
    let finished = place.bare([nonic, "doctor".into(), "--pid".into(), client.id().to_string()])?.run()?;
    if finished.stdout.contains("its peer connected by TCP") {
        return failed(finished.report());
    }
    Ok(())
}

fn child() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let (nonic, port) = (nonic()?, TcpPort::claim()?);
    let sockets = [nonic.as_str(), "run", "--sockets", "--"];
    let mut server = listening(&place, &sockets, "fork", port.number())?;
    let client = connected(&place, &sockets, &[port.number()])?;
    let line = server.prints(|line| line.starts_with("child "))?;
    let Some(child) = line.split(' ').nth(1).and_then(|pid| pid.parse().ok()) else {
        return failed(format!("no number of a process: {line}"));
    };
    let source = format!("by TCP 127.0.0.1:{} to 127.0.0.1:", port.number());
    for pid in [child, server.id()] {
        told(&place, pid, &[&source, "a forked child has it, too", "which carries it on by RDMA"])?;
    }
    told(&place, client.id(), &["by RDMA 127.0.0.1:", &format!("to 127.0.0.1:{}", port.number())])
}

fn switched() -> Verdict {
    let nonic = nonic()?;
    let sockets = [nonic.as_str(), "run", "--sockets", "--"];
    for (value, wanted) in [
        ("off", ["takes none", "by TCP alone: NONIC_SOCKETS=off"]),
        ("connect", ["those that listen do so by TCP alone", "by TCP alone: NONIC_SOCKETS=connect"]),
    ] {
        let place = Place::prepare(AS_IT_COMES)?.variable("NONIC_SOCKETS", value);
        let port = TcpPort::claim()?;
        let server = listening(&place, &sockets, "listen", port.number())?;
        told(&place, server.id(), &wanted)?;
    }
    // Without the library, and without a device, there is nothing to tell.
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?;
    let server = listening(&place, &[], "listen", port.number())?;
    let finished = place.bare([nonic, "doctor".into(), "--pid".into(), server.id().to_string()])?.run()?;
    if finished.succeeded() || !finished.stderr.contains("has no device of nonic open") {
        return failed(finished.report());
    }
    Ok(())
}

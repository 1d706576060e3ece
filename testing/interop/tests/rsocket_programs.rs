//! Programs of the distribution that use rsockets: rstream, riostream, rcopy and udpong of `rdmacm-utils`; and programs of plain
//! sockets under its `librspreload.so`.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, ways};
use nonic_interop::pair::Pair;
use nonic_interop::port::TcpPort;
use nonic_interop::program::{Finished, Running};
use nonic_interop::suite::{Suite, Verdict, everything, failed, skipped};
use nonic_interop::toolbox::{program, scratch};

/// Options of rstream; each side gets all of them. The first ones run everywhere, and take little time.
const STREAMS: &[&str] = &[
    // Buffers of which one message fills half, and an odd size that fits in none.
    "-T b -T v -B 5000 -S 3333 -I 40",
    "-T b -T v",
    "-T n -T v -S 4000 -I 60",
    "-T a -T v -S 4000 -I 60",
    "-T r -T b -S 4000 -I 60",
    "-T b -i 0 -S 4000 -I 60",
    "-T b -k 1 -S 4000 -I 60",
    "-T b -T v -S 100000 -I 50 -C 3",
];

/// Options of riostream. It waits by looking at its memory, which takes long wherever others place the bytes.
const DIRECT: &[&str] =
    &["-T b -T v -S 5000 -I 100", "-T b -T v", "-T n -T v -S 5000 -I 100", "-T a -T v -S 5000 -I 100"];

/// Sides of udpong: the options of the client, which the server takes too.
const DATAGRAMS: &[&str] = &["-T b -S 64 -C 200 -T e", "-T n -S 1500 -C 200", "-T a -S 512 -C 200 -T e"];

/// Where Debian puts the library that programs of plain sockets are run with.
const PRELOAD: &str = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so";
/// What a stream says at its end, if it is asked to say so much.
const PROOF: &str = "a stream sends and receives nothing more";

fn main() -> ExitCode {
    let mut suite = Suite::new().one_at_a_time();
    for (number, environment) in environments().into_iter().enumerate() {
        let name = environment.name;
        let first = |count: usize| if number == 0 || everything() { count } else { 1 };
        for options in &STREAMS[..first(STREAMS.len())] {
            suite.test(format!("rstream {options} measures something, {name}"), move || {
                measures(environment, "rstream", options, "127.0.0.1")
            });
        }
        for options in &DIRECT[..first(DIRECT.len())] {
            suite.test(format!("riostream {options} measures something, {name}"), move || {
                measures(environment, "riostream", options, "127.0.0.1")
            });
        }
        for options in &DATAGRAMS[..first(DATAGRAMS.len())] {
            suite.test(format!("udpong {options} gets answers, {name}"), move || {
                datagrams(environment, options)
            });
        }
        suite.test(format!("rcopy copies a file, {name}"), move || copy(environment));
    }
    suite
        .test("rstream measures every size", || measures(AS_IT_COMES, "rstream", "-T b -S all", "127.0.0.1"));
    suite.test("rstream finds its peer by IPv6", || {
        measures(AS_IT_COMES, "rstream", "-T b -S 4000 -I 60", "::1")
    });
    for gid in ["::1", "::ffff:127.0.0.1"] {
        suite.test(format!("rstream finds its peer by the GID {gid}"), move || {
            measures(AS_IT_COMES, "rstream", "-f gid -T b -S 4000 -I 60", gid)
        });
    }
    suite.test("rstream is told that nobody listens", nobody_listens);
    for options in ["-T s -T b -T v", "-T s -T a -T v -S 4000 -I 60"] {
        suite.test(format!("rstream {options} runs over the distribution's librspreload.so"), move || {
            preloaded(options, false)
        });
    }
    suite.test("a server that forks runs over the distribution's librspreload.so", || {
        preloaded("-T f -T b -S 4000 -I 60", true)
    });
    suite.run()
}

/// The best way bytes can take, the others, and both kinds of ports.
fn environments() -> Vec<Environment> {
    let ethernet = Environment { name: "on an Ethernet port", link: Some(Link::Ethernet), ..AS_IT_COMES };
    ways().into_iter().chain([ethernet]).collect()
}

/// A program, and its options.
fn words(name: &str, options: &str) -> Verdict<Vec<String>> {
    let mut words = vec![program(name)?.display().to_string()];
    words.extend(options.split_whitespace().map(String::from));
    Ok(words)
}

/// Runs the client against a server that is ready.
fn meet(server: Running, client: Verdict<Finished>, ends: bool) -> Verdict<Pair> {
    let client = match client {
        Ok(client) => client,
        Err(why) => {
            return failed(format!("the client: {why}\nthe server:\n{}", server.report("at that time")));
        }
    };
    // A client that failed leaves a server that waits for it for ever.
    let server = if client.succeeded() && ends { server.finish()? } else { server.kill() };
    Ok(Pair { server, client })
}

/// Fails unless both sides printed as many rows of figures, none of which is 0: these programs exit with 0 after a test that
/// failed.
fn check_rows(pair: &Pair, least: usize) -> Verdict {
    let rows = |side: &Finished| {
        let lines = side.stdout.lines().filter(|line| line.contains("_lat") || line.contains("_bw"));
        let custom = side.stdout.lines().filter(|line| line.starts_with("custom"));
        lines.chain(custom).filter(|row| !row.trim_end().ends_with(" 0.00")).count()
    };
    let (client, server) = (rows(&pair.client), rows(&pair.server));
    if client < least || client != server {
        return pair.wrong(format!("{client} and {server} rows of figures, {least} were expected"));
    }
    Ok(())
}

/// How many rows a test of all its kinds has.
fn rows(options: &str) -> usize {
    match options {
        _ if options.contains("-S all") => 66,
        _ if options.contains("-S") => 1,
        _ => 8,
    }
}

fn measures(environment: Environment, name: &str, options: &str, address: &str) -> Verdict {
    let place = Place::prepare(environment)?;
    let port = TcpPort::claim()?;
    let words = words(name, &format!("{options} -p {}", port.number()))?;
    let with = |more: [&str; 2]| [words.clone(), more.map(String::from).to_vec()].concat();
    let mut server = place.nonic_run(with(["-b", address]))?.start()?;
    server.offers("tcp", port.number())?;
    let client = place.nonic_run(with(["-s", address]))?.run();
    let pair = meet(server, client, true)?;
    pair.is_clean()?;
    check_rows(&pair, rows(options))
}

fn nobody_listens() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let port = TcpPort::claim()?;
    let client =
        place.nonic_run(words("rstream", &format!("-T b -s 127.0.0.1 -p {}", port.number()))?)?.run()?;
    if client.succeeded() || !client.printed().contains("rconnect: Connection refused") {
        return failed(format!("expected a refusal\n{}", client.report()));
    }
    Ok(())
}

fn copy(environment: Environment) -> Verdict {
    let place = Place::prepare(environment)?;
    let port = TcpPort::claim()?;
    let path = |kind: &str| scratch().join(format!("rcopy-{}-{kind}", port.number()));
    let (source, target) = (path("source"), path("target"));
    let bytes: Vec<u8> = (0..3_000_001u32).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect();
    fs::write(&source, &bytes).map_err(|error| failed::<()>(error.to_string()).unwrap_err())?;
    let mut server = place.nonic_run(words("rcopy", &format!("-p {}", port.number()))?)?.start()?;
    server.offers("tcp", port.number())?;
    let options = format!("{} 127.0.0.1:{} -p {}", source.display(), target.display(), port.number());
    let client = place.nonic_run(words("rcopy", &options)?)?.run();
    // It waits for the next client.
    let pair = meet(server, client, false)?;
    if !pair.client.succeeded() || !pair.client.printed().contains("3000001 bytes in") {
        return pair.wrong("the client did not copy");
    }
    match fs::read(&target) {
        Ok(copied) if copied == bytes => Ok(()),
        Ok(copied) => pair.wrong(format!("{} other bytes were copied", copied.len())),
        Err(error) => pair.wrong(format!("there is no copy: {error}")),
    }
}

/// The client sends again what is not answered in time, so nothing has to wait for the server.
fn datagrams(environment: Environment, options: &str) -> Verdict {
    let place = Place::prepare(environment)?;
    let port = TcpPort::claim()?;
    let words = words("udpong", &format!("{options} -p {}", port.number()))?;
    let with = |more: [&str; 2]| [words.clone(), more.map(String::from).to_vec()].concat();
    let server = place.nonic_run(with(["-b", "127.0.0.1"]))?.start()?;
    let client = place.nonic_run(with(["-s", "127.0.0.1"]))?.run();
    let pair = meet(server, client, false)?;
    if !pair.client.succeeded() || !pair.client.stdout.lines().any(|line| line.starts_with("custom")) {
        return pair.wrong("the client measured nothing");
    }
    Ok(())
}

/// Runs rstream as a program of plain sockets, which the distribution's library leads to rsockets. It falls back to TCP in
/// silence, so each side must say that it had a stream.
fn preloaded(options: &str, forks: bool) -> Verdict {
    if !Path::new(PRELOAD).exists() {
        return skipped(format!("{PRELOAD} is not installed (package librdmacm1)"));
    }
    let place = Place::prepare(AS_IT_COMES)?.variable("NONIC_LOG", "debug");
    let place = if forks { place.variable("RDMAV_FORK_SAFE", "1") } else { place };
    // The library's semaphore has one name for all users; who made it last may not have been this one.
    let _ = fs::remove_file("/dev/shm/sem.rsocket_fork");
    let port = TcpPort::claim()?;
    let mut words = words("env", &format!("LD_PRELOAD={PRELOAD}"))?;
    words.extend(self::words("rstream", &format!("{options} -p {}", port.number()))?);
    let with = |more: [&str; 2]| [words.clone(), more.map(String::from).to_vec()].concat();
    let mut server = place.nonic_run(with(["-b", "127.0.0.1"]))?.start()?;
    if forks {
        server.listens_on(port.number())?;
    } else {
        server.offers("tcp", port.number())?;
    }
    let client = place.nonic_run(with(["-s", "127.0.0.1"]))?.run();
    let pair = meet(server, client, true)?;
    for side in [&pair.client, &pair.server] {
        if !side.succeeded() || !side.printed().contains(PROOF) {
            return pair.wrong("a side failed, or had no stream");
        }
    }
    // The rows of a child are in its own buffer, and come in any order.
    if forks { Ok(()) } else { check_rows(&pair, rows(options)) }
}

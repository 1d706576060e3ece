//! Programs of plain TCP under `nonic run --sockets`: C programs of this package, iperf3, Python, Redis, curl, nc and socat.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use nonic_interop::c_program::{compile_with, judge};
use nonic_interop::environment::{AS_IT_COMES, Place, environments};
use nonic_interop::pair::Pair;
use nonic_interop::port::TcpPort;
use nonic_interop::program::{Finished, Program};
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{program, scratch};

/// What a side says of a connection by a stream, if it is asked to say so much, and of one that goes over TCP.
const STREAM: &str = "a stream sends and receives nothing more";

const MANY_CLIENTS: &str = include_str!("../python/many_clients.py");
const FORKING_SERVER: &str = include_str!("../python/forking_server.py");
const FORKING_MIXIN: &str = include_str!("../python/forking_mixin.py");
const CLIENT: &str = include_str!("../python/client.py");

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test("what the calls promise is what TCP promises", || calls(Promises::OfTcp));
    for environment in environments() {
        suite.test(format!("the calls keep to it, {}", environment.name), move || {
            calls(Promises::Of(Box::new(Place::prepare(environment)?)))
        });
    }
    suite.test("with NONIC_SOCKETS=off everything goes over TCP", || calls(Promises::SwitchedOff));
    suite.test("iperf3 measures both ways bytes can take", iperf3);
    suite.test("an asyncio server answers fifty clients", many_clients);
    suite.test("a Python server of HTTP answers curl and urllib, with and without nonic", http);
    suite.test("a connection to a server of plain TCP goes over TCP", plain_server);
    suite.test("Redis keeps what it is told, and is measured", redis);
    suite.test("a child that is forked before it accepts has the connection", || {
        forks("before", "a child has")
    });
    suite.test("a child that is forked for a connection has it", || forks("after", "a child has"));
    suite
        .test("a child that is forked in the middle of a connection has it", || forks("used", "a child has"));
    suite.test("parent and child share a connection", || forks("both", "the parent has"));
    suite.test("a program that a child executes has the connection", || forks("exec", "another program has"));
    suite.test("a child that does not use a connection takes it from nobody", || {
        forks("close", "the parent has")
    });
    suite.test("a child asks while its parent waits", || forks("look", "the parent has"));
    suite.test("who talks with a child that is killed hears of it", || forks_until_killed("killed"));
    suite
        .test("who talks with a child whose parent is killed hears of it", || forks_until_killed("orphaned"));
    suite.test("a Python server that forks for each connection answers twenty clients", forking_mixin);
    suite.test("socat and tcpserver fork for each connection and start programs", forking_programs);
    suite.test("dropbear forks for a connection and proves its key", dropbear);
    suite.test("who is left when the other side is killed hears of it", killed);
    suite.test("nc and socat carry a file", carriers);
    suite.run()
}

/// What a connection goes over, and under which switch.
enum Promises {
    OfTcp,
    Of(Box<Place>),
    SwitchedOff,
}

fn calls(promises: Promises) -> Verdict {
    let file = compile_with("sockets", &["-D_FORTIFY_SOURCE=2"])?.display().to_string();
    let finished = match promises {
        Promises::OfTcp => Place::prepare(AS_IT_COMES)?.bare([file, "tcp".into()])?.run()?,
        Promises::Of(place) => sockets(&place, [file, "stream".into()])?.run()?,
        Promises::SwitchedOff => {
            let place = Place::prepare(AS_IT_COMES)?.variable("NONIC_SOCKETS", "off");
            sockets(&place, [file, "tcp".into()])?.run()?
        }
    };
    judge(&finished).map(|_| ())
}

fn sockets(place: &Place, words: impl IntoIterator<Item = impl Into<String>>) -> Verdict<Program> {
    place.nonic_run_with(&["--sockets"], words)
}

/// A place in which streams say that they were there.
fn talkative() -> Verdict<Place> {
    Ok(Place::prepare(AS_IT_COMES)?.variable("NONIC_LOG", "debug"))
}

fn python(script: &str, arguments: &[&str]) -> Verdict<Vec<String>> {
    let mut words = vec![program("python3")?.display().to_string(), "-c".into(), script.into()];
    words.extend(arguments.iter().map(|argument| argument.to_string()));
    Ok(words)
}

fn words(name: &str, options: &str) -> Verdict<Vec<String>> {
    let mut words = vec![program(name)?.display().to_string()];
    words.extend(options.split_whitespace().map(String::from));
    Ok(words)
}

/// Fails unless a program succeeded and said something.
fn check(finished: &Finished, wanted: &[&str]) -> Verdict {
    match wanted.iter().find(|wanted| !finished.printed().contains(**wanted)) {
        _ if !finished.succeeded() => failed(format!("it failed\n{}", finished.report())),
        Some(missing) => failed(format!("it did not say: {missing}\n{}", finished.report())),
        None => Ok(()),
    }
}

/// Gigabits a second of one way, as the client counts them.
fn measured(place: &Place, over_stream: bool) -> Verdict<f64> {
    let port = TcpPort::claim()?;
    let run = |options: &str| {
        let words = words("iperf3", &format!("{options} -p {}", port.number()))?;
        if over_stream { sockets(place, words) } else { place.bare(words) }
    };
    let mut server = run("-s -1")?.start()?;
    server.listens_on(port.number())?;
    let client = run("-c 127.0.0.1 -t 1 -f g")?.run()?;
    let pair = Pair { server: server.finish()?, client };
    for side in [&pair.client, &pair.server] {
        if !side.succeeded() || side.printed().contains(STREAM) != over_stream {
            return pair.wrong("a side failed, or went the other way");
        }
    }
    let line = pair.client.stdout.lines().rev().find(|line| line.contains("receiver"));
    let before = |line: &str| line.split(" Gbits/sec").next()?.split_whitespace().last()?.parse().ok();
    match line.and_then(before) {
        Some(rate) if rate > 0.0 => Ok(rate),
        _ => pair.wrong("nothing was measured"),
    }
}

fn iperf3() -> Verdict {
    let place = talkative()?;
    let (stream, tcp) = (measured(&place, true)?, measured(&place, false)?);
    println!("iperf3: {stream} Gbit/s by a stream, {tcp} Gbit/s over TCP, {:.1} times as much", stream / tcp);
    Ok(())
}

fn many_clients() -> Verdict {
    let port = TcpPort::claim()?.number().to_string();
    let place = Place::prepare(AS_IT_COMES)?;
    check(&sockets(&place, python(MANY_CLIENTS, &[&port])?)?.run()?, &["all 50 were answered, 0 over TCP"])
}

/// A folder with a file of some megabytes, its size and the folder's path.
fn folder(name: &str) -> Verdict<(String, usize)> {
    let folder = scratch().join(name);
    let bytes: Vec<u8> = (0..3_000_001u32).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect();
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("file"), &bytes));
    match written {
        Ok(()) => Ok((folder.display().to_string(), bytes.len())),
        Err(error) => failed(format!("{}: {error}", folder.display())),
    }
}

fn http() -> Verdict {
    let place = talkative()?;
    let (folder, length) = folder("sockets-http")?;
    let port = TcpPort::claim()?;
    let serve = format!("-m http.server {} --bind 127.0.0.1 --directory {folder}", port.number());
    let mut server = sockets(&place, words("python3", &serve)?)?.start()?;
    server.listens_on(port.number())?;
    let url = format!("http://127.0.0.1:{}/file", port.number());
    let curl = words("curl", &format!("-sS -o /dev/null -w %{{size_download}} {url}"))?;
    let count = length.to_string();
    check(&sockets(&place, curl.clone())?.run()?, &[&count, STREAM])?;
    let script = "import sys, urllib.request; print(len(urllib.request.urlopen(sys.argv[1]).read()))";
    check(&sockets(&place, python(script, &[&url])?)?.run()?, &[&count, STREAM])?;
    check(&place.bare(curl)?.run()?, &[&count])
}

fn plain_server() -> Verdict {
    let place = talkative()?;
    let (folder, length) = folder("sockets-plain")?;
    let port = TcpPort::claim()?;
    let serve = format!("-m http.server {} --bind 127.0.0.1 --directory {folder}", port.number());
    let mut server = place.bare(words("python3", &serve)?)?.start()?;
    server.listens_on(port.number())?;
    let url = format!("http://127.0.0.1:{}/file", port.number());
    let client = sockets(&place, words("curl", &format!("-sS -o /dev/null -w %{{size_download}} {url}"))?)?;
    let client = client.run()?;
    check(&client, &[&length.to_string()])?;
    if client.printed().contains(STREAM) {
        return failed(format!("a stream came from nowhere\n{}", client.report()));
    }
    Ok(())
}

fn redis() -> Verdict {
    let place = talkative()?;
    let port = TcpPort::claim()?;
    let number = port.number();
    let serve = format!("--port {number} --bind 127.0.0.1 --save --appendonly no --dir /tmp");
    let serve = words("redis-server", &serve)?.into_iter().flat_map(|word| match word.as_str() {
        "--save" => vec![word, String::new()],
        _ => vec![word],
    });
    let mut server = sockets(&place, serve)?.start()?;
    server.listens_on(number)?;
    let told = |options: &str| words("redis-cli", &format!("-p {number} {options}"));
    check(&sockets(&place, told("set key value-1234")?)?.run()?, &["OK", STREAM])?;
    check(&sockets(&place, told("get key")?)?.run()?, &["value-1234", STREAM])?;
    check(&place.bare(told("get key")?)?.run()?, &["value-1234"])?;
    let options = format!("-p {number} -n 2000 -c 20 -P 2 -t set,get -q");
    let bench = sockets(&place, words("redis-benchmark", &options)?)?.run()?;
    check(&bench, &["SET: ", "GET: ", "requests per second", STREAM])?;
    sockets(&place, told("shutdown nosave")?)?.run()?;
    check(&server.finish()?, &[STREAM])
}

/// The server that forks in this way echoes to a client, whose connection is a stream.
fn forks(when: &str, who: &str) -> Verdict {
    let port = TcpPort::claim()?;
    let number = port.number().to_string();
    let place = talkative()?;
    let mut server = sockets(&place, python(FORKING_SERVER, &[when, &number])?)?.start()?;
    server.listens_on(port.number())?;
    if when == "before" {
        server.prints(|line| line == "a child waits")?;
    }
    let client = sockets(&place, python(CLIENT, &[&number])?)?.run()?;
    let pair = Pair { server: server.finish()?, client };
    check_pair(&pair, &["echoed", STREAM], &[&format!("{who} answered"), STREAM])
}

/// Fails unless both sides succeeded and said something.
fn check_pair(pair: &Pair, client: &[&str], server: &[&str]) -> Verdict {
    check(&pair.client, client)
        .and_then(|()| check(&pair.server, server))
        .or_else(|_| pair.wrong("a side failed"))
}

fn forks_until_killed(who: &str) -> Verdict {
    let place = talkative()?;
    let port = TcpPort::claim()?;
    let number = port.number().to_string();
    let mut server = sockets(&place, python(FORKING_SERVER, &[who, &number])?)?.start()?;
    server.listens_on(port.number())?;
    let client = sockets(&place, python(CLIENT, &[&number, "until the end"])?)?.run()?;
    let wanted =
        if who == "killed" { "the child was killed" } else { "the child has no connection any more" };
    server.prints(|line| line == wanted)?;
    check(&client, &["echoed", "the end", STREAM])
}

fn forking_mixin() -> Verdict {
    let place = talkative()?;
    let port = TcpPort::claim()?;
    let number = port.number().to_string();
    let mut server = sockets(&place, python(FORKING_MIXIN, &["serve", &number])?)?.start()?;
    server.listens_on(port.number())?;
    let client = sockets(&place, python(FORKING_MIXIN, &["ask", &number])?)?.run()?;
    let pair = Pair { server: server.finish()?, client };
    check_pair(&pair, &["20 children have answered", STREAM], &["all children have ended", STREAM])
}

fn forking_programs() -> Verdict {
    let place = talkative()?;
    let (folder, _) = folder("sockets-forked")?;
    for (name, options) in [
        ("socat", "TCP-LISTEN:PORT,fork,reuseaddr,bind=127.0.0.1 EXEC:cat"),
        ("tcpserver", "-H -R -l 0 127.0.0.1 PORT cat"),
    ] {
        let port = TcpPort::claim()?;
        let number = port.number().to_string();
        let mut server = sockets(&place, words(name, &options.replace("PORT", &number))?)?.start()?;
        server.listens_on(port.number())?;
        let carry = format!("socat -t 20 - TCP:127.0.0.1:{number} < {folder}/file | cmp - {folder}/file");
        let script =
            vec![program("sh")?.display().to_string(), "-c".into(), format!("{carry} && echo the same")];
        for _ in 0..2 {
            check(&sockets(&place, script.clone())?.run()?, &["the same", STREAM])?;
        }
        server.kill();
    }
    Ok(())
}

fn dropbear() -> Verdict {
    let place = talkative()?;
    let (folder, _) = folder("sockets-dropbear")?;
    // The programs of the test are another user's.
    if let Err(error) = fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)) {
        return failed(format!("{folder}: {error}"));
    }
    let place = place.variable("HOME", &folder);
    let port = TcpPort::claim()?;
    let number = port.number();
    let key = format!("{folder}/key");
    let _ = fs::remove_file(&key);
    check(&place.bare(words("dropbearkey", &format!("-t ed25519 -f {key}"))?)?.run()?, &["Fingerprint"])?;
    let serve = format!("-F -E -s -p 127.0.0.1:{number} -r {key} -P {folder}/number");
    let mut server = sockets(&place, words("dropbear", &serve)?)?.start()?;
    server.listens_on(number)?;
    let client =
        sockets(&place, words("dbclient", &format!("-y -p {number} nobody@127.0.0.1 true"))?)?.run()?;
    // Nobody may log in; until that is said both sides have proven much to each other.
    let pair = Pair { server: server.kill(), client };
    let said = ["key accepted", "No auth methods could be used", STREAM];
    let heard = ["Child connection from 127.0.0.1:", "Exit before auth", STREAM];
    if said.iter().any(|said| !pair.client.printed().contains(said))
        || heard.iter().any(|heard| !pair.server.printed().contains(heard))
    {
        return pair.wrong("they did not get as far as that nobody may log in");
    }
    Ok(())
}

fn killed() -> Verdict {
    let place = talkative()?;
    let port = TcpPort::claim()?;
    let number = port.number().to_string();
    let mut server = sockets(&place, python(FORKING_SERVER, &["before", &number])?)?.start()?;
    server.prints(|line| line == "a child waits")?;
    let mut client = sockets(&place, python(CLIENT, &[&number, "until the end"])?)?.start()?;
    client.prints(|line| line == "echoed")?;
    // With its whole group, so the child that has the connection.
    server.kill();
    check(&client.finish()?, &["the end", STREAM])
}

fn carriers() -> Verdict {
    let place = Place::prepare(AS_IT_COMES)?;
    let (folder, length) = folder("sockets-carried")?;
    let shell = |line: String| -> Verdict<Vec<String>> {
        Ok(vec![program("sh")?.display().to_string(), "-c".into(), line])
    };
    for (listen, connect) in [
        ("nc -l -N 127.0.0.1 PORT < /dev/null", "nc -N 127.0.0.1 PORT < FILE"),
        ("socat -u TCP-LISTEN:PORT,bind=127.0.0.1 -", "socat -u FILE:FILE TCP:127.0.0.1:PORT"),
        ("socat -u TCP-LISTEN:PORT,bind=127.0.0.1 -", "nc -N 127.0.0.1 PORT < FILE"),
    ] {
        let port = TcpPort::claim()?;
        let number = port.number().to_string();
        let listen = format!("{} | wc -c", listen.replace("PORT", &number));
        let file = format!("{folder}/file");
        let connect = connect.replace("PORT", &number).replace("FILE:FILE", &format!("OPEN:{file}"));
        let connect = connect.replace("FILE", &file);
        let mut server = sockets(&place, shell(listen)?)?.start()?;
        server.listens_on(port.number())?;
        check(&sockets(&place, shell(connect)?)?.run()?, &[])?;
        check(&server.finish()?, &[&length.to_string()])?;
    }
    Ok(())
}

//! Programs in two network namespaces, joined by a cable of Ethernet: all that goes between them goes by RoCEv2.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nonic_interop::c_program::{compile, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::output::{PingpongResult, perftest, pingpong};
use nonic_interop::pair::Pair;
use nonic_interop::port::{TcpPort, datagrams_of, is_bound};
use nonic_interop::program::Running;
use nonic_interop::suite::{Stop, Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::{program, scratch};

/// Between two network namespaces with the MTU of Ethernet, where a packet carries 1024 bytes.
const ETHERNET: u32 = 1500;
/// One with which a packet carries 4096.
const JUMBO: u32 = 9000;

/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;

/// Between two looks at what the kernel tells nobody.
const LOOK: Duration = Duration::from_millis(2);

/// Two network namespaces, the first of them the server's.
struct Cable {
    server: Place,
    client: Place,
}

impl Cable {
    fn lay(mtu: u32) -> Verdict<Self> {
        let [near, far] = Namespace::joined(mtu)?;
        let place = |namespace| Ok(Place::prepare(AS_IT_COMES)?.inside(namespace));
        Ok(Self { server: place(near)?, client: place(far)? })
    }

    fn run(&self, name: &str, options: &str) -> Verdict<Pair> {
        let words: Vec<String> = options.split_whitespace().map(Into::into).collect();
        let pair = Pair::run_at(Namespace::ADDRESSES[0], &self.server, &self.client, name, &words)?;
        pair.is_clean()?;
        Ok(pair)
    }

    /// Runs a pingpong, which looks at its bytes by itself.
    fn pingpong(&self, case: Pingpong) -> Verdict {
        let Pingpong { name, size, iterations, options } = case;
        let pair = self.run(name, &format!("-s {size} -n {iterations} {options}"))?;
        let expected = PingpongResult { bytes: size * iterations * 2, iterations };
        for (side, text) in [("client", &pair.client.stdout), ("server", &pair.server.stdout)] {
            if pingpong(text).as_ref() != Some(&expected) {
                return pair.wrong(format!("the {side} does not report {expected:?}"));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
struct Pingpong {
    name: &'static str,
    size: u64,
    iterations: u64,
    options: &'static str,
}

const fn pingpong_of(name: &'static str, size: u64, iterations: u64, options: &'static str) -> Pingpong {
    Pingpong { name, size, iterations, options }
}

/// Index 1 of the GID table is the interface's address of IPv4, index 2 that of IPv6.
const PINGPONGS: &[(u32, Pingpong)] = &[
    (ETHERNET, pingpong_of("ibv_rc_pingpong", 4096, 300, "-g 1 -c")),
    (ETHERNET, pingpong_of("ibv_rc_pingpong", 1, 300, "-g 2 -c")),
    (ETHERNET, pingpong_of("ibv_rc_pingpong", 1025, 300, "-g 1 -c -e")),
    (JUMBO, pingpong_of("ibv_rc_pingpong", 1_048_576, 20, "-g 1 -c -m 4096")),
    (ETHERNET, pingpong_of("ibv_rc_pingpong", 65_536, 100, "-g 2 -c -m 4096")),
    (ETHERNET, pingpong_of("ibv_uc_pingpong", 4096, 200, "-g 1 -c")),
    (ETHERNET, pingpong_of("ibv_uc_pingpong", 1000, 200, "-g 2 -c -e")),
    (ETHERNET, pingpong_of("ibv_ud_pingpong", 1024, 200, "-g 1 -c")),
    (ETHERNET, pingpong_of("ibv_ud_pingpong", 66, 200, "-g 2 -e")),
    (ETHERNET, pingpong_of("ibv_srq_pingpong", 4096, 400, "-g 1 -c")),
];

/// perftest, each with the rows of its table.
const MEASURED: &[(&str, &str)] = &[
    ("ib_write_bw", "-x 1 -n 500 -s 65536"),
    ("ib_write_bw", "-x 2 -n 200 -q 4"),
    ("ib_write_lat", "-x 1 -n 100"),
    ("ib_read_bw", "-x 1 -n 200 -s 65536"),
    ("ib_read_bw", "-x 2 -n 20 -s 1048576"),
    ("ib_send_bw", "-x 1 -n 500"),
    ("ib_send_bw", "-x 1 -n 200 -c XRC"),
    ("ib_atomic_bw", "-x 1 -n 300 -A FETCH_AND_ADD"),
    ("ib_atomic_lat", "-x 2 -n 100 -A CMP_AND_SWAP"),
];

/// Programs of `c/` that take turns.
const TURNS: &[(&str, &str)] = &[
    ("what a memory window refuses once it is invalid, a peer cannot do by the wire", "wire_windows"),
    ("a flush ends when what was written to another host is there", "wire_flushes"),
    ("a queue of an XRC domain is reached by the wire through another process", "wire_domain"),
];

fn main() -> ExitCode {
    // Who gets no CPU for two seconds counts as gone: a peer on another host cannot know better.
    let mut suite = Suite::new();
    for (mtu, case) in PINGPONGS {
        let Pingpong { name, size, options, .. } = case;
        suite.test(
            format!("{name} {options} brings {size} bytes to another network whose MTU is {mtu}"),
            move || Cable::lay(*mtu)?.pingpong(*case),
        );
    }
    for (name, options) in MEASURED {
        suite.test(format!("{name} {options} measures something between two networks"), move || {
            measure(name, options)
        });
    }
    for (sentence, name) in TURNS {
        for (mtu, options) in [(ETHERNET, "-g 1 -m 1024"), (JUMBO, "-g 2 -m 4096")] {
            suite.test(format!("{sentence}, {options}"), move || turns(name, mtu, options));
        }
    }
    suite.test("datagrams to another host cost the call that sends them, and ask for no file", datagrams);
    suite.test("four processes of a user share the port, and each gets what is its own", four_processes);
    suite.test("who is killed is missed by the other side, whose request fails", killed);
    suite.test("what is lost is sent again until every byte is there", lossy);
    suite.test("with one of twenty-five packets lost each way every byte is there in the end", much_lost);
    suite.test("a flood of rubbish from the peer's own address changes nothing", rubbish);
    suite.test("a second user is told who has the port, and the first goes on", two_users);
    suite.test("with --wire off nothing is opened, and the request fails", forbidden);
    suite.test("who is sent to another host by LID is told what leads there", || {
        astray(["", ""], "by LID, which leads to")
    });
    suite.test("who is sent there by the port's own GID is told so", || {
        astray(["-g 0"; 2], "the index of an address")
    });
    suite.test("who is sent there by an address of the other version of IP is told so", || {
        astray(["-g 1", "-g 2"], "of the other version of IP")
    });
    suite.test(
        "an address that leads to other hosts is said to be of RoCE v2, and the port what it is",
        kinds,
    );
    suite.run()
}

fn measure(name: &str, options: &str) -> Verdict {
    let pair = Cable::lay(ETHERNET)?.run(name, &format!("-F {options}"))?;
    match perftest(&pair.client.stdout).as_slice() {
        [row] if row.is_positive() => Ok(()),
        rows => pair.wrong(format!("the client measured nothing: {rows:?}")),
    }
}

/// Both sides look at every byte, also after what was refused.
fn turns(name: &str, mtu: u32, options: &str) -> Verdict {
    let program = compile(name)?.display().to_string();
    let pair = Cable::lay(mtu)?.run(&program, options)?;
    for side in [&pair.server.stdout, &pair.client.stdout] {
        if side.lines().filter(|line| line.ends_with(": so it is")).count() != 4 {
            return pair.wrong("not every turn was taken");
        }
    }
    Ok(())
}

fn datagrams() -> Verdict {
    let words = [&compile("wire_datagrams")?.display().to_string(), "1", Namespace::FAR_ADDRESSES[0]];
    let cable = Cable::lay(ETHERNET)?;
    judge(&cable.server.nonic_run(words)?.run()?).map(drop)
}

fn four_processes() -> Verdict {
    let cable = Arc::new(Cable::lay(ETHERNET)?);
    let runs: Vec<_> = (0..4u64)
        .map(|number| {
            let cable = Arc::clone(&cable);
            std::thread::spawn(move || {
                let options = ["-g 1 -c", "-g 1 -c -e", "-g 2 -c", "-g 1 -c"][number as usize];
                cable.pingpong(pingpong_of("ibv_rc_pingpong", 1000 + number, 500, options))
            })
        })
        .collect();
    for run in runs {
        run.join().unwrap_or_else(|_| failed("a thread of the test panicked"))?;
    }
    Ok(())
}

/// Writes that go on for minutes; their server and their client.
fn endless(cable: &Cable) -> Verdict<[Running; 2]> {
    let port = TcpPort::claim()?;
    let mut words = vec![program("ib_write_bw")?.display().to_string()];
    words.extend(["-p", &port.number().to_string(), "-F", "-x", "1", "-D", "100"].map(Into::into));
    let mut server = cable.server.nonic_run(words.clone())?.start()?;
    server.listens_on(port.number())?;
    words.push(Namespace::ADDRESSES[0].into());
    let mut client = cable.client.nonic_run(words)?.start()?;
    while datagrams_of(server.id()) < 1000 {
        for side in [&mut server, &mut client] {
            if side.has_ended() {
                return failed(format!("it ended before it wrote\n{}", side.report("ended")));
            }
        }
        std::thread::sleep(LOOK);
    }
    Ok([server, client])
}

fn killed() -> Verdict {
    let cable = Cable::lay(ETHERNET)?;
    let [server, client] = endless(&cable)?;
    server.kill();
    let client = client.finish()?;
    if client.succeeded() || !client.printed().contains("Failed status 12") {
        return failed(format!("the other side did not fail as it should\n{}", client.report()));
    }
    Ok(())
}

fn lossy() -> Verdict {
    let cable = Cable::lay(ETHERNET)?;
    // A bucket that lets bursts through and drops what does not fit: a run of packets loses its end.
    let bucket = "TC qdisc add dev far root tbf rate 400mbit burst 20k limit 40k";
    let Some(far) = cable.client.namespace() else { return failed("the client is in no namespace") };
    if let Err(why) = far.shell(bucket) {
        return skipped(format!("no qdisc that drops packets: {why:?}"));
    }
    cable.pingpong(pingpong_of("ibv_rc_pingpong", 300_000, 10, "-g 1 -c"))
}

/// Runs at most; all but the last may lose the last word.
const LAST_WORDS: u32 = 5;

/// By a file of faults, which loses what either side sends and what comes to it: about a twenty-fifth of what goes each way.
fn much_lost() -> Verdict {
    let path = scratch().join("wire.loss");
    let made = fs::write(&path, "0s loss 2%\n")
        .and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(0o644)));
    if let Err(error) = made {
        return failed(format!("{}: {error}", path.display()));
    }
    let cable = Cable::lay(ETHERNET)?;
    let path = path.display().to_string();
    let bad = |place: Place| place.variable("NONIC_FAULTS", &path);
    let cable = Cable { server: bad(cable.server), client: bad(cable.client) };
    let case = pingpong_of("ibv_rc_pingpong", 65_536, 10, "-g 1 -c");
    // What acknowledges the client's last message may be lost as well, and who would say it again has ended: one run in twenty-five.
    let is_last_word = |why: &str| {
        why.contains("transport retry count exceeded (12) for wr_id 2")
            && why.contains(&format!("{} iters in", case.iterations))
    };
    let mut runs = 1;
    loop {
        match cable.pingpong(case) {
            Err(Stop::Failed(why)) if runs < LAST_WORDS && is_last_word(&why) => runs += 1,
            Err(stop) => return Err(stop),
            Ok(()) => break,
        }
    }
    // What is not reliable is gone, so the number of its messages that come is not that of those that were sent.
    let mut words = vec![program("ibv_ud_pingpong")?.display().to_string()];
    let port = TcpPort::claim()?;
    words.extend(["-p", &port.number().to_string(), "-g", "1", "-n", "300"].map(Into::into));
    let mut server = cable.server.nonic_run(words.clone())?.start()?;
    server.listens_on(port.number())?;
    words.push(Namespace::ADDRESSES[0].into());
    let client = cable.client.nonic_run(words)?.deadline(Duration::from_secs(2)).run();
    server.kill();
    match client {
        Ok(client) => {
            failed(format!("three hundred datagrams and their answers came through\n{}", client.report()))
        }
        Err(_) => Ok(()), // It waits for one that is lost.
    }
}

fn rubbish() -> Verdict {
    let cable = Cable::lay(ETHERNET)?;
    // Of any length and content; some are for queue pairs that other processes may have.
    let flood =
        "for ((;;)); do head -c $((RANDOM % 1200)) /dev/urandom > /dev/udp/10.77.0.1/4791; sleep 0.005; done";
    let bash = program("bash")?.display().to_string();
    let mut flooding = cable.client.bare([bash, "-c".into(), flood.into()])?.start()?;
    cable.pingpong(pingpong_of("ibv_rc_pingpong", 4096, 500, "-g 1 -c"))?;
    if flooding.has_ended() {
        return failed(flooding.report("ended"));
    }
    Ok(())
}

fn two_users() -> Verdict {
    let cable = Cable::lay(ETHERNET)?;
    let [mut server, mut client] = endless(&cable)?;
    let Cable { server: here, client: there } = cable;
    let other = Cable { server: here.user(65533), client: there.user(65533) };
    let port = TcpPort::claim()?;
    let mut words = vec![program("ibv_rc_pingpong")?.display().to_string()];
    words.extend(["-p", &port.number().to_string(), "-g", "1", "-n", "10"].map(Into::into));
    let mut second = other.server.nonic_run(words.clone())?.start()?;
    second.listens_on(port.number())?;
    words.push(Namespace::ADDRESSES[0].into());
    let refused = other.client.nonic_run(words)?.deadline(Duration::from_secs(60)).run()?;
    second.kill();
    if refused.succeeded() || !refused.printed().contains("is taken by another user") {
        return failed(format!("the second user was not told\n{}", refused.report()));
    }
    for side in [&mut server, &mut client] {
        if side.has_ended() {
            return failed(format!("the first user's program ended\n{}", side.report("ended")));
        }
    }
    Ok(())
}

/// What the kernel calls the network namespace of a process.
fn network_of(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

fn forbidden() -> Verdict {
    let cable = Cable::lay(ETHERNET)?;
    let cable = Cable { server: cable.server, client: cable.client.variable("NONIC_WIRE", "off") };
    let port = TcpPort::claim()?;
    let mut words = vec![program("ibv_rc_pingpong")?.display().to_string()];
    words.extend(["-p", &port.number().to_string(), "-g", "1", "-n", "10"].map(Into::into));
    let mut server = cable.server.nonic_run(words.clone())?.start()?;
    server.listens_on(port.number())?;
    words.push(Namespace::ADDRESSES[0].into());
    let mut running = cable.client.nonic_run(words)?.start()?;
    while !running.has_ended() {
        // Until it has entered its network it is in this one, where others may have the port.
        if network_of(&running.id().to_string()) != network_of("self") && is_bound(running.id(), ROCE) {
            return failed("the client opened a socket");
        }
        std::thread::sleep(LOOK);
    }
    let client = running.finish()?;
    server.kill();
    if client.succeeded() || !client.printed().contains("transport retry count") {
        return failed(format!("the client did not fail as it should\n{}", client.report()));
    }
    Ok(())
}

/// What a client says whose address leads to nobody.
fn astray(options: [&str; 2], wanted: &str) -> Verdict {
    let cable = Cable::lay(ETHERNET)?;
    let port = TcpPort::claim()?.number();
    let line = format!("{} -p {port} -n 10", program("ibv_rc_pingpong")?.display());
    let words = |side: usize| {
        let line = format!("{line} {}", options[side]);
        line.split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    let mut server = cable.server.nonic_run(words(0))?.start()?;
    server.listens_on(port)?;
    let client =
        cable.client.nonic_run(words(1).into_iter().chain([Namespace::ADDRESSES[0].into()]))?.run()?;
    let pair = Pair { server: server.kill(), client };
    if pair.client.succeeded() || !pair.client.stderr.contains(wanted) {
        return pair.wrong(format!("the client failed without `{wanted}`"));
    }
    Ok(())
}

/// GIDs as `ibv_devinfo` and the files of the device tell of them, on either kind of port.
fn kinds() -> Verdict {
    let [near, _far] = Namespace::joined(ETHERNET)?;
    let place = Place::prepare(AS_IT_COMES)?.inside(near);
    let devinfo = program("ibv_devinfo")?.display().to_string();
    let files = "cd /sys/class/infiniband/nonic0/ports/1 && cat link_layer && cat gid_attrs/types/0 gid_attrs/types/1";
    let look = format!("{devinfo} -v | grep -e link_layer -e GID; {files}");
    for (wire, layer, own) in [("auto", "InfiniBand", "IB/RoCE v1"), ("roce", "Ethernet", "RoCE v2")] {
        let words = ["/bin/bash".to_owned(), "-c".to_owned(), look.clone()];
        let told = place.nonic_run_with(&["--wire", wire], words)?.run()?;
        // A GID of RoCE v2 is printed as an address is, any other in groups of four digits.
        let is_address = told.stdout.contains("::ffff:10.77.0.1");
        if !told.succeeded() || !is_address || !told.stdout.ends_with(&format!("{layer}\n{own}\nRoCE v2\n")) {
            return failed(format!("--wire {wire}: {}", told.report()));
        }
    }
    let words = ["/bin/bash".to_owned(), "-c".to_owned(), look.clone()];
    let told = place.nonic_run_with(&["--wire", "off"], words)?.run()?;
    if told.printed().contains("RoCE v2\n") {
        failed(format!("--wire off: {}", told.report()))
    } else {
        Ok(())
    }
}

//! Programs in two network namespaces that share a folder, as containers with a common volume do: they meet there, and what is between them goes
//! through memory. The wire is forbidden to them, so what arrives has not come by it.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::output::{PingpongResult, complaints, perftest, pingpong};
use nonic_interop::pair::Pair;
use nonic_interop::port::{TcpPort, datagrams_of, is_bound};
use nonic_interop::program::Running;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::{Toolbox, program, shared_folder};

/// What Ethernet carries.
const ETHERNET: u32 = 1500;
/// The UDP port of RoCEv2.
const ROCE: u16 = 4791;
/// Between two looks at what the kernel tells nobody.
const LOOK: Duration = Duration::from_millis(2);
/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

/// Two network namespaces and a folder.
struct House {
    server: Place,
    client: Place,
    folder: PathBuf,
}

impl House {
    fn build(name: &str) -> Verdict<Self> {
        let [near, far] = Namespace::joined(ETHERNET)?;
        let folder = shared_folder(name)?;
        let place = |namespace| {
            let place = Place::prepare(AS_IT_COMES)?.inside(namespace);
            Ok(place.variable("NONIC_MEET", &folder.display().to_string()))
        };
        let (server, client) = (place(near)?, place(far)?);
        Ok(Self { server, client, folder })
    }

    /// The same without the wire.
    fn closed(name: &str) -> Verdict<Self> {
        let Self { server, client, folder } = Self::build(name)?;
        let off = |place: Place| place.variable("NONIC_WIRE", "off");
        Ok(Self { server: off(server), client: off(client), folder })
    }

    fn run(&self, name: &str, options: &str) -> Verdict<Pair> {
        let words: Vec<String> = options.split_whitespace().map(Into::into).collect();
        let pair = Pair::run_at(Namespace::ADDRESSES[0], &self.server, &self.client, name, &words)?;
        pair.is_clean()?;
        Ok(pair)
    }

    /// Writes that go on for minutes; their server and their client.
    fn endless(&self) -> Verdict<[Running; 2]> {
        let port = TcpPort::claim()?;
        let mut words = vec![program("ib_write_bw")?.display().to_string()];
        words.extend(["-p", &port.number().to_string(), "-F", "-x", "1", "-D", "100"].map(Into::into));
        let mut server = self.server.nonic_run(words.clone())?.start()?;
        server.listens_on(port.number())?;
        words.push(Namespace::ADDRESSES[0].into());
        Ok([server, self.client.nonic_run(words)?.start()?])
    }
}

fn parts(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| entries.count())
}

/// Index 0 of the GID table is the port's own, index 1 the interface's address of IPv4, index 2 that of IPv6.
const PINGPONGS: &[(&str, &str)] = &[
    ("ibv_rc_pingpong", "-g 0 -c"),
    ("ibv_rc_pingpong", "-g 1 -c"),
    ("ibv_rc_pingpong", "-g 2 -c -e"),
    ("ibv_uc_pingpong", "-g 1 -c"),
    ("ibv_ud_pingpong", "-g 1 -s 1024"),
    ("ibv_srq_pingpong", "-g 2 -c"),
];

const MEASURED: &[(&str, &str)] = &[
    ("ib_write_bw", "-x 1 -n 500 -s 65536"),
    ("ib_read_bw", "-x 2 -n 200 -s 65536"),
    ("ib_send_lat", "-x 1 -n 200"),
    ("ib_atomic_bw", "-x 1 -n 300 -A FETCH_AND_ADD"),
];

const BY_MANAGER: &[(&str, &str, &str)] = &[
    ("udaddy -c 3 -C 20 -b 10.77.0.1", "udaddy -c 3 -C 20 -s 10.77.0.1", "return status 0"),
    ("rstream -p PORT -S 5000 -C 20", "rstream -s 10.77.0.1 -p PORT -S 5000 -C 20", "custom"),
    ("ib_write_bw -R -F -n 200 -p PORT", "ib_write_bw -R -F -n 200 -p PORT 10.77.0.1", "65536"),
    ("rping -s -a 10.77.0.1 -p PORT -C 5 -v", "rping -c -a 10.77.0.1 -p PORT -C 5 -v", "rdma-ping-4"),
    ("rping -s -a fd77::1 -p PORT -C 5 -v", "rping -c -a fd77::1 -p PORT -C 5 -v", "rdma-ping-4"),
    // A wildcard.
    ("rping -s -p PORT -C 5 -v", "rping -c -a 10.77.0.1 -p PORT -C 5 -v", "rdma-ping-4"),
    (
        "ucmatose -b 10.77.0.1 -p PORT -c 4 -C 10",
        "ucmatose -s 10.77.0.1 -p PORT -c 4 -C 10",
        "return status 0",
    ),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (name, options) in PINGPONGS {
        suite.test(format!("{name} {options} meets its peer of another network in a folder"), move || {
            let pair = House::closed(&format!("{name}{options}").replace(' ', ""))?
                .run(name, &format!("-n 300 {options}"))?;
            let ran =
                |text| pingpong(text).is_some_and(|PingpongResult { iterations, .. }| iterations == 300);
            if ran(&pair.client.stdout) && ran(&pair.server.stdout) {
                Ok(())
            } else {
                pair.wrong("one of the sides did not run to its end")
            }
        });
    }
    for (name, options) in MEASURED {
        suite.test(format!("{name} {options} measures memory between two networks"), move || {
            measure(name, options)
        });
    }
    for (server, client, wanted) in BY_MANAGER {
        suite.test(format!("{client} finds `{server}` of another network"), move || {
            connected(server, client, wanted)
        });
    }
    suite.test("the doctor says whom it meets, and that what is between them is mapped", examined);
    suite.test("with the wire open nothing goes by it to who is met", unused);
    suite.test("who is not in the folder is reached by the wire", by_wire);
    suite.test("who is killed is missed at once, and what it left is taken away", killed);
    suite.test("another user who says to have an address is not taken for the own one's", squatted);
    suite.test("a folder that cannot be used is named, and the wire goes on", unusable);
    suite.run()
}

fn measure(name: &str, options: &str) -> Verdict {
    let folder = format!("{name}{options}").replace(' ', "");
    let pair = House::closed(&folder)?.run(name, &format!("-F {options}"))?;
    match perftest(&pair.client.stdout).as_slice() {
        [row] if row.is_positive() => Ok(()),
        rows => pair.wrong(format!("the client measured nothing: {rows:?}")),
    }
}

/// A line as the words of a command.
fn command(text: &str, port: u16) -> Verdict<Vec<String>> {
    let text = text.replace("PORT", &port.to_string());
    let mut words: Vec<String> = text.split_whitespace().map(Into::into).collect();
    words[0] = program(&words[0])?.display().to_string();
    Ok(words)
}

fn connected(server: &str, client: &str, wanted: &str) -> Verdict {
    let house = House::closed(&server.replace([' ', ':'], ""))?;
    let claim = TcpPort::claim()?;
    // udaddy has a port of its own, in a namespace of its own.
    let (space, port) = if server.starts_with("udaddy") { ("udp", 7174) } else { ("tcp", claim.number()) };
    let mut serving = house.server.nonic_run(command(server, port)?)?.start()?;
    serving.offers(space, port)?;
    let client = house.client.nonic_run(command(client, port)?)?.run()?;
    let server = if client.succeeded() { serving.finish()? } else { serving.kill() };
    let says = [&client, &server].into_iter().any(|side| !complaints(&side.printed()).is_empty());
    if !client.succeeded() || !server.succeeded() || says || !client.printed().contains(wanted) {
        return failed(format!("the client:\n{}the server:\n{}", client.report(), server.report()));
    }
    Ok(())
}

fn examined() -> Verdict {
    let house = House::closed("examined")?;
    let [server, client] = house.endless()?;
    let nonic = Toolbox::find()?.nonic.display().to_string();
    let told = house.client.bare([nonic.clone(), "doctor".into()])?.run()?;
    let other = format!("process {} of user 65534 at 10.77.0.1, fd77::1", server.id());
    if !told.printed().contains(&other) {
        return failed(format!("it does not meet the server\n{}", told.report()));
    }
    until_told(&house, &client, |told| {
        let peer = format!("{} (ib_write_bw, user 65534)", server.id());
        let reached =
            |line: &str| line.contains("towards it") && line.contains("mapped (adopted pages, 1 aperture");
        told.contains(&peer) && told.lines().any(reached) && told.contains(" writes (")
    })
}

/// Waits until the doctor says something of a process.
fn until_told(house: &House, process: &Running, is_enough: impl Fn(&str) -> bool) -> Verdict {
    let nonic = Toolbox::find()?.nonic.display().to_string();
    let until = Instant::now() + LONG;
    loop {
        let words = [nonic.as_str(), "doctor", "--pid", &process.id().to_string()];
        let told = house.client.bare(words)?.run()?;
        if is_enough(&told.printed()) {
            return Ok(());
        }
        if Instant::now() > until {
            return failed(format!("the doctor does not say what is wanted\n{}", told.report()));
        }
        std::thread::sleep(LOOK);
    }
}

fn unused() -> Verdict {
    let house = House::build("unused")?;
    let [server, mut client] = house.endless()?;
    until_told(&house, &client, |told| told.contains(" writes ("))?;
    let opened = [server.id(), client.id()].map(|side| is_bound(side, ROCE) || datagrams_of(side) > 0);
    if client.has_ended() || opened != [false; 2] {
        return failed(format!("opened {opened:?}\n{}{}", client.report("then"), server.report("then")));
    }
    Ok(())
}

fn by_wire() -> Verdict {
    let House { server, client, .. } = House::build("wire")?;
    // It names another folder.
    let other = shared_folder("wire-other")?;
    let client = client.variable("NONIC_MEET", &other.display().to_string());
    let words: Vec<String> = ["-g", "1", "-n", "300"].map(Into::into).into();
    let pair = Pair::run_at(Namespace::ADDRESSES[0], &server, &client, "ibv_rc_pingpong", &words)?;
    pair.is_clean()
}

fn killed() -> Verdict {
    let house = House::closed("killed")?;
    let [server, client] = house.endless()?;
    let until = Instant::now() + LONG;
    while parts(&house.folder) < 2 {
        if Instant::now() > until {
            return failed(format!("they are not both there\n{}", client.report("then")));
        }
        std::thread::sleep(LOOK);
    }
    server.kill();
    let client = client.finish()?;
    if client.succeeded() {
        return failed(format!("the other side did not fail\n{}", client.report()));
    }
    // The client has ended in order, and the server's part is the next one's to take away.
    house.run("ibv_rc_pingpong", "-g 1 -n 100")?;
    match parts(&house.folder) {
        0 => Ok(()),
        left => failed(format!("{left} parts are left in the folder")),
    }
}

fn squatted() -> Verdict {
    let house = House::closed("squatted")?;
    // A third network, whose only process is another user's and has the server's addresses.
    let third = Place::prepare(AS_IT_COMES)?.inside(Namespace::with_interface()?).user(65533);
    let third =
        third.variable("NONIC_MEET", &house.folder.display().to_string()).variable("NONIC_WIRE", "off");
    let port = TcpPort::claim()?;
    let squatter = command("rping -s -P -a 10.77.0.1 -p PORT", port.number())?;
    let mut squatter = third.nonic_run(squatter)?.start()?;
    squatter.offers("tcp", port.number())?;
    let asking = TcpPort::claim()?;
    // While it is alone, who asks for what it does not offer is refused.
    let client = command("rping -c -a 10.77.0.1 -p PORT -C 1", asking.number())?;
    let refused = house.client.nonic_run(client)?.run()?;
    if refused.succeeded() || !refused.printed().contains("RDMA_CM_EVENT_REJECTED, error 8") {
        return failed(format!("the client was not refused\n{}", refused.report()));
    }
    let server = command("rping -s -a 10.77.0.1 -p PORT -C 3", asking.number())?;
    let mut server = house.server.nonic_run(server)?.start()?;
    server.offers("tcp", asking.number())?;
    let client = command("rping -c -a 10.77.0.1 -p PORT -C 3", asking.number())?;
    let client = house.client.nonic_run(client)?.run()?;
    let named =
        client.printed().contains("two network namespaces say in a folder that they have the same address");
    if !client.succeeded() || !named || squatter.has_ended() {
        return failed(format!("{}\n{}", client.report(), squatter.report("then")));
    }
    server.finish().map(drop)
}

fn unusable() -> Verdict {
    let House { server, client, folder } = House::build("unusable")?;
    let gone = folder.join("nothing").display().to_string();
    let place = |place: Place| place.variable("NONIC_MEET", &gone);
    let words: Vec<String> = ["-g", "1", "-n", "300"].map(Into::into).into();
    let (server, client) = (place(server), place(client));
    let pair = Pair::run_at(Namespace::ADDRESSES[0], &server, &client, "ibv_rc_pingpong", &words)?;
    let named =
        |text: &str| text.contains("nobody is met in the folder of NONIC_MEET") && text.contains(&gone);
    let ran = pair.client.succeeded() && pair.server.succeeded();
    if !ran || !named(&pair.client.printed()) || !named(&pair.server.printed()) {
        return pair.wrong("it is not named, or the wire does not go on");
    }
    Ok(())
}

//! What goes between two networks as others read it: Wireshark finds nothing to complain about in any packet, and the check at the end of
//! each is what the specification says, by a reckoning of its own.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::namespace::Namespace;
use nonic_interop::pair::Pair;
use nonic_interop::port::TcpPort;
use nonic_interop::program::{Program, Running};
use nonic_interop::suite::{Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::{program, scratch};

/// With it a packet carries 1024 bytes.
const ETHERNET: u32 = 1500;
/// With it a packet carries 4096 bytes, unless less is asked for.
const JUMBO: u32 = 9000;
/// All headers behind that of IP, and the check at the end, have fewer bytes.
const HEADERS: usize = 64;

/// Opcodes that have to be seen (IBTA vol. 1, 9.2): of reliable connections send (first, middle, last, only), write (first, middle, last,
/// only), read request, its answer (first, middle, last), acknowledgement, compare and swap, fetch and add, their answer; of datagrams
/// send.
const SEEN: [u8; 17] = [0, 1, 2, 4, 6, 7, 8, 10, 12, 13, 14, 15, 17, 18, 19, 20, 100];

/// What Wireshark remarks of packets whose program wants them to cross no router, as the pingpongs do.
const NEAR: &str = "\"Time To Live\" only 1";

/// Attributes of the connection manager's messages that have to be seen: REQ, REP, RTU, DREQ, DREP (IBTA vol. 1, 12.6).
const MANAGED: [u16; 5] = [0x10, 0x13, 0x14, 0x15, 0x16];

/// How long what was heard may take until it is written.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a file.
const LOOK: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for family in [4, 6] {
        suite.test(
            format!("Wireshark reads every packet of a conversation by IPv{family} without a complaint"),
            move || conversation(family, ETHERNET, None),
        );
    }
    suite.test("with --mtu 512 no packet carries more, however much the interface does", || {
        conversation(4, JUMBO, Some(512))
    });
    suite.run()
}

/// What is heard of an interface, into a file.
struct Capture {
    dumpcap: Running,
    file: PathBuf,
}

impl Capture {
    fn begin(namespace: &Namespace, interface: &str, name: &str) -> Verdict<Self> {
        let file = scratch().join(name);
        let script = format!(
            "exec {} -i {interface} -P -B 16 -f 'udp port 4791' -w {} 2>&1",
            program("dumpcap")?.display(),
            file.display()
        );
        let mut words = namespace.enter()?;
        words.extend(["/bin/sh".into(), "-c".into(), script]);
        let mut dumpcap = Program::new(words).deadline(Duration::from_secs(120)).start()?;
        // It says so when it listens.
        if let Err(why) = dumpcap.prints(|line| line.starts_with("File: ")) {
            return skipped(format!("dumpcap does not capture here: {why:?}"));
        }
        Ok(Self { dumpcap, file })
    }

    /// When the last word of the conversation is in the file: what was heard is written a little later.
    fn end(self, namespace: &Namespace) -> Verdict<PathBuf> {
        let deadline = Instant::now() + PATIENCE;
        while !packets(&self.file)?.iter().any(|packet| is_last(packet)) {
            if Instant::now() > deadline {
                return failed(format!(
                    "the end of the conversation was not heard\n{}",
                    self.dumpcap.report("then")
                ));
            }
            std::thread::sleep(LOOK);
        }
        namespace.shell(&format!("kill -INT {}", self.dumpcap.id()))?;
        let finished = self.dumpcap.finish()?;
        if finished.succeeded() { Ok(self.file) } else { failed(finished.report()) }
    }
}

/// A conversation between interfaces that carry `carried` bytes, where the path MTU was to be `asked` at most.
fn conversation(family: usize, carried: u32, asked: Option<usize>) -> Verdict {
    let tshark = match program("tshark") {
        Ok(tshark) => tshark.display().to_string(),
        Err(_) => return skipped("tshark is not installed"),
    };
    let [near, far] = Namespace::joined(carried)?;
    // The kernel is to divide runs before they are heard.
    for (namespace, name) in [(&near, "near"), (&far, "far")] {
        namespace.shell(&format!("IP link set dev {name} gso_max_segs 1"))?;
    }
    let capture = Capture::begin(&near, "near", &format!("capture.v{family}.{carried}"))?;
    let place = |namespace| {
        let place = Place::prepare(AS_IT_COMES)?.inside(namespace);
        Ok(asked.into_iter().fold(place, |place, mtu| place.variable("NONIC_MTU", &mtu.to_string())))
    };
    let (server, client) = (place(near)?, place(far)?);
    speak(family, asked.unwrap_or(1000), &server, &client)?;
    let Some(near) = server.namespace() else { return failed("the server is in no namespace") };
    let file = capture.end(near)?;
    dissect(&tshark, &file)?;
    check(&file, asked.unwrap_or(1024))
}

/// All that queue pairs and connection managers have to say; datagrams of `datagram` bytes.
fn speak(family: usize, datagram: usize, server: &Place, client: &Place) -> Verdict {
    let (index, address) = match family {
        4 => ("1", Namespace::ADDRESSES[0]),
        _ => ("2", Namespace::ADDRESSES[1]),
    };
    let run = |name: &str, options: &str| -> Verdict {
        let words: Vec<String> = options.split_whitespace().map(Into::into).collect();
        // What they tell each other beside goes by TCP over IPv4, whatever the queue pairs speak.
        Pair::run_at(Namespace::ADDRESSES[0], server, client, name, &words)?.is_clean()
    };
    run("ibv_rc_pingpong", &format!("-g {index} -c -s 5000 -n 3"))?;
    run("ibv_rc_pingpong", &format!("-g {index} -c -s 11 -n 3"))?;
    run("ibv_ud_pingpong", &format!("-g {index} -c -s {datagram} -n 3"))?;
    run("ib_write_bw", &format!("-F -x {index} -n 10 -s 5000"))?;
    run("ib_write_lat", &format!("-F -x {index} -n 10 -s 7"))?;
    run("ib_read_bw", &format!("-F -x {index} -n 10 -s 5000"))?;
    run("ib_atomic_lat", &format!("-F -x {index} -n 10 -A CMP_AND_SWAP"))?;
    run("ib_atomic_lat", &format!("-F -x {index} -n 10 -A FETCH_AND_ADD"))?;
    let port = TcpPort::claim()?;
    let rping = |options: &str| {
        let text = format!("{options} -a {address} -p {} -C 3 -v", port.number());
        let words = [program("rping")?.display().to_string()];
        Ok(words.into_iter().chain(text.split_whitespace().map(Into::into)).collect::<Vec<_>>())
    };
    let mut serving = server.nonic_run(rping("-s")?)?.start()?;
    serving.offers("tcp", port.number())?;
    let asked = client.nonic_run(rping("-c")?)?.run()?;
    let served = if asked.succeeded() { serving.finish()? } else { serving.kill() };
    if asked.succeeded() && served.succeeded() {
        Ok(())
    } else {
        failed(format!("{}{}", asked.report(), served.report()))
    }
}

/// Has Wireshark read it, packet by packet.
fn dissect(tshark: &str, file: &Path) -> Verdict {
    const FIELDS: [&str; 5] = [
        "frame.protocols",
        "infiniband.bth.opcode",
        "infiniband.mad.attributeid",
        "_ws.expert",
        "_ws.malformed",
    ];
    let mut words =
        vec![tshark.to_owned(), "-r".into(), file.display().to_string(), "-T".into(), "fields".into()];
    // It would guess that what a pingpong sends is a call of a remote procedure.
    words.extend(["--disable-protocol".into(), "rpcordma".into()]);
    words.extend(FIELDS.iter().flat_map(|field| ["-e".to_owned(), (*field).to_owned()]));
    let finished = Program::new(words).deadline(Duration::from_secs(120)).run()?;
    if !finished.succeeded() {
        return failed(finished.report());
    }
    let (mut opcodes, mut managed, mut complaints) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (number, line) in finished.stdout.lines().enumerate() {
        let fields: Vec<_> = line.split('\t').collect();
        let [protocols, opcode, attribute, expert, malformed] = fields[..] else {
            return failed(format!("tshark says {line:?}"));
        };
        let is_clean = expert.is_empty() || expert.contains(NEAR);
        if !protocols.contains("infiniband") || !is_clean || !malformed.is_empty() {
            complaints.push(format!("packet {}: {line}", number + 1));
        }
        opcodes.extend(opcode.parse::<u8>());
        managed.extend(u16::from_str_radix(attribute.trim_start_matches("0x"), 16));
    }
    if !complaints.is_empty() {
        complaints.truncate(20);
        return failed(format!("Wireshark complains:\n{}", complaints.join("\n")));
    }
    if !SEEN.iter().all(|opcode| opcodes.contains(opcode))
        || !MANAGED.iter().all(|kind| managed.contains(kind))
    {
        return failed(format!("not everything was said: opcodes {opcodes:?}, messages {managed:x?}"));
    }
    Ok(())
}

/// Looks at the check at the end of each packet (IBTA vol. 1, 7.8.1; annex A17, 17.3.3), which Wireshark only shows, and whether the
/// longest carry just `mtu` bytes.
fn check(file: &Path, mtu: usize) -> Verdict {
    let packets = packets(file)?;
    for (number, packet) in packets.iter().enumerate() {
        let (packet, end) = packet.split_at(packet.len() - 4);
        let expected = icrc(packet);
        if expected.to_le_bytes() != end {
            return failed(format!("packet {number} ends with {end:02x?} and should with {expected:#x}"));
        }
    }
    let longest = packets.iter().map(|packet| packet.len() - ip_header(packet)).max().unwrap_or_default();
    if !(mtu..mtu + HEADERS).contains(&longest) {
        return failed(format!(
            "the longest packet has {longest} bytes behind its header of IP, for an MTU of {mtu}"
        ));
    }
    if packets.len() < 100 { failed(format!("only {} packets were heard", packets.len())) } else { Ok(()) }
}

/// The packets of IP in a file of libpcap's: behind a header of 24 bytes each frame of Ethernet has one of 16, with its length in the third
/// word. One that is not all there yet is left out.
fn packets(file: &Path) -> Verdict<Vec<Vec<u8>>> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return failed(format!("{}: {error}", file.display())),
    };
    let (mut rest, mut found) = (bytes.get(24..).unwrap_or_default(), Vec::new());
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let Some(packet) = rest.get(16 + 14..16 + length) else { break };
        found.push(packet.to_vec());
        rest = &rest[16 + length..];
    }
    Ok(found)
}

/// Bytes of a packet's header of IP.
fn ip_header(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 4 { 20 } else { 40 }
}

/// Whether it is the connection manager's word that a connection is over (DREP): behind the base header and that of datagrams, in a
/// message to queue pair 1.
fn is_last(packet: &[u8]) -> bool {
    let base = ip_header(packet) + 8;
    packet.get(base).is_some_and(|opcode| *opcode == 100)
        && packet.get(base + 5..base + 8) == Some(&[0, 0, 1])
        && packet.get(base + 12 + 8 + 16..base + 12 + 8 + 18) == Some(&[0, 0x16])
}

/// The check of a packet of IP that ends before it: what routers may change counts as ones.
fn icrc(packet: &[u8]) -> u32 {
    let mut masked = packet.to_vec();
    let udp = ip_header(packet);
    if udp == 20 {
        // Type of service, time to live, the header's sum.
        for at in [1, 8, 10, 11] {
            masked[at] = 0xff;
        }
    } else {
        // Traffic class, flow label, hop limit.
        masked[0] |= 0x0f;
        masked[1..4].fill(0xff);
        masked[7] = 0xff;
    }
    // The sum of UDP, and the byte of the base header with the bits of congestion.
    masked[udp + 6..udp + 8].fill(0xff);
    masked[udp + 8 + 4] = 0xff;
    // A local route header, all of it ones, stands before it.
    [0xff; 8].into_iter().chain(masked).fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    }) ^ !0
}

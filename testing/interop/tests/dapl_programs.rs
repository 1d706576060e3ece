//! The programs of `dapl2-utils` over nonic's provider for the registry of uDAPL 2.0: `dtest`, `dtestcm`, `dtestsrq`, `dtestx`
//! and `dapltest`. Most of them exit with 0 whatever happened, so what they print is judged: their verdicts, their counts and
//! their statistics.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::{compile_dat2, judge};
use nonic_interop::dapl::{ADAPTER, Ready, Room, Sides, figure, serves};
use nonic_interop::environment::{AS_IT_COMES, Environment, ways};
use nonic_interop::output::complaints;
use nonic_interop::program::{Finished, Running};
use nonic_interop::suite::{Stop, Suite, Verdict, everything, failed, skipped};
use nonic_interop::toolbox::is_root;

/// A TCP port by which `dtest`, `dtestcm` and `dtestx` exchange addresses.
const MEETING: Ready = Ready::Port(15828);

fn main() -> ExitCode {
    // Some of the programs sleep for seconds.
    let mut suite = Suite::new().crowd(2);
    dtest(&mut suite);
    dtestcm(&mut suite);
    dtestsrq(&mut suite);
    dtestx(&mut suite);
    dapltest(&mut suite);
    own_program(&mut suite);
    by_whom(&mut suite);
    suite.run()
}

/// The best way bytes can take, then the others: only for what is `everywhere`, or if everything is asked for.
fn environments(everywhere: bool) -> Vec<Environment> {
    let all = ways();
    if everywhere || everything() { all } else { all.into_iter().take(1).collect() }
}

// ---- dtest

/// Options of `dtest`, its buffers' length in bytes, how many messages there are, and whether they go both ways.
struct Dtest {
    options: &'static str,
    length: u64,
    burst: u64,
    kind: DtestKind,
}

#[derive(Clone, Copy, PartialEq)]
enum DtestKind {
    /// Writes, reads and messages.
    All,
    /// Writes only, the last of each side with immediate data.
    Writes,
    /// Writes of the client only.
    OneWay,
}

const DTESTS: &[(Dtest, bool)] = &[
    (Dtest { options: "", length: 65536, burst: 20, kind: DtestKind::All }, true),
    (Dtest { options: "-p", length: 65536, burst: 20, kind: DtestKind::All }, true),
    (Dtest { options: "-c", length: 4096, burst: 20, kind: DtestKind::All }, false),
    (Dtest { options: "-t", length: 4_194_304, burst: 10, kind: DtestKind::All }, false),
    (Dtest { options: "-p -t", length: 64, burst: 100, kind: DtestKind::All }, false),
    (Dtest { options: "-w", length: 65536, burst: 50, kind: DtestKind::Writes }, true),
    (Dtest { options: "-w -p -S 1", length: 4096, burst: 50, kind: DtestKind::Writes }, false),
    (Dtest { options: "-w -u", length: 1_048_576, burst: 20, kind: DtestKind::OneWay }, false),
];

fn dtest(suite: &mut Suite) {
    for (case, everywhere) in DTESTS {
        for environment in environments(*everywhere) {
            let sentence = format!(
                "dtest {} moves {} buffers of {} bytes as it should, {}",
                case.options, case.burst, case.length, environment.name
            );
            suite.test(sentence, move || case.run(&Room::apart(environment)?));
        }
    }
}

impl Dtest {
    fn run(&self, room: &Room) -> Verdict {
        let (length, burst) = (self.length.to_string(), self.burst.to_string());
        let mut arguments = vec!["-b", &length, "-B", &burst];
        arguments.extend(self.options.split_whitespace());
        let sides = Sides::run(room, &[], "dtest", &arguments, MEETING)?;
        sides.both_say(&["CONNECTED!", "DAPL Test Complete. PASSED"])?;
        match self.kind {
            DtestKind::All => {
                sides.says(&sides.server, "SERVER: RDMA write buffer contains: client RDMA write data...")?;
                sides.says(&sides.client, "CLIENT: RDMA write buffer contains: server RDMA write data...")?;
                reads_what_was_there(&sides, &sides.server, "client", "server")?;
                reads_what_was_there(&sides, &sides.client, "server", "client")?;
                for side in [&sides.client, &sides.server] {
                    // The message loop is of another length than -B asks for.
                    sides.says(side, &format!(" x {})", self.length))?;
                    self.measured(&sides, side, "latency")?;
                    sides.says(side, &format!("{} x {}, ", 2 * self.burst, self.length))?;
                    self.measured(&sides, side, "RDMA write (bi-direction): Total=")?;
                }
            }
            DtestKind::Writes => {
                let last = format!("rdma writes completed == {}", self.burst);
                for side in [&sides.client, &sides.server] {
                    sides.says(side, &last)?;
                    self.measured(&sides, side, "RDMA write (bi-direction): Total=")?;
                }
            }
            DtestKind::OneWay => {
                sides.says(&sides.server, &format!("rdma writes completed == {}", self.burst))?;
                self.measured(&sides, &sides.client, "RDMA write (uni-direction): Total=")?;
            }
        }
        Ok(())
    }

    fn measured(&self, sides: &Sides, side: &Finished, label: &str) -> Verdict {
        match figure(&side.stdout, label) {
            Some(microseconds) if microseconds > 0.0 => Ok(()),
            other => sides.wrong(format!("\"{label}\" is followed by {other:?}")),
        }
    }
}

/// What a side of `dtest` has read is what its peer put there to be read or, if the peer was late, what the side had written
/// there itself a moment before.
fn reads_what_was_there(sides: &Sides, side: &Finished, peer: &str, own: &str) -> Verdict {
    let read = format!("RCV RDMA read buffer contains: {peer} RDMA read data...");
    let late = format!("RCV RDMA read buffer contains: {own} RDMA write data...");
    if side.stdout.contains(&read) || side.stdout.contains(&late) {
        return Ok(());
    }
    sides.wrong(format!("neither \"{read}\" nor \"{late}\" is there"))
}

// ---- dtestcm

/// Options of `dtestcm`, and how many connections are made.
const DTESTCMS: &[(&str, u32, bool)] = &[
    ("-c 1000", 1000, false),
    ("-c 100 -b 10 -v", 100, true),
    ("-c 64 -b 64 -w", 64, false),
    ("-c 200 -b 20 -m", 200, false),
    ("-c 1 -b 1", 1, false),
];

fn dtestcm(suite: &mut Suite) {
    for (options, connections, everywhere) in DTESTCMS {
        for environment in environments(*everywhere) {
            let sentence = format!("dtestcm {options} makes and ends its connections, {}", environment.name);
            suite.test(sentence, move || connect_many(&Room::apart(environment)?, options, *connections));
        }
    }
}

fn connect_many(room: &Room, options: &str, connections: u32) -> Verdict {
    let arguments: Vec<_> = options.split_whitespace().collect();
    let sides = Sides::run(room, &[], "dtestcm", &arguments, MEETING)?;
    sides.both_say(&["DAPL Connection Test Complete."])?;
    sides.says(&sides.server, &format!("ALL {connections} CONNECTED on Server!"))?;
    sides.says(&sides.client, &format!("ALL {connections} CONNECTED on Client!"))?;
    if options.contains("-v") {
        for side in [&sides.client, &sides.server] {
            sides.says(side, &format!("Successfully disconnected all {connections} EP's"))?;
        }
    }
    match (figure(&sides.client.stdout, "CPS"), figure(&sides.client.stdout, "Num")) {
        (Some(rate), Some(number)) if rate > 0.0 && number == f64::from(connections) => Ok(()),
        other => sides.wrong(format!("connections per second and their number are {other:?}")),
    }
}

// ---- dtestsrq

/// Options of `dtestsrq`, connections, and what it calls itself.
const DTESTSRQS: &[(&str, u32, &str, bool)] = &[
    ("-c 10 -B 5 -t 10", 10, "RC SRQ", true),
    ("-c 100 -B 10 -t 3 -b 1024", 100, "RC SRQ", false),
    ("-c 1 -B 100 -t 20 -b 64", 1, "RC SRQ", false),
    ("-c 10 -B 5 -t 10 -S 0", 10, "RC none SRQ", false),
];

fn dtestsrq(suite: &mut Suite) {
    for (options, connections, name, everywhere) in DTESTSRQS {
        for environment in environments(*everywhere) {
            let sentence = format!("dtestsrq {options} brings every message, {}", environment.name);
            suite.test(sentence, move || {
                let arguments: Vec<_> = options.split_whitespace().collect();
                let room = Room::apart(environment)?;
                let sides = Sides::run(&room, &[], "dtestsrq", &arguments, Ready::Service(45248))?;
                sides.both_say(&[&format!("DAPL {name} Test Complete.")])?;
                sides.says(&sides.server, &format!("ALL {connections} CONNECTED on server!"))?;
                sides.says(&sides.client, &format!("ALL {connections} CONNECTED on client!"))
            });
        }
    }
}

// ---- dtestx

fn dtestx(suite: &mut Suite) {
    for environment in environments(true) {
        let sentence = format!("dtestx writes with immediate data and does atomics, {}", environment.name);
        suite.test(sentence, move || {
            let sides = Sides::run(&Room::apart(environment)?, &[], "dtestx", &["-v"], MEETING)?;
            sides.both_say(&[
                "RDMA_WRITE_WITH_IMMEDIATE_DATA test - PASSED",
                "CMP_SWAP test - PASSED",
                "FETCH_ADD test - PASSED",
                "immed/atomic test PASSED",
                "DAT_IB_FETCH_AND_ADD=TRUE",
            ])?;
            sides.says(&sides.server, "Server received immed_data=0x7777")?;
            sides.says(&sides.client, "Client received immed_data=0x1111")
        });
    }
}

// ---- dapltest

/// An option line of `dapltest -T T`, with what its statistics must be.
struct Transactions {
    options: &'static str,
    threads: u32,
    endpoints: u32,
    operations: &'static str,
    everywhere: bool,
}

const TRANSACTIONS: &[Transactions] = &[
    Transactions {
        options: "-i 1000 -V",
        threads: 1,
        endpoints: 1,
        operations: "client SR server SR",
        everywhere: true,
    },
    Transactions {
        options: "-i 5000 -P",
        threads: 1,
        endpoints: 1,
        operations: "client SR 64 1 server SR 64 1",
        everywhere: false,
    },
    Transactions {
        options: "-i 1000 -V",
        threads: 4,
        endpoints: 1,
        operations: "client SR 1024 3 server SR 1536 2 client SR 4096 2 server SR 2048 4",
        everywhere: false,
    },
    Transactions {
        options: "-i 300 -V",
        threads: 1,
        endpoints: 10,
        operations: "client SR 256 4 server SR 256 4",
        everywhere: false,
    },
    Transactions {
        options: "-i 300 -V",
        threads: 2,
        endpoints: 4,
        operations: "client RW 4096 1 server RR 2048 2 client RR 8192 1 server RW 1024 4 client SR 256 1 server SR 256 1",
        everywhere: true,
    },
    Transactions {
        options: "-i 50 -V -P",
        threads: 8,
        endpoints: 4,
        operations: "client RW 65536 1 client SR 256 1 server RW 65536 1 server SR 256 1",
        everywhere: false,
    },
    Transactions {
        options: "-i 3000",
        threads: 1,
        endpoints: 1,
        operations: "client SR 256 1 -f server SR 256 1 -f client SR 1024 1 -f server SR 1024 1 -f",
        everywhere: false,
    },
    Transactions {
        options: "-i 20 -V",
        threads: 1,
        endpoints: 1,
        operations: "client RW 1048576 1 server RR 1048576 1 client SR 1048576 1 server SR 1048576 1",
        everywhere: false,
    },
    Transactions {
        options: "-i 50",
        threads: 16,
        endpoints: 4,
        operations: "client SR 64 1 server SR 64 1 client RW 64 1 server RW 64 1",
        everywhere: false,
    },
    Transactions {
        options: "-i 1000 -r",
        threads: 1,
        endpoints: 2,
        operations: "client SR 256 1 server SR 256 1",
        everywhere: false,
    },
];

/// Option lines of `dapltest -T P`, and the operations that they ask for.
const PERFORMANCES: &[(&str, u32, bool)] = &[
    ("-m b -i 1000 -p 16 RW 4096 1", 1000, true),
    ("-m p -i 2000 -p 16 RW 4096 1", 2000, true),
    ("-m b -i 500 -p 4 RR 4096 1", 500, false),
    ("-m p -i 500 -p 8 RR 65536 1", 500, false),
    ("-m p -i 2000 -p 1 RW 8 1", 2000, false),
    ("-m p -i 200 -p 16 RW 1048576 1", 200, false),
    ("-m b -i 500 -p 16 RW 1024 4", 500, false),
];

/// `-T L`: what is created until -m says that it is enough, and what is said then. On one adapter: with several the program
/// gives endpoints the dispatcher of another one.
const LIMITS: &[(&str, &str)] = &[
    ("limit_ia", "IAs opened: 100"),
    ("limit_pz", "PZs created: 100"),
    ("limit_cno", "CNOs created: 100"),
    ("limit_evd", "EVDs created: 100"),
    ("limit_ep", "EPs created: 100"),
    ("limit_rsp", "RSPs created: 100"),
    ("limit_psp", "PSPs created: 100"),
    ("limit_lmr", "LMRs created: 100"),
    ("limit_rpost", "recv buffers posted per EP: 16"),
    ("limit_size_lmr", "LMR of 0x40000000 bytes OK"),
];

/// `-T F`: features and their cases.
///
/// Two of `queryinfo` pass an adapter's handle for a notification object's (13) and a dispatcher's (15). The registry takes the
/// small number for an address and crashes before any provider is asked. Case 5 is one that the program calls unsupported.
const FUNCTIONS: &[(&str, &[u32])] = &[
    ("hwconn", &[0, 1, 2, 3]),
    ("endpoint", &[0, 1, 2]),
    ("pz", &[0, 1, 2]),
    ("mem", &[0, 1, 2, 3, 4]),
    ("connmgt", &[0, 1]),
    ("queryinfo", &[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 14, 16, 17]),
];

fn dapltest(suite: &mut Suite) {
    for case in TRANSACTIONS {
        for environment in environments(case.everywhere) {
            let sentence = format!(
                "dapltest -T T {} -t {} -w {} {} counts what it moved, {}",
                case.options, case.threads, case.endpoints, case.operations, environment.name
            );
            suite.test(sentence, move || case.run(&Room::apart(environment)?));
        }
    }
    for (options, operations, everywhere) in PERFORMANCES {
        for environment in environments(*everywhere) {
            let sentence = format!("dapltest -T P {options} measures its operations, {}", environment.name);
            suite.test(sentence, move || perform(&Room::apart(environment)?, options, *operations));
        }
    }
    for (limit, said) in LIMITS {
        suite.test(format!("dapltest -T L {limit} creates what it should, and frees it"), move || {
            let room = Room::apart(AS_IT_COMES)?;
            let arguments = ["-T", "L", "-D", ADAPTER, "-w", "1", "-m", "100", *limit];
            let finished = room.start(&[], "dapltest", &arguments)?.finish()?;
            // That no more receives fit is what one of them looks for.
            let expected = "dat_ep_post_recv fails: DAT_INSUFFICIENT_RESOURCES";
            clean_but_for(&finished, expected)?;
            if finished.stdout.contains(said) {
                return Ok(());
            }
            failed(format!("it does not say \"{said}\"\n{}", finished.report()))
        });
    }
    for (feature, cases) in FUNCTIONS {
        suite.test(format!("dapltest -T F -f {feature} passes every case"), move || {
            let room = Room::apart(AS_IT_COMES)?;
            for case in *cases {
                let number = format!("case{case}");
                let arguments = ["-T", "F", "-D", ADAPTER, "-s", "127.0.0.1", "-f", feature, &number];
                passes(&room.start(&[], "dapltest", &arguments)?.finish()?, 1)?;
            }
            Ok(())
        });
    }
    suite.test(
        "several clients of dapltest one after the other find the same server, and -T Q ends it",
        many_clients,
    );
}

impl Transactions {
    fn run(&self, room: &Room) -> Verdict {
        let (threads, endpoints) = (self.threads.to_string(), self.endpoints.to_string());
        let mut arguments = vec!["-T", "T", "-t", &threads, "-w", &endpoints];
        arguments.extend(self.options.split_whitespace());
        let operations: Vec<_> = self.operations.split_whitespace().collect();
        let finished = with_server(room, &arguments, &operations)?;
        let expected = format!("----- Stats ---- : {} threads, {} EPs", self.threads, self.endpoints);
        if !finished.stdout.contains(&expected) {
            return failed(format!("\"{expected}\" is missing\n{}", finished.report()));
        }
        for label in ["Total WQE", "Total Time"] {
            if figure(&finished.stdout, label).is_none_or(|figure| figure < 0.0) {
                return failed(format!("{label} has no figure\n{}", finished.report()));
            }
        }
        // What clients send counts as sent, what servers send as received; reads and writes count on both sides.
        let totals = [
            ("Total Send", self.bytes("SR", &["client"]) + self.bytes_to_validate()),
            ("Total Recv", self.bytes("SR", &["server"]) + 2 * self.bytes_to_validate()),
            ("Total RDMA Read", self.bytes("RR", &["client", "server"])),
            ("Total RDMA Write", self.bytes("RW", &["client", "server"])),
        ];
        let times = u64::from(self.threads * self.endpoints) * self.iterations();
        for (label, bytes) in totals {
            let megabytes = (bytes * times) as f64 / 1e6;
            let printed = figure(&finished.stdout, label).unwrap_or(-1.0);
            // Two digits are printed, and the rest is cut off.
            if (printed - megabytes).abs() > 0.02 {
                let why = format!("{label} is {printed} MB, and {megabytes} were asked for");
                return failed(format!("{why}\n{}", finished.report()));
            }
        }
        Ok(())
    }

    /// To compare buffers, the program adds three messages of the usual length: two from the server and one to it.
    fn bytes_to_validate(&self) -> u64 {
        if self.options.contains("-V") { 4096 } else { 0 }
    }

    fn iterations(&self) -> u64 {
        let mut words = self.options.split_whitespace().skip_while(|word| *word != "-i");
        words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(1000)
    }

    /// Bytes that operations of this kind move between two endpoints in an iteration, if one of these sides has them.
    fn bytes(&self, kind: &str, sides: &[&str]) -> u64 {
        let words: Vec<_> = self.operations.split_whitespace().collect();
        let starts: Vec<_> =
            (0..words.len()).filter(|at| ["client", "server"].contains(&words[*at])).collect();
        let mut total = 0;
        for (nth, start) in starts.iter().enumerate() {
            let end = starts.get(nth + 1).copied().unwrap_or(words.len());
            let operation = &words[*start..end];
            if sides.contains(&operation[0]) && operation[1] == kind {
                let number = |at: usize| operation.get(at).and_then(|word| word.parse::<u64>().ok());
                total += number(2).unwrap_or(4096) * number(3).unwrap_or(1);
            }
        }
        total
    }
}

fn perform(room: &Room, options: &str, operations: u32) -> Verdict {
    let words: Vec<_> = options.split_whitespace().collect();
    let (arguments, operation) = words.split_at(words.len() - 3);
    let finished = with_server(room, &[&["-T", "P"], arguments].concat(), operation)?;
    let number = figure(&finished.stdout, "Number of Operations");
    let bandwidth = figure(&finished.stdout, "Bandwidth");
    if number != Some(f64::from(operations)) || bandwidth.is_none_or(|rate| rate <= 0.0) {
        return failed(format!(
            "it counts {number:?} operations at {bandwidth:?} MB/s\n{}",
            finished.report()
        ));
    }
    Ok(())
}

/// Starts a server of `dapltest`, ready for its first client.
fn server(room: &Room) -> Verdict<Running> {
    let mut server = room.start(&[], "dapltest", &["-T", "S", "-D", ADAPTER, "-n", "45278"])?;
    serves(&mut server, 45278)?;
    Ok(server)
}

/// Runs a client of `dapltest` beside a server, which is then told to quit.
fn with_server(room: &Room, arguments: &[&str], operations: &[&str]) -> Verdict<Finished> {
    let server = server(room)?;
    let client = client(room, &server, arguments, operations)?;
    quit(room, server)?;
    Ok(client)
}

fn client(room: &Room, server: &Running, arguments: &[&str], operations: &[&str]) -> Verdict<Finished> {
    let words = [arguments, &["-s", "127.0.0.1", "-D", ADAPTER, "-n", "45278"], operations].concat();
    let with_server =
        |why: Stop| Stop::Failed(format!("{why}\nthe server:\n{}", server.report("at that time")));
    let client = room.start(&[], "dapltest", &words)?.finish().map_err(with_server)?;
    clean(&client).map_err(with_server)?;
    Ok(client)
}

fn quit(room: &Room, server: Running) -> Verdict {
    client(room, &server, &["-T", "Q"], &[])?;
    clean(&server.finish()?)
}

fn many_clients() -> Verdict {
    let room = Room::apart(AS_IT_COMES)?;
    let server = server(&room)?;
    for _ in 0..5 {
        client(&room, &server, &["-T", "T", "-i", "50", "-V"], &["client", "SR", "server", "SR"])?;
        client(&room, &server, &["-T", "P", "-m", "p", "-i", "100", "-p", "4"], &["RW", "4096", "1"])?;
    }
    quit(&room, server)
}

/// Fails unless a program exited with 0 and complained of nothing.
fn clean(finished: &Finished) -> Verdict {
    clean_but_for(finished, "0 failures")
}

/// The same, but for lines that hold these words.
fn clean_but_for(finished: &Finished, expected: &str) -> Verdict {
    if !finished.succeeded() {
        return failed(format!("it ended with {}\n{}", finished.status(), finished.report()));
    }
    let printed = finished.printed();
    let complaint = complaints(&printed).into_iter().find(|line| !line.contains(expected));
    match complaint {
        Some(line) => failed(format!("it exited with 0 and yet says: {line}\n{}", finished.report())),
        None => Ok(()),
    }
}

/// Fails unless it says of this many cases, and of no other, that they passed.
fn passes(finished: &Finished, cases: usize) -> Verdict {
    let passed = finished.stdout.matches("Result: PASS").count();
    if finished.stdout.contains("Result: FAIL") || passed != cases || !finished.succeeded() {
        return failed(format!("{passed} of {cases} cases passed\n{}", finished.report()));
    }
    Ok(())
}

// ---- users and places

/// A program that looks at everything in which 2.0 differs from 1.2.
fn own_program(suite: &mut Suite) {
    for environment in environments(true) {
        let sentence = format!("what 2.0 has otherwise than 1.2 is as its header says, {}", environment.name);
        suite.test(sentence, move || {
            let program = compile_dat2("provider")?;
            let place = Room::apart(environment)?.place;
            judge(&place.nonic_run([program.display().to_string()])?.run()?).map(drop)
        });
    }
    suite.test(
        "a program that names another dat.conf gets that, and --noncoherent changes every adapter",
        || {
            let room = Room::apart(AS_IT_COMES)?.with(|place| place.variable("DAT_OVERRIDE", "/dev/null"));
            let finished =
                room.start(&[], "dapltest", &["-T", "L", "-D", ADAPTER, "-m", "5", "limit_pz"])?.finish()?;
            if !finished.printed().contains("DAT_PROVIDER_NOT_FOUND") {
                return failed(format!("an adapter was found in an empty file\n{}", finished.report()));
            }
            // dtest never synchronizes, so that on a non-coherent adapter it sees nothing of what its peer wrote.
            let room = Room::apart(AS_IT_COMES)?;
            let sides = Sides::run(&room, &["--noncoherent"], "dtest", &["-b", "4096", "-B", "10"], MEETING)?;
            if sides.server.stdout.contains("RDMA write buffer contains: client RDMA write data") {
                return sides.wrong("the peer's write is seen without dat_lmr_sync_rdma_write");
            }
            sides.says(&sides.server, "RDMA write buffer contains: blah, blah, blah")
        },
    );
}

fn by_whom(suite: &mut Suite) {
    let dtest = &DTESTS[0].0;
    suite.test("dtest runs as root as it does as an ordinary user", move || {
        if !is_root() {
            return skipped("needs root");
        }
        dtest.run(&Room::apart(AS_IT_COMES)?.with(|place| place.user(0)))
    });
    suite.test("dtest runs in the network of the host, by the host's own address", move || {
        dtest.run(&Room::on_the_host(AS_IT_COMES)?)
    });
    suite.test("dtest runs with both sides on one CPU", move || {
        dtest.run(&Room::apart(Environment { one_cpu: true, ..AS_IT_COMES })?)
    });
    suite.test("dapltest runs with both sides on one CPU", move || {
        TRANSACTIONS[4].run(&Room::apart(Environment { one_cpu: true, ..AS_IT_COMES })?)
    });
    suite.test("programs that ask for the names of Debian's dat.conf find the same adapter", move || {
        let room = Room::apart(AS_IT_COMES)?;
        for name in ["ofa-v2-ib0", "OpenIB-cma", "ofa-v2-mlx4_0-1u", "nonic"] {
            let finished = room.start(&[], "dapltest", &["-T", "L", "-D", name, "-m", "5", "limit_pz"])?;
            clean(&finished.finish()?)?;
        }
        Ok(())
    });
}

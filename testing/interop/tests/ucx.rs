//! UCX on the device: `ucx_info` lists its transports, `ucx_perftest` moves data over them, and a program of UCX's own connects by
//! `rdma_cm`. `NONIC_INTEROP_FULL=1` for every test, size and link layer.
//!
//! A transport by itself is `rc_v` or `ud_v`; `rc_verbs` alone lacks, in UCX, what carries the messages by which two workers meet,
//! unless they meet by an address.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::c_program::compile_ucx_example;
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place};
use nonic_interop::output::complaints;
use nonic_interop::pair::Pair;
use nonic_interop::port::TcpPort;
use nonic_interop::suite::{Suite, Verdict, everything, failed};
use nonic_interop::toolbox::program;

/// Tests of messages, of memory and of atomic operations, with the sizes they are run with.
const TESTS: [(&str, &[u32]); 11] = [
    ("tag_lat", &[8, 4096, 1 << 20]),
    ("tag_bw", &[8, 4096, 1 << 20]),
    ("ucp_put_lat", &[8, 4096, 1 << 20]),
    ("ucp_put_bw", &[8, 1 << 20]),
    ("ucp_get", &[8, 1 << 20]),
    ("ucp_am_lat", &[8, 4096, 1 << 20]),
    ("stream_bw", &[8, 1 << 20]),
    ("ucp_add", &[4, 8]),
    ("ucp_fadd", &[4, 8]),
    ("ucp_swap", &[4, 8]),
    ("ucp_cswap", &[4, 8]),
];

/// Those of a short run.
const SHORT: [(&str, u32); 6] = [
    ("tag_bw", 4096),
    ("ucp_put_bw", 1 << 20),
    ("ucp_get", 8),
    ("ucp_fadd", 8),
    ("ucp_am_lat", 64),
    ("stream_bw", 1 << 20),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for link in [Link::InfiniBand, Link::Ethernet] {
        let layer = link.value();
        suite
            .test(format!("ucx_info lists both transports and the connection manager, {layer}"), move || {
                listed(link)
            });
        for transport in ["rc_v", "ud_v"] {
            for (test, sizes) in TESTS {
                let short = |size: &&u32| {
                    SHORT.contains(&(test, **size)) && (link, test) != (Link::Ethernet, "stream_bw")
                };
                for &size in sizes.iter().filter(|size| everything() || short(size)) {
                    let name = format!("ucx_perftest {test} of {size} bytes over {transport}, {layer}");
                    suite.test(name, move || measured(link, transport, test, size));
                }
            }
        }
    }
    for transport in ["rc_verbs", "ud_verbs"] {
        for calls in ["tag", "stream", "am"].into_iter().filter(|calls| everything() || *calls == "tag") {
            let name = format!("a client finds its server by rdma_cm, {calls} over {transport}");
            suite.test(name, move || by_address(transport, calls));
        }
    }
    suite.run()
}

fn place(link: Link) -> Verdict<Place> {
    Place::prepare(Environment { link: Some(link), ..AS_IT_COMES })
}

fn listed(link: Link) -> Verdict {
    let finished = place(link)?.nonic_run([&program("ucx_info")?.display().to_string(), "-d"])?.run()?;
    let lines: Vec<_> = finished.stdout.lines().map(|line| line.trim_start_matches(['#', ' '])).collect();
    let has = |transport: &str| {
        let wanted = [format!("Transport: {transport}"), "Device: nonic0:1".to_owned()];
        lines.windows(2).any(|pair| pair.iter().zip(&wanted).all(|(line, wanted)| line == wanted))
    };
    match has("rc_verbs") && has("ud_verbs") && lines.contains(&"Connection manager: rdmacm") {
        true => Ok(()),
        false => failed(format!("a transport is missing\n{}", finished.report())),
    }
}

fn measured(link: Link, transport: &str, test: &str, size: u32) -> Verdict {
    let place = place(link)?
        .variable("UCX_TLS", &format!("{transport},self"))
        .variable("UCX_NET_DEVICES", "nonic0:1");
    let port = TcpPort::claim()?;
    let file = program("ucx_perftest")?.display().to_string();
    let count = if size > 4096 { "50" } else { "500" };
    let options =
        ["-p".to_owned(), port.number().to_string(), "-n".into(), count.into(), "-w".into(), "20".into()];
    let mut server = place.nonic_run([vec![file.clone()], options.to_vec()].concat())?.start()?;
    server.listens_on(port.number())?;
    let words = ["127.0.0.1", "-t", test, "-s", &size.to_string()].map(String::from);
    let client = place.nonic_run([vec![file], words.to_vec(), options.to_vec()].concat())?.run()?;
    let pair = Pair { server: server.finish()?, client };
    let rate = pair
        .client
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("Final:")?.split_whitespace().last()?.parse::<f64>().ok());
    match rate {
        _ if !pair.client.succeeded() || !pair.server.succeeded() => pair.wrong("a side failed"),
        Some(rate) if rate > 0.0 => Ok(()),
        _ => pair.wrong("nothing was measured"),
    }
}

/// What the example's server fills its messages with, over and over.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

fn by_address(transport: &str, calls: &str) -> Verdict {
    let place = place(Link::InfiniBand)?
        .variable("UCX_TLS", &format!("{transport},self"))
        .variable("UCX_NET_DEVICES", "nonic0:1")
        .variable("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm");
    let file = compile_ucx_example("ucp_client_server")?.display().to_string();
    let port = TcpPort::claim()?.number();
    let words = |more: &[&str]| {
        let port = port.to_string();
        let common = [file.as_str(), "-c", calls, "-s", "20000", "-p", &port];
        [&common, more].concat().into_iter().map(String::from).collect::<Vec<_>>()
    };
    let mut server = place.nonic_run(words(&[]))?.start()?;
    server.offers("tcp", port)?;
    let client = place.nonic_run(words(&["-a", "127.0.0.1"]))?.run()?;
    let said = server.prints(|line| line.contains("UCP TEST SUCCESS"));
    // It waits for further clients. What it has received it prints behind these words, in one piece with them, and no line end.
    let pair = Pair { server: server.kill(), client };
    match said {
        _ if !pair.client.succeeded() || !complaints(&pair.client.printed()).is_empty() => {
            pair.wrong("the client failed")
        }
        Ok(_) if pair.server.stdout.contains(&LETTERS.repeat(30)) => Ok(()),
        _ => pair.wrong("the server has not received what was sent"),
    }
}

//! qperf, its RDMA tests without the connection manager.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place, environments};
use nonic_interop::output::{complaints, qperf};
use nonic_interop::port::TcpPort;
use nonic_interop::suite::{Suite, Verdict, everything, failed};
use nonic_interop::toolbox::program;

/// Each test, and whether it runs in every environment.
const TESTS: &[(&str, bool)] = &[
    ("rc_lat", true),
    ("rc_bw", false),
    ("rc_bi_bw", false),
    ("uc_lat", false),
    ("uc_bw", false),
    ("ud_lat", true),
    ("ud_bw", false),
    ("rc_rdma_read_lat", false),
    ("rc_rdma_read_bw", false),
    ("rc_rdma_write_lat", false),
    ("rc_rdma_write_bw", false),
    ("rc_rdma_write_poll_lat", true),
    ("uc_rdma_write_lat", false),
    ("uc_rdma_write_poll_lat", false),
    ("ver_rc_compare_swap", true),
    ("ver_rc_fetch_add", false),
];

/// qperf addresses by LID only.
fn fits(environment: &Environment) -> bool {
    environment.link != Some(Link::Ethernet)
}

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (test, everywhere) in TESTS {
        for environment in environments().iter().filter(|environment| fits(environment)) {
            if environment.name == AS_IT_COMES.name || *everywhere || everything() {
                let environment = *environment;
                let sentence = format!("qperf {test} measures something, {}", environment.name);
                suite.test(sentence, move || measure(test, environment));
            }
        }
    }
    suite.run()
}

fn measure(test: &str, environment: Environment) -> Verdict {
    let place = Place::prepare(Environment { link: Some(Link::InfiniBand), ..environment })?;
    let port = TcpPort::claim()?;
    let qperf_path = program("qperf")?.display().to_string();
    let listen = ["--listen_port".to_owned(), port.number().to_string()];
    let mut words = vec![qperf_path];
    words.extend(listen);
    let mut server = place.nonic_run(words.clone())?.start()?;
    server.listens_on(port.number())?;
    words.extend(["127.0.0.1", "--time", "1", "--precision", "6", test].map(Into::into));
    let client = match place.nonic_run(words)?.run() {
        Ok(client) => client,
        Err(why) => {
            return failed(format!("the client: {why}\nthe server:\n{}", server.report("at that time")));
        }
    };
    let server = server.kill();
    let both = format!("the client:\n{}the server:\n{}", client.report(), server.report());
    if !client.succeeded() {
        return failed(format!("the client ended with {}\n{both}", client.status()));
    }
    if let Some(line) = complaints(&client.printed()).first().or(complaints(&server.printed()).first()) {
        return failed(format!("somebody complains: {line}\n{both}"));
    }
    let figures = qperf(&client.stdout);
    if figures.is_empty() || figures.iter().any(|(_, value)| value.is_nan() || *value <= 0.0) {
        return failed(format!("expected figures above 0, got {figures:?}\n{both}"));
    }
    Ok(())
}

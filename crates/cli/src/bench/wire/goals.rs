//! What the project promises about the speed of the wire.

use super::super::goals::{Goal, fixed, of, rate, time};
use super::super::job::{Job, Verb, WireJob};
use super::super::lab::Probe;
use super::TRANSFER;

const fn device(verb: Verb, size: usize) -> Probe {
    Probe::Wire(Job::Rate { verb, size })
}

const fn beside(job: WireJob) -> Probe {
    Probe::Wire(Job::Wire(job))
}

/// All of them.
pub(in crate::bench) fn goals() -> Vec<Goal> {
    let send = Probe::Wire(Job::Latency { verb: Verb::Send, size: 8, events: false });
    vec![
        rate(
            "write 1 MiB, path MTU 4096",
            Some(TRANSFER),
            vec![device(Verb::Write, TRANSFER), beside(WireJob::Datagrams)],
            ("0.6 of UDP in runs", vec![of(0.6, 1)]),
            ("0.85", vec![of(0.85, 1)]),
        ),
        time(
            "send 8 B, half round trip",
            vec![send, beside(WireJob::PingPong)],
            ("1.3 of a UDP ping-pong that spins", vec![of(1.3, 1)]),
            ("1.1", vec![of(1.1, 1)]),
        ),
        time(
            "send 8 B, beside its packets alone",
            vec![send, beside(WireJob::Packets)],
            ("1.3 of a ping-pong of the same packets by the same calls", vec![of(1.3, 1)]),
            ("1.1", vec![of(1.1, 1)]),
        ),
        rate(
            "write 8 B",
            None,
            vec![device(Verb::Write, 8)],
            ("1 million a second", vec![fixed(1e6)]),
            ("2 million", vec![fixed(2e6)]),
        ),
        rate(
            "write 1 MiB, 1 % lost each way",
            Some(TRANSFER),
            vec![beside(WireJob::Lossy), device(Verb::Write, TRANSFER)],
            ("0.4 of without", vec![of(0.4, 1)]),
            ("0.7", vec![of(0.7, 1)]),
        ),
        time(
            "processor time for 1 GB written",
            vec![beside(WireJob::WriteCost), beside(WireJob::StreamCost)],
            ("4 of a TCP stream", vec![of(4.0, 1)]),
            ("1", vec![of(1.0, 1)]),
        ),
    ]
}

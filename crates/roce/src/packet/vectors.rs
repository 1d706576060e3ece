//! Packets as they were captured between two Linux kernels (`rdma_rxe` of 6.1 and of 6.12), from the IP header to the check, and
//! packets of network cards that were published.

use std::vec::Vec;

use nonic_protocol::{AtomicChange, AtomicRequest, Key, Psn, QpNumber, RemoteRange};

use super::*;
use crate::icrc::{PORT, Route};

/// Name and bytes; `(n)` stands for n zeros.
const VECTORS: &[(&str, &str)] = &[
    (
        "SEND only, 16 bytes (rping)",
        "\
         4500003c7a6840004011a9aa0a4d01020a4d0103f87b12b7002800000400ffff0000001180a8cfed000055623b6b7d60\
         0000142b00000064a514d641",
    ),
    (
        "ACK to it",
        "\
         450000307d6940004011a6b50a4d01030a4d0102f87b12b7001c00001100ffff0000001b00a8cfed1f00000192c0cba5",
    ),
    (
        "READ request, 100 bytes",
        "\
         4500003c7d6a40004011a6a80a4d01030a4d0102f87b12b7002800000c00ffff0000001b809aae29000055623b6b7d60\
         0000142b0000006470dc9ab1",
    ),
    (
        "READ response only",
        "\
         450000947a6940004011a9510a4d01020a4d0103f87b12b7008000001000ffff00000011009aae291f00000172646d61\
         2d70696e672d303a204142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f6061626364656667\
         68696a6b6c6d6e6f707172737475767778797a4142434445464748494a4b4c4d4e4f505152535455565758595a5b5c00\
         02b1ecd5",
    ),
    (
        "WRITE only, 2 bytes, pad 2",
        "\
         450000408967400040119aa70a4d01030a4d0102c36b12b7002c00000a20ffff0000002380f540a0000055b7342ae000\
         00001c560000000200010000e43a8000",
    ),
    (
        "FETCH_ADD of 1",
        "\
         450000487c0640004011a8000a4d01020a4d0103c2c012b7003400001400ffff00000016804a5a960000555ce88eb000\
         0000098c000000000000000100000000000000001ecb18c4",
    ),
    (
        "ATOMIC ACK",
        "\
         4500003884a7400040119f6f0a4d01030a4d0102c2c012b7002400001200ffff00000020004a5a961f0000012957e179\
         e61ed54d04003792",
    ),
    (
        "FLUSH of 100,001 bytes to visibility",
        "\
         450000407e9340004011a77d0a4d00020a4d0001e07112b7002c00001c00ffff0044f00080aa1241000000010000563b\
         b365c1800b795dfe000186a1eb849129",
    ),
    (
        "FLUSH of a region",
        "\
         450000407eff40004011a7110a4d00020a4d0001d07a12b7002c00001c00ffff0044f00180c23fef0000001100000000\
         000000001b46192c0000000083799f8c",
    ),
    (
        "ACK over IPv6",
        "\
         60000000001c1140fd770000000000010000000000000003fd770000000000010000000000000002c28b12b7001c0000\
         1100ffff0000001f00805a6e1f000001eec31d37",
    ),
    (
        "UD, multicast, immediate",
        "\
         450000603e084000401100320a4d0102ef010203f00c12b7004c00006500ffff00ffffff000000000123456700000024\
         00000024b05d0857997f0000b05d0857997f(26)2a865909",
    ),
    (
        "CM REQ",
        "\
         450001347a6040004011a8ba0a4d01020a4d0103d87212b7012000006400ffff00000001800000078001000000000001\
         0107020300000000000000043786f23e00100000000000003ef28637000000000000000001061c06004b50fffe000102\
         000000000000000000001b0100000001000000a09aae29a7ffff37f0ffffffff00000000000000000000ffff0a4d0102\
         00000000000000000000ffff0a4d01030b87900000400098(45)40892d0000000000000000000000000a4d0102000000\
         0000000000000000000a4d0103(56)6f283992",
    ),
    (
        "CM REP",
        "\
         450001347d6840004011a5b20a4d01030a4d0102d87212b7012000006400ffff00000001800000008001000000000001\
         0107020300000000000000043786f23e0013000000000000280456af3ef28637000000000000110000000000a8cfed00\
         010178e0004b50fffe000202(196)492087f1",
    ),
    (
        "CM RTU",
        "\
         450001347a6740004011a8b30a4d01020a4d0103d87212b7012000006400ffff00000001800000088001000000000001\
         0107020300000000000000043786f23e00140000000000003ef28637280456af(224)e09c6a2e",
    ),
    (
        "CM DREQ",
        "\
         450001347a7440004011a8a60a4d01020a4d0103d87212b7012000006400ffff00000001800000098001000000000001\
         0107020300000000000000043786f23e00150000000000003ef28637280456af000011(221)a89ae037",
    ),
    (
        "CM DREP",
        "\
         450001347d7540004011a5a50a4d01030a4d0102d87212b7012000006400ffff00000001800000018001000000000001\
         0107020300000000000000043786f23e0016000000000000280456af3ef28637(224)86ed4106",
    ),
    (
        "CM REJ, reason 8",
        "\
         450001348b0f40004011980b0a4d01030a4d0102d87212b7012000006400ffff00000001800000038001000000000001\
         0107020300000000000000043786f23800120000000000000000000038f2863700000008(220)dfe26f8d",
    ),
    (
        "SIDR_REQ",
        "\
         450001347ab240004011a8680a4d01020a4d0103d87212b7012000006400ffff000000018000000a8001000000000001\
         0107020300000000000000043786f239001700000000000039f28637ffff00000000000001111c060040820600000000\
         00000000000000000a4d01020000000000000000000000000a4d0103(180)efb266d8",
    ),
    (
        "SIDR_REP",
        "\
         450001347e8340004011a4970a4d01030a4d0102d87212b7012000006400ffff00000001800000028001000000000001\
         0107020300000000000000043786f239001800000000000039f2863700000000000012000000000001111c0601234567\
         (208)56e19fbc",
    ),
    (
        "CNP of a ConnectX-4 Lx",
        "\
         45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff4000011800000000(16)82fd002a",
    ),
    (
        "UC SEND only of a network card, pad 2",
        "\
         45010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf17104630818be28935d9\
         0e9a95505401be885e50000078f353f3",
    ),
];

/// The bytes of a vector.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(zeros) = rest.strip_prefix('(') {
            let (count, behind) = zeros.split_once(')').expect("a bracket is closed");
            bytes.resize(bytes.len() + count.parse::<usize>().expect("it holds a number"), 0);
            rest = behind;
        } else {
            bytes.push(u8::from_str_radix(&rest[..2], 16).expect("two digits"));
            rest = &rest[2..];
        }
    }
    bytes
}

fn vector(name: &str) -> Vec<u8> {
    let (_, text) = VECTORS.iter().find(|(known, _)| *known == name).expect("a vector of this name");
    bytes_of(text)
}

/// Divides what was captured into the headers of IP and UDP, as far as they count, and the payload of UDP.
fn open(captured: &[u8]) -> (Envelope, &[u8]) {
    let (route, udp) = if captured[0] == 0x45 {
        let [source, destination] = [12, 16].map(|at| captured[at..at + 4].try_into().expect("four bytes"));
        let [identification, flags] = [4, 6].map(|at| u16::from_be_bytes([captured[at], captured[at + 1]]));
        (Route::V4 { source, destination, identification, dont_fragment: flags == 0x4000 }, &captured[20..])
    } else {
        let [source, destination] =
            [8, 24].map(|at| captured[at..at + 16].try_into().expect("sixteen bytes"));
        (Route::V6 { source, destination }, &captured[40..])
    };
    assert_eq!(u16::from_be_bytes([udp[2], udp[3]]), PORT);
    (Envelope { route, source_port: u16::from_be_bytes([udp[0], udp[1]]) }, &udp[8..])
}

#[test]
fn captured_packets_are_read_and_written_again_to_the_last_byte() {
    for (name, text) in VECTORS {
        let captured = bytes_of(text);
        let (envelope, datagram) = open(&captured);
        let (packet, payload) =
            Packet::receive(&envelope, datagram).unwrap_or_else(|why| panic!("{name}: {why}"));
        // A socket does not tell the identification.
        assert_eq!(envelope.identify(datagram), Some(envelope), "{name}");
        let headers = packet.headers(payload.len() as u32);
        let bytes = [headers.as_slice(), payload, headers.padding()].concat();
        let written = [bytes.as_slice(), &packet.check(&envelope, &bytes)].concat();
        assert_eq!(written, datagram, "{name}");
    }
}

#[test]
fn a_captured_packet_with_one_bit_changed_or_cut_short_is_refused() {
    for (name, text) in VECTORS {
        let captured = bytes_of(text);
        let (envelope, datagram) = open(&captured);
        for at in (0..datagram.len()).filter(|at| *at != 4) {
            for bit in 0..8 {
                let mut changed = datagram.to_vec();
                changed[at] ^= 1 << bit;
                assert_eq!(Packet::receive(&envelope, &changed), Err(Malformed::Check), "{name}, byte {at}");
            }
            Packet::receive(&envelope, &datagram[..at]).expect_err(name);
        }
    }
}

#[test]
fn the_check_covers_the_addresses_the_identification_and_the_port() {
    let captured = vector("ACK to it");
    let (envelope, datagram) = open(&captured);
    let Route::V4 { source, destination, identification, dont_fragment } = envelope.route else {
        panic!("the vector is of IPv4");
    };
    let other = |route, source_port| Packet::receive(&Envelope { route, source_port }, datagram);
    let port = envelope.source_port;
    assert!(other(envelope.route, port).is_ok());
    let wrong = [
        other(envelope.route, port ^ 1),
        other(Route::V4 { source: destination, destination: source, identification, dont_fragment }, port),
        other(Route::V4 { source, destination, identification: identification ^ 1, dont_fragment }, port),
        other(Route::V4 { source, destination, identification, dont_fragment: false }, port),
    ];
    assert_eq!(wrong, [Err(Malformed::Check); 4]);
}

/// What a vector says.
pub(crate) fn said(name: &str) -> (Packet, Vec<u8>) {
    let captured = vector(name);
    let (envelope, datagram) = open(&captured);
    let (packet, payload) = Packet::receive(&envelope, datagram).expect(name);
    (packet, payload.to_vec())
}

#[test]
fn captured_packets_say_what_was_asked_of_the_kernel() {
    let (send, payload) = said("SEND only, 16 bytes (rping)");
    assert_eq!(send.body, Body::Request(Request::Send(Part::Only((), Tail::Plain))));
    assert_eq!((send.base.destination, send.base.psn, payload.len()), (QpNumber(0x11), Psn(0xa8cfed), 16));
    assert!(send.base.ack_request && !send.base.solicited && !send.base.migrated);

    let done = |msn| Aeth { syndrome: Syndrome::Acknowledge(Credits::UNKNOWN), msn: Msn::masked(msn) };
    assert_eq!(said("ACK to it").0.body, Body::Answer(Answer::Acknowledge(done(1))));

    let remote = RemoteRange { address: 0x5562_3b6b_7d60, key: Key(0x142b) };
    let read = Body::Request(Request::Read(Reth { remote, length: 100 }));
    assert_eq!(said("READ request, 100 bytes"), (said("READ request, 100 bytes").0, Vec::new()));
    assert_eq!(said("READ request, 100 bytes").0.body, read);
    let (response, payload) = said("READ response only");
    assert_eq!(response.body, Body::Answer(Answer::Read(ReadPart::Only(done(1)))));
    assert!(payload.starts_with(b"rdma-ping-0: ABC") && payload.len() == 100);

    let (write, payload) = said("WRITE only, 2 bytes, pad 2");
    let Body::Request(Request::Write(Part::Only(reth, None))) = write.body else { panic!("{write:?}") };
    assert_eq!((reth.length, payload.len(), write.headers(2).padding()), (2, 2, [0, 0].as_slice()));

    let remote = RemoteRange { address: 0x555c_e88e_b000, key: Key(0x98c) };
    let add = AtomicRequest { remote, change: AtomicChange::FetchAdd { add: 1 } };
    assert_eq!(said("FETCH_ADD of 1").0.body, Body::Request(Request::Atomic(add)));
    assert_eq!(said("ATOMIC ACK").0.body, Body::Answer(Answer::Atomic(done(1), 0x2957_e179_e61e_d54d)));

    let remote = RemoteRange { address: 0x563b_b365_c180, key: Key(0x0b79_5dfe) };
    let reth = Reth { remote, length: 100_001 };
    let range = Flush { reth, placement: 1, selectivity: 0, check: FlushCheck::Twice };
    assert_eq!(said("FLUSH of 100,001 bytes to visibility").0.body, Body::Request(Request::Flush(range)));
    let reth = Reth { remote: RemoteRange { address: 0, key: Key(0x1b46_192c) }, length: 0 };
    let region = Flush { reth, selectivity: 1, ..range };
    assert_eq!(said("FLUSH of a region").0.body, Body::Request(Request::Flush(region)));

    let datagram = Datagram { q_key: 0x0123_4567, source: QpNumber(0x24), immediate: Some(0x24u32.to_be()) };
    let (multicast, _) = said("UD, multicast, immediate");
    assert_eq!((multicast.body, multicast.base.destination), (Body::Datagram(datagram), QpNumber(0xff_ffff)));
    let (notice, payload) = said("CNP of a ConnectX-4 Lx");
    assert_eq!((notice.body, notice.base.destination, payload.len()), (Body::Congestion, QpNumber(0x118), 0));
    let (send, payload) = said("UC SEND only of a network card, pad 2");
    assert_eq!(send.body, Body::Unreliable(UnreliableRequest::Send(Part::Only((), None))));
    assert!(send.base.migrated && payload.len() == 18);
    let (request, payload) = said("CM REQ");
    assert_eq!((request.base.destination, payload.len()), (QpNumber(1), 256));
}

//! Strangers that say all they can to the UDP port of a process with peers on other hosts, from addresses that are nobody's peer, and at
//! the names under which processes of a user hand packets on: messages from the peer arrive, connections are made, and descriptors, memory
//! and messages to people stay within their bounds. Needs root, to be two users, in a network namespace of its own: there addresses of
//! 127.0.0.0/8 that no interface has count as other hosts.

#[path = "../../../crates/device/tests/common/mod.rs"]
mod common;
mod strangers;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_device::{Context, QpNumber, Status, devices};
use nonic_protocol::Psn;
use nonic_roce::{
    Accepts, Answer, Base, Body, ConnectionManager, ConnectionOffer, Ends, Event, HostAddress,
    ManagementDatagram, ManagerSettings, Naming, Packet, Part, PortSpace, Request, Service, Side, Syndrome,
    Tail, Transport, behind_header,
};
use nonic_second_process::{SecondProcess, role, serve};
use nonic_sys::{AsFd, wait_readable};
use nonic_wire::{Location, Outgoing, Pushed, Route, Run, Station, Taken, Wire};
use nonic_wire_connection::{ListenAt, Takes, WireConnection};

use common::{End, NoObserver};
use strangers::*;

const HERE: HostAddress = HostAddress::V4([127, 0, 0, 1]);
const PEER: HostAddress = HostAddress::V4([127, 9, 9, 9]);
/// The peer's queue pair.
const NUMBER: QpNumber = QpNumber(9);
const PORT: u16 = 7174;
/// Receives that wait at the victim.
const RECEIVES: u64 = 32;
/// Connections that the victim's program keeps.
const KEPT: usize = 32;
/// How long an honest message and an honest connection may take beside strangers that fill the socket's room.
const PATIENCE: Duration = Duration::from_secs(20);
/// After this time the peer says again what was not answered.
const AGAIN: Duration = Duration::from_millis(50);
/// Descriptors that may come: sockets to those that packets are handed to.
const MORE: usize = 64;

const SIDE: Side = Side {
    qp_number: QpNumber(0),
    starting_psn: Psn(0),
    responder_resources: 1,
    initiator_depth: 1,
    rnr_retry: 7,
    flow_control: false,
    has_srq: false,
    q_key: 0,
};

// The victim.

/// A side with another queue pair than the last: of one that comes again the last connection may not be over.
fn side(number: u64) -> Side {
    Side { qp_number: QpNumber(0x1000 + number as u32 % (1 << 23)), ..SIDE }
}

/// What the peer asks with.
const FACTS: &[u8] = b"facts";

/// Accepts whoever asks; with how many there were, and the last connections, of the peer and of others: these do not have the peer's end.
#[derive(Default)]
struct Desk(Mutex<(u64, [VecDeque<WireConnection>; 2])>);

impl Takes for Desk {
    fn ask(&self, connection: WireConnection, event: Event) {
        let Event::Asked { header, request, .. } = event else { return };
        let is_peer = behind_header(header, &request.private_data).starts_with(FACTS);
        let (count, kept) = &mut *self.0.lock().unwrap();
        *count += 1;
        let _ = connection.accept(&side(*count), b"answer");
        let kept = &mut kept[usize::from(is_peer)];
        kept.push_back(connection);
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

/// A queue pair in RTS whose peer is at [`PEER`]; both begin with packet 0.
fn connected_end(context: &Arc<Context>) -> End {
    let completions = context.create_completion_queue(64, 0, None, 0).unwrap();
    let end = End::with_queue(Arc::clone(context), completions, None::<Weak<NoObserver>>);
    end.connect_between(HERE.gid(), PEER.gid(), NUMBER);
    end
}

fn be_the_victim() -> ! {
    count_warnings();
    let context = devices()[0].open().unwrap();
    let end = connected_end(&context);
    (0..RECEIVES).for_each(|id| end.post_receive(id));
    let desk: Arc<dyn Takes> = Arc::new(Desk::default());
    let accepts = Accepts::Connections(Transport::Reliable);
    let at = ListenAt::Address("127.0.0.1".parse().unwrap());
    let wire = nonic_wire_connection::Wire::get().unwrap();
    let service = PortSpace::Tcp.service_id(PORT);
    let _listener = wire.listen(service, Naming::Ip, at, accepts, &desk).unwrap();
    let number = end.pair.number();
    std::thread::spawn(move || {
        loop {
            let mut came = Vec::new();
            end.completions.poll(|completion| came.push(*completion), 16).unwrap();
            for completion in &came {
                assert_eq!((completion.status, completion.byte_length), (Status::Success, 8));
                end.post_receive(completion.id);
            }
            if came.is_empty() {
                // What strangers say is taken by whoever polls, too.
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    serve(|command, _| match command {
        "number" => number.0.to_string(),
        "warnings" => warnings().to_string(),
        other => panic!("{other}"),
    })
}

// Its peer.

struct Peer {
    wire: Wire,
    station: Arc<Station>,
    manager: ConnectionManager<Instant>,
    /// The victim's queue pair, and the number of the next packet to it.
    number: QpNumber,
    psn: u32,
    /// Connections that it has asked for.
    asked: u64,
}

impl Peer {
    fn new(number: QpNumber) -> Self {
        let wire = Wire::new().unwrap();
        let (station, _) = wire.station(Location { address: PEER, interface: 1 }).unwrap();
        let settings =
            ManagerSettings { response_timeout: 14, packet_lifetime: 10, ..ManagerSettings::new(7) };
        let manager = ConnectionManager::new(settings, Box::new(nonic_sys::random_u64));
        Self { wire, station, manager, number, psn: 0, asked: 0 }
    }

    fn say(&self, packet: &Packet, bytes: &[u8]) {
        let route = Route { to: HERE, traffic_class: 0, hop_limit: 64 };
        let mut outgoing = Outgoing::default();
        let pushed = outgoing.push(&self.station, &route, packet, bytes.len() as u32, |place| {
            place.copy_from_slice(bytes);
            true
        });
        assert!(pushed == Pushed::Pushed && outgoing.flush());
    }

    /// What has come to it.
    fn hear(&self) -> Vec<(Packet, Vec<u8>)> {
        let mut came = Vec::new();
        let mut take = |run: &mut Run<'_>| {
            let (arrival, datagram) = run.current();
            let (packet, payload, _) = arrival.read(datagram).expect("its check is right");
            came.push((packet, payload.to_vec()));
            Taken::Taken
        };
        self.wire.receive(&mut take, &mut |_, _| ());
        came
    }

    /// Sends a message, again and again until it is acknowledged.
    fn send(&mut self) {
        let base = Base { ack_request: true, ..Base::new(self.number, Psn(self.psn)) };
        let packet = Packet { base, body: Body::Request(Request::Send(Part::Only((), Tail::Plain))) };
        let (begun, mut said) = (Instant::now(), None::<Instant>);
        loop {
            if said.is_none_or(|said| said.elapsed() >= AGAIN) {
                self.say(&packet, &[1; 8]);
                said = Some(Instant::now());
            }
            // Another answer is that no receive waits yet.
            let is_acknowledged = |(packet, _): &(Packet, _)| {
                let Body::Answer(Answer::Acknowledge(aeth)) = packet.body else { return false };
                matches!(aeth.syndrome, Syndrome::Acknowledge(_)) && packet.base.psn == Psn(self.psn)
            };
            if self.hear().iter().any(is_acknowledged) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "message {} is not acknowledged", self.psn);
            self.wait();
        }
        self.psn = (self.psn + 1) & 0xff_ffff;
    }

    /// Goes on until the manager tells of something.
    fn next_event(&mut self) -> Event {
        let begun = Instant::now();
        loop {
            while let Some(outgoing) = self.manager.poll_transmit() {
                self.say(&ManagementDatagram::packet(Psn(0)), &outgoing.datagram.emit());
            }
            if let Some(event) = self.manager.poll_event() {
                return event;
            }
            for (packet, payload) in self.hear() {
                if let Some(datagram) = ManagementDatagram::of_packet(&packet, &payload) {
                    self.manager.handle(Instant::now(), Ends { local: PEER, remote: HERE }, &datagram);
                }
            }
            self.manager.handle_timeout(Instant::now());
            assert!(begun.elapsed() < PATIENCE, "no event came");
            self.wait();
        }
    }

    /// Until something comes, or it may be time to say something again.
    fn wait(&self) {
        wait_readable(self.wire.as_fd(), Some(Duration::from_millis(5)));
    }

    /// Connects to the victim's port, and leaves the connection. It asks for a second or so, where programs ask for a minute: a flood
    /// and a busy machine together may outlast that.
    fn connect(&mut self) {
        let begun = Instant::now();
        while !self.ask() {
            assert!(begun.elapsed() < PATIENCE, "connection {} is not answered", self.asked);
        }
    }

    /// Asks for a connection, and leaves it; whether there was an answer.
    fn ask(&mut self) -> bool {
        // Never twice by the same queue pair: a lap of the campaign begins at 0 again, and the victim may not have heard yet that the
        // connection of the lap before is over.
        self.asked += 1;
        let number = self.asked;
        let ends = Ends { local: PEER, remote: HERE };
        let service = Service::Port { space: PortSpace::Tcp, port: PORT, source_port: 40_000 };
        let offer = ConnectionOffer {
            transport: Transport::Reliable,
            path_mtu: 3,
            retry_count: 7,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: None,
        };
        let id = self.manager.connect(Instant::now(), ends, service, &offer, &side(number), FACTS).unwrap();
        match self.next_event() {
            Event::Replied { id: whose, reply } if whose == id => {
                assert_eq!(reply.private_data[..6], *b"answer");
            }
            Event::Unreachable { id: whose } if whose == id => return false,
            other => panic!("connection {number}: {other:?}"),
        }
        self.manager.establish(id, &[]).unwrap();
        self.manager.release(Instant::now(), id).unwrap();
        true
    }
}

#[test]
fn whatever_a_stranger_says_on_the_wire_the_peer_is_heard() {
    const TEST: &str = "whatever_a_stranger_says_on_the_wire_the_peer_is_heard";
    if role().is_some() {
        be_the_victim()
    }
    let Some(_alone) = alone(TEST) else { return };
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(up.unwrap().success(), "lo is not up");
    let mut victim = SecondProcess::start(TEST, "victim", &[]);
    let number: u32 = victim.tell("number").parse().unwrap();
    let mut peer = Peer::new(QpNumber(number));
    let target = format!("127.0.0.1/{number}/{PORT}");
    campaign(&mut victim, Victim::Wire(&target), MORE, |_, _| {
        let since = Instant::now();
        (0..4).for_each(|_| peer.send());
        peer.connect();
        since.elapsed()
    });
    victim.finish();
}

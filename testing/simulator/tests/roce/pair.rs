//! A queue pair of RoCEv2 and a hand-made peer, which sends it what it likes and looks at what comes back.

use std::time::Duration;

use nonic_protocol::{
    Access, Capabilities, FlushRequest, Key, Operation, Psn, QpAttributes, QpNumber, QpState, QpType,
    ReceiveRequest, RemoteRange, ScatterGather, SendFlags, SendRequest, Status, ZoneId,
};
use nonic_roce::{
    Aeth, Answer, Base, Body, Connection, Credits, Msn, Nak, Packet, Part, Request, Reth, Syndrome, Tail,
    UnreliableRequest,
};
use nonic_simulator::wire::{ADDRESS, Host, KEY};

/// First number that the queue pair takes, and the first that it sends.
pub(crate) const RECEIVE_PSN: u32 = 0xff_fffe;
pub(crate) const SEND_PSN: u32 = 0xff_fff0;
/// Bytes of a packet.
pub(crate) const MTU: u32 = 256;

const CAPABILITIES: Capabilities = Capabilities {
    send_requests: 2048,
    receive_requests: 64,
    send_pieces: 1,
    receive_pieces: 1,
    inline_bytes: 0,
};

/// A queue pair, what is around it, and a clock.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) connection: Connection<Duration>,
    pub(crate) host: Host,
    pub(crate) now: Duration,
    posted: u64,
}

/// Number `index` of those that the peer sends.
pub(crate) fn theirs(index: u32) -> Psn {
    Psn(RECEIVE_PSN).plus(index)
}

/// Number `index` of those that the queue pair sends.
pub(crate) fn ours(index: u32) -> Psn {
    Psn(SEND_PSN).plus(index)
}

pub(crate) fn remote(offset: u64) -> RemoteRange {
    RemoteRange { address: ADDRESS + offset, key: KEY }
}

pub(crate) fn reth(offset: u64, length: u32) -> Reth {
    Reth { remote: remote(offset), length }
}

pub(crate) fn send_only() -> Request {
    Request::Send(Part::Only((), Tail::Plain))
}

pub(crate) fn acknowledged(msn: u32) -> Aeth {
    Aeth { syndrome: Syndrome::Acknowledge(Credits::UNKNOWN), msn: Msn::masked(msn) }
}

pub(crate) fn refused(nak: Nak, msn: u32) -> Answer {
    Answer::Acknowledge(Aeth { syndrome: Syndrome::Refuse(nak), msn: Msn::masked(msn) })
}

pub(crate) fn done(msn: u32) -> Answer {
    Answer::Acknowledge(acknowledged(msn))
}

impl Pair {
    /// One in RTS that lets its peer do everything.
    pub(crate) fn new(kind: QpType) -> Self {
        let mut connection = Connection::new(kind, &CAPABILITIES);
        connection.attributes = QpAttributes {
            path_mtu: 1,
            destination_qp: QpNumber(9),
            send_psn: SEND_PSN,
            receive_psn: RECEIVE_PSN,
            access: Access::REMOTE | Access::LOCAL_WRITE | Access::FLUSH_GLOBAL,
            max_rd_atomic: 2,
            max_dest_rd_atomic: 2,
            min_rnr_timer: 12,
            timeout: 14,
            retry_count: 2,
            rnr_retry: 3,
            drained_notify: true,
            ..QpAttributes::default()
        };
        connection.begin_to_receive();
        connection.begin_to_send();
        Self { connection, host: Host::new(1 << 20), now: Duration::ZERO, posted: 0 }
    }

    pub(crate) fn reliable() -> Self {
        Self::new(QpType::ReliableConnection)
    }

    pub(crate) fn state(&self) -> QpState {
        self.connection.state()
    }

    pub(crate) fn post_receive(&mut self, id: u64, offset: u64, length: u32) {
        let pieces = [ScatterGather { address: ADDRESS + offset, length, key: KEY }];
        self.connection
            .receives
            .post(&ReceiveRequest { id, pieces: &pieces }, ZoneId(1))
            .expect("there is room");
    }

    /// Posts a request for bytes at the beginning of memory and starts it; its mark is its number, from 0.
    pub(crate) fn post(&mut self, operation: Operation, length: u32) {
        self.post_with(operation, length, SendFlags::default(), KEY);
    }

    pub(crate) fn post_with(&mut self, operation: Operation, length: u32, flags: SendFlags, key: Key) {
        self.post_pieces(operation, flags, &[ScatterGather { address: ADDRESS, length, key }]);
    }

    /// The same of a flush, which has no bytes.
    pub(crate) fn post_flush(&mut self, flush: FlushRequest) {
        self.post_pieces(Operation::Flush { flush }, SendFlags::default(), &[]);
    }

    fn post_pieces(&mut self, operation: Operation, flags: SendFlags, pieces: &[ScatterGather]) {
        let request = SendRequest { id: self.posted, operation, flags, pieces, destination: None };
        self.posted += 1;
        self.connection
            .send
            .post(&request, &CAPABILITIES, QpType::ReliableConnection, 0, |_| ())
            .expect("there is room");
        self.connection.pump(self.now, &mut self.host);
    }

    /// Takes a packet of the peer's, and then does what there is to do.
    pub(crate) fn take_packet(&mut self, packet: Packet, payload: &[u8]) {
        self.connection.handle(self.now, &mut self.host, &packet, payload);
        self.connection.pump(self.now, &mut self.host);
    }

    /// Takes a request that asks for an answer; what is answered.
    pub(crate) fn take(&mut self, psn: Psn, request: Request, payload: &[u8]) -> Vec<(Psn, Answer)> {
        let base = Base { ack_request: true, ..Base::new(QpNumber(8), psn) };
        self.take_packet(Packet { base, body: Body::Request(request) }, payload);
        self.answers()
    }

    /// Takes a packet of an unreliable connection.
    pub(crate) fn take_unreliable(&mut self, psn: Psn, request: UnreliableRequest, payload: &[u8]) {
        let base = Base::new(QpNumber(8), psn);
        self.take_packet(Packet { base, body: Body::Unreliable(request) }, payload);
        assert!(self.host.sent.is_empty(), "an unreliable connection answers");
    }

    /// Takes an answer; what is sent then.
    pub(crate) fn hear(&mut self, psn: Psn, answer: Answer, payload: &[u8]) -> Vec<(Psn, Request)> {
        let base = Base::new(QpNumber(8), psn);
        self.take_packet(Packet { base, body: Body::Answer(answer) }, payload);
        self.requests()
    }

    /// What was answered since it was last asked.
    pub(crate) fn answers(&mut self) -> Vec<(Psn, Answer)> {
        let said = self.host.sent.drain(..).map(|(packet, _)| match packet.body {
            Body::Answer(answer) => (packet.base.psn, answer),
            other => panic!("no answer: {other:?}"),
        });
        said.collect()
    }

    /// What was asked since it was last looked at.
    pub(crate) fn requests(&mut self) -> Vec<(Psn, Request)> {
        let said = self.host.sent.drain(..).map(|(packet, _)| match packet.body {
            Body::Request(request) => (packet.base.psn, request),
            other => panic!("no request: {other:?}"),
        });
        said.collect()
    }

    /// Numbers of what was asked since it was last looked at.
    pub(crate) fn sent(&mut self) -> Vec<Psn> {
        self.requests().into_iter().map(|(psn, _)| psn).collect()
    }

    /// Waits until its next timer, and what is sent then.
    pub(crate) fn wait(&mut self) -> Vec<Psn> {
        self.pass_time();
        self.sent()
    }

    /// Has the time come that the queue pair waits for.
    pub(crate) fn pass_time(&mut self) {
        self.now = self.connection.poll_timeout().expect("nothing is waited for");
        self.connection.handle_timeout(self.now, &mut self.host);
    }

    /// Statuses of the requests that ended, in order.
    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.host.ended.iter().map(|(_, status)| *status).collect()
    }
}

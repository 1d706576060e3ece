//! A connection manager and a hand-made peer, which says what it likes and looks at what comes back.

use std::time::Duration;

use nonic_protocol::{Psn, QpNumber};
use nonic_roce::{
    Accepts, AddressHeader, CommunicationId, ConnectReply, ConnectRequest, ConnectionManager,
    ConnectionOffer, DisconnectRequest, Ends, Event, HostAddress, Ids, ManagementDatagram, ManagerSettings,
    Message, Naming, Notice, Path, PortSpace, Service, ServiceRequest, Side, Transport,
};

pub(crate) const OURS: HostAddress = HostAddress::V4([10, 77, 1, 2]);
pub(crate) const THEIRS: HostAddress = HostAddress::V4([10, 77, 1, 3]);
pub(crate) const STRANGE: HostAddress = HostAddress::V4([10, 77, 1, 4]);
/// The port that both sides listen at.
pub(crate) const PORT: u16 = 7174;
pub(crate) const SOURCE_PORT: u16 = 0x892d;
pub(crate) const SERVICE: Service =
    Service::Port { space: PortSpace::Tcp, port: PORT, source_port: SOURCE_PORT };
/// The peer, its numbers and its queue pair.
pub(crate) const THEIR_GUID: u64 = 0xfeed;
pub(crate) const THEIR_ID: u32 = 0x7777;
pub(crate) const THEIR_PAIR: QpNumber = QpNumber(0x1b);
pub(crate) const THEIR_TRANSACTION: u64 = 0x1234_5678_9abc;
/// Ours.
pub(crate) const OUR_GUID: u64 = 0xbeef;
pub(crate) const OUR_PAIR: QpNumber = QpNumber(0x11);
/// When a request is repeated.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_millis(4096 + 512);
/// When a reply is, whose request said 20.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_millis(4096);

pub(crate) const SIDE: Side = Side {
    qp_number: OUR_PAIR,
    starting_psn: Psn(5),
    responder_resources: 1,
    initiator_depth: 2,
    rnr_retry: 6,
    flow_control: false,
    has_srq: false,
    q_key: 0,
};

pub(crate) const OFFER: ConnectionOffer = ConnectionOffer {
    transport: Transport::Reliable,
    path_mtu: 3,
    retry_count: 7,
    traffic_class: 0,
    hop_limit: 64,
    flow_label: None,
};

/// A manager and a clock.
pub(crate) struct Host {
    pub(crate) manager: ConnectionManager<Duration>,
    pub(crate) now: Duration,
}

pub(crate) fn ends(remote: HostAddress) -> Ends {
    Ends { local: OURS, remote }
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with(ManagerSettings::new(OUR_GUID))
    }

    /// One that listens at the port, and where questions for datagrams are answered.
    pub(crate) fn with(settings: ManagerSettings) -> Self {
        let mut number = 1000u64;
        let numbers = move || {
            number += 1;
            number
        };
        let mut manager = ConnectionManager::new(settings, Box::new(numbers));
        let connections = Accepts::Connections(Transport::Reliable);
        manager
            .listen(PortSpace::Tcp.service_id(PORT), Naming::Ip, None, connections)
            .expect("nobody listens");
        manager
            .listen(PortSpace::Udp.service_id(PORT), Naming::Ip, None, Accepts::Datagrams)
            .expect("nobody listens");
        Self { manager, now: Duration::from_secs(1) }
    }

    /// The peer says something.
    pub(crate) fn hears(&mut self, message: Message) {
        self.hears_from(THEIRS, message);
    }

    pub(crate) fn hears_from(&mut self, remote: HostAddress, message: Message) {
        let datagram = ManagementDatagram { transaction_id: THEIR_TRANSACTION, message };
        // What comes is what was written, and no more.
        let datagram = ManagementDatagram::parse(&datagram.emit()).expect("a message is read again");
        self.manager.handle(self.now, ends(remote), &datagram);
    }

    /// What is said to the peer, and nothing else is.
    #[track_caller]
    pub(crate) fn says(&mut self) -> Message {
        let outgoing = self.manager.poll_transmit().expect("something is said");
        assert_eq!(outgoing.ends, ends(THEIRS));
        self.is_silent();
        outgoing.datagram.message
    }

    #[track_caller]
    pub(crate) fn is_silent(&mut self) {
        assert_eq!(self.manager.poll_transmit(), None, "something is said");
    }

    #[track_caller]
    pub(crate) fn event(&mut self) -> Event {
        self.manager.poll_event().expect("something happened")
    }

    /// Nothing is said, and nothing told.
    #[track_caller]
    pub(crate) fn is_unmoved(&mut self) {
        self.is_silent();
        assert_eq!(self.manager.poll_event(), None, "something happened");
    }

    /// Time passes until just before something is to happen: nothing has happened. Then it does.
    #[track_caller]
    pub(crate) fn waits(&mut self, expected: Duration) {
        let until = self.manager.poll_timeout().expect("something is waited for");
        assert_eq!(until - self.now, expected);
        self.manager.handle_timeout(until - Duration::from_nanos(1));
        self.is_unmoved();
        self.now = until;
        self.manager.handle_timeout(until);
    }

    /// So much time passes, and what happens meanwhile is not looked at.
    pub(crate) fn passes(&mut self, time: Duration) {
        self.now += time;
        self.manager.handle_timeout(self.now);
    }

    // Up to a state, in either role; what is said and told on the way is taken.

    pub(crate) fn asks(&mut self) -> CommunicationId {
        let id = self.manager.connect(self.now, ends(THEIRS), SERVICE, &OFFER, &SIDE, b"hello");
        self.says();
        id.expect("it is asked")
    }

    /// The peer has replied.
    pub(crate) fn is_replied_to(&mut self) -> CommunicationId {
        let id = self.asks();
        self.hears(Message::ConnectReply(reply(id)));
        assert!(matches!(self.event(), Event::Replied { .. }));
        id
    }

    /// There is a connection that this side asked for.
    pub(crate) fn is_connected(&mut self) -> CommunicationId {
        let id = self.is_replied_to();
        self.manager.establish(id, &[]).expect("there is a reply");
        self.says();
        id
    }

    pub(crate) fn is_asked(&mut self) -> CommunicationId {
        self.hears(Message::ConnectRequest(request()));
        let Event::Asked { id, .. } = self.event() else { panic!("no request") };
        self.is_silent();
        id
    }

    /// It has accepted.
    pub(crate) fn accepts(&mut self) -> CommunicationId {
        let id = self.is_asked();
        self.manager.accept(self.now, id, &SIDE, &[]).expect("there is a request");
        self.says();
        id
    }

    /// There is a connection that the peer asked for.
    pub(crate) fn has_accepted(&mut self) -> CommunicationId {
        let id = self.accepts();
        self.hears(Message::ReadyToUse(notice(id)));
        assert_eq!(self.event(), Event::Established { id });
        id
    }
}

/// How the peer calls what it has with us.
pub(crate) fn ids(id: CommunicationId) -> Ids {
    Ids { local: THEIR_ID, remote: id.number() }
}

/// How we do.
pub(crate) fn our_ids(id: CommunicationId) -> Ids {
    Ids { local: id.number(), remote: THEIR_ID }
}

pub(crate) fn notice(id: CommunicationId) -> Notice {
    Notice { ids: ids(id), private_data: [0; 224] }
}

pub(crate) fn reply(id: CommunicationId) -> ConnectReply {
    ConnectReply {
        ids: ids(id),
        q_key: 0,
        qp_number: THEIR_PAIR,
        starting_psn: Psn(9),
        responder_resources: 3,
        initiator_depth: 4,
        target_ack_delay: 15,
        failover: 0,
        flow_control: false,
        rnr_retry: 5,
        has_srq: false,
        ca_guid: THEIR_GUID,
        private_data: [0xab; 196],
    }
}

pub(crate) fn end(id: CommunicationId) -> DisconnectRequest {
    DisconnectRequest { ids: ids(id), remote_qp_number: OUR_PAIR, private_data: [0; 220] }
}

fn header() -> [u8; 36] {
    AddressHeader { source_port: SOURCE_PORT, source: THEIRS, destination: OURS }.emit()
}

/// A request that is taken.
pub(crate) fn request() -> ConnectRequest {
    let mut private_data = [0xcd; 92];
    private_data[..36].copy_from_slice(&header());
    let primary = Path {
        local_lid: 0xffff,
        remote_lid: 0xffff,
        local_gid: THEIRS.gid(),
        remote_gid: OURS.gid(),
        flow_label: 0,
        packet_rate: 0,
        traffic_class: 0,
        hop_limit: 64,
        service_level: 0,
        subnet_local: false,
        ack_timeout: 19,
    };
    ConnectRequest {
        local_id: THEIR_ID,
        service_id: PortSpace::Tcp.service_id(PORT),
        ca_guid: THEIR_GUID,
        q_key: 0,
        qp_number: THEIR_PAIR,
        responder_resources: 3,
        initiator_depth: 4,
        remote_cm_timeout: 20,
        transport: Transport::Reliable,
        flow_control: false,
        starting_psn: Psn(9),
        local_cm_timeout: 20,
        retry_count: 7,
        p_key: 0xffff,
        path_mtu: 3,
        rnr_retry: 7,
        max_cm_retries: 15,
        has_srq: false,
        primary,
        alternate: None,
        private_data,
    }
}

/// A question that is taken.
pub(crate) fn question() -> ServiceRequest {
    let mut private_data = [0xcd; 216];
    private_data[..36].copy_from_slice(&header());
    let service_id = PortSpace::Udp.service_id(PORT);
    ServiceRequest { request_id: THEIR_ID, p_key: 0xffff, service_id, private_data }
}

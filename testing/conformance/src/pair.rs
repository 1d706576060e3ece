//! Client and server, and how they are connected.

use nonic_device::{AsyncEventKind, AttributeMask, QpAttributes, QpNumber, QpState, QpType, Status};

use crate::arrangement::{Arrangement, Place};
use crate::command::{Command, Destination, Send};
use crate::memory::{EVERYTHING, Memory, pattern};
use crate::options::{End, Options, RELIABLE};
use crate::request::write;
use crate::side::Side;

/// Why a rule says nothing about an arrangement.
#[derive(Debug)]
pub(crate) struct NotHere(pub(crate) String);

/// Two sides.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) client: Side,
    pub(crate) server: Side,
    pub(crate) arrangement: &'static Arrangement,
}

impl Pair {
    /// Opens both sides and has them meet once, so that rules find a link between them.
    pub(crate) fn open(arrangement: &'static Arrangement) -> Self {
        let client = Side::open(Place::SameThread, arrangement);
        let server = Side::open(arrangement.server, arrangement);
        let mut pair = Self { client, server, arrangement };
        let (client, server) = pair.connect(&RELIABLE);
        let (near, far) =
            (pair.client.memory(client.zone, 8, EVERYTHING), pair.server.memory(server.zone, 8, EVERYTHING));
        pair.client.carry_out(&client, write(&[near.all()], far.remote(0)));
        pair.server.carry_out(&server, write(&[far.all()], near.remote(0)));
        pair.reset();
        pair
    }

    /// Gives everything back, on both sides.
    #[track_caller]
    pub(crate) fn reset(&mut self) {
        self.client.must(Command::Reset {});
        self.server.must(Command::Reset {});
    }

    /// Ends the rule unless the arrangement is one it speaks of.
    pub(crate) fn only(&self, speaks: bool, reason: &str) {
        if !speaks {
            std::panic::resume_unwind(Box::new(NotHere(reason.to_owned())));
        }
    }

    /// Whether the server runs while the client does something else.
    pub(crate) fn only_concurrent(&self) {
        self.only(self.arrangement.server != Place::SameThread, "client and server take turns on one thread");
    }

    /// Shows something measured.
    pub(crate) fn note(&self, text: &str) {
        println!("{text}");
    }

    /// A connected pair of queue pairs in RTS.
    #[track_caller]
    pub(crate) fn connect(&mut self, options: &Options) -> (End, End) {
        self.connect_both(options, options)
    }

    /// The same with an end of another make.
    #[track_caller]
    pub(crate) fn connect_both(&mut self, client: &Options, server: &Options) -> (End, End) {
        let ends = (self.client.end(client), self.server.end(server));
        self.join(&ends.0, client, &ends.1, server);
        ends
    }

    /// Moves two fresh queue pairs to RTS.
    #[track_caller]
    pub(crate) fn join(
        &mut self,
        client: &End,
        client_options: &Options,
        server: &End,
        server_options: &Options,
    ) {
        self.ready_to_receive(client, client_options, server, server_options);
        self.client.modify(client.pair, to_send(client_options));
        self.server.modify(server.pair, to_send(server_options));
    }

    /// Moves two fresh queue pairs to RTR.
    #[track_caller]
    pub(crate) fn ready_to_receive(&mut self, client: &End, own: &Options, server: &End, theirs: &Options) {
        self.client.modify(client.pair, to_init(own));
        self.server.modify(server.pair, to_init(theirs));
        let (to_client, to_server) = (self.client.path(), self.server.path());
        self.client.modify(client.pair, to_receive(own, server.number, to_server));
        self.server.modify(server.pair, to_receive(theirs, client.number, to_client));
    }

    /// The server's queue pair as the destination of a datagram of the client's.
    pub(crate) fn server_as_destination(&mut self, client: &End, server: &End, q_key: u32) -> Destination {
        Destination { vector: self.server.path(), zone: client.zone, number: server.number, q_key }
    }

    /// Everything the client has sent so far has been handled by the server when this returns: an answered message
    /// behind it in the same ring.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        let (client, server) = self.connect(&RELIABLE);
        let nowhere = nonic_device::RemoteRange { address: 0, key: nonic_device::Key(0) };
        let status = self.client.carry_out(&client, write(&[], nowhere));
        assert_eq!(status, Status::Success);
        self.client.must(Command::DestroyPair { pair: client.pair });
        self.server.must(Command::DestroyPair { pair: server.pair });
    }
}

/// A move and its attributes.
pub(crate) type Change = (QpAttributes, AttributeMask);

/// RESET to INIT.
pub(crate) fn to_init(options: &Options) -> Change {
    use AttributeMask as A;
    let attributes = QpAttributes {
        state: QpState::Init,
        port: 1,
        access: options.access,
        q_key: options.q_key,
        ..QpAttributes::default()
    };
    let own = if options.transport == QpType::UnreliableDatagram { A::QKEY } else { A::ACCESS_FLAGS };
    (attributes, A::STATE | A::PKEY_INDEX | A::PORT | own)
}

/// INIT to RTR.
pub(crate) fn to_receive(options: &Options, peer: QpNumber, path: nonic_device::AddressVector) -> Change {
    use AttributeMask as A;
    let attributes = QpAttributes {
        state: QpState::ReadyToReceive,
        path_mtu: 5,
        destination_qp: peer,
        receive_psn: 0xff_fff0,
        address_vector: Some(path),
        max_dest_rd_atomic: options.max_dest_rd_atomic,
        min_rnr_timer: options.min_rnr_timer,
        ..QpAttributes::default()
    };
    let path = A::ADDRESS_VECTOR | A::PATH_MTU | A::DESTINATION_QP | A::RQ_PSN;
    let mask = match options.transport {
        QpType::UnreliableDatagram => A::NONE,
        QpType::UnreliableConnection => path,
        // What is the other end's to know is not looked at.
        QpType::ReliableConnection | QpType::ExtendedSend | QpType::ExtendedReceive => {
            path | A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER
        }
    };
    (attributes, A::STATE | mask)
}

/// RTR to RTS. The first numbers make every longer rule pass the end of the 24 bits.
pub(crate) fn to_send(options: &Options) -> Change {
    use AttributeMask as A;
    let attributes = QpAttributes {
        state: QpState::ReadyToSend,
        send_psn: 0xff_fff0,
        timeout: options.timeout,
        retry_count: options.retry_count,
        rnr_retry: options.rnr_retry,
        max_rd_atomic: options.max_rd_atomic,
        ..QpAttributes::default()
    };
    let reliable = options.transport.service() == QpType::ReliableConnection;
    let retries =
        if reliable { A::TIMEOUT | A::RETRY_COUNT | A::RNR_RETRY | A::MAX_RD_ATOMIC } else { A::NONE };
    (attributes, A::STATE | A::SQ_PSN | retries)
}

/// Two connected queue pairs, with memory on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) client: End,
    pub(crate) server: End,
    /// The client's, filled with [`Scene::bytes`].
    pub(crate) near: Memory,
    /// The server's, untouched.
    pub(crate) far: Memory,
}

impl Scene {
    /// Length of both memories.
    pub(crate) const LENGTH: u64 = 256;

    /// What the client's memory holds.
    pub(crate) fn bytes() -> Vec<u8> {
        pattern(1, Self::LENGTH)
    }
}

impl Pair {
    /// A scene with every right on both memories.
    #[track_caller]
    pub(crate) fn scene(&mut self, options: &Options) -> Scene {
        let (client, server) = self.connect(options);
        let near = self.client.memory(client.zone, Scene::LENGTH, EVERYTHING);
        self.client.write(&near, 0, &Scene::bytes());
        let far = self.server.memory(server.zone, Scene::LENGTH, EVERYTHING);
        Scene { client, server, near, far }
    }

    /// Neither memory has changed.
    #[track_caller]
    pub(crate) fn assert_nothing_moved(&mut self, scene: &Scene) {
        self.client.assert_holds(&scene.near, &Scene::bytes());
        self.server.assert_untouched(&scene.far);
    }

    /// The request ends with this failure, nothing moves, and the client's queue pair is in error.
    #[track_caller]
    pub(crate) fn assert_refused(&mut self, scene: &Scene, request: Send, status: Status) {
        let said = format!("{request:?}");
        let ended = self.client.carry_out(&scene.client, request);
        assert_eq!(ended, status, "{said}");
        assert_eq!(self.client.state(&scene.client), QpState::Error, "{said}");
        self.assert_nothing_moved(scene);
    }

    /// The server refuses the request: besides, its queue pair is in error and says why.
    #[track_caller]
    pub(crate) fn assert_refused_there(
        &mut self,
        scene: &Scene,
        request: Send,
        status: Status,
        event: AsyncEventKind,
    ) {
        self.assert_refused(scene, request, status);
        self.server.async_event(event, scene.server.pair);
        assert_eq!(self.server.state(&scene.server), QpState::Error);
    }

    /// The client itself refuses the request: the server learns nothing of it.
    #[track_caller]
    pub(crate) fn assert_refused_here(&mut self, scene: &Scene, request: Send, status: Status) {
        self.assert_refused(scene, request, status);
        assert_eq!(self.server.state(&scene.server), QpState::ReadyToSend);
    }
}

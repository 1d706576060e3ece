//! Peers that do not keep to the protocol: they are refused, or the stream ends with an error, and nothing else happens.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;

use common::{PATIENCE, Stream};
use nonic_device::{
    Capabilities, CompletionQueue, Context, Key, Operation, QpState, QpType, QueuePair, QueuePairRequest,
    ReceiveRequest, RemoteRange, SendFlags, SendRequest,
};
use nonic_rdma_cm::{ConnectionParameters, Event, EventChannel, EventKind, Id, Parameters, PortSpace};
use nonic_sys::{AsRawFd, POLL_IN, PollEntry, poll};

/// A peer that makes everything by hand.
struct Peer {
    _channel: Arc<EventChannel>,
    id: Arc<Id>,
    _context: Arc<Context>,
    _queue: Arc<CompletionQueue>,
    pair: Arc<QueuePair>,
}

fn next(channel: &EventChannel) -> Event {
    let mut entries = [PollEntry { number: channel.fd().as_raw_fd(), events: POLL_IN, revents: 0 }];
    assert_eq!(poll(&mut entries, Some(PATIENCE)).unwrap(), 1, "no event comes");
    channel.try_next_event().unwrap()
}

impl Peer {
    /// Asks for a connection with this private data. What becomes of it.
    fn ask(address: SocketAddr, private_data: &[u8]) -> (Self, Event) {
        let channel = EventChannel::create().unwrap();
        let id = Id::create(&channel, PortSpace::Tcp, 0).unwrap();
        id.resolve_address(None, address, PATIENCE).unwrap();
        assert_eq!(next(&channel).kind, EventKind::AddressResolved);
        id.resolve_route(PATIENCE).unwrap();
        assert_eq!(next(&channel).kind, EventKind::RouteResolved);
        let context = id.context().unwrap();
        let queue = context.create_completion_queue(100, 0, None, 0).unwrap();
        let zone = context.allocate_zone().unwrap();
        let capabilities = Capabilities {
            send_requests: 16,
            receive_requests: 16,
            send_pieces: 1,
            receive_pieces: 1,
            inline_bytes: 64,
        };
        let pair = zone
            .create_queue_pair(QueuePairRequest {
                transport: QpType::ReliableConnection,
                send_queue: Arc::clone(&queue),
                receive_queue: Arc::clone(&queue),
                shared_receive_queue: None,
                capabilities,
                signal_all: true,
                cookie: 0,
                observer: None,
            })
            .unwrap();
        let parameters = ConnectionParameters {
            private_data: private_data.into(),
            retry_count: 7,
            rnr_retry_count: 7,
            queue_pair: pair.number(),
            ..ConnectionParameters::default()
        };
        id.connect(&parameters).unwrap();
        let event = next(&channel);
        (Self { _channel: channel, id, _context: context, _queue: queue, pair }, event)
    }

    /// The connection is made; where the stream's list of targets and its buffer are: addresses and keys.
    fn begin(&self, event: &Event) -> [RemoteRange; 2] {
        assert_eq!(event.kind, EventKind::ConnectResponse);
        for state in [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend] {
            let (attributes, mask) = self.id.queue_pair_attributes(state).unwrap();
            self.pair.modify(&attributes, mask).unwrap();
        }
        for id in 0..16 {
            self.pair.post_receive(&ReceiveRequest { id, pieces: &[] }).unwrap();
        }
        self.id.establish().unwrap();
        let Parameters::Connection(parameters) = &event.parameters else { panic!("{event:?}") };
        let told = &parameters.private_data;
        [8, 24].map(|at| RemoteRange {
            address: u64::from_be_bytes(told[at..at + 8].try_into().unwrap()),
            key: Key(u32::from_be_bytes(told[at + 8..at + 12].try_into().unwrap())),
        })
    }

    /// Says a word, with nothing written.
    fn say(&self, remote: RemoteRange, word: u32) {
        let operation = Operation::Write { remote, immediate: Some(word.to_be()) };
        let flags = SendFlags::default();
        let request = SendRequest { id: 1, operation, flags, pieces: &[], destination: None };
        // SAFETY: it has no pieces.
        unsafe { self.pair.post_send(&request).unwrap() };
        self.pair.ring_doorbell();
    }
}

/// What a stream says of itself that offers memory at an address.
fn introduction(address: u64, key: u32) -> Vec<u8> {
    let mut bytes = vec![1, 2, 1, 0, 0, 0, 0, 0];
    for length in [2u32, 4096] {
        bytes.extend(address.to_be_bytes());
        bytes.extend(key.to_be_bytes());
        bytes.extend(length.to_be_bytes());
    }
    bytes
}

#[test]
fn who_introduces_itself_as_something_else_is_rejected() {
    let (listener, address) = Stream::listener();
    let mut other_version = introduction(0, 0);
    other_version[0] = 2;
    for data in [&other_version[..], b"", b"hello", &[0; 56]] {
        let (_peer, event) = Peer::ask(address, data);
        assert_eq!(event.kind, EventKind::Rejected);
    }
    // The listener goes on.
    let near = Stream::new();
    near.connect(address).unwrap();
    listener.accept().unwrap();
}

#[test]
fn words_that_must_not_come_end_the_stream_with_an_error() {
    // More data than the buffer holds; operations that there are not; a mapping beyond the table.
    for word in [(1 << 29) - 1, 1 << 29, 3 << 29, 5 << 29, (6 << 29) + 5] {
        let (listener, address) = Stream::listener();
        let (peer, event) = Peer::ask(address, &introduction(0x1000, 7));
        let [list, _] = peer.begin(&event);
        let near = listener.accept().unwrap();
        peer.say(list, word);
        assert_eq!(near.receive(10), Err(libc::EIO), "after {word:#x}");
        assert_eq!(near.receive(10).unwrap(), b"");
        assert_eq!(near.send(b"x"), Err(libc::ECONNRESET));
        assert_eq!(near.get(libc::SOL_SOCKET, libc::SO_ERROR), Ok(libc::EIO));
    }
}

#[test]
fn targets_that_lead_nowhere_end_the_stream_when_it_writes_there() {
    let (listener, address) = Stream::listener();
    let (peer, event) = Peer::ask(address, &introduction(u64::MAX - 5, 7));
    peer.begin(&event);
    let near = listener.accept().unwrap();
    let _ = near.send(b"hello");
    assert_eq!(near.receive(10), Err(libc::EIO));
}

#[test]
fn a_listener_that_admits_other_hosts_admits_nobody_of_this_one() {
    let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = nonic_rsocket::Stream::in_space(PortSpace::Scif, here).unwrap();
    listener.bind(here).unwrap();
    // Whatever a process of this host says of itself.
    listener.admit(|_| true);
    listener.listen(4).unwrap();
    let asks = nonic_rsocket::Stream::in_space(PortSpace::Scif, here).unwrap();
    let refused = asks.connect(listener.name()).unwrap_err();
    assert_eq!(refused.errno(), libc::ECONNREFUSED);
    assert!(listener.try_accept().unwrap().is_none());
}

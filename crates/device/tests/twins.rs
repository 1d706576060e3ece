//! The express ways against the ordinary ones: whatever is posted, both leave the same completions, bytes and states.

mod common;

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use common::{End, NoObserver};
use nonic_device::{
    Access, AttributeMask, Capabilities, Completion, Config, Context, Key, Operation, QpAttributes, QpState,
    QpType, QueuePairRequest, ReceiveRequest, Region, RegionMemory, RegionRequest, RemoteRange,
    ScatterGather, SendFlags, SendRequest, Status, devices_with,
};
use proptest::prelude::*;

/// What is read and written by name, and what is sent: the first half of a buffer. The other half takes what arrives.
const HALF: u32 = 2048;
/// Where one request's results land, each in its own place: what is under way together must not meet.
const PLACE: u32 = 256;
/// Inline bytes of a request at most.
const INLINE: u32 = 64;

/// Which key a piece, or the remote side of a request, is named by.
#[derive(Clone, Copy, Debug)]
enum By {
    /// One that gives every right.
    Right,
    /// One that lets nobody write.
    ReadOnly,
    /// One of the wrong kind.
    WrongKind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Send(Option<u32>),
    Write(Option<u32>),
    Read,
    CompareSwap,
    FetchAdd,
}

/// A request, and the receive for it if it takes one.
#[derive(Clone, Debug)]
struct Request {
    kind: Kind,
    /// Offset and length of each piece.
    pieces: Vec<(u32, u32)>,
    by: By,
    remote: (u32, By),
    flags: SendFlags,
    /// Bytes of the receive in each of its pieces.
    receive: Vec<u32>,
    receive_by: By,
}

impl Request {
    fn takes_receive(&self) -> bool {
        matches!(self.kind, Kind::Send(_) | Kind::Write(Some(_)))
    }

    fn is_inline(&self) -> bool {
        self.flags.inline && matches!(self.kind, Kind::Send(_) | Kind::Write(_))
    }

    /// Whether more bytes are inline than there is room for.
    fn is_refused(&self) -> bool {
        self.is_inline() && self.pieces.iter().map(|(_, length)| length).sum::<u32>() > INLINE
    }
}

/// Requests that are posted before anything is waited for; or one, and what the peer sends when it has received it.
#[derive(Clone, Debug)]
struct Burst {
    from_other: bool,
    requests: Vec<Request>,
    reply: Option<Request>,
}

fn by() -> impl Strategy<Value = By> {
    prop_oneof![40 => Just(By::Right), 1 => Just(By::ReadOnly), 1 => Just(By::WrongKind)]
}

fn flags() -> impl Strategy<Value = SendFlags> {
    let often = prop::bool::weighted;
    (often(0.1), often(0.5), any::<bool>(), often(0.4))
        .prop_map(|(fence, signaled, solicited, inline)| SendFlags { fence, signaled, solicited, inline })
}

fn requests() -> impl Strategy<Value = Request> {
    let immediate = prop::option::weighted(0.2, any::<u32>());
    let kind = prop_oneof![
        5 => immediate.clone().prop_map(Kind::Send),
        3 => immediate.prop_map(Kind::Write),
        2 => Just(Kind::Read),
        1 => Just(Kind::CompareSwap),
        1 => Just(Kind::FetchAdd),
    ];
    let length = prop_oneof![3 => 0u32..=64, 3 => Just(8u32), 1 => 60..=PLACE];
    // A little over the end of a region is as wrong as far beyond it.
    let offset = prop_oneof![
        20 => (0..(HALF - PLACE) / 8).prop_map(|words| words * 8),
        3 => 0..HALF - PLACE,
        1 => 4030u32..4100,
    ];
    let pieces = prop::collection::vec((offset.clone(), length), 1..=2);
    let receive = prop::collection::vec(prop_oneof![8 => Just(PLACE), 1 => 0..=PLACE], 1..=2);
    (kind, pieces, by(), (offset, by()), flags(), receive, by()).prop_map(
        |(kind, mut pieces, by, remote, flags, receive, receive_by)| {
            // Two pieces together are no longer than the receive of one, mostly.
            for (_, length) in pieces.iter_mut().skip(1) {
                *length /= 4;
            }
            Request { kind, pieces, by, remote, flags, receive, receive_by }
        },
    )
}

fn bursts() -> impl Strategy<Value = Burst> {
    let send = || requests().prop_map(|request| Request { kind: Kind::Send(None), ..request });
    let many = prop::collection::vec(requests(), 1..=4).prop_map(|requests| (requests, None));
    let replied = (send(), send()).prop_map(|(request, reply)| (vec![request], Some(reply)));
    (any::<bool>(), prop_oneof![many, replied]).prop_map(|(from_other, (requests, reply))| Burst {
        from_other,
        requests,
        reply,
    })
}

/// A context without the express ways, and one with them: on one engine.
fn contexts() -> &'static [Arc<Context>; 2] {
    static CONTEXTS: OnceLock<[Arc<Context>; 2]> = OnceLock::new();
    CONTEXTS.get_or_init(|| {
        [false, true].map(|express| devices_with(Config { express, ..Config::default() })[0].open().unwrap())
    })
}

/// One end, with regions of either sort over its buffer.
struct Side {
    end: End,
    read_only: Arc<Region>,
}

impl Side {
    fn new(express: bool, signal_all: bool) -> Self {
        let context = Arc::clone(&contexts()[usize::from(express)]);
        let queue = context.create_completion_queue(256, 0, None, 0).unwrap();
        let mut end = End::with_queue(context, queue, None::<Weak<NoObserver>>);
        let capabilities = Capabilities {
            send_requests: 64,
            receive_requests: 64,
            send_pieces: 2,
            receive_pieces: 2,
            inline_bytes: INLINE,
        };
        let request = QueuePairRequest {
            transport: QpType::ReliableConnection,
            send_queue: Arc::clone(&end.completions),
            receive_queue: Arc::clone(&end.completions),
            shared_receive_queue: None,
            capabilities,
            signal_all,
            cookie: 0,
            observer: None,
        };
        end.pair.destroy().unwrap();
        end.pair = end.zone.create_queue_pair(request).unwrap();
        for (at, byte) in end.buffer.iter_mut().enumerate() {
            *byte = (at * 7 + at / 256) as u8;
        }
        let base = end.buffer.as_ptr() as u64;
        let memory = RegionMemory::Program { address: common::program(base as usize), length: 4096 };
        let request = RegionRequest { memory, base, access: Access::REMOTE_READ };
        let read_only = end.zone.register(request).unwrap();
        Self { end, read_only }
    }

    /// Takes the queue pair to RTS. Nothing is lost here, so nothing is repeated, however busy the machine is.
    fn connect(&self, peer: &Self) {
        use AttributeMask as A;
        self.end.receive_from(peer.end.pair.number());
        let attributes = QpAttributes {
            state: QpState::ReadyToSend,
            timeout: 22,
            retry_count: 7,
            rnr_retry: 7,
            max_rd_atomic: 4,
            ..QpAttributes::default()
        };
        let retries = A::TIMEOUT | A::RETRY_COUNT | A::RNR_RETRY | A::MAX_RD_ATOMIC | A::SQ_PSN;
        self.end.pair.modify(&attributes, A::STATE | retries).unwrap();
    }

    fn local(&self, by: By) -> Key {
        match by {
            By::Right => self.end.region.local_key(),
            By::ReadOnly => self.read_only.local_key(),
            By::WrongKind => self.end.region.remote_key(),
        }
    }

    fn remote(&self, by: By) -> Key {
        match by {
            By::Right => self.end.region.remote_key(),
            By::ReadOnly => self.read_only.remote_key(),
            By::WrongKind => self.end.region.local_key(),
        }
    }

    fn piece(&self, offset: u32, length: u32, by: By) -> ScatterGather {
        ScatterGather {
            address: self.end.buffer.as_ptr() as u64 + u64::from(offset),
            length,
            key: self.local(by),
        }
    }

    /// Posts the receive a request takes, number `place` of those that are outstanding.
    fn post_receive(&self, id: u64, place: u32, request: &Request) {
        let pieces: Vec<_> = request
            .receive
            .iter()
            .scan(HALF + place * PLACE, |at, length| {
                let piece =
                    self.piece(*at, (*length).min(HALF + (place + 1) * PLACE - *at), request.receive_by);
                *at += piece.length;
                Some(piece)
            })
            .collect();
        let _ = self.end.pair.post_receive(&ReceiveRequest { id, pieces: &pieces });
    }

    /// Posts a request, number `place` of those that are under way; what the call said.
    fn post(&self, id: u64, place: u32, request: &Request, peer: &Self, last: bool) -> String {
        let remote = RemoteRange {
            address: peer.end.buffer.as_ptr() as u64 + u64::from(request.remote.0),
            key: peer.remote(request.remote.1),
        };
        let operation = match request.kind {
            Kind::Send(immediate) => Operation::Send { immediate },
            Kind::Write(immediate) => Operation::Write { remote, immediate },
            Kind::Read => Operation::Read { remote },
            Kind::CompareSwap => Operation::CompareSwap { remote, compare: 0, swap: 7 },
            Kind::FetchAdd => Operation::FetchAdd { remote, add: 5 },
        };
        let outgoing = matches!(request.kind, Kind::Send(_) | Kind::Write(_));
        // The last one can be posted, so that its end can be waited for.
        let inline = request.is_inline() && !(last && request.is_refused());
        let pieces: Vec<_> = request
            .pieces
            .iter()
            .enumerate()
            .map(|(number, (offset, length))| match outgoing {
                // Inline bytes are read as they are, whatever the key says.
                true if inline => self.piece(offset % (HALF - PLACE), *length, request.by),
                true => self.piece(*offset, *length, request.by),
                false => {
                    let at = HALF + place * PLACE + number as u32 * PLACE / 2;
                    self.piece(at, (*length).min(PLACE / 2), request.by)
                }
            })
            .collect();
        let flags = SendFlags { inline, signaled: request.flags.signaled || last, ..request.flags };
        let request = SendRequest { id, operation, flags, pieces: &pieces, destination: None };
        // SAFETY: what is inline lies in this end's own buffer; everything else is looked up first.
        let posted = unsafe { self.end.pair.post_send(&request) };
        self.end.pair.ring_doorbell();
        format!("{posted:?}")
    }

    /// What has completed by now, as it looks to the program; which, and whether with success.
    fn poll(&self, peer: &Self, seen: &mut Told) -> Vec<(u64, bool)> {
        let mut ended = Vec::new();
        let take = |completion: &Completion| {
            ended.push((completion.id, completion.status == Status::Success));
            assert_eq!(completion.qp_number, self.end.pair.number());
            let Completion { id, status, opcode, byte_length, immediate, .. } = *completion;
            let receives = id >= RECEIVE;
            let list = if receives { &mut seen.receives } else { &mut seen.sends };
            if status != Status::Success {
                return list.push(format!("{id}: {status:?}"));
            }
            let by_peer = receives && completion.source_qp == peer.end.pair.number();
            list.push(format!("{id}: {opcode:?} {byte_length} {immediate:?} {by_peer}"));
        };
        self.end.completions.poll(take, 64).unwrap();
        ended
    }
}

/// Numbers of receives begin here.
const RECEIVE: u64 = 1 << 32;

/// What calls and completions told one end. In which order the two queues have theirs is nobody's promise.
#[derive(Debug, Default, PartialEq)]
struct Told {
    posts: Vec<String>,
    sends: Vec<String>,
    receives: Vec<String>,
}

/// What the programs see of everything: what they were told, bytes, states.
type Seen = ([Told; 2], [Vec<u8>; 2], [QpState; 2]);

fn play(express: [bool; 2], signal_all: bool, bursts: &[Burst]) -> Seen {
    let sides = express.map(|express| Side::new(express, signal_all));
    sides[0].connect(&sides[1]);
    sides[1].connect(&sides[0]);
    let mut seen = [Told::default(), Told::default()];
    let mut number = 0;
    let deadline = Instant::now() + Duration::from_secs(60);
    for burst in bursts {
        let own = usize::from(burst.from_other);
        let (side, peer) = (&sides[own], &sides[1 - own]);

        let last = burst.requests.len() - 1;
        for (place, request) in burst.requests.iter().enumerate() {
            if request.takes_receive() && (place == last || !request.is_refused()) {
                peer.post_receive(RECEIVE + number + place as u64, place as u32, request);
            }
        }
        if let Some(reply) = &burst.reply {
            side.post_receive(RECEIVE + number + 9, 6, reply);
        }
        for (place, request) in burst.requests.iter().enumerate() {
            let id = number + place as u64;
            let said = side.post(id, place as u32, request, peer, place == last);
            assert!(place < last || said == "Ok(())", "{said}");
            seen[own].posts.push(said);
        }
        // A reply says as well that what it replies to was received.
        let mut replied = burst.reply.is_none();
        // Unsignalled requests may say nothing; the last one, which does, ends behind all others.
        let mut waits = vec![(own, number + last as u64)];
        loop {
            for one in [1 - own, own] {
                let ended = sides[one].poll(&sides[1 - one], &mut seen[one]);
                waits.retain(|(who, id)| *who != one || !ended.iter().any(|(other, _)| other == id));
                // Nobody replies to what did not come: whether the connection is over by then would be chance.
                if one != own && !replied && ended.contains(&(RECEIVE + number, true)) {
                    replied = true;
                    let said = peer.post(number + 9, 7, burst.reply.as_ref().unwrap(), side, true);
                    waits.push((one, number + 9));
                    seen[one].posts.push(said);
                }
            }
            let fails = sides.iter().any(|side| side.end.pair.state() != QpState::ReadyToSend);
            if waits.is_empty() && (replied || fails) {
                break;
            }
            assert!(Instant::now() < deadline, "{waits:?} of {burst:?} have no end; {seen:?}");
        }
        number += 10;
        if sides.iter().any(|side| side.end.pair.state() != QpState::ReadyToSend) {
            break;
        }
    }
    let states = [0, 1].map(|one| sides[one].end.pair.state());
    // What is still there is flushed: receives that nothing came for.
    for side in &sides {
        side.end.to_error();
    }
    for one in [0, 1] {
        while !sides[one].poll(&sides[1 - one], &mut seen[one]).is_empty() {}
    }
    for side in &sides {
        side.end.pair.destroy().unwrap();
        side.end.region.deregister().unwrap();
        side.read_only.deregister().unwrap();
    }
    let bytes = [0, 1].map(|one: usize| sides[one].end.buffer.to_vec());
    (seen, bytes, states)
}

proptest! {
    // (What hangs takes long to fail.)
    #![proptest_config(ProptestConfig { max_shrink_time: 120_000, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn a_program_cannot_tell_the_express_ways_from_the_ordinary(
        signal_all: bool, bursts in prop::collection::vec(bursts(), 1..12)
    ) {
        let ordinary = play([false, false], signal_all, &bursts);
        for express in [[true, true], [true, false], [false, true]] {
            prop_assert_eq!(&play(express, signal_all, &bursts), &ordinary, "express: {:?}", express);
        }
    }
}

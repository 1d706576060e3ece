//! A side as rules speak to it: one method a command, and the few combinations every rule needs.

mod memory;

use nonic_device::{
    AddressVector, AttributeMask, Completion, GlobalRoute, QpAttributes, QpNumber, QpState, ScatterGather,
    Status,
};

use crate::arrangement::{Arrangement, Place};
use crate::command::{Answer, Command, Job, MemoryKind, Receive, Reply, Send};
use crate::options::{End, Options};
use crate::pair::{to_init, to_receive, to_send};
use crate::transport::Transport;

/// How long something may take that happens at once on an idle machine.
pub(crate) const SOON: u64 = 10_000;
/// How long is waited for something that must not happen.
pub(crate) const NEVER: u64 = 20;

/// One side.
#[derive(Debug)]
pub(crate) struct Side {
    transport: Transport,
    memory: MemoryKind,
}

fn number_of(reply: Reply) -> Result<u32, String> {
    Ok(numbers_of(reply)?[0] as u32)
}

fn numbers_of(reply: Reply) -> Result<Vec<u64>, String> {
    match reply? {
        Answer::Numbers { numbers } => Ok(numbers),
        other => panic!("not numbers: {other:?}"),
    }
}

fn nothing_of(reply: Reply) -> Result<(), String> {
    match reply? {
        Answer::Nothing {} => Ok(()),
        other => panic!("not nothing: {other:?}"),
    }
}

impl Side {
    pub(crate) fn open(place: Place, arrangement: &Arrangement) -> Self {
        let transport = Transport::open(place).expect("a side can be opened");
        Self { transport, memory: arrangement.memory }
    }

    /// Carries out a command.
    pub(crate) fn run(&mut self, command: Command) -> Reply {
        self.transport.run(command)
    }

    /// The side's process, if it has one of its own.
    pub(crate) fn process(&self) -> Option<rustix::process::Pid> {
        self.transport.process()
    }

    /// A command that must be taken and answers nothing.
    #[track_caller]
    pub(crate) fn must(&mut self, command: Command) {
        nothing_of(self.run(command)).expect("the call is taken");
    }

    /// A command that must be taken and answers an object's number.
    #[track_caller]
    pub(crate) fn make(&mut self, command: Command) -> u32 {
        number_of(self.run(command)).expect("the call is taken")
    }

    /// A command that must be taken and answers numbers.
    #[track_caller]
    pub(crate) fn ask(&mut self, command: Command) -> Vec<u64> {
        numbers_of(self.run(command)).expect("the call is taken")
    }

    /// A command that must be refused, with an error that begins like this.
    #[track_caller]
    pub(crate) fn refuses(&mut self, command: Command, error: &str) {
        let said = format!("{command:?}");
        match self.run(command) {
            Ok(_) => panic!("this was taken, and not refused with {error}: {said}"),
            Err(other) => assert!(other.starts_with(error), "refused with {other}, not with {error}: {said}"),
        }
    }

    // Memory.

    /// Bytes of a buffer.
    #[track_caller]
    pub(crate) fn peek(&mut self, buffer: u32, offset: u64, length: u64) -> Vec<u8> {
        match self.run(Command::Peek { buffer, offset, length }) {
            Ok(Answer::Bytes { bytes }) => bytes,
            other => panic!("no bytes: {other:?}"),
        }
    }

    // Queue pairs.

    /// A queue pair in RESET with everything it needs.
    #[track_caller]
    pub(crate) fn end(&mut self, options: &Options) -> End {
        let zone = self.zone();
        self.end_in(zone, options, None)
    }

    /// The same in a given zone, and with the receives of another queue pair.
    #[track_caller]
    pub(crate) fn end_in(&mut self, zone: u32, options: &Options, shared_of: Option<&End>) -> End {
        let channel = options.channel.then(|| self.make(Command::Channel {}));
        let entries = options.entries;
        let send_queue = self.make(Command::Queue { entries, vector: 0, channel });
        let receive_queue = self.make(Command::Queue { entries, vector: 0, channel });
        let shared = match shared_of {
            Some(other) => other.shared,
            None => options
                .shared
                .map(|(requests, limit)| self.make(Command::Shared { zone, requests, pieces: 4, limit })),
        };
        let made = self.ask(Command::Pair {
            zone,
            transport: options.transport,
            send_queue,
            receive_queue,
            shared,
            capabilities: options.capabilities,
            signal_all: options.signal_all,
        });
        let (pair, number) = (made[0] as u32, QpNumber(made[1] as u32));
        End { pair, number, zone, send_queue, receive_queue, channel, shared }
    }

    /// Moves two fresh queue pairs of this side to RTS, connected to each other.
    #[track_caller]
    pub(crate) fn connect_to_itself(&mut self, one: &End, other: &End, options: &Options) {
        let path = self.path();
        for (own, peer) in [(one, other), (other, one)] {
            self.modify(own.pair, to_init(options));
            self.modify(own.pair, to_receive(options, peer.number, path));
            self.modify(own.pair, to_send(options));
        }
    }

    /// The path to this side.
    pub(crate) fn path(&mut self) -> AddressVector {
        let address = self.ask(Command::Address {});
        let gid: Vec<u8> = address[1..].iter().map(|byte| *byte as u8).collect();
        let lid = address[0] as u16;
        AddressVector {
            destination_lid: lid,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global: (lid == 0).then(|| GlobalRoute {
                destination: gid.try_into().expect("16 bytes"),
                source_index: 0,
                flow_label: 0,
                hop_limit: 64,
                traffic_class: 0,
            }),
        }
    }

    #[track_caller]
    pub(crate) fn modify(&mut self, pair: u32, change: (QpAttributes, AttributeMask)) {
        self.must(Command::Modify { pair, attributes: change.0, mask: change.1 });
    }

    /// Moves a queue pair to a state that needs no further attributes.
    #[track_caller]
    pub(crate) fn move_to(&mut self, end: &End, state: QpState) {
        self.modify(end.pair, (QpAttributes { state, ..QpAttributes::default() }, AttributeMask::STATE));
    }

    #[track_caller]
    pub(crate) fn attributes(&mut self, pair: u32) -> QpAttributes {
        match self.run(Command::Attributes { pair }) {
            Ok(Answer::Attributes { attributes }) => attributes,
            other => panic!("no attributes: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn state(&mut self, end: &End) -> QpState {
        self.attributes(end.pair).state
    }

    // Requests.

    #[track_caller]
    pub(crate) fn post(&mut self, end: &End, request: Send) {
        self.must(Command::PostSend { pair: end.pair, requests: vec![request] });
    }

    #[track_caller]
    pub(crate) fn post_all(&mut self, end: &End, requests: Vec<Send>) {
        self.must(Command::PostSend { pair: end.pair, requests });
    }

    #[track_caller]
    pub(crate) fn receive(&mut self, end: &End, id: u64, pieces: &[ScatterGather]) {
        let receives = vec![Receive { id, pieces: pieces.to_vec() }];
        self.must(match end.shared {
            Some(queue) => Command::PostShared { queue, receives },
            None => Command::PostReceive { pair: end.pair, receives },
        });
    }

    /// So many completions of a queue, which must come soon.
    #[track_caller]
    pub(crate) fn completions(&mut self, queue: u32, count: u32) -> Vec<Completion> {
        let completions = self.wait(queue, count, SOON);
        assert_eq!(completions.len(), count as usize, "too few completions came: {completions:?}");
        completions
    }

    #[track_caller]
    pub(crate) fn wait(&mut self, queue: u32, count: u32, within_ms: u64) -> Vec<Completion> {
        match self.run(Command::Await { queue, count, within_ms }) {
            Ok(Answer::Completions { completions }) => completions,
            other => panic!("no completions: {other:?}"),
        }
    }

    /// The next completion of a send.
    #[track_caller]
    pub(crate) fn sent(&mut self, end: &End) -> Completion {
        self.completions(end.send_queue, 1)[0]
    }

    /// The next completion of a receive.
    #[track_caller]
    pub(crate) fn received(&mut self, end: &End) -> Completion {
        self.completions(end.receive_queue, 1)[0]
    }

    /// Nothing has completed and, as far as a short wait can tell, nothing will.
    #[track_caller]
    pub(crate) fn assert_quiet(&mut self, queue: u32) {
        let completions = self.wait(queue, 1, NEVER);
        assert!(completions.is_empty(), "nothing was to complete: {completions:?}");
    }

    /// Posts a request and says how it ended.
    #[track_caller]
    pub(crate) fn carry_out(&mut self, end: &End, request: Send) -> Status {
        let id = request.id;
        self.post(end, request);
        let completion = self.sent(end);
        assert_eq!((completion.id, completion.qp_number), (id, end.number));
        completion.status
    }

    // Events.

    /// The next asynchronous event, which must be this and is acknowledged.
    #[track_caller]
    pub(crate) fn async_event(&mut self, kind: nonic_device::AsyncEventKind, of: u32) {
        let event = self.ask(Command::NextAsyncEvent { within_ms: SOON });
        assert_eq!((event[0], event[2]), (kind as u64, u64::from(of)), "another event than {kind:?}");
        self.must(Command::AcknowledgeAsyncEvent { element: event[1] as u8, number: event[2] as u32 });
    }

    #[track_caller]
    pub(crate) fn assert_no_async_event(&mut self) {
        self.must(Command::NextAsyncEvent { within_ms: 0 });
    }

    #[track_caller]
    pub(crate) fn background(&mut self, job: Job) {
        self.must(Command::Background { job });
    }

    /// The result of the first job; all must end soon.
    #[track_caller]
    pub(crate) fn join(&mut self) -> u64 {
        self.ask(Command::Join { within_ms: SOON })[0]
    }
}

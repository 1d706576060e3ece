//! Two connected queue pairs in one process: the least a test of the device needs.

#![allow(dead_code)] // Each test is a crate of its own and uses its part.
#![allow(unsafe_code)] // One is a test inside the crate, which denies it elsewhere.

pub(crate) mod pair;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_device::{
    Access, AddressVector, AttributeMask, Capabilities, Completion, CompletionQueue, Context, GlobalRoute,
    ModifyError, Operation, ProgramAddress, QpAttributes, QpNumber, QpState, QpType, QueuePair,
    QueuePairObserver, QueuePairRequest, ReceiveRequest, Region, RegionMemory, RegionRequest, ScatterGather,
    SendFlags, SendRequest, Zone, devices,
};

/// What an end without an observer has.
pub(crate) struct NoObserver;

impl QueuePairObserver for NoObserver {
    fn failed(&self) {}
}

/// An address that a test registers memory at.
pub(crate) fn program(address: usize) -> ProgramAddress {
    // SAFETY: tests keep what they register, and look at it when nothing is under way or through raw pointers.
    unsafe { ProgramAddress::new(address) }
}

/// Runs `body` in a child and returns the child's exit status.
pub(crate) fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs only `body` and `_exit`; tests that do this are alone in their file, so no
    // other thread of this process holds a lock the child could need.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork failed");
        if child == 0 {
            let status = body();
            libc::_exit(status);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(libc::WIFEXITED(status), "the child was killed: {status:#x}");
        libc::WEXITSTATUS(status)
    }
}

fn usage_of_this_thread() -> libc::rusage {
    // SAFETY: the result is a local.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage
    }
}

/// How often the calling thread gave up its processor to wait for something.
pub(crate) fn sleeps_of_this_thread() -> u64 {
    usage_of_this_thread().ru_nvcsw as u64
}

/// CPU time of the calling thread.
pub(crate) fn cpu_time_of_this_thread() -> Duration {
    let usage = usage_of_this_thread();
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// A queue pair of datagrams in RTS, with a Q_Key.
pub(crate) fn datagram_pair(
    zone: &Arc<Zone>,
    completions: &Arc<CompletionQueue>,
    capabilities: Capabilities,
    signal_all: bool,
    q_key: u32,
) -> Arc<QueuePair> {
    use AttributeMask as A;
    let request = QueuePairRequest {
        transport: QpType::UnreliableDatagram,
        send_queue: Arc::clone(completions),
        receive_queue: Arc::clone(completions),
        shared_receive_queue: None,
        capabilities,
        signal_all,
        cookie: 0,
        observer: None,
    };
    let pair = zone.create_queue_pair(request).unwrap();
    let mut attributes = QpAttributes { state: QpState::Init, port: 1, q_key, ..QpAttributes::default() };
    pair.modify(&attributes, A::STATE | A::PORT | A::PKEY_INDEX | A::QKEY).unwrap();
    attributes.state = QpState::ReadyToReceive;
    pair.modify(&attributes, A::STATE).unwrap();
    attributes.state = QpState::ReadyToSend;
    pair.modify(&attributes, A::STATE | A::SQ_PSN).unwrap();
    pair
}

/// Something with a queue pair, its completions and one registered buffer.
pub(crate) struct End {
    /// Kept open as long as the queue pair is used.
    context: Arc<Context>,
    pub(crate) zone: Arc<Zone>,
    pub(crate) completions: Arc<CompletionQueue>,
    pub(crate) pair: Arc<QueuePair>,
    pub(crate) buffer: Box<[u8; 4096]>,
    pub(crate) region: Arc<Region>,
}

impl End {
    /// A reliable queue pair in RESET.
    pub(crate) fn new() -> Self {
        Self::create(false)
    }

    /// The same, with a channel for its completions.
    pub(crate) fn with_channel() -> Self {
        Self::create(true)
    }

    fn create(with_channel: bool) -> Self {
        let context = devices()[0].open().unwrap();
        let channel = with_channel.then(|| context.create_completion_channel().unwrap());
        let completions = context.create_completion_queue(256, 0, channel.as_ref(), 0).unwrap();
        Self::with_queue(context, completions, None::<Weak<NoObserver>>)
    }

    /// The same on a given completion queue, with an observer of the queue pair.
    pub(crate) fn with_queue<T: QueuePairObserver + 'static>(
        context: Arc<Context>,
        completions: Arc<CompletionQueue>,
        observer: Option<Weak<T>>,
    ) -> Self {
        let zone = context.allocate_zone().unwrap();
        let capabilities = Capabilities {
            send_requests: 64,
            receive_requests: 64,
            send_pieces: 4,
            receive_pieces: 4,
            inline_bytes: 64,
        };
        let pair = zone
            .create_queue_pair(QueuePairRequest {
                transport: QpType::ReliableConnection,
                send_queue: Arc::clone(&completions),
                receive_queue: Arc::clone(&completions),
                shared_receive_queue: None,
                capabilities,
                signal_all: true,
                cookie: 0,
                observer: observer.map(|observer| observer as _),
            })
            .unwrap();
        let mut buffer = Box::new([0; 4096]);
        let memory = RegionMemory::Program { address: program(buffer.as_mut_ptr() as usize), length: 4096 };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let base = buffer.as_ptr() as u64;
        let region = zone.register(RegionRequest { memory, base, access }).unwrap();
        Self { context, zone, completions, pair, buffer, region }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Gives everything back that it has of the device.
    pub(crate) fn give_back(self) {
        self.pair.destroy().unwrap();
        self.completions.destroy().unwrap();
        self.region.deregister().unwrap();
        self.zone.release().unwrap();
        self.context.close();
    }

    /// Takes the queue pair to RTS, connected to `peer`.
    pub(crate) fn connect(&self, peer: QpNumber) {
        self.receive_from(peer);
        self.start_sending().unwrap();
    }

    /// Takes the queue pair to RTR.
    pub(crate) fn receive_from(&self, peer: QpNumber) {
        let vector = AddressVector {
            destination_lid: 1,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global: None,
        };
        self.receive(QpAttributes {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            address_vector: Some(vector),
            path_mtu: 5,
            destination_qp: peer,
            max_dest_rd_atomic: 4,
            ..QpAttributes::default()
        });
    }

    /// Takes the queue pair to RTS with a peer by GIDs, of this side and of that; both begin with packet 0.
    pub(crate) fn connect_between(&self, source: [u8; 16], destination: [u8; 16], peer: QpNumber) {
        self.receive(QpAttributes {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
            address_vector: Some(self.way_between(source, destination)),
            path_mtu: 3,
            destination_qp: peer,
            ..QpAttributes::default()
        });
        self.start_sending().unwrap();
    }

    /// From the port's GID `source`.
    pub(crate) fn way_between(&self, source: [u8; 16], destination: [u8; 16]) -> AddressVector {
        let table = self.context.gid_table();
        let source = table.iter().find(|entry| entry.gid == source).unwrap();
        AddressVector::along(GlobalRoute {
            destination,
            source_index: source.index as u8,
            flow_label: 0,
            hop_limit: 64,
            traffic_class: 0,
        })
    }

    /// Takes the queue pair to RTR, with what is given and what all have.
    fn receive(&self, given: QpAttributes) {
        use AttributeMask as A;
        let attributes = QpAttributes { state: QpState::Init, port: 1, min_rnr_timer: 1, ..given };
        self.pair.modify(&attributes, A::STATE | A::PORT | A::PKEY_INDEX | A::ACCESS_FLAGS).unwrap();
        let attributes = QpAttributes { state: QpState::ReadyToReceive, ..attributes };
        let path = A::ADDRESS_VECTOR | A::PATH_MTU | A::DESTINATION_QP | A::RQ_PSN;
        self.pair.modify(&attributes, A::STATE | path | A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER).unwrap();
    }

    /// Takes the queue pair to error.
    pub(crate) fn to_error(&self) {
        let attributes = QpAttributes { state: QpState::Error, ..QpAttributes::default() };
        self.pair.modify(&attributes, AttributeMask::STATE).unwrap();
    }

    /// Takes it from there to RTS.
    pub(crate) fn start_sending(&self) -> Result<(), ModifyError> {
        self.start_sending_with(8)
    }

    /// The same with a timeout; 0: it never gives up.
    pub(crate) fn start_sending_with(&self, timeout: u8) -> Result<(), ModifyError> {
        use AttributeMask as A;
        let attributes = QpAttributes {
            state: QpState::ReadyToSend,
            timeout,
            retry_count: 3,
            rnr_retry: 7,
            max_rd_atomic: 4,
            ..QpAttributes::default()
        };
        let retries = A::TIMEOUT | A::RETRY_COUNT | A::RNR_RETRY | A::MAX_RD_ATOMIC | A::SQ_PSN;
        self.pair.modify(&attributes, A::STATE | retries)
    }

    pub(crate) fn piece(&self, offset: usize, length: u32) -> ScatterGather {
        ScatterGather {
            address: self.buffer.as_ptr() as u64 + offset as u64,
            length,
            key: self.region.local_key(),
        }
    }

    pub(crate) fn post_receive(&self, id: u64) {
        self.pair.post_receive(&ReceiveRequest { id, pieces: &[self.piece(0, 4096)] }).unwrap();
    }

    pub(crate) fn post(&self, id: u64, operation: Operation, pieces: &[ScatterGather]) {
        let request = SendRequest { id, operation, flags: SendFlags::default(), pieces, destination: None };
        // SAFETY: the pieces lie in the region over this end's own buffer.
        unsafe { self.pair.post_send(&request).unwrap() };
        self.pair.ring_doorbell();
    }

    /// The next completion; fails the test if none comes.
    pub(crate) fn completion(&self) -> Completion {
        next_completion(&self.completions)
    }
}

/// The next completion of a queue; fails the test if none comes.
pub(crate) fn next_completion(completions: &CompletionQueue) -> Completion {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut found = None;
    while found.is_none() {
        completions.poll(|completion| found = Some(*completion), 1).unwrap();
        assert!(Instant::now() < deadline, "no completion came");
    }
    found.unwrap()
}

/// Waits until something is so; fails the test with `what` if it never is.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Polls for so long, and fails the test if anything completes.
pub(crate) fn nothing_for(end: &End, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        end.completions.poll(|completion| panic!("{completion:?}"), 1).unwrap();
    }
}

/// Two connected ends with channels.
pub(crate) fn connected_with_channels() -> (End, End) {
    let (one, other) = (End::with_channel(), End::with_channel());
    one.connect(other.pair.number());
    other.connect(one.pair.number());
    (one, other)
}

/// Two connected ends.
pub(crate) fn connected() -> (End, End) {
    let (one, other) = (End::new(), End::new());
    one.connect(other.pair.number());
    other.connect(one.pair.number());
    (one, other)
}

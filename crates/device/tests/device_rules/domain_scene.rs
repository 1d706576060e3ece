//! Three engines, which to each other are what processes are, and an XRC domain of a file that two of them have open: a peer, the one
//! that has its queue pair, and the one that has the shared receive queue that the peer names.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use nonic_device::{
    Completion, CompletionQueue, Config, Destination, DomainError, DomainFile, EngineHandle, ExtendedDomain,
    Operation, PostError, QpType, QueuePair, QueuePairRequest, ReceiveRequest, ScatterGather, SendFlags,
    SendRequest, SharedReceiveQueue, Status,
};

use crate::common::next_completion;
use crate::common::pair::Side;

/// A file that no other test has.
pub(crate) fn file_of(test: &str) -> File {
    let path = std::env::temp_dir().join(format!("nonic-xrcd-{}-{test}", std::process::id()));
    let file = File::create(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

pub(crate) fn open(
    side: &Side,
    file: &File,
    create: bool,
    exclusive: bool,
) -> Result<Arc<ExtendedDomain>, DomainError> {
    let file = DomainFile { descriptor: file.as_fd(), create, exclusive };
    side.end.context().open_extended_domain(Some(file))
}

/// They.
pub(crate) struct Scene {
    pub(crate) peer: Side,
    pub(crate) near: Side,
    pub(crate) far: Side,
    pub(crate) near_domain: Arc<ExtendedDomain>,
    pub(crate) far_domain: Arc<ExtendedDomain>,
    pub(crate) completions: Arc<CompletionQueue>,
    pub(crate) queue: Arc<SharedReceiveQueue>,
    _engines: [EngineHandle; 3],
}

impl Scene {
    pub(crate) fn new(file: &File) -> Self {
        let engines = [0; 3].map(|_| EngineHandle::create(Config::default()).unwrap());
        let [mut peer, mut near, far] = engines.each_ref().map(Side::on);
        let near_domain = open(&near, file, true, false).unwrap();
        let far_domain = open(&far, file, true, false).unwrap();
        peer.end.pair = sender(&peer);
        near.end.pair = near_domain.create_queue_pair(0).unwrap();
        peer.connect(&near);
        let completions = far.end.context().create_completion_queue(256, 0, None, 0).unwrap();
        let queue =
            far.end.zone.create_extended_receive_queue(&far_domain, &completions, (256, 2), 0).unwrap();
        Self { peer, near, far, near_domain, far_domain, completions, queue, _engines: engines }
    }

    pub(crate) fn post(&self, operation: Operation, piece: ScatterGather) -> Result<(), PostError> {
        let destination = self.queue.number().map(Destination::Queue);
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        let request = SendRequest { id: 1, operation, flags, pieces: &[piece], destination };
        // SAFETY: the piece lies in the side's own memory, which stays until the scene ends.
        unsafe { self.peer.end.pair.post_send(&request)? };
        self.peer.end.pair.ring_doorbell();
        Ok(())
    }

    /// Carries a request of the peer's out, as it names the far queue.
    pub(crate) fn run(&self, operation: Operation, offset: usize, length: usize) -> Status {
        self.post(operation, self.peer.piece(offset, length)).unwrap();
        self.peer.end.completion().status
    }

    pub(crate) fn post_receive(&self, id: u64, offset: usize, length: usize) {
        let pieces = [self.far.piece(offset, length)];
        self.queue.post_receive(&ReceiveRequest { id, pieces: &pieces }).unwrap();
    }

    pub(crate) fn received(&self) -> Completion {
        next_completion(&self.completions)
    }

    pub(crate) fn received_nothing(&self) {
        assert_eq!(self.completions.poll(|completion| panic!("{completion:?}"), 1).unwrap(), 0);
    }
}

pub(crate) fn sender(side: &Side) -> Arc<QueuePair> {
    let request = QueuePairRequest {
        transport: QpType::ExtendedSend,
        send_queue: Arc::clone(&side.end.completions),
        receive_queue: Arc::clone(&side.end.completions),
        shared_receive_queue: None,
        capabilities: side.end.pair.capabilities(),
        signal_all: true,
        cookie: 0,
        observer: None,
    };
    side.end.zone.create_queue_pair(request).unwrap()
}

pub(crate) fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| seed.wrapping_add((at * 7) as u8)).collect()
}

pub(crate) const SEND: Operation = Operation::Send { immediate: None };

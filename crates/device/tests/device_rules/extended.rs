//! Extended reliable connections within one process: what becomes of queue pairs when queues, contexts and completion queues go.

use std::sync::Arc;

use crate::common::{End, eventually};
use nonic_device::{
    CompletionQueue, Context, Destination, DomainFile, ExtendedDomain, Operation, PostError, QpState, QpType,
    QueuePair, QueuePairRequest, ReceiveRequest, SendFlags, SendRequest, SharedReceiveQueue, SrqNumber,
    Status, devices,
};

/// What receives: a queue pair of a domain, and a shared receive queue there.
struct Receiver {
    end: End,
    domain: Arc<ExtendedDomain>,
    completions: Arc<CompletionQueue>,
    queue: Arc<SharedReceiveQueue>,
}

fn context_of(end: &End) -> &Arc<Context> {
    end.zone.context()
}

fn receiver(entries: u32) -> Receiver {
    let mut end = End::new();
    let domain = context_of(&end).open_extended_domain(None).unwrap();
    let completions = context_of(&end).create_completion_queue(entries, 0, None, 0).unwrap();
    let queue = end.zone.create_extended_receive_queue(&domain, &completions, (64, 1), 0).unwrap();
    end.pair = domain.create_queue_pair(0).unwrap();
    Receiver { end, domain, completions, queue }
}

fn sender() -> End {
    let mut end = End::new();
    let request = QueuePairRequest {
        transport: QpType::ExtendedSend,
        send_queue: Arc::clone(&end.completions),
        receive_queue: Arc::clone(&end.completions),
        shared_receive_queue: None,
        capabilities: end.pair.capabilities(),
        signal_all: true,
        cookie: 0,
        observer: None,
    };
    end.pair = end.zone.create_queue_pair(request).unwrap();
    end
}

fn connect(sender: &End, receiver: &End) {
    sender.connect(receiver.pair.number());
    receiver.connect(sender.pair.number());
}

fn send(sender: &End, queue: &SharedReceiveQueue, length: u32) -> Result<(), PostError> {
    send_to(sender, queue.number(), length)
}

fn send_to(sender: &End, queue: Option<SrqNumber>, length: u32) -> Result<(), PostError> {
    let destination = queue.map(Destination::Queue);
    let pieces = [sender.piece(0, length)];
    let flags = SendFlags { signaled: true, ..SendFlags::default() };
    let operation = Operation::Send { immediate: None };
    let request = SendRequest { id: 1, operation, flags, pieces: &pieces, destination };
    // SAFETY: the piece lies in the region over the end's own buffer.
    unsafe { sender.pair.post_send(&request)? };
    sender.pair.ring_doorbell();
    Ok(())
}

fn post_receive(receiver: &Receiver, id: u64) {
    let pieces = [receiver.end.piece(2048, 1024)];
    receiver.queue.post_receive(&ReceiveRequest { id, pieces: &pieces }).unwrap();
}

fn completed(queue: &CompletionQueue) -> Vec<(u64, Status)> {
    let mut found = Vec::new();
    while queue.poll(|completion| found.push((completion.id, completion.status)), 1) == Ok(1) {}
    found
}

#[test]
fn requests_need_a_queue_and_plain_ones_name_none() {
    let (sender, receiver) = (sender(), receiver(16));
    connect(&sender, &receiver.end);
    let pieces = [sender.piece(0, 8)];
    let request = SendRequest {
        id: 1,
        operation: Operation::Send { immediate: None },
        flags: SendFlags::default(),
        pieces: &pieces,
        destination: None,
    };
    // SAFETY: the piece lies in the region over the end's own buffer.
    assert_eq!(unsafe { sender.pair.post_send(&request) }, Err(PostError::NoDestination));
    assert_eq!(sender.pair.idle(), (true, true));
}

#[test]
fn a_number_that_no_queue_has_is_refused_and_takes_no_receive() {
    for wrong in [SrqNumber(0), SrqNumber(0x80_0000), SrqNumber::NOBODY] {
        let (mut sender, receiver) = (sender(), receiver(16));
        sender.buffer[..8].fill(1);
        connect(&sender, &receiver.end);
        post_receive(&receiver, 7);
        send_to(&sender, Some(wrong), 8).unwrap();
        assert_eq!(sender.completion().status, Status::RemoteAccess, "{wrong:?}");
        eventually("the queue pair goes on", || receiver.end.pair.state() == QpState::Error);
        assert_eq!(completed(&receiver.completions), [], "{wrong:?}");
        assert_eq!(receiver.end.buffer[2048..2056], [0; 8], "{wrong:?}");
    }
}

#[test]
fn a_queue_that_is_gone_completes_nothing_any_more() {
    for round in 0..50 {
        let (sender, receiver) = (sender(), receiver(64));
        connect(&sender, &receiver.end);
        (0..32).for_each(|id| post_receive(&receiver, id));
        let queue = Arc::clone(&receiver.queue);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..32 {
                    if send(&sender, &queue, 900).is_err() || sender.completion().status != Status::Success {
                        break;
                    }
                }
            });
            (0..round * 20).for_each(|_| std::hint::spin_loop());
            receiver.queue.destroy().unwrap();
            let known = completed(&receiver.completions).len();
            assert!(known <= 32);
        });
        // Whatever came afterwards was refused.
        assert_eq!(completed(&receiver.completions), [], "round {round}");
        receiver.domain.close().expect_err("the queue pair is there");
        receiver.end.pair.destroy().unwrap();
        receiver.completions.destroy().unwrap();
        receiver.domain.close().unwrap();
    }
}

#[test]
fn a_completion_queue_that_overruns_ends_the_queue_pairs_of_the_domain() {
    let (sender, receiver) = (sender(), receiver(1));
    connect(&sender, &receiver.end);
    let room = u64::from(receiver.completions.entries());
    for id in 0..=room {
        post_receive(&receiver, id % 64);
        send(&sender, &receiver.queue, 8).unwrap();
        let _ = sender.completion();
    }
    eventually("the queue pair goes on", || receiver.end.pair.state() == QpState::Error);
}

#[test]
fn a_context_that_closes_takes_its_queue_pairs_unless_another_has_them_open() {
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let open = |context: &Arc<Context>, exclusive| {
        let descriptor = std::os::fd::AsFd::as_fd(&file);
        context.open_extended_domain(Some(DomainFile { descriptor, create: true, exclusive })).unwrap()
    };
    let [first, second] = [0, 1].map(|_| devices()[0].open().unwrap());
    let (made, known) = (open(&first, true), open(&second, false));
    let pair: Arc<QueuePair> = made.create_queue_pair(0).unwrap();
    let opened = known.open_queue_pair(pair.number(), 0).unwrap();
    first.close();
    assert!(Arc::ptr_eq(opened.pair().unwrap(), &pair));
    let again = known.open_queue_pair(pair.number(), 0).expect("the other has it open");
    made.close().expect("its context gave back what was made through it");
    known.close().expect_err("two have a queue pair of it open");
    opened.close();
    again.close();
    known.open_queue_pair(pair.number(), 0).expect_err("the last has closed it");
    known.close().unwrap();
    assert!(
        second
            .open_extended_domain(Some(DomainFile {
                descriptor: std::os::fd::AsFd::as_fd(&file),
                create: false,
                exclusive: false,
            }))
            .is_err()
    );
}

//! Multicast groups: who is attached receives what is sent to the group, in this process and in others.
//!
//! The test needs the program's addresses for its buffers, hence the unsafe block at each request.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{datagram_pair, program};
use nonic_device::{
    Access, AddressVector, Capabilities, Completion, CompletionQueue, Context, DatagramDestination,
    Destination, GlobalRoute, GroupError, Operation, QpNumber, QueuePair, ReceiveRequest, Region,
    RegionMemory, RegionRequest, ScatterGather, SendFlags, SendRequest, Zone, devices,
};
use nonic_second_process::{SecondProcess, role, serve};

const GROUP: [u8; 16] = [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3];
const OTHER: [u8; 16] = [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 4];
const LID: u16 = 0xc123;
const KEY: u32 = 0x1111;
const HEADER: usize = 40;

/// A queue pair of datagrams in RTS, with a buffer for each receive.
struct Member {
    context: Arc<Context>,
    zone: Arc<Zone>,
    queue: Arc<CompletionQueue>,
    pair: Arc<QueuePair>,
    buffer: Box<[u8; 4096]>,
    region: Arc<Region>,
}

impl Member {
    fn new(key: u32) -> Self {
        let context = devices()[0].open().unwrap();
        let zone = context.allocate_zone().unwrap();
        let queue = context.create_completion_queue(64, 0, None, 0).unwrap();
        let capabilities = Capabilities {
            send_requests: 16,
            receive_requests: 16,
            send_pieces: 1,
            receive_pieces: 1,
            inline_bytes: 0,
        };
        let pair = datagram_pair(&zone, &queue, capabilities, true, key);
        let mut buffer = Box::new([0; 4096]);
        let memory = RegionMemory::Program { address: program(buffer.as_mut_ptr() as usize), length: 4096 };
        let base = buffer.as_ptr() as u64;
        let region = zone.register(RegionRequest { memory, base, access: Access::LOCAL_WRITE }).unwrap();
        let member = Self { context, zone, queue, pair, buffer, region };
        (0..4).for_each(|slot| member.post_receive(slot));
        member
    }

    fn piece(&self, offset: usize, length: u32) -> ScatterGather {
        let address = self.buffer.as_ptr() as u64 + offset as u64;
        ScatterGather { address, length, key: self.region.local_key() }
    }

    /// A receive into one of the quarters of the buffer but the last.
    fn post_receive(&self, slot: usize) {
        let pieces = [self.piece(slot % 4 * 512, 512)];
        self.pair.post_receive(&ReceiveRequest { id: slot as u64, pieces: &pieces }).unwrap();
    }

    /// Sends a byte to a group, by GID or by LID.
    fn send(&mut self, byte: u8, gid: Option<[u8; 16]>, lid: u16) {
        self.buffer[4000] = byte;
        let global = gid.map(|destination| GlobalRoute {
            destination,
            source_index: 0,
            flow_label: 0,
            hop_limit: 1,
            traffic_class: 0,
        });
        let vector = AddressVector {
            destination_lid: lid,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global,
        };
        let destination = DatagramDestination {
            zone: self.zone.id(),
            vector,
            qp_number: QpNumber(QpNumber::MASK),
            q_key: KEY,
        };
        let request = SendRequest {
            id: 100,
            operation: Operation::Send { immediate: None },
            flags: SendFlags::default(),
            pieces: &[self.piece(4000, 1)],
            destination: Some(Destination::Datagram(destination)),
        };
        // SAFETY: the piece lies in the region over this member's own buffer.
        unsafe { self.pair.post_send(&request).unwrap() };
        self.pair.ring_doorbell();
    }

    fn poll(&self) -> Option<Completion> {
        let mut found = None;
        self.queue.poll(|completion| found = Some(*completion), 1).unwrap();
        found
    }

    fn next(&self) -> Completion {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(completion) = self.poll() {
                return completion;
            }
            assert!(Instant::now() < deadline, "no completion comes");
        }
    }

    /// The byte that came, after the end of a send if this member has sent.
    fn received(&self) -> u8 {
        let completion = [self.next()].into_iter().chain(std::iter::repeat_with(|| self.next()));
        let completion = completion.into_iter().find(|completion| completion.id != 100).unwrap();
        assert_eq!(completion.byte_length as usize, HEADER + 1);
        let slot = completion.id as usize % 4;
        self.post_receive(slot);
        // SAFETY: nobody writes into a buffer whose receive is complete and was posted again but who sends, and none does now.
        unsafe { std::ptr::read_volatile(self.buffer.as_ptr().add(slot * 512 + HEADER)) }
    }
}

#[test]
fn everybody_in_a_group_receives_and_nobody_else() {
    let mut members: Vec<_> = (0..4).map(|_| Member::new(KEY)).collect();
    let outside = Member::new(KEY);
    let other_key = Member::new(KEY + 1);
    outside.pair.attach_multicast(OTHER, LID + 1).unwrap();
    other_key.pair.attach_multicast(GROUP, LID).unwrap();
    for member in &members {
        member.pair.attach_multicast(GROUP, LID).unwrap();
        // Again it has no effect.
        member.pair.attach_multicast(GROUP, LID).unwrap();
    }
    // By GID and by LID; the sender is a member too.
    members[0].send(1, Some(GROUP), 0);
    members[0].send(2, None, LID);
    for member in &members {
        assert_eq!((member.received(), member.received()), (1, 2));
    }
    members[3].pair.detach_multicast(GROUP, LID).unwrap();
    assert!(matches!(members[3].pair.detach_multicast(GROUP, LID), Err(GroupError::NotAttached)));
    members[1].send(3, Some(GROUP), LID);
    members[1].send(4, Some(GROUP), LID);
    for member in &members[..3] {
        assert_eq!((member.received(), member.received()), (3, 4));
    }
    // Everything sent has arrived where it went.
    outside.context.catch_up();
    assert!(members[3].poll().is_none() && outside.poll().is_none() && other_key.poll().is_none());
}

#[test]
fn a_member_that_is_destroyed_is_in_no_group_any_more() {
    let mut sender = Member::new(KEY);
    // A LID of its own: the other tests run meanwhile.
    let (group, lid) = ([0xff; 16], LID + 2);
    let gone = Member::new(KEY);
    gone.pair.attach_multicast(group, lid).unwrap();
    gone.pair.destroy().unwrap();
    sender.pair.attach_multicast(group, lid).unwrap();
    sender.send(5, Some(group), 0);
    assert_eq!(sender.received(), 5);
}

#[test]
fn only_datagrams_and_groups_can_be_attached() {
    let member = Member::new(KEY);
    let unicast = member.context.gid_table()[0].gid;
    for (gid, lid) in [(unicast, LID), (GROUP, 1), (GROUP, 0xffff), (GROUP, 0)] {
        let refused = member.pair.attach_multicast(gid, lid);
        assert!(matches!(refused, Err(GroupError::Address { .. })), "{lid:#x}");
    }
    let connected = common::End::new();
    assert!(matches!(connected.pair.attach_multicast(GROUP, LID), Err(GroupError::Transport)));
}

#[test]
fn servant() {
    if role().is_none() {
        return;
    }
    let member = Member::new(KEY);
    serve(|command, _| match command {
        "attach" => {
            member.pair.attach_multicast(FAR, LID + 3).unwrap();
            "ok".into()
        }
        "received" => member.received().to_string(),
        other => panic!("no such command: {other}"),
    })
}

/// The group of processes.
const FAR: [u8; 16] = [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 5];

#[test]
fn members_in_other_processes_receive_and_one_that_is_killed_is_passed_over() {
    let mut sender = Member::new(KEY);
    let mut far: Vec<_> = (0..3).map(|_| SecondProcess::start("servant", "servant", &[])).collect();
    for process in &mut far {
        assert_eq!(process.tell("attach"), "ok");
    }
    sender.send(7, Some(FAR), 0);
    for process in &mut far {
        assert_eq!(process.tell("received"), "7");
    }
    far[1].kill();
    // Until it is known that it has gone, and afterwards.
    for byte in 8..12 {
        sender.send(byte, Some(FAR), 0);
        for index in [0, 2] {
            assert_eq!(far[index].tell("received"), byte.to_string());
        }
    }
}

//! What a datagram socket has of the device: a queue pair, and slots to send from and receive into.

use std::net::SocketAddr;
use std::sync::Arc;

use nonic_device::{
    Access, AttributeMask, Capabilities, Completion, Context, DatagramDestination, Destination, Operation,
    QpAttributes, QpNumber, QpState, QpType, ReceiveRequest, Zone,
};
use nonic_memory::SharedSlice;
use nonic_rdma_cm::Id;

use super::header::SourceHeader;
use crate::endpoint::Endpoint;
use crate::gather::Gather;
use crate::memory::Buffer;
use crate::posting::{Source, post_to};
use crate::settings::{LEAST, Sizes};
use crate::wakeup::Wakeup;
use crate::{Error, Result};

/// The device's one port.
const PORT: u8 = 1;
/// Bytes of a datagram, its header among them, and of the global header that the device puts before it.
pub(super) const SLOT: u32 = LEAST;
const GLOBAL_HEADER: u32 = 40;
const RECEIVE_SLOT: u32 = GLOBAL_HEADER + SLOT;
/// Marks of receives have this bit; below it is the slot.
const RECEIVE: u64 = 1 << 63;

/// A queue pair of datagrams.
#[derive(Debug)]
pub(super) struct Port {
    context: Arc<Context>,
    zone: Arc<Zone>,
    // Goes before the memory that its requests lead to.
    endpoint: Endpoint,
    send_buffer: Buffer,
    receive_buffer: Buffer,
    /// Slots that nothing is sent from.
    free: Vec<u32>,
    inline: u32,
}

/// A datagram that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) slot: u32,
    /// Where its bytes begin in the slot, and how many they are.
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) from: SocketAddr,
}

impl Port {
    pub(super) fn new(context: &Arc<Context>, sizes: Sizes, wakeup: &Arc<Wakeup>) -> Result<Self> {
        let limit = context.limits().work_requests;
        let sends = sizes.send_queue.min(sizes.send_buffer / SLOT).clamp(1, limit);
        let receives = sizes.receive_queue.min(sizes.receive_buffer / SLOT).clamp(1, limit);
        let inline = sizes.inline.min(crate::settings::INLINE_MOST);
        let zone = context.allocate_zone()?;
        let capabilities = Capabilities {
            send_requests: sends,
            receive_requests: receives,
            send_pieces: 2,
            receive_pieces: 1,
            inline_bytes: inline,
        };
        let endpoint = Endpoint::new(context, &zone, QpType::UnreliableDatagram, capabilities, wakeup)?;
        let buffer = |count: u32, each: u32| Buffer::new(&zone, (count * each) as usize, Access::LOCAL_WRITE);
        let port = Self {
            send_buffer: buffer(sends, SLOT)?,
            receive_buffer: buffer(receives, RECEIVE_SLOT)?,
            context: Arc::clone(context),
            zone,
            endpoint,
            free: (0..sends).collect(),
            inline,
        };
        port.start()?;
        for slot in 0..receives {
            port.give_back(slot)?;
        }
        Ok(port)
    }

    fn start(&self) -> Result<()> {
        use AttributeMask as A;
        let to = |state| QpAttributes { state, ..QpAttributes::default() };
        let initial = QpAttributes { port: PORT, q_key: Id::DEFAULT_QUEUE_KEY, ..to(QpState::Init) };
        self.endpoint.pair().modify(&initial, A::STATE | A::PKEY_INDEX | A::PORT | A::QKEY)?;
        self.endpoint.pair().modify(&to(QpState::ReadyToReceive), A::STATE)?;
        Ok(self.endpoint.pair().modify(&to(QpState::ReadyToSend), A::STATE | A::SQ_PSN)?)
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) fn number(&self) -> QpNumber {
        self.endpoint.pair().number()
    }

    /// A receive slot can be filled again.
    pub(super) fn give_back(&self, slot: u32) -> Result<()> {
        let piece = self.receive_buffer.piece(slot * RECEIVE_SLOT, RECEIVE_SLOT);
        Ok(self
            .endpoint
            .pair()
            .post_receive(&ReceiveRequest { id: RECEIVE | u64::from(slot), pieces: &[piece] })?)
    }

    /// Whether a datagram can be sent.
    pub(super) fn can_send(&self) -> bool {
        !self.free.is_empty()
    }

    /// Sends the program's bytes to a queue pair, for which there is room: with the header [`SLOT`] bytes at most.
    pub(super) fn send(&mut self, from: SocketAddr, to: QpNumber, bytes: &mut Gather<'_>) -> Result<()> {
        let header = SourceHeader(from);
        let (ahead, length) = (header.length(), bytes.left());
        let slot = *self.free.last().ok_or(Error::new(libc::EAGAIN))?;
        let start = slot * SLOT;
        let place = self.send_buffer.bytes().part(start as usize, ahead + length);
        place.part(0, ahead).write(&header.emit()[..ahead]);
        bytes.copy_to(place.part(ahead, length));
        let source = if place.length() <= self.inline as usize {
            Source::Inline(place)
        } else {
            Source::Buffer(&self.send_buffer, [(start, place.length() as u32), (start, 0)])
        };
        let destination = DatagramDestination {
            vector: self.context.path_to_this_host(),
            zone: self.zone.id(),
            qp_number: to,
            q_key: Id::DEFAULT_QUEUE_KEY,
        };
        let operation = Operation::Send { immediate: None };
        post_to(
            self.endpoint.pair(),
            u64::from(slot),
            operation,
            source,
            Some(Destination::Datagram(destination)),
        )?;
        self.free.pop();
        Ok(())
    }

    /// Handles everything that has completed by now: `take` gets what came. Whether there was anything.
    pub(super) fn reap(&mut self, mut take: impl FnMut(Received)) -> bool {
        let mut any = false;
        loop {
            let mut found: Option<Completion> = None;
            let polled = self.endpoint.poll(|completion| found = Some(*completion), 1);
            let (Ok(_), Some(completion)) = (polled, found) else { return any };
            any = true;
            let slot = completion.id as u32;
            if completion.id & RECEIVE == 0 {
                self.free.push(slot);
            } else if completion.status.is_success() {
                match self.parse(slot, completion.byte_length) {
                    Some(received) => take(received),
                    // Nobody's but a stranger's: it is as if it had been lost.
                    None => drop(self.give_back(slot)),
                }
            }
        }
    }

    /// What stands in a slot that was filled. The header is copied, then looked at: once it is posted again the slot changes.
    fn parse(&self, slot: u32, length: u32) -> Option<Received> {
        let length = length.checked_sub(GLOBAL_HEADER)?.min(SLOT);
        let mut header = [0; SourceHeader::LENGTH_MAX];
        let known = (length as usize).min(header.len());
        let place = (slot * RECEIVE_SLOT + GLOBAL_HEADER) as usize;
        self.receive_buffer.bytes().part(place, known).read(&mut header[..known]);
        let header = SourceHeader::parse(&header[..known])?;
        let ahead = header.length() as u32;
        Some(Received { slot, offset: ahead, length: length - ahead, from: header.0 })
    }

    /// The bytes of a datagram that has come.
    pub(super) fn bytes(&self, received: &Received) -> SharedSlice<'_> {
        let start = received.slot * RECEIVE_SLOT + GLOBAL_HEADER + received.offset;
        self.receive_buffer.bytes().part(start as usize, received.length as usize)
    }
}

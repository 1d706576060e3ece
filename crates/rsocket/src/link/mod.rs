//! A connection of a stream: its objects of the device, and what it says through them.

mod mapping;
mod reaping;
mod sending;

use std::sync::Arc;

use nonic_device::{Access, Capabilities, Context, QpNumber, QpState, QpType, ReceiveRequest, Zone};
use nonic_memory::{Crossing, SharedSlice};
use nonic_rdma_cm::Id;

pub(crate) use self::mapping::OwnMappings;
pub(crate) use self::reaping::News;
use crate::endpoint::Endpoint;
use crate::memory::Buffer;
use crate::protocol::{
    ByteOrder, CONTROLS, Introduction, Mapping, ReceiveBuffer, Receiver, Sender, TARGETS, Target,
};
use crate::settings::{INLINE_MIN, Sizes};
use crate::wakeup::Wakeup;
use crate::{Error, Result};

/// Marks of receives have this bit, those of what is sent do not.
const RECEIVE: u64 = 1 << 63;
/// Receives beyond those that data may take: what is said about the stream itself, by both sides at once, finds one too.
const SPARE_RECEIVES: u32 = 2 * CONTROLS;

/// What a stream has when it is about to be connected.
#[derive(Debug)]
pub(crate) struct Link {
    sizes: Sizes,
    context: Arc<Context>,
    zone: Arc<Zone>,
    // Goes before the memory that its requests lead to.
    endpoint: Endpoint,
    send_buffer: Buffer,
    receive_buffer: Buffer,
    /// What the peer writes: the list of targets, and the table of mappings behind it.
    list: Buffer,
    /// Memory of this side's that the peer may write to directly.
    own_mappings: OwnMappings,
    peer: Option<Peer>,
}

/// What is known of the other side.
#[derive(Debug)]
struct Peer {
    sender: Sender,
    receiver: Receiver,
    /// How bytes get to where it receives.
    crossing: Crossing,
    order: ByteOrder,
    /// Where it looks for what this side tells it.
    list: Target,
    /// Mappings it made, of which each was copied when it was announced.
    mappings: Vec<Mapping>,
}

impl Link {
    /// Makes everything that can be made without the peer.
    pub(crate) fn new(context: &Arc<Context>, sizes: Sizes, wakeup: &Arc<Wakeup>) -> Result<Self> {
        let limits = context.limits();
        let sizes = Sizes {
            send_queue: sizes.send_queue.min(limits.work_requests),
            receive_queue: sizes.receive_queue.min(limits.work_requests - SPARE_RECEIVES),
            inline: sizes.inline.min(limits.inline_bytes),
            ..sizes
        };
        // A zone of its own: a peer reaches the memory of its own stream and of no other.
        let zone = context.allocate_zone()?;
        let capabilities = Capabilities {
            send_requests: sizes.send_queue,
            receive_requests: sizes.receive_queue + SPARE_RECEIVES,
            send_pieces: 2,
            receive_pieces: 1,
            inline_bytes: sizes.inline.max(INLINE_MIN),
        };
        let endpoint = Endpoint::new(context, &zone, QpType::ReliableConnection, capabilities, wakeup)?;
        let written = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let list = TARGETS * Target::LENGTH + sizes.mappings as usize * Mapping::LENGTH;
        Ok(Self {
            sizes,
            send_buffer: Buffer::new(&zone, sizes.send_buffer as usize, Access::LOCAL_WRITE)?,
            receive_buffer: Buffer::new(&zone, sizes.receive_buffer_most as usize, written)?,
            list: Buffer::new(&zone, list, written)?,
            context: Arc::clone(context),
            zone,
            endpoint,
            own_mappings: OwnMappings::default(),
            peer: None,
        })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn number(&self) -> QpNumber {
        self.endpoint.pair().number()
    }

    /// Moves the queue pair to INIT and gives it its receives.
    pub(crate) fn prepare(&self, id: &Id) -> Result<()> {
        self.move_to(id, QpState::Init)?;
        for _ in 0..self.sizes.receive_queue + SPARE_RECEIVES {
            self.post_receive()?;
        }
        Ok(())
    }

    fn post_receive(&self) -> Result<()> {
        // No bytes come with a message that this stream takes: they were written before.
        Ok(self.endpoint.pair().post_receive(&ReceiveRequest { id: RECEIVE, pieces: &[] })?)
    }

    fn move_to(&self, id: &Id, state: QpState) -> Result<()> {
        let (attributes, mask) = id.queue_pair_attributes(state)?;
        Ok(self.endpoint.pair().modify(&attributes, mask)?)
    }

    /// What the peer is told when the connection is made.
    pub(crate) fn introduction(&self) -> Introduction {
        let key = self.receive_buffer.remote_key();
        Introduction {
            order: ByteOrder::OWN,
            credits: self.sizes.receive_queue as u16,
            mappings: self.sizes.mappings,
            list: Target {
                address: self.list.address(),
                key: self.list.remote_key(),
                length: TARGETS as u32,
            },
            data: Target {
                address: self.receive_buffer.address(),
                key,
                length: self.sizes.receive_buffer / 2,
            },
        }
    }

    /// The peer has introduced itself: from now on messages can come and go.
    pub(crate) fn connect(&mut self, id: &Id, peer: &Introduction) -> Result<()> {
        // Once more: what the peer may do is known only now.
        self.move_to(id, QpState::Init)?;
        self.move_to(id, QpState::ReadyToReceive)?;
        self.move_to(id, QpState::ReadyToSend)?;
        let Sizes { send_queue, send_buffer, receive_queue, mappings, .. } = self.sizes;
        let receive_buffer =
            ReceiveBuffer { first: self.sizes.receive_buffer, most: self.sizes.receive_buffer_most };
        self.peer = Some(Peer {
            sender: Sender::new(peer.credits, peer.data, send_queue, send_buffer),
            receiver: Receiver::new(receive_buffer, receive_queue as u16, peer.list.length),
            crossing: Crossing::default(),
            order: peer.order,
            list: peer.list,
            mappings: vec![Mapping::default(); mappings as usize],
        });
        self.own_mappings.set_room(peer.mappings);
        Ok(())
    }

    /// Bytes that can be read.
    pub(crate) fn waiting(&self) -> usize {
        self.peer.as_ref().map_or(0, |peer| peer.receiver.waiting() as usize)
    }

    /// Whether nothing more can come before something is read.
    pub(crate) fn is_full(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.receiver.is_full())
    }

    /// Copies the oldest bytes out and forgets them. Returns how many.
    pub(crate) fn read(&mut self, target: SharedSlice<'_>) -> usize {
        let count = self.peek(&[target]);
        if let Some(peer) = &mut self.peer {
            peer.receiver.read(count as u32);
        }
        count
    }

    /// Copies the oldest bytes out, into one place after the other. Returns how many.
    pub(crate) fn peek(&self, places: &[SharedSlice<'_>]) -> usize {
        let Some(peer) = &self.peer else { return 0 };
        let all = places.iter().fold(0usize, |sum, place| sum.saturating_add(place.length()));
        let mut places = places.iter();
        let mut left = SharedSlice::EMPTY;
        let mut count = 0;
        for part in peer.receiver.oldest(all) {
            let mut source = self.receive_buffer.bytes().part(part.start, part.len());
            count += source.length();
            while !source.is_empty() {
                if left.is_empty() {
                    left = *places.next().expect("as many bytes are copied as the places hold, or fewer");
                    continue;
                }
                let length = source.length().min(left.length());
                left.copy_near_from(source.part(0, length));
                source = source.part(length, source.length() - length);
                left = left.part(length, left.length() - length);
            }
        }
        count
    }

    /// Ends what is under way: nothing comes or goes from now on.
    pub(crate) fn stop(&self) {
        if let Err(error) = self.endpoint.pair().fail() {
            tracing::debug!(%error, "a queue pair is not taken to error");
        }
    }

    fn peer(&mut self) -> Result<&mut Peer> {
        self.peer.as_mut().ok_or(Error::new(libc::ENOTCONN))
    }
}

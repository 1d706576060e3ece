//! What the parts of a link do for those who hold the link.

use nonic_memory::{Access, AddressRange, OwnOperation, SharedSlice};
use nonic_protocol::{BaseHeader, Message, QpNumber};
use nonic_sys::{BiasedGuard, BorrowedFd, Credentials, PacketSocket};

use super::Link;
use crate::calls::CallNumber;
use crate::channel::BeginsRest;
use crate::codec::ShortSend;
use crate::control::ControlMessage;
use crate::reach::{
    DirectAccess, DirectRequest, NamedMemory, NotNamed, PeerView, PullAccess, PullError, PullPiece,
};
use crate::ring::{Consumer, RingFull, Sleeper};
use crate::segment::SlotPlace;

/// The channel.
impl Link {
    /// Puts a message into the ring; [`Link::ring_bell`] afterwards, once for several.
    #[inline]
    pub fn push(&self, message: &Message, payload: &[SharedSlice<'_>]) -> Result<(), RingFull> {
        self.channel.push(message, payload)
    }

    /// Puts a short send into the ring, if that is done in a few steps. False: nothing was done, [`Link::push`] does it.
    #[inline]
    pub fn push_short(&self, send: ShortSend, payload: SharedSlice<'_>) -> bool {
        self.channel.push_short(send, payload)
    }
    /// Whether messages wait for the peer of which it has read none since this was last asked, as far as is known without waiting.
    pub fn peer_stands_still(&self) -> bool {
        self.channel.peer_stands_still()
    }

    /// Whether the peer has read every message that was pushed.
    pub fn everything_was_read(&self) -> bool {
        self.channel.everything_was_read()
    }

    /// The reading end, if no other thread has it.
    #[inline]
    pub fn try_receive(&self) -> Option<BiasedGuard<'_, Consumer>> {
        self.channel.try_receive()
    }

    /// Wakes the peer if it sleeps.
    #[inline]
    pub fn ring_bell(&self) {
        self.channel.ring_bell(|| self.say_look());
    }

    /// Wakes the peer's agent.
    pub fn ring_bell_now(&self) {
        self.channel.ring_bell_now(|| self.say_look());
    }

    /// A word on the socket wakes the agent of a peer that has shown no bells.
    #[cold]
    fn say_look(&self) {
        let _ = self.session.tell(&ControlMessage::Look, &[]);
    }

    /// Says that this side has looked at the ring by itself for a while, so that the peer sends with less ado. To be said by
    /// the thread that looks.
    pub fn set_polled(&self) {
        if self.reach.fences_reach_peer() {
            self.channel.set_polled();
        }
    }

    /// Says that this side looks at the ring by itself.
    pub fn set_awake(&self) {
        self.channel.set_awake();
    }

    /// Says that this side sleeps and whom to wake; returns whether a message waits all the same.
    pub fn set_sleeping(&self, sleeper: Sleeper) -> bool {
        self.channel.set_sleeping(sleeper, || self.say_look())
    }

    /// The number by which the link is called for.
    pub fn call_number(&self) -> Option<CallNumber> {
        self.channel.call_number()
    }

    /// Whether its ring is not looked at before it is called for.
    pub fn rests(&self) -> bool {
        self.channel.rests()
    }

    /// Whether nothing has come since this was last asked, and nothing waits.
    pub fn is_quiet(&self) -> bool {
        self.channel.is_quiet()
    }

    /// Has the peer call for the link from now on. `None`: it cannot rest, or somebody reads its ring.
    pub fn begin_rest(&self) -> Option<BeginsRest> {
        self.channel.begin_rest(|| self.say_look())
    }

    /// The look after the fence.
    pub fn is_still_quiet(&self) -> bool {
        self.channel.is_still_quiet()
    }

    /// The ring is looked at again.
    pub fn end_rest(&self) {
        self.channel.end_rest();
    }

    /// Remembers a queue pair that waits for room in the ring.
    pub fn add_stalled(&self, number: QpNumber) {
        self.channel.add_stalled(number);
    }

    /// Remembers a request that nobody takes, since there is no room to say so. Nothing is kept for a stranger.
    pub fn decline_later(&self, base: BaseHeader) {
        if !self.is_stranger() {
            self.channel.decline_later(base);
        }
    }

    /// How many queue pairs wait for room.
    pub fn stalled_pairs(&self) -> usize {
        self.channel.stalled_pairs()
    }

    /// Whether anything waits for room and may go on.
    pub fn stalled_may_go_on(&self) -> bool {
        self.channel.stalled_may_go_on()
    }

    /// The queue pair that waits for room for longest, as long as there is room.
    pub fn take_stalled_pair(&self) -> Option<QpNumber> {
        self.channel.take_stalled_pair()
    }

    /// The requests that nobody takes, of which the peer is to be told.
    pub fn take_declined(&self) -> Vec<BaseHeader> {
        self.channel.take_declined()
    }

    /// Whether anything waits for room.
    #[inline]
    pub fn has_stalled(&self) -> bool {
        self.channel.has_stalled()
    }
}

/// The reach.
impl Link {
    /// What the peer lets this process see, if it trusts it and has said so.
    #[inline]
    pub fn view(&self) -> Option<&PeerView> {
        self.reach.view()
    }

    /// The peer's bytes, if the operation is allowed beyond doubt and they can be reached from here.
    pub fn direct(&self, request: &DirectRequest) -> Option<DirectAccess<'_>> {
        self.reach.direct(&self.session, request)
    }

    /// The bytes of memory that the peer has let this process use as its own, for writing if that is `want`ed, if the peer has it
    /// still and they can be reached from here.
    pub fn named(
        &self,
        memory: NamedMemory,
        range: AddressRange,
        want: Access,
    ) -> Result<DirectAccess<'_>, NotNamed> {
        self.reach.named(&self.session, memory, range, want)
    }

    /// Runs `act` on the peer's bytes if the operation is allowed beyond doubt and they are all mapped here: what
    /// [`Link::direct`] does, for the operations that are over in a moment. `None`: nothing was done. The caller is inside an
    /// operation of this process, which `own` proves: whoever closes the link waits for that.
    #[inline(always)]
    pub fn at_once<R>(
        &self,
        own: &OwnOperation<'_>,
        request: &DirectRequest,
        act: impl FnOnce(SharedSlice<'_>) -> R,
    ) -> Option<R> {
        self.reach.at_once(&self.session, own, request, act)
    }

    /// Takes hold of all `pieces` of the queue pair that publishes itself at `sender`, if they are there and reached from here.
    /// The sender's revocation waits until that is dropped.
    pub fn begin_pull<'a>(
        &'a self,
        sender: SlotPlace,
        pieces: &'a [PullPiece],
    ) -> Result<PullAccess<'a>, PullError> {
        self.reach.begin_pull(&self.session, sender, pieces)
    }

    /// Copies the bytes of the pieces that are held, one after the other, from the byte at `offset` on, into `local` slices until
    /// those are full.
    pub fn pull(
        &self,
        access: &PullAccess<'_>,
        offset: u64,
        local: &[SharedSlice<'_>],
    ) -> Result<(), PullError> {
        self.reach.pull(&self.session, access, offset, local)
    }

    /// Whether the kernel lets this process into the peer's memory.
    #[inline]
    pub fn can_reach(&self) -> bool {
        self.reach.can_reach()
    }

    /// Whether the kernel lets the peer into this process's memory.
    #[inline]
    pub fn peer_can_reach(&self) -> bool {
        self.reach.peer_can_reach()
    }

    /// Whether this process can map the adopted pages of the peer.
    pub fn can_map(&self) -> bool {
        self.reach.can_map()
    }

    /// Whether the peer can map the adopted pages of this process.
    #[inline]
    pub fn peer_can_map(&self) -> bool {
        self.reach.peer_can_map()
    }
}

/// The session.
impl Link {
    /// The socket, to wait on; none for a link to this process.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.session.socket()
    }

    /// Readable when the peer's process has ended, where the kernel offers that.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.session.process()
    }

    /// Whether the peer's process has ended.
    pub fn process_ended(&self) -> bool {
        self.session.process_ended()
    }

    /// Whether the peer has closed its end, or its process has ended, noticed or not.
    pub fn peer_is_gone(&self) -> bool {
        self.session.peer_is_gone()
    }

    /// Whether both ends are this process.
    #[inline]
    pub fn is_loopback(&self) -> bool {
        self.session.is_loopback()
    }

    /// What the kernel says of the peer.
    pub fn credentials(&self) -> Credentials {
        self.session.credentials()
    }

    /// Whether a link, this one or another, leads to the same process.
    #[inline]
    pub fn leads_where(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.session.is_with_peer_of(&other.session)
    }

    /// Whether the peer is the process that answers to the name of a block, which `owner` was connected to just now.
    pub fn leads_to_owner(&self, block: u32, owner: &PacketSocket) -> bool {
        self.session.is_with_owner(block, owner)
    }

    /// Whether the peer is the living process at the other end of a socket, as the kernel says, if that knows its number.
    pub fn leads_to_process_of(&self, socket: &PacketSocket) -> bool {
        self.session.is_with_process_of(socket)
    }

    /// Whether the peer has proved that it could reach this process's memory anyway, or people said that it may.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.session.is_trusted()
    }

    /// Whether the peer has not shown, so far, that it can be trusted.
    pub fn is_stranger(&self) -> bool {
        !self.is_trusted()
    }

    /// Tells the peer that this process ends in order, so that it does not take the end for a crash.
    pub fn say_goodbye(&self) {
        let _ = self.session.tell(&ControlMessage::Goodbye, &[]);
    }

    /// Whether the peer has introduced itself.
    pub fn has_met(&self) -> bool {
        self.session.has_met()
    }

    /// Whether the peer said that it ends in order.
    pub fn peer_departed(&self) -> bool {
        self.session.peer_departed()
    }

    /// Whether the link has ended.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.session.is_dead()
    }

    /// Whether the peer once did not leave an operation in time.
    pub fn was_given_up(&self) -> bool {
        self.session.was_given_up()
    }

    /// Whether the peer can be inside an operation on this process's memory, or begin one, even if the link has ended
    /// here: it was shown keys, it lives, and it has not closed its end.
    pub fn peer_may_operate(&self) -> bool {
        self.session.peer_may_operate()
    }
}

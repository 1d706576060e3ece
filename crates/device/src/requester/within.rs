//! The express way of a send to a queue pair of the same process: its bytes go at once where the receive says, and both ends complete.
//! There is no ring and nothing is owed, so threads that each have queue pairs of their own do not meet. It takes the same checks and
//! gates as any other; whatever it meets that is not plain it leaves to the other ways, before anything has moved.

use std::sync::{Arc, Weak};

use nonic_memory::{Access, AddressRange, KeyUse, SharedSlice};
use nonic_protocol::{CompletionOpcode, Operation, QpType, SendRequest, Status};
use nonic_sys::{BiasedGuard, cpu_relax};
use nonic_transport::Counter;

use super::one_sided::DIRECT_CHUNK;
use crate::queue_pair::{Core, Inner, QueuePair};

/// Looks at the lock of a peer, each after one pause more than that before: some microseconds at most.
const PATIENCE: u32 = 16;

impl QueuePair {
    /// Carries a send of one piece out at once, if its peer is of this process and nothing stands in the way. False: nothing was done,
    /// and it takes another way. The caller has made sure that the send queue has room.
    ///
    /// `neighbour` is the peer from the first send of a list on; the caller lets go of it without the lock. `copy_inline` fills the
    /// inline bytes.
    #[inline]
    pub(crate) fn express_within(
        &self,
        inner: &mut Inner,
        neighbour: &mut Option<Arc<Self>>,
        request: &SendRequest<'_>,
        copy_inline: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Operation::Send { immediate: None } = request.operation else { return false };
        let Some(beside) = inner.path.as_ref().and_then(|path| path.neighbour.as_ref()) else { return false };
        let [piece] = request.pieces else { return false };
        let inline = request.flags.inline;
        let most = if inline { u64::from(self.capabilities.inline_bytes) } else { DIRECT_CHUNK };
        let fits = (1..=most).contains(&u64::from(piece.length));
        let plain = self.express && self.transport == QpType::ReliableConnection;
        if !plain || !fits || !inner.is_idle() || inline && !inner.send.has_slots(true) {
            return false;
        }
        if neighbour.is_none() {
            *neighbour = Weak::upgrade(beside);
        }
        let Some(peer) = neighbour.as_deref().filter(|peer| !std::ptr::eq(*peer, self)) else { return false };
        if !peer.take_at_once(self, inner, request, copy_inline) {
            return false;
        }
        inner.has_been_answered_at_once();
        self.witness.counts([Counter::Sends, Counter::SendBytes], piece.length);
        if request.flags.signaled || self.signals_all() {
            let (opcode, length) = (CompletionOpcode::Send, piece.length);
            self.complete_send_request(&inner.send, request.id, opcode, Status::Success, length);
        }
        true
    }

    /// Its lock, unless somebody keeps it: who sends in the other direction may have it, and wait for the sender's.
    #[inline]
    fn lock_soon(&self) -> Option<BiasedGuard<'_, Core>> {
        (0..PATIENCE).find_map(|tried| {
            (0..tried).for_each(|_| cpu_relax());
            self.try_lock()
        })
    }

    /// Takes such a send of `sender`. False: nothing was done.
    #[inline]
    fn take_at_once(
        &self,
        sender: &Self,
        sending: &mut Inner,
        request: &SendRequest<'_>,
        copy_inline: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(mut core) = self.lock_soon() else { return false };
        let Some(path) = &sending.path else { return false };
        let psn = sending.requester.next;
        let plain = self.transport == QpType::ReliableConnection
            && !core.is_wired()
            && !self.is_destroyed()
            && !core.responder.owes();
        if !plain || !self.may_take_now(&core, &path.link, sender.number, psn) {
            return false;
        }
        let Some(receive) = core.receives.first() else { return false };
        let ([from], [to]) = (request.pieces, receive.pieces.as_slice()) else { return false };
        if from.length > to.length {
            return false;
        }
        let own = self.engine().party().memory.enter();
        let range = |address| AddressRange::new(address, from.length.into());
        let (zone, key, id) = (receive.zone, to.key, receive.id);
        let Some(place) = own.find(zone, key, KeyUse::Local, range(to.address), Access::LOCAL_WRITE) else {
            return false;
        };
        if request.flags.inline {
            let bytes = sending.send.inline_place(&sender.capabilities, from.length as usize);
            copy_inline(bytes);
            place.copy_near_from(SharedSlice::of_private(bytes));
        } else {
            let (zone, key) = (sender.zone.id(), from.key);
            let source = own.find(zone, key, KeyUse::Local, range(from.address), Access::LOCAL_READ);
            // Bytes that are to move within themselves go by the ring.
            let are_apart =
                |source: &SharedSlice<'_>| source.address().abs_diff(place.address()) >= place.length();
            let Some(source) = source.filter(are_apart) else { return false };
            place.copy_near_from(source);
        }
        own.memory().device_wrote(&[place]);
        drop(own);
        core.has_answered_at_once(psn);
        self.show_taken(id, sender.number, request.flags.solicited, from.length);
        true
    }
}

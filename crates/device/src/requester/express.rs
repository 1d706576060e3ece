//! The express way: a one-sided request of one piece that can be carried out at once never enters the send queue's
//! slots. It takes the same gates as any other, and whatever it meets that is not plain it leaves to the ordinary way,
//! before anything has moved. A short send is in the ring before it is noted in its slot, for the case that it must be
//! repeated.

use nonic_memory::{Access, AddressRange, KeyUse, SharedSlice};
use nonic_protocol::{Operation, RemoteRange, SendRequest, Status};
use nonic_transport::{Counter, DirectRequest, FRAGMENT, ShortSend};

use super::one_sided::{DIRECT_CHUNK, WORD, change};
use super::pulled::PULL_MAPPED_MIN;
use crate::queue_pair::{Inner, QueuePair};

impl QueuePair {
    /// Carries a request out at once, if it is of a kind and nothing stands in its way. False: nothing was done, and the
    /// request takes the ordinary way. The caller has made sure that the send queue has room.
    #[inline]
    pub(crate) fn express(&self, inner: &mut Inner, request: &SendRequest<'_>) -> bool {
        let [piece] = request.pieces else { return false };
        let (remote, want, counters, length_fits) = match request.operation {
            Operation::Write { remote, immediate: None } => {
                let counters = [Counter::Writes, Counter::WriteBytes];
                (remote, Access::REMOTE_WRITE, counters, u64::from(piece.length) <= DIRECT_CHUNK)
            }
            Operation::Read { remote } => {
                let counters = [Counter::Reads, Counter::ReadBytes];
                (remote, Access::REMOTE_READ, counters, u64::from(piece.length) <= DIRECT_CHUNK)
            }
            Operation::CompareSwap { remote, .. } | Operation::FetchAdd { remote, .. } => {
                let aligned = remote.address.is_multiple_of(WORD);
                let counters = [Counter::Atomics, Counter::AtomicBytes];
                (remote, Access::REMOTE_ATOMIC, counters, aligned && u64::from(piece.length) == WORD)
            }
            _ => return false,
        };
        if piece.length == 0 || !length_fits || request.flags.inline || !self.express || !inner.is_idle() {
            return false;
        }
        if want != Access::REMOTE_WRITE && inner.attributes.max_rd_atomic == 0 {
            return false;
        }
        if !self.carry_out(inner, request, remote, want) {
            return false;
        }
        inner.send.skip_one();
        self.witness.counts(counters, piece.length);
        if request.flags.signaled || self.signals_all() {
            let opcode = request.operation.completion_opcode();
            self.complete_send_request(&inner.send, request.id, opcode, Status::Success, piece.length);
        }
        true
    }

    /// Puts a send of one short piece into the ring if it is the next to start, and notes it for the case that it has to be
    /// repeated. False: nothing was done, and it takes the ordinary way. The caller has made sure that the send queue has
    /// room; the bell is left to [`Posting::ring_doorbell`].
    ///
    /// `copy_inline` fills the inline bytes.
    ///
    /// [`Posting::ring_doorbell`]: crate::Posting::ring_doorbell
    #[inline]
    pub(crate) fn express_send(
        &self,
        inner: &mut Inner,
        request: &SendRequest<'_>,
        copy_inline: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Operation::Send { immediate: None } = request.operation else { return false };
        let [piece] = request.pieces else { return false };
        let (inline, capabilities) = (request.flags.inline, &self.capabilities);
        let most = if inline { capabilities.inline_bytes } else { FRAGMENT as u32 };
        let next = self.express && inner.may_send_at_once(request.flags);
        if !next || piece.length == 0 || piece.length > most {
            return false;
        }
        let Some(path) = &inner.path else { return false };
        let pulled = u64::from(piece.length) >= PULL_MAPPED_MIN && !inline && path.link.peer_can_map();
        if pulled || path.link.is_dead() {
            return false;
        }
        let send = ShortSend {
            base: inner.base(&self),
            solicited: request.flags.solicited,
            acknowledges: inner.responder.acknowledge(),
        };
        let pushed = if inline {
            let bytes = inner.send.inline_place(capabilities, piece.length as usize);
            copy_inline(bytes);
            path.link.push_short(send, SharedSlice::of_private(bytes))
        } else {
            let own = self.engine().party().memory.enter();
            let range = AddressRange::new(piece.address, piece.length.into());
            let zone = self.zone.id();
            let Some(source) = own.find(zone, piece.key, KeyUse::Local, range, Access::LOCAL_READ) else {
                return false;
            };
            path.link.push_short(send, source)
        };
        if !pushed {
            return false;
        }
        inner.has_sent_at_once(request, capabilities.send_pieces);
        true
    }

    #[inline(always)]
    fn carry_out(&self, inner: &Inner, request: &SendRequest<'_>, remote: RemoteRange, want: Access) -> bool {
        let piece = &request.pieces[0];
        let Some(path) = &inner.path else { return false };
        let Some(target) = path.slot else { return false };
        let own = self.engine().party().memory.enter();
        let range = AddressRange::new(piece.address, piece.length.into());
        let local_want = if want == Access::REMOTE_WRITE { Access::LOCAL_READ } else { Access::LOCAL_WRITE };
        let Some(local) = own.find(self.zone.id(), piece.key, KeyUse::Local, range, local_want) else {
            return false;
        };
        let wanted = DirectRequest {
            source: self.number,
            transport: self.transport,
            target,
            pair: path.address.number(),
            key: remote.key,
            range: AddressRange::new(remote.address, piece.length.into()),
            want,
        };
        let done = path.link.at_once(&own, &wanted, |bytes| match request.operation {
            Operation::Write { .. } => {
                bytes.copy_from(local);
                true
            }
            Operation::Read { .. } => {
                local.copy_near_from(bytes);
                true
            }
            _ if !bytes.is_word() => false,
            atomic => change(bytes, &atomic).map(|old| local.write(&old.to_ne_bytes())).is_some(),
        });
        if done == Some(true) && want != Access::REMOTE_WRITE {
            own.memory().device_wrote(&[local]);
        }
        done == Some(true)
    }
}

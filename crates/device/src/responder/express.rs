//! The express way of the responder: a short send that is the next, for a receive of one piece of the queue pair's own. It
//! passes the same checks and the same gate as any other message; whatever it meets that is not plain it leaves to the
//! ordinary way, before anything has moved.

use std::sync::Arc;

use nonic_memory::{Access, AddressRange, KeyUse};
use nonic_protocol::{CompletionOpcode, Psn, QpNumber, Status};
use nonic_transport::{Counter, IncomingShort, Link};

use crate::completion_queue::SendCredit;
use crate::queue_pair::{Inner, QueuePair, ReceivesFrom};

impl QueuePair {
    /// Takes a short send. False: nothing was done; the ordinary way takes it, or says what is wrong.
    #[inline]
    pub(crate) fn express_receive(&self, link: &Arc<Link>, incoming: &IncomingShort<'_>) -> bool {
        let IncomingShort { send, payload } = incoming;
        let mut inner = self.lock();
        let inner = &mut *inner;
        if !self.may_take_now(inner, link, send.base.source, send.base.psn) {
            return false;
        }
        let Some(receive) = inner.receives.first() else { return false };
        let [piece] = receive.pieces.as_slice() else { return false };
        let length = payload.length() as u32;
        if payload.is_empty() || length > piece.length {
            return false;
        }
        let own = self.engine().party().memory.enter();
        let range = AddressRange::new(piece.address, length.into());
        let (zone, key, id) = (receive.zone, piece.key, receive.id);
        let Some(place) = own.find(zone, key, KeyUse::Local, range, Access::LOCAL_WRITE) else {
            return false;
        };
        place.copy_near_from(*payload);
        own.memory().device_wrote(&[place]);
        drop(own);
        inner.has_taken_at_once(send.base.psn);
        // The requests it answers end before the receive does, as their acknowledgement by itself would have them do.
        if let Some(psn) = send.acknowledges {
            inner.take_acknowledge(&mut { self }, psn);
        }
        self.show_taken(id, send.base.source, send.solicited, length);
        if send.acknowledges.is_some() && inner.awaits_answers() {
            inner.pump(&mut { self });
        }
        true
    }

    /// Whether a whole send of this number that comes from `source` by way of `link` may go to the oldest receive now.
    #[inline(always)]
    pub(crate) fn may_take_now(&self, inner: &Inner, link: &Link, source: QpNumber, psn: Psn) -> bool {
        self.express
            && matches!(self.receives_from, ReceivesFrom::Own)
            && inner.attributes.destination_qp == source
            && inner.path.as_ref().is_some_and(|path| path.link.leads_where(link))
            && inner.may_take_at_once(psn)
            && !link.is_dead()
    }

    /// Such a send is in the receive's place: counts it and shows the receive's end.
    #[inline(always)]
    pub(crate) fn show_taken(&self, id: u64, source: QpNumber, solicited: bool, length: u32) {
        self.witness.counts([Counter::Received, Counter::ReceivedBytes], length);
        self.receive_completions.push(SendCredit::NONE, solicited, |completion| {
            completion.set_bare(id, CompletionOpcode::Receive, Status::Success, self.number);
            completion.byte_length = length;
            completion.source_qp = source;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use nonic_transport::{BLOCK_SIZE, connect_owner};

    use super::*;
    use crate::common::pair::{Pair, Side};
    use crate::{Config, Operation};

    /// Has a side talk over a link of its own, as when both sides connect at the same moment: each then has the one it made.
    fn connect_anew(side: &Side, other: &Side) {
        let (engine, number) = (side.end.pair.engine(), other.end.pair.number());
        let link = Link::connect(engine.party(), connect_owner(number).unwrap(), &engine.own_blocks());
        engine.add_link(Arc::new(link.unwrap()), Some((None, number.0 / BLOCK_SIZE)));
        let mut inner = side.end.pair.lock();
        inner.path = None;
        side.end.pair.find_path(&mut inner);
    }

    /// Takes a short send by hand that came over another link than this side's own; `None` if there is none.
    fn take(side: &Side) -> Option<bool> {
        let pair = &side.end.pair;
        // The agent leaves the rings to a program that polls.
        pair.engine().note_poll();
        let own = pair.lock().path.as_ref().map(|path| Arc::clone(&path.link)).unwrap();
        let links = pair.engine().links();
        let mut others = links.iter().filter(|link| !Arc::ptr_eq(&own, link));
        others.find_map(|link| {
            let mut ring = link.try_receive()?;
            let taken = pair.express_receive(link, &ring.peek_short()?);
            if taken {
                ring.advance();
            }
            Some(taken)
        })
    }

    #[test]
    fn a_short_send_that_comes_by_the_other_of_two_links_to_its_peer_takes_the_express_way() {
        let pair = Pair::new(&Config::default());
        let [one, other] = &pair.sides;
        connect_anew(one, other);
        connect_anew(other, one);
        let deadline = Instant::now() + Duration::from_secs(20);
        // What the agent was faster to take says nothing.
        let taken = loop {
            assert!(Instant::now() < deadline, "no message was there to be taken");
            one.end.post_receive(1);
            other.end.post(2, Operation::Send { immediate: None }, &[other.end.piece(0, 8)]);
            let taken = loop {
                let taken = take(one);
                if taken.is_some() || one.end.completions.poll(|_| {}, 1).unwrap() > 0 {
                    break taken;
                }
            };
            if let Some(taken) = taken {
                break taken;
            }
            other.end.completion();
        };
        assert!(taken, "it was left to the ordinary way");
    }
}

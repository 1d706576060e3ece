//! How a queue pair is made, and what sizes it gets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use nonic_protocol::{Capabilities, QpType};
use nonic_sys::BiasedMutex;

use super::{Core, QueuePair, QueuePairRequest, ReceivesFrom, Target};
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::error::CreateError;
use crate::events::EventAccount;
use crate::happening::Witness;
use crate::limits::{INLINE_MAX, PIECES_MAX, REQUESTS_MAX};
use crate::shared_receive_queue::ExtendedDomain;
use crate::zone::Zone;

impl Zone {
    /// Creates a queue pair in state RESET.
    pub fn create_queue_pair(
        self: &Arc<Self>,
        request: QueuePairRequest,
    ) -> Result<Arc<QueuePair>, CreateError> {
        if request.transport == QpType::ExtendedReceive {
            return Err(CreateError::Invalid {
                what: "a zone for a queue pair that belongs to an XRC domain",
            });
        }
        if request.transport == QpType::ExtendedSend && request.shared_receive_queue.is_some() {
            return Err(CreateError::Invalid {
                what: "a shared receive queue for a queue pair that only sends",
            });
        }
        let from = request.shared_receive_queue.clone().map_or(ReceivesFrom::Own, ReceivesFrom::Shared);
        self.make_queue_pair(request, from)
    }

    /// Creates one that receives for an XRC domain.
    pub(crate) fn create_target(
        self: &Arc<Self>,
        domain: &Arc<ExtendedDomain>,
        completions: &Arc<CompletionQueue>,
        cookie: usize,
    ) -> Result<Arc<QueuePair>, CreateError> {
        let request = QueuePairRequest {
            transport: QpType::ExtendedReceive,
            send_queue: Arc::clone(completions),
            receive_queue: Arc::clone(completions),
            shared_receive_queue: None,
            capabilities: Capabilities::default(),
            signal_all: false,
            cookie,
            observer: None,
        };
        self.make_queue_pair(request, ReceivesFrom::Domain(Box::new(Target::new(domain))))
    }

    fn make_queue_pair(
        self: &Arc<Self>,
        request: QueuePairRequest,
        receives_from: ReceivesFrom,
    ) -> Result<Arc<QueuePair>, CreateError> {
        let context = self.context();
        context.check_current()?;
        check_capabilities(&request)?;
        let same = |other: &Arc<Context>| Arc::ptr_eq(other, context);
        let queue_fits =
            request.shared_receive_queue.as_ref().is_none_or(|queue| same(queue.zone().context()));
        if !same(request.send_queue.context()) || !same(request.receive_queue.context()) || !queue_fits {
            return Err(CreateError::OtherContext);
        }
        let users = [
            Some(&self.users),
            Some(&request.send_queue.users),
            Some(&request.receive_queue.users),
            request.shared_receive_queue.as_ref().map(|queue| &queue.users),
        ];
        let users: Vec<_> = users.into_iter().flatten().collect();
        for (count, user) in users.iter().enumerate() {
            if !user.acquire() {
                users[..count].iter().for_each(|user| user.release());
                return Err(CreateError::Closed);
            }
        }
        let mut capabilities = request.capabilities;
        if request.shared_receive_queue.is_some() || request.transport == QpType::ExtendedSend {
            (capabilities.receive_requests, capabilities.receive_pieces) = (0, 0);
        }
        let capabilities = rounded(&capabilities);
        let owner = context.engine_owner();
        let express = request.transport == QpType::ReliableConnection && context.device().config().express;
        let made = owner.add_pair(owner, |number, account| {
            owner.credits(account).store(0, Ordering::Relaxed);
            let witness = Witness::new(number, owner.party().segment.counters(account));
            let express = express && !witness.is_listened_to();
            Arc::new_cyclic(|this| QueuePair {
                this: Weak::clone(this),
                zone: Arc::clone(self),
                engine: Arc::clone(owner.engine()),
                send_completions: Arc::clone(&request.send_queue),
                receive_completions: Arc::clone(&request.receive_queue),
                receives_from,
                number,
                account,
                transport: request.transport,
                service: request.transport.service(),
                capabilities,
                signal_all: request.signal_all,
                express,
                cookie: request.cookie,
                observer: request.observer.clone(),
                inner: BiasedMutex::new(Core::new(&capabilities)),
                closed_way: Mutex::default(),
                turned_away: Mutex::default(),
                async_events: EventAccount::default(),
                destroyed: AtomicBool::new(false),
                skips_own_multicast: AtomicBool::new(false),
                witness,
                datagram_way: Mutex::new(None),
                datagrams: Mutex::default(),
            })
        });
        made.inspect_err(|_| users.iter().for_each(|user| user.release()))
    }
}

/// The sizes a queue pair really gets. Network cards round queues up to a power of two and never make tiny ones, and
/// programs have come to lean on that (perftest's event mode leaves a completion unpolled now and then). A send request has
/// room for one piece whatever was asked for, as on cards: inline data of a builder call is one, and the express way takes one.
/// Where its pieces would stand inline bytes may, asked for or not (the distribution's `rdma_xclient` does not ask).
fn rounded(asked: &Capabilities) -> Capabilities {
    const LEAST: u32 = 16;
    /// Bytes of `struct ibv_sge`.
    const PIECE: u32 = 16;
    let round = |requests: u32| if requests == 0 { 0 } else { requests.next_power_of_two().max(LEAST) };
    Capabilities {
        send_requests: round(asked.send_requests),
        receive_requests: round(asked.receive_requests),
        send_pieces: asked.send_pieces.max(1),
        inline_bytes: asked.inline_bytes.max(asked.send_pieces * PIECE),
        ..*asked
    }
}

fn check_capabilities(request: &QueuePairRequest) -> Result<(), CreateError> {
    let asked = &request.capabilities;
    let shared = request.shared_receive_queue.is_some() || request.transport == QpType::ExtendedSend;
    let checks = [
        ("send requests", asked.send_requests, REQUESTS_MAX),
        ("receive requests", if shared { 0 } else { asked.receive_requests }, REQUESTS_MAX),
        ("pieces in a send request", asked.send_pieces, PIECES_MAX as u32),
        ("pieces in a receive request", if shared { 0 } else { asked.receive_pieces }, PIECES_MAX as u32),
        ("inline bytes", asked.inline_bytes, INLINE_MAX),
    ];
    for (what, asked, limit) in checks {
        if asked > limit {
            return Err(CreateError::Limit { what, asked: u64::from(asked), limit: u64::from(limit) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_request_has_room_for_a_piece_and_inline_bytes_where_its_pieces_would_stand() {
        let asked =
            |send_pieces, inline_bytes| Capabilities { send_pieces, inline_bytes, ..Default::default() };
        let got = |send_pieces, inline_bytes| {
            let got = rounded(&asked(send_pieces, inline_bytes));
            (got.send_pieces, got.inline_bytes)
        };
        assert_eq!((got(0, 0), got(1, 0), got(3, 40)), ((1, 0), (1, 16), (3, 48)));
        assert_eq!(got(1, 64), (1, 64));
        assert!(got(PIECES_MAX as u32, 0).1 <= INLINE_MAX);
    }
}

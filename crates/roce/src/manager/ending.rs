//! The end of connections (IBTA vol. 1, 12.9.8.4).

use alloc::boxed::Box;

use nonic_protocol::Moment;

use super::ConnectionManager;
use super::communication::{Communication, State};
use super::event::{CommunicationId, Disconnection, Ends, Event};
use crate::management::{DisconnectRequest, Ids, Message, Notice};

impl<T> Communication<T> {
    pub(super) fn disconnect_request(&self, private_data: [u8; 220]) -> Message {
        let (ids, remote_qp_number) = (self.ids(), self.remote_pair);
        Message::DisconnectRequest(DisconnectRequest { ids, remote_qp_number, private_data })
    }
}

/// A connection has ended, and its peer has nothing to say to that.
pub(super) fn ended(id: CommunicationId, how: Disconnection) -> Event {
    Event::Disconnected { id, how, private_data: None }
}

impl<T: Moment> ConnectionManager<T> {
    /// The peer wants to end a connection. Who asks for one of this manager's that is not there is told that it
    /// has ended.
    pub(super) fn handle_disconnect(
        &mut self,
        now: T,
        ends: Ends,
        transaction_id: u64,
        request: &DisconnectRequest,
    ) {
        let is_own = self.settings.is_own(request.ids.remote);
        let Some(found) = self.find(ends, request.ids) else {
            if !is_own {
                return;
            }
            let ids = Ids { local: request.ids.remote, remote: request.ids.local };
            let reply = Message::DisconnectReply(Notice { ids, private_data: [0; 224] });
            return self.send(ends, transaction_id, reply);
        };
        if request.remote_qp_number != found.local_pair {
            return;
        }
        let (id, state, ids) = (found.id, found.state, found.ids());
        let reply = Message::DisconnectReply(Notice { ids, private_data: [0; 224] });
        match state {
            State::ReplySent | State::Established => {
                found.peers_transaction_id = transaction_id;
                self.table.enter(id.number, State::DisconnectReceived, None);
                let private_data = Some(Box::new(request.private_data));
                self.tell(id.number, Event::Disconnected { id, how: Disconnection::ByPeer, private_data });
            }
            // Both want it.
            State::DisconnectSent => {
                self.send(ends, transaction_id, reply);
                self.tell(id.number, ended(id, Disconnection::Agreed));
                self.enter_time_wait(now, id.number);
            }
            State::TimeWait | State::Rejected => self.send(ends, transaction_id, reply),
            _ => (),
        }
    }

    /// The peer agrees to the end.
    pub(super) fn handle_disconnected(&mut self, now: T, ends: Ends, reply: &Notice) {
        let Some(found) = self.find(ends, reply.ids) else { return };
        let id = found.id;
        if found.state == State::DisconnectSent {
            self.tell(id.number, ended(id, Disconnection::Agreed));
            self.enter_time_wait(now, id.number);
        }
    }
}

//! The end of connections (IBTA vol. 1, 12.9.8.4).

use nonic_protocol::Moment;

use super::ConnectionManager;
use super::communication::{Communication, State};
use super::event::{Disconnection, Ends, Event};
use crate::management::{DisconnectRequest, Ids, Message, Notice};

impl<T> Communication<T> {
    pub(super) fn disconnect_request(&self) -> Message {
        let (ids, remote_qp_number) = (self.ids(), self.remote_pair);
        Message::DisconnectRequest(DisconnectRequest { ids, remote_qp_number, private_data: [0; 220] })
    }
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
                self.tell(id.number, Event::Disconnected { id, how: Disconnection::ByPeer });
            }
            // Both want it.
            State::DisconnectSent => {
                self.send(ends, transaction_id, reply);
                self.tell(id.number, Event::Disconnected { id, how: Disconnection::Agreed });
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
            self.tell(id.number, Event::Disconnected { id, how: Disconnection::Agreed });
            self.enter_time_wait(now, id.number);
        }
    }
}

//! Requests for connections, and what is refused of them (IBTA vol. 1, 12.9.8.3.1, 12.6.7.2).

use alloc::boxed::Box;

use nonic_protocol::Moment;

use super::communication::{PairKey, RemoteKey, State, Timing};
use super::event::{Accepts, Ends, Event};
use super::settings::peers_time;
use super::{ConnectionManager, EVENTS_MAX, rejection};
use crate::management::{
    AddressHeader, Answered, ConnectRequest, Delay, Front, Ids, ManagementDatagram, Message, Naming,
    PortSpace, Reason,
};
use crate::packet::DEFAULT_P_KEY;
use crate::path_mtu::PathMtu;

/// A limited member of the partition is one, too: the highest bit is not compared (10.9.3).
const P_KEY_MASK: u16 = 0x7fff;

impl<T: Moment> ConnectionManager<T> {
    /// A peer asks for a connection. In this order: is it known, is its queue pair, does somebody listen, is it addressed rightly, is
    /// it what the listener takes, is there room.
    pub(super) fn handle_request(
        &mut self,
        now: T,
        ends: Ends,
        transaction_id: u64,
        request: &ConnectRequest,
    ) {
        let remote = RemoteKey { remote: ends.remote, guid: Some(request.ca_guid), number: request.local_id };
        if let Some(number) = self.table.of_remote(&remote) {
            return self.handle_repeated_request(number, transaction_id);
        }
        let naming = Naming::of_request(request.service_id, &request.private_data);
        let found = self.listeners.find(request.service_id, naming, ends.local);
        let accepts = found.map(|(_, accepts)| accepts);
        // Who asks another manager is answered by that one.
        let answers = accepts.is_some() || self.settings.is_alone();
        let pair = PairKey { remote: ends.remote, guid: request.ca_guid, number: request.qp_number };
        if let Some(number) = self.table.of_pair(&pair) {
            if answers {
                self.refuse_request(ends, transaction_id, request.local_id, Reason::STALE_CONNECTION, &[]);
            }
            return self.end_stale(now, number);
        }
        if !answers {
            return;
        }
        let header = match check_request(ends, request, accepts) {
            Ok(header) => header,
            Err((reason, info)) => {
                let info = info.as_ref().map_or(&[][..], |gid| &gid[..]);
                return self.refuse_request(ends, transaction_id, request.local_id, reason, info);
            }
        };
        if self.events.len() >= EVENTS_MAX {
            return;
        }
        let timing = Timing {
            timeout: peers_time(request.local_cm_timeout),
            repeats: request.max_cm_retries & 15,
            time_wait: peers_time(request.primary.ack_timeout),
        };
        let mut new = self.new_communication(State::RequestReceived, ends, timing);
        new.peers_transaction_id = transaction_id;
        let id = new.id;
        self.table.insert(new);
        if !self.table.open_half(id.number) {
            return self.table.remove(id.number);
        }
        self.table.learn(id.number, remote, Some(pair));
        self.tell(id.number, Event::Asked { id, ends, header, request: Box::new(*request) });
    }

    /// Nobody takes a request or a question that came to a manager which is not alone, as who drives it has found: says so, for all of
    /// them. Any other message is not answered.
    pub fn refuse_unclaimed(&mut self, ends: Ends, datagram: &ManagementDatagram) {
        let transaction_id = datagram.transaction_id;
        match &datagram.message {
            Message::ConnectRequest(request) => {
                self.refuse_request(ends, transaction_id, request.local_id, Reason::INVALID_SERVICE_ID, &[]);
            }
            Message::ServiceRequest(request) => self.refuse_question(ends, transaction_id, request),
            _ => (),
        }
    }

    /// Another manager answers a request, which every one hears: the connection that its queue pair had here is over.
    pub fn leave_to_another(&mut self, now: T, ends: Ends, datagram: &ManagementDatagram) {
        let Message::ConnectRequest(request) = &datagram.message else { return };
        let pair = PairKey { remote: ends.remote, guid: request.ca_guid, number: request.qp_number };
        if let Some(number) = self.table.of_pair(&pair) {
            self.end_stale(now, number);
        }
    }

    fn refuse_request(&mut self, ends: Ends, transaction_id: u64, remote: u32, reason: Reason, info: &[u8]) {
        let reject = rejection(Ids { local: 0, remote }, Answered::Request, reason, info);
        self.send(ends, transaction_id, Message::Reject(reject));
    }

    /// A request came again, or after its connection has ended.
    fn handle_repeated_request(&mut self, number: u32, transaction_id: u64) {
        let service_timeout = self.settings.service_timeout;
        let found = self.table.known(number);
        let (state, ends, ids) = (found.state, found.ends, found.ids());
        match state {
            State::RequestReceived => {
                let delay =
                    Delay { ids, answered: Answered::Request, service_timeout, private_data: [0; 222] };
                self.send(ends, transaction_id, Message::Delay(delay));
            }
            State::TimeWait => {
                self.refuse_request(ends, transaction_id, ids.remote, Reason::STALE_CONNECTION, &[]);
            }
            State::Rejected => self.say_again(number),
            // The reply is repeated by itself.
            _ => (),
        }
    }
}

/// Why a request is refused, if it is; what stands in front of its private data, if it is not.
fn check_request(
    ends: Ends,
    request: &ConnectRequest,
    accepts: Option<Accepts>,
) -> Result<Option<AddressHeader>, (Reason, Option<[u8; 16]>)> {
    let accepts = accepts.ok_or((Reason::INVALID_SERVICE_ID, None))?;
    let here = ends.local.gid();
    let path = &request.primary;
    let in_partition = request.p_key & P_KEY_MASK == DEFAULT_P_KEY & P_KEY_MASK;
    // Packets go to where the request says: nobody has them sent to another host.
    if !in_partition || path.local_gid != ends.remote.gid() || path.remote_gid != here {
        return Err((Reason::INVALID_GID, Some(here)));
    }
    if PathMtu::from_number(request.path_mtu.into()).is_none() {
        return Err((Reason::INVALID_MTU, None));
    }
    if accepts != Accepts::Connections(request.transport) {
        return Err((Reason::CONSUMER, None));
    }
    check_header(ends, request.service_id, &request.private_data).map_err(|()| (Reason::CONSUMER, None))
}

/// Reads what stands in front of the private data of a request for a port, which has to be what the datagram's addresses are. Nothing does
/// if who asks has named both by GIDs; whether that is for the listener, the listener says.
pub(super) fn check_header(
    ends: Ends,
    service_id: u64,
    private_data: &[u8],
) -> Result<Option<AddressHeader>, ()> {
    if !PortSpace::is_port(service_id) {
        return Ok(None);
    }
    let header = match Front::read(private_data).ok_or(())? {
        Front::Addresses(header) => header,
        Front::Nothing => return Ok(None),
    };
    let is_right = header.source == ends.remote && header.destination == ends.local;
    if is_right { Ok(Some(header)) } else { Err(()) }
}

//! Whose a request or a question is, among managers that all hear it.

use nonic_protocol::Moment;

use super::ConnectionManager;
use super::communication::RemoteKey;
use super::event::Ends;
use crate::management::{ManagementDatagram, Message, Naming};

/// Whose a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This manager's.
    Own,
    /// This manager's, unless another one listens for requests that are named so: the listener here is named the other way.
    OwnUnless(Naming),
    /// Nobody's here.
    None,
}

impl<T: Moment> ConnectionManager<T> {
    /// Whether a request or a question is this manager's to answer: somebody listens here, or it comes again. Of other messages it is
    /// always so, or not to be known.
    pub fn claim(&self, ends: Ends, datagram: &ManagementDatagram) -> Claim {
        let (service_id, guid, number, said) = match &datagram.message {
            Message::ConnectRequest(request) => {
                (request.service_id, Some(request.ca_guid), request.local_id, &request.private_data[..])
            }
            Message::ServiceRequest(request) => {
                (request.service_id, None, request.request_id, &request.private_data[..])
            }
            _ => return Claim::Own,
        };
        if self.table.of_remote(&RemoteKey { remote: ends.remote, guid, number }).is_some() {
            return Claim::Own;
        }
        let naming = Naming::of_request(service_id, said);
        match self.listeners.find(service_id, naming, ends.local) {
            Some((found, _)) if found == naming => Claim::Own,
            Some(_) => Claim::OwnUnless(naming),
            None => Claim::None,
        }
    }
}

//! Answering requests, and being established.

use std::sync::{Arc, Weak};

use nonic_connection::flush;

use super::connecting::{Follower, Link};
use super::line::{Asker, Line};
use super::{Core, State};
use crate::facts::Facts;
use crate::{ConnectionParameters, Error, EventKind, Id, Parameters};

impl Id {
    /// Accepts a request (`rdma_accept(3)`), whose queue pair is in RTS: ESTABLISHED when the other side knows; of datagrams
    /// nothing more happens.
    ///
    /// Errors: `State` unless the identifier came with a request that is undecided, `Argument` for too much private data.
    pub fn accept(self: &Arc<Self>, parameters: &ConnectionParameters) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Connect])?;
        if !matches!(core.link, Link::Pending(_)) {
            return Err(Error::State(core.state));
        }
        if parameters.private_data.len() > self.kind().reply_max() {
            return Err(Error::Argument("there is more private data than a reply carries"));
        }
        let (Some(source), Some(destination)) = (core.source, core.destination) else {
            return Err(Error::State(core.state));
        };
        let Link::Pending(request) = std::mem::replace(&mut core.link, Link::Over) else {
            return Err(Error::State(core.state));
        };
        let request = match request {
            Asker::Host(request) => request,
            Asker::Wire(connection) => return self.accept_by_wire(&mut core, connection, parameters),
        };
        let (packet, kind) = (core.packet, self.kind());
        let facts = Facts { parameters: parameters.clone(), packet, source, destination, kind };
        let follower = Arc::new(Follower(Weak::clone(&self.this)));
        match request.accept(&facts.emit(), &parameters.private_data, follower) {
            // Who asks for datagrams has no connection: the answer is all.
            Ok(connection) if self.is_datagram() => drop(connection),
            Ok(connection) => core.link = Link::Accepted(Line::Host(connection)),
            Err((error, request)) => {
                core.link = Link::Pending(Asker::Host(request));
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Rejects a request, or after CONNECT_RESPONSE the connection (`rdma_reject(3)`), with [`crate::REJECT_CONSUMER`] or another
    /// reason. Errors: `State`, `Argument` for too much private data.
    pub fn reject(&self, private_data: &[u8], reason: i32) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Connect])?;
        if private_data.len() > self.kind().reject_max() {
            return Err(Error::Argument("there is more private data than a rejection carries"));
        }
        let reason = u8::try_from(reason).map_err(|_| Error::Argument("there is no such reason"))?;
        match std::mem::replace(&mut core.link, Link::Over) {
            Link::Pending(Asker::Host(request)) => request.reject(&[&[reason], private_data].concat()),
            Link::Pending(Asker::Wire(connection)) => self.reject_by_wire(connection, reason, private_data),
            Link::Answered(connection) => connection.reject(reason, private_data),
            other => {
                core.link = other;
                return Err(Error::State(core.state));
            }
        }
        drop(core);
        // The other side hears it, whatever becomes of this process now.
        flush();
        Ok(())
    }

    /// Says that this side is ready, after CONNECT_RESPONSE (`rdma_establish(3)`). Errors: `State`.
    pub fn establish(&self) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Connect])?;
        match std::mem::replace(&mut core.link, Link::Over) {
            Link::Answered(connection) => {
                let confirmed = connection.confirm();
                core.link = Link::Open(connection);
                confirmed
            }
            other => {
                core.link = other;
                Err(Error::State(core.state))
            }
        }
    }

    /// A message has come although the other side has not said that it is ready (`rdma_notify(3)` with `IBV_EVENT_COMM_EST`): the
    /// connection is established. Errors: `State`.
    pub fn notify_established(&self) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Connect, State::Disconnect])?;
        if matches!(core.link, Link::None) {
            return Err(Error::State(core.state));
        }
        if let Link::Accepted(connection) = &core.link {
            connection.is_established();
        }
        self.establish_accepted(&mut core);
        Ok(())
    }

    /// The other side is ready.
    pub(super) fn is_established(&self) {
        self.establish_accepted(&mut self.lock());
    }

    fn establish_accepted(&self, core: &mut Core) {
        match std::mem::replace(&mut core.link, Link::Over) {
            Link::Accepted(connection) => {
                core.link = Link::Open(connection);
                let nothing = Parameters::Connection(ConnectionParameters::default());
                self.push(core, EventKind::Established, 0, nothing);
            }
            other => core.link = other,
        }
    }
}

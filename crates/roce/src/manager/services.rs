//! Where datagrams of a service go to (IBTA vol. 1, 12.11).

use alloc::boxed::Box;
use core::time::Duration;

use nonic_protocol::{Moment, QpNumber};

use super::communication::{RemoteKey, State, Timing};
use super::event::{Accepts, CallError, CommunicationId, Ends, Event, Service, ServiceAnswer, private_data};
use super::requests::check_header;
use super::settings::time;
use super::{ConnectionManager, EVENTS_MAX, check_ends};
use crate::management::{AddressHeader, Message, Naming, ServiceReply, ServiceRequest};
use crate::packet::DEFAULT_P_KEY;

/// An answer is remembered for so long: until who did not hear it has asked again twice.
const REMEMBERED: Duration = Duration::from_secs(10);
/// There is no such service.
const UNSUPPORTED: u8 = 1;
/// The service does not want to.
const REJECTED: u8 = 2;

impl<T: Moment> ConnectionManager<T> {
    /// Asks where datagrams of a service go to: `ServiceAnswered` or `Unreachable`. Private data are 216 bytes at most, of a port
    /// 180. Errors: `Addresses`, `PrivateData`.
    pub fn resolve_service(
        &mut self,
        now: T,
        ends: Ends,
        service: Service,
        data: &[u8],
    ) -> Result<CommunicationId, CallError> {
        check_ends(ends)?;
        let private_data = private_data(service.header(ends), data)?;
        let timing = Timing {
            timeout: time(self.settings.response_timeout),
            repeats: self.settings.repeats.min(15),
            time_wait: Duration::ZERO,
        };
        let new = self.new_communication(State::ServiceSent, ends, timing);
        let id = new.id;
        self.table.insert(new);
        let request = ServiceRequest {
            request_id: id.number,
            p_key: DEFAULT_P_KEY,
            service_id: service.id(),
            private_data,
        };
        self.say(id.number, false, Message::ServiceRequest(request));
        self.await_answer(now, id.number, State::ServiceSent);
        Ok(id)
    }

    /// Says where datagrams go to, or that they go nowhere; the communication is over. Private data are 136 bytes at most. Errors:
    /// `Unknown`, `State`, `PrivateData`, `Range` for a reason of 0.
    pub fn answer_service(
        &mut self,
        now: T,
        id: CommunicationId,
        answer: ServiceAnswer,
        data: &[u8],
    ) -> Result<(), CallError> {
        let private_data = private_data(None, data)?;
        let (status, qp_number, q_key) = match answer {
            ServiceAnswer::QueuePair { number, q_key } if number.0 <= 0xff_ffff => (0, number, q_key),
            ServiceAnswer::Refused(status) if status != 0 => (status, QpNumber(0), 0),
            _ => return Err(CallError::Range),
        };
        self.in_states(id, &[State::ServiceReceived])?;
        self.say_service(now, id.number, status, qp_number, q_key, private_data);
        Ok(())
    }

    pub(super) fn refuse_service(&mut self, now: T, number: u32) {
        self.say_service(now, number, REJECTED, QpNumber(0), 0, [0; 136]);
    }

    /// Answers, and remembers it for a while: who did not hear it, asks again.
    fn say_service(
        &mut self,
        now: T,
        number: u32,
        status: u8,
        qp_number: QpNumber,
        q_key: u32,
        private_data: [u8; 136],
    ) {
        let found = self.table.known(number);
        let (request_id, service_id) = (found.remote_number, found.service_id);
        let reply = reply(request_id, service_id, status);
        let reply = ServiceReply { qp_number, q_key, private_data, ..reply };
        self.say(number, true, Message::ServiceReply(reply));
        self.table.enter(number, State::ServiceAnswered, Some(now + REMEMBERED));
        if !self.table.known(number).is_released {
            self.table.release(number, self.settings.left_behind);
        }
    }

    /// A peer asks.
    pub(super) fn handle_question(&mut self, ends: Ends, transaction_id: u64, request: &ServiceRequest) {
        let remote = RemoteKey { remote: ends.remote, guid: None, number: request.request_id };
        if let Some(number) = self.table.of_remote(&remote) {
            if self.table.known(number).state == State::ServiceAnswered {
                self.say_again(number);
            }
            return;
        }
        let naming = Naming::of_request(request.service_id, &request.private_data);
        let Some((_, accepts)) = self.listeners.find(request.service_id, naming, ends.local) else {
            if self.settings.is_alone() {
                self.refuse_question(ends, transaction_id, request);
            }
            return;
        };
        let header = match check_question(ends, request, accepts) {
            Ok(header) => header,
            Err(status) => {
                let reply = reply(request.request_id, request.service_id, status);
                return self.send(ends, transaction_id, Message::ServiceReply(reply));
            }
        };
        if self.events.len() >= EVENTS_MAX {
            return;
        }
        let timing = Timing { timeout: REMEMBERED, repeats: 0, time_wait: Duration::ZERO };
        let mut new = self.new_communication(State::ServiceReceived, ends, timing);
        new.peers_transaction_id = transaction_id;
        new.service_id = request.service_id;
        let id = new.id;
        self.table.insert(new);
        if !self.table.open_half(id.number) {
            return self.table.remove(id.number);
        }
        self.table.learn(id.number, remote, None);
        self.tell(id.number, Event::ServiceAsked { id, ends, header, request: Box::new(*request) });
    }

    /// There is no such service.
    pub(super) fn refuse_question(&mut self, ends: Ends, transaction_id: u64, request: &ServiceRequest) {
        let reply = reply(request.request_id, request.service_id, UNSUPPORTED);
        self.send(ends, transaction_id, Message::ServiceReply(reply));
    }

    /// The peer answers.
    pub(super) fn handle_answer(&mut self, ends: Ends, reply: &ServiceReply) {
        let found = self.table.get(reply.request_id);
        let Some(found) = found.filter(|found| found.ends.remote == ends.remote) else { return };
        if found.state != State::ServiceSent {
            return;
        }
        let id = found.id;
        let answer = match reply.status {
            0 => ServiceAnswer::QueuePair { number: reply.qp_number, q_key: reply.q_key },
            status => ServiceAnswer::Refused(status),
        };
        self.end(id.number, Event::ServiceAnswered { id, answer, reply: Box::new(*reply) });
    }
}

/// What stands in front of the private data, or why the question is refused.
fn check_question(
    ends: Ends,
    request: &ServiceRequest,
    accepts: Accepts,
) -> Result<Option<AddressHeader>, u8> {
    if accepts != Accepts::Datagrams {
        return Err(REJECTED);
    }
    check_header(ends, request.service_id, &request.private_data).map_err(|()| REJECTED)
}

fn reply(request_id: u32, service_id: u64, status: u8) -> ServiceReply {
    ServiceReply {
        request_id,
        status,
        info_length: 0,
        qp_number: QpNumber(0),
        service_id,
        q_key: 0,
        info: [0; 72],
        private_data: [0; 136],
    }
}

//! What programs want of connections.

use nonic_protocol::{Moment, QpNumber};

use super::communication::{Communication, State, Timing};
use super::ending::ended;
use super::event::{
    Accepts, CallError, CommunicationId, ConnectionOffer, Disconnection, Ends, Event, Service, Side,
    private_data,
};
use super::settings::time;
use super::{ConnectionManager, check_ends, rejection};
use crate::address::{HostAddress, flow_label_of_ports};
use crate::management::{
    Answered, ConnectReply, ConnectRequest, Ids, Message, Naming, Notice, Path, Reason, Reject,
};
use crate::packet::DEFAULT_P_KEY;
use crate::path_mtu::PathMtu;

/// Local identifiers of a way by IP.
const NO_LID: u16 = 0xffff;

impl<T: Moment> ConnectionManager<T> {
    /// From now on requests for a service are taken, at one address or at all: those that are named so, and the others where nobody listens
    /// for these. Errors: `Listening`.
    pub fn listen(
        &mut self,
        service_id: u64,
        naming: Naming,
        at: Option<HostAddress>,
        accepts: Accepts,
    ) -> Result<(), CallError> {
        self.listeners.add((service_id, naming, at), accepts)
    }

    /// From now on they are not. What was asked before is still to be answered.
    pub fn stop_listening(&mut self, service_id: u64, naming: Naming, at: Option<HostAddress>) {
        self.listeners.remove((service_id, naming, at));
    }

    /// Asks for a connection: `Replied`, `Rejected` or `Unreachable`. Private data are 92 bytes at most, of a port 56.
    ///
    /// Errors: `Addresses`, `PrivateData`, `Range` for a path MTU, retries or a queue pair's number that there are not.
    pub fn connect(
        &mut self,
        now: T,
        ends: Ends,
        service: Service,
        offer: &ConnectionOffer,
        side: &Side,
        data: &[u8],
    ) -> Result<CommunicationId, CallError> {
        check_ends(ends)?;
        let private_data = private_data(service.header(ends), data)?;
        check_side(side)?;
        if PathMtu::from_number(offer.path_mtu.into()).is_none() || offer.retry_count > 7 {
            return Err(CallError::Range);
        }
        let settings = self.settings;
        let ack_timeout = settings.ack_timeout(settings.ack_delay);
        let timing = Timing {
            timeout: settings.request_timeout(),
            repeats: settings.repeats.min(15),
            time_wait: time(ack_timeout),
        };
        let new = self.new_communication(State::RequestSent, ends, timing);
        let (id, number) = (new.id, new.id.number);
        self.table.insert(new);
        self.table.has_local_pair(number, side.qp_number);
        let label_of_ports = match service {
            Service::Port { port, source_port, .. } => flow_label_of_ports(source_port, port),
            Service::Number(_) => 0,
        };
        let primary = Path {
            local_lid: NO_LID,
            remote_lid: NO_LID,
            local_gid: ends.local.gid(),
            remote_gid: ends.remote.gid(),
            flow_label: offer.flow_label.unwrap_or(label_of_ports) & 0xf_ffff,
            packet_rate: 0,
            traffic_class: offer.traffic_class,
            hop_limit: offer.hop_limit,
            service_level: 0,
            subnet_local: false,
            ack_timeout,
        };
        let request = ConnectRequest {
            local_id: number,
            service_id: service.id(),
            ca_guid: settings.ca_guid,
            q_key: side.q_key,
            qp_number: side.qp_number,
            responder_resources: side.responder_resources,
            initiator_depth: side.initiator_depth,
            remote_cm_timeout: settings.response_timeout,
            transport: offer.transport,
            flow_control: side.flow_control,
            starting_psn: side.starting_psn,
            local_cm_timeout: settings.response_timeout,
            retry_count: offer.retry_count,
            p_key: DEFAULT_P_KEY,
            path_mtu: offer.path_mtu,
            rnr_retry: side.rnr_retry,
            max_cm_retries: timing.repeats,
            has_srq: side.has_srq,
            primary,
            alternate: None,
            private_data,
        };
        self.say(number, false, Message::ConnectRequest(request));
        self.await_answer(now, number, State::RequestSent);
        Ok(id)
    }

    /// Accepts a request: `Established`, `Rejected` or `Unreachable`. The queue pair takes packets by now. Private data are 196
    /// bytes at most. Errors: `Unknown`, `State`, `PrivateData`, `Range`.
    pub fn accept(&mut self, now: T, id: CommunicationId, side: &Side, data: &[u8]) -> Result<(), CallError> {
        let private_data = private_data(None, data)?;
        check_side(side)?;
        let settings = self.settings;
        self.in_states(id, &[State::RequestReceived])?;
        self.table.has_local_pair(id.number, side.qp_number);
        let found = self.table.known(id.number);
        let reply = ConnectReply {
            ids: found.ids(),
            q_key: side.q_key,
            qp_number: side.qp_number,
            starting_psn: side.starting_psn,
            responder_resources: side.responder_resources,
            initiator_depth: side.initiator_depth,
            target_ack_delay: settings.ack_delay,
            failover: 0,
            flow_control: side.flow_control,
            rnr_retry: side.rnr_retry,
            has_srq: side.has_srq,
            ca_guid: settings.ca_guid,
            private_data,
        };
        self.say(id.number, true, Message::ConnectReply(reply));
        self.await_answer(now, id.number, State::ReplySent);
        Ok(())
    }

    /// Says that this side is ready as well, after `Replied`. Its queue pair sends and takes packets by now. Private data are 224
    /// bytes at most. Errors: `Unknown`, `State`, `PrivateData`.
    pub fn establish(&mut self, id: CommunicationId, data: &[u8]) -> Result<(), CallError> {
        let private_data = private_data(None, data)?;
        let ids = self.in_states(id, &[State::ReplyReceived])?.ids();
        self.say(id.number, true, Message::ReadyToUse(Notice { ids, private_data }));
        self.table.enter(id.number, State::Established, None);
        Ok(())
    }

    /// A packet of the peer's has come to the queue pair, so the peer is ready, whether it has said so or not: `Established`.
    /// Without effect if it was known. Errors: `Unknown`, `State` if it has not been accepted.
    pub fn communication_established(&mut self, id: CommunicationId) -> Result<(), CallError> {
        let found = self.in_states(id, &[State::ReplySent, State::Established])?;
        if found.state == State::ReplySent {
            self.table.enter(id.number, State::Established, None);
            self.tell(id.number, Event::Established { id });
        }
        Ok(())
    }

    /// The same of whose queue pair this is, if it is a connection's.
    pub fn pair_is_connected(&mut self, pair: QpNumber) {
        if let Some(id) = self.of_local_pair(pair, State::ReplySent) {
            let _ = self.communication_established(id);
        }
    }

    /// The peer of a queue pair is not there any more, as its silence shows: `Disconnected`, `TimeWaitOver`. It is told once that the connection
    /// ends, if it hears after all. Without effect if the queue pair is no connection's.
    pub fn pair_is_silent(&mut self, now: T, pair: QpNumber) {
        let Some(id) = self.of_local_pair(pair, State::Established) else { return };
        let message = self.table.known(id.number).disconnect_request([0; 220]);
        self.say(id.number, false, message);
        self.tell(id.number, ended(id, Disconnection::Unanswered));
        self.enter_time_wait(now, id.number);
    }

    fn of_local_pair(&mut self, pair: QpNumber, state: State) -> Option<CommunicationId> {
        let number = self.table.of_local_pair(pair)?;
        let found = self.table.get(number).filter(|found| found.state == state)?;
        Some(found.id)
    }

    /// Rejects what the peer asked for or replied, for a reason; the communication is over. `info` are 72 bytes at most, private
    /// data 148. Errors: `Unknown`, `State`, `PrivateData`, `Range` for the info.
    pub fn reject(
        &mut self,
        now: T,
        id: CommunicationId,
        reason: Reason,
        info: &[u8],
        data: &[u8],
    ) -> Result<(), CallError> {
        let private_data = private_data(None, data)?;
        if info.len() > 72 {
            return Err(CallError::Range);
        }
        self.in_states(id, &[State::RequestReceived, State::ReplyReceived])?;
        self.refuse(now, id.number, reason, info, private_data);
        Ok(())
    }

    /// Ends a connection, or agrees to its end: `Disconnected`, which has been told in that case, then `TimeWaitOver`. Without effect
    /// if it has ended. Private data are 220 bytes at most; who agrees says none. Errors: `Unknown`, `State` if it was not
    /// established, `PrivateData`.
    pub fn disconnect(&mut self, now: T, id: CommunicationId, data: &[u8]) -> Result<(), CallError> {
        use State::{DisconnectReceived, DisconnectSent, Established, TimeWait};
        let private_data = private_data(None, data)?;
        let found = self.in_states(id, &[Established, DisconnectSent, DisconnectReceived, TimeWait])?;
        match found.state {
            Established => self.ask_to_end(now, id.number, private_data),
            DisconnectReceived => self.agree_to_end(now, id.number),
            _ => (),
        }
        Ok(())
    }

    /// There is no room for what a peer asks: nothing was said, and nothing is remembered of it. Who asks, asks again. Errors: `Unknown`,
    /// `State` if it was answered.
    pub fn ignore(&mut self, id: CommunicationId) -> Result<(), CallError> {
        self.in_states(id, &[State::RequestReceived, State::ServiceReceived])?;
        self.table.remove(id.number);
        Ok(())
    }

    /// The program does not want to know it any more; nothing is told of it from now on. What is open is rejected or ended, as often as
    /// it has to be said. Errors: `Unknown`.
    pub fn release(&mut self, now: T, id: CommunicationId) -> Result<(), CallError> {
        let number = id.number;
        let state = self.table.of_program(id)?.state;
        self.table.release(number, self.settings.left_behind);
        if self.table.get(number).is_none() {
            return Ok(());
        }
        match state {
            State::RequestSent => {
                let guid = self.settings.ca_guid.to_be_bytes();
                self.refuse(now, number, Reason::TIMEOUT, &guid, [0; 148]);
            }
            State::RequestReceived | State::ReplyReceived | State::ReplySent => {
                self.refuse(now, number, Reason::CONSUMER, &[], [0; 148]);
            }
            State::Established => self.ask_to_end(now, number, [0; 220]),
            State::DisconnectReceived => self.agree_to_end(now, number),
            State::ServiceReceived => self.refuse_service(now, number),
            State::ServiceSent => self.table.remove(number),
            State::DisconnectSent | State::TimeWait | State::Rejected | State::ServiceAnswered => (),
        }
        Ok(())
    }

    /// Rejects, and remembers it for a while: who did not hear of it, asks again.
    pub(super) fn refuse(
        &mut self,
        now: T,
        number: u32,
        reason: Reason,
        info: &[u8],
        private_data: [u8; 148],
    ) {
        let found = self.table.known(number);
        let (answered, ids) = match found.state {
            // Of the rejection of a request Linux gives no number of its own.
            State::RequestReceived => (Answered::Request, Ids { local: 0, remote: found.remote_number }),
            // Nothing that the peer said.
            State::RequestSent | State::ReplySent => (Answered::Other, found.ids()),
            _ => (Answered::Reply, found.ids()),
        };
        let is_answer = found.state != State::RequestSent;
        let deadline = now + 2 * found.timing.timeout;
        let message = rejection(ids, answered, reason, info);
        self.say(number, is_answer, Message::Reject(Reject { private_data, ..message }));
        self.table.enter(number, State::Rejected, Some(deadline));
        if !self.table.known(number).is_released {
            self.table.release(number, self.settings.left_behind);
        }
    }

    fn ask_to_end(&mut self, now: T, number: u32, private_data: [u8; 220]) {
        let found = self.table.known(number);
        let message = found.disconnect_request(private_data);
        self.say(number, false, message);
        self.await_answer(now, number, State::DisconnectSent);
    }

    fn agree_to_end(&mut self, now: T, number: u32) {
        let ids = self.table.known(number).ids();
        self.say(number, true, Message::DisconnectReply(Notice { ids, private_data: [0; 224] }));
        self.enter_time_wait(now, number);
    }

    /// Ends a connection whose peer has forgotten it (12.9.8.3.1).
    pub(super) fn end_stale(&mut self, now: T, number: u32) {
        if self.table.known(number).state == State::Established {
            self.ask_to_end(now, number, [0; 220]);
        }
    }

    pub(super) fn in_states(
        &mut self,
        id: CommunicationId,
        states: &[State],
    ) -> Result<&mut Communication<T>, CallError> {
        let found = self.table.of_program(id)?;
        if states.contains(&found.state) { Ok(found) } else { Err(CallError::State) }
    }

    pub(super) fn new_communication(&mut self, state: State, ends: Ends, timing: Timing) -> Communication<T> {
        let Self { table, numbers, settings, .. } = self;
        let id = table.new_id(|| settings.own_number(numbers.next() as u32));
        let mut new = Communication::new(id, state, ends, timing);
        new.transaction_id = numbers.next();
        new
    }
}

fn check_side(side: &Side) -> Result<(), CallError> {
    const NUMBERS: u32 = 0xff_ffff;
    let right = side.qp_number.0 <= NUMBERS && side.starting_psn.0 <= NUMBERS && side.rnr_retry <= 7;
    if right { Ok(()) } else { Err(CallError::Range) }
}

//! A program that uses a connection manager.

use std::collections::BTreeMap;
use std::time::Duration;

use nonic_protocol::{Psn, QpNumber};
use nonic_roce::{
    Accepts, CommunicationId, ConnectionManager, ConnectionOffer, Ends, HostAddress, ManagerSettings, Naming,
    PortSpace, Reason, Service, ServiceAnswer, Side, Transport,
};

use super::attempts::{Attempts, Deeds};
use crate::chance::Chance;

/// The port that somebody listens at, and one where nobody does.
const PORTS: [u16; 2] = [7174, 7175];
/// Queue pairs of a host.
const PAIRS: u32 = 40;
pub(super) const Q_KEY: u32 = 0x0123_4567;
/// How long a packet may be late, and some more.
const PACKET_LIFE: Duration = Duration::from_millis(300);

/// The addresses of a host and the other one.
pub(super) fn ends(number: usize) -> Ends {
    let address = |number| HostAddress::V4([192, 0, 2, number as u8]);
    Ends { local: address(number), remote: address(1 - number) }
}

/// How far a program has come with a communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Asking,
    Replied,
    Asked,
    Accepted,
    Connected,
    Ending,
    EndedByPeer,
    TimeWait,
    Resolving,
    Resolved,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) phase: Phase,
    pub(super) token: u64,
    pub(super) pair: QpNumber,
}

/// A program, and the manager that it uses.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) manager: ConnectionManager<Duration>,
    pub(super) number: usize,
    pub(super) known: BTreeMap<CommunicationId, Known>,
    /// Queue pairs, and from when on no late packet can come for each.
    free: Vec<(Duration, QpNumber)>,
}

pub(super) fn token_of(data: &[u8]) -> u64 {
    u64::from_be_bytes(*data.first_chunk().expect("there is room for a token"))
}

fn side(pair: QpNumber) -> Side {
    Side {
        qp_number: pair,
        starting_psn: Psn(pair.0 * 3),
        responder_resources: 1,
        initiator_depth: 1,
        rnr_retry: 7,
        flow_control: false,
        has_srq: false,
        q_key: 0,
    }
}

impl Program {
    pub(super) fn new(number: usize, chance: &mut Chance) -> Self {
        // A process that comes back has another GUID, by chance; now and then the same, and the same queue pairs.
        let guid = u64::from(chance.below(3)) << 8 | number as u64;
        let mut state = u64::from(chance.below(1 << 30));
        let numbers = move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state >> 24
        };
        let mut manager = ConnectionManager::new(ManagerSettings::new(guid), Box::new(numbers));
        let connections = Accepts::Connections(Transport::Reliable);
        manager
            .listen(PortSpace::Tcp.service_id(PORTS[0]), Naming::Ip, None, connections)
            .expect("nobody listens");
        manager
            .listen(PortSpace::Udp.service_id(PORTS[0]), Naming::Ip, None, Accepts::Datagrams)
            .expect("nobody listens");
        let free = (0..PAIRS).map(|pair| (Duration::ZERO, QpNumber(0x100 + pair))).collect();
        Self { manager, number, known: BTreeMap::new(), free }
    }

    fn take_pair(&mut self, chance: &mut Chance, now: Duration) -> Option<QpNumber> {
        let ready: Vec<_> = (0..self.free.len()).filter(|index| self.free[*index].0 <= now).collect();
        let index = *ready.get(chance.below(ready.len().max(1) as u32) as usize)?;
        Some(self.free.swap_remove(index).1)
    }

    /// It does not know it any more; its queue pair may be used again, if no late packet comes for it.
    pub(super) fn forget(&mut self, now: Duration, id: CommunicationId) -> Known {
        let known = self.known.remove(&id).expect("it is known");
        if known.pair != QpNumber(0) {
            self.free.push((now + PACKET_LIFE, known.pair));
        }
        known
    }

    /// Where this is.
    fn pick(&self, chance: &mut Chance, phases: &[Phase]) -> Option<CommunicationId> {
        let all: Vec<_> =
            self.known.iter().filter(|(_, known)| phases.contains(&known.phase)).map(|(id, _)| *id).collect();
        (!all.is_empty()).then(|| all[chance.below(all.len() as u32) as usize])
    }

    pub(super) fn ask(&mut self, chance: &mut Chance, now: Duration, attempts: &mut Attempts) {
        let Some(pair) = self.take_pair(chance, now) else { return };
        let is_listened_for = !chance.once_in(8);
        let port = if is_listened_for { PORTS[0] } else { PORTS[1] };
        let token = attempts.begin(self.number, pair, is_listened_for);
        let service = Service::Port { space: PortSpace::Tcp, port, source_port: 1 };
        let offer = ConnectionOffer {
            transport: Transport::Reliable,
            path_mtu: 3,
            retry_count: 7,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: None,
        };
        let data = token.to_be_bytes();
        let id = self.manager.connect(now, ends(self.number), service, &offer, &side(pair), &data);
        self.known.insert(id.expect("it is asked"), Known { phase: Phase::Asking, token, pair });
    }

    pub(super) fn ask_for_service(&mut self, chance: &mut Chance, now: Duration, attempts: &mut Attempts) {
        let is_listened_for = !chance.once_in(4);
        let port = if is_listened_for { PORTS[0] } else { PORTS[1] };
        let token = attempts.begin(self.number, QpNumber(0), is_listened_for);
        let service = Service::Port { space: PortSpace::Udp, port, source_port: 1 };
        let id = self.manager.resolve_service(now, ends(self.number), service, &token.to_be_bytes());
        let known = Known { phase: Phase::Resolving, token, pair: QpNumber(0) };
        self.known.insert(id.expect("it is asked"), known);
    }

    /// Answers something that waits for it, or ends a connection.
    pub(super) fn answer(&mut self, chance: &mut Chance, now: Duration, attempts: &mut Attempts) {
        use Phase::{Asked, Connected, EndedByPeer, Replied, Resolved};
        let phases = [Asked, Replied, Resolved, EndedByPeer, Connected];
        let Some(id) = self.pick(chance, &phases) else { return };
        self.answer_one(chance, now, attempts, id);
    }

    fn answer_one(
        &mut self,
        chance: &mut Chance,
        now: Duration,
        attempts: &mut Attempts,
        id: CommunicationId,
    ) {
        let Known { phase, token, .. } = self.known[&id];
        let deeds = &mut attempts.of(token).deeds[self.number];
        if matches!(phase, Phase::Asked | Phase::Replied) && chance.once_in(5) {
            deeds.rejected = true;
            deeds.is_gone = true;
            self.manager.reject(now, id, Reason::CONSUMER, &[], &[1]).expect("it may be rejected");
            self.forget(now, id);
            return;
        }
        match phase {
            Phase::Asked => {
                let Some(pair) = self.take_pair(chance, now) else { return };
                attempts.of(token).accepted.push(pair);
                let data = token.to_be_bytes();
                self.manager.accept(now, id, &side(pair), &data).expect("it may be accepted");
                self.known.insert(id, Known { phase: Phase::Accepted, token, pair });
            }
            Phase::Replied => {
                attempts.of(token).is_ready = true;
                self.manager.establish(id, &[]).expect("there is a reply");
                self.enter(id, Phase::Connected);
            }
            Phase::Resolved => {
                let is_refused = chance.once_in(4);
                let there = ServiceAnswer::QueuePair { number: QpNumber(token as u32), q_key: Q_KEY };
                let answer = if is_refused { ServiceAnswer::Refused(2) } else { there };
                attempts.of(token).deeds[self.number].rejected |= is_refused;
                self.manager.answer_service(now, id, answer, &[]).expect("there is a question");
                self.forget(now, id);
            }
            Phase::Connected => {
                deeds.wanted_end = true;
                self.manager.disconnect(now, id, &[]).expect("there is a connection");
                self.enter(id, Phase::Ending);
            }
            Phase::EndedByPeer => {
                deeds.wanted_end = true;
                self.manager.disconnect(now, id, &[]).expect("there was a connection");
                self.enter(id, Phase::TimeWait);
            }
            _ => (),
        }
    }

    /// Everything that waits for it, and no connection is ended.
    pub(super) fn answer_all(&mut self, chance: &mut Chance, now: Duration, attempts: &mut Attempts) {
        use Phase::{Asked, EndedByPeer, Replied, Resolved};
        let waits = |known: &Known| [Asked, Replied, Resolved, EndedByPeer].contains(&known.phase);
        let all: Vec<_> = self.known.iter().filter(|(_, known)| waits(known)).map(|(id, _)| *id).collect();
        for id in all {
            self.answer_one(chance, now, attempts, id);
        }
    }

    /// It ends everything, in one way or the other.
    pub(super) fn end_all(&mut self, chance: &mut Chance, now: Duration, attempts: &mut Attempts) {
        for id in self.known.keys().copied().collect::<Vec<_>>() {
            if chance.once_in(2) {
                self.release(now, attempts, id);
            } else {
                self.answer_one(chance, now, attempts, id);
            }
        }
    }

    /// It does not want to know one any more.
    pub(super) fn leave(&mut self, chance: &mut Chance, now: Duration, attempts: &mut Attempts) {
        use Phase::{
            Accepted, Asked, Asking, Connected, EndedByPeer, Ending, Replied, Resolved, Resolving, TimeWait,
        };
        let all =
            [Asking, Replied, Asked, Accepted, Connected, Ending, EndedByPeer, TimeWait, Resolving, Resolved];
        if let Some(id) = self.pick(chance, &all) {
            self.release(now, attempts, id);
        }
    }

    fn release(&mut self, now: Duration, attempts: &mut Attempts, id: CommunicationId) {
        self.manager.release(now, id).expect("it is known");
        let known = self.forget(now, id);
        let deeds = &mut attempts.of(known.token).deeds[self.number];
        *deeds = Deeds { rejected: true, wanted_end: true, is_gone: true, is_over: false };
    }

    /// A packet of the peer's arrives at a queue pair, if it sends any by now.
    pub(super) fn hear_packet(&mut self, attempts: &Attempts) {
        let ready = |(id, known): &(&CommunicationId, &Known)| {
            let attempt = &attempts.by_token[&known.token];
            known.phase == Phase::Accepted && attempt.is_ready && attempt.replied_by == id.number()
        };
        let Some((id, known)) = self.known.iter().find(ready) else { return };
        // Who sees it knows the communication, or the queue pair.
        if known.token.is_multiple_of(2) {
            self.manager.communication_established(*id).expect("it was accepted");
        } else {
            self.manager.pair_is_connected(known.pair);
        }
    }

    pub(super) fn enter(&mut self, id: CommunicationId, phase: Phase) {
        self.known.get_mut(&id).expect("it is known").phase = phase;
    }

    #[track_caller]
    pub(super) fn expect(&self, id: CommunicationId, phases: &[Phase]) -> u64 {
        let known = self.known.get(&id).expect("told of what it does not know");
        assert!(phases.contains(&known.phase), "told in {:?}", known.phase);
        known.token
    }

    pub(super) fn check_nothing_is_left(&self) {
        assert!(self.known.is_empty(), "it waits for ever: {:?}", self.known);
        assert!(self.manager.is_empty(), "{} communications are remembered for ever", self.manager.len());
    }
}

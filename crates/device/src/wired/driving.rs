//! Driving a queue pair's machine for packets: what it is told, and what it sends.

use std::time::{Duration, Instant};

use nonic_protocol::{AttributeMask, Happening, QpAttributes, QpState, QpType};
use nonic_roce::{Connection, HostAddress};
use nonic_wire::{Arrival, Losses, Run};

use super::surroundings::Around;
use crate::error::ModifyError;
use crate::nowhere;
use crate::queue_pair::{Core, Inner, QueuePair, Wired};
use crate::wire_address::{WireAddress, is_of_family, location_of};

/// When to look again for room in the kernel.
const ROOM_AGAIN: Duration = Duration::from_micros(50);
/// So many requests are not held back: a run is full.
const HELD_MAX: u64 = 64;
/// Bytes of a request that may be held back.
const SHORT: u64 = 4096;

impl QueuePair {
    /// Has the machine do something, and sends what it said. Nothing happens if there is none.
    pub(crate) fn on_wire(
        &self,
        core: &mut Core,
        work: impl FnOnce(&mut Connection<Instant>, &mut Around<'_>),
    ) {
        let Core { inner, wired: Some(wired), .. } = core else { return };
        wired.carrier.is_held = false;
        wired.exchange(inner);
        let Wired { connection, carrier } = &mut **wired;
        work(connection, &mut Around { pair: self, carrier });
        if let Some(mut outgoing) = carrier.outgoing.take() {
            if outgoing.flush() {
                carrier.wire.put_back(outgoing);
            } else {
                carrier.waits = true;
                carrier.outgoing = Some(outgoing);
            }
        }
        let room = carrier.waits.then(|| Instant::now() + ROOM_AGAIN);
        let next = [connection.poll_timeout(), room].into_iter().flatten().min();
        if let Some(next) = next
            && carrier.timer.is_none_or(|timer| next < timer)
        {
            carrier.timer = Some(next);
            self.engine().schedule(next, self.number());
        }
        wired.exchange(inner);
        if inner.send.tells_end && inner.send.is_empty() {
            self.tell_end(inner);
        }
    }

    /// Sends what was posted and what is owed.
    #[cold]
    pub(crate) fn pump_wire(&self, core: &mut Core) {
        let now = Instant::now();
        self.on_wire(core, |connection, around| connection.pump(now, around));
    }

    /// Sends what was posted; a short request to a peer that is about to answer others with the next look at the wire, together with
    /// those that are posted until then: the kernel takes a run of packets as fast as one. If nobody looks, the answer brings it.
    pub(crate) fn ring_wire(&self, core: &mut Core) {
        if let Some(wired) = &mut core.wired {
            wired.carrier.replies.has_sent();
        }
        if self.may_wait(core) {
            self.hold(core);
        } else {
            self.engine().at_wire(|| self.pump_wire(core));
        }
    }

    fn may_wait(&self, core: &Core) -> bool {
        let Core { inner: Inner { send, attributes, .. }, wired: Some(wired), .. } = core else {
            return false;
        };
        let (unsent, Some(last)) = (send.posted - send.started, send.posted.checked_sub(1)) else {
            return false;
        };
        wired.connection.awaits_answer(attributes.state)
            && !wired.carrier.waits
            && (1..HELD_MAX).contains(&unsent)
            && send.slot(last).total <= SHORT
    }

    /// Has the machine go on with the next look at the wire.
    fn hold(&self, core: &mut Core) {
        if let Some(wired) = &mut core.wired
            && !std::mem::replace(&mut wired.carrier.is_held, true)
        {
            self.engine().hold_on_wire(self.number());
        }
    }

    /// Goes on with what was held back, or after packets were taken.
    pub(crate) fn answer_on_wire(&self) {
        if self.transport() == QpType::UnreliableDatagram {
            self.flush_datagrams();
        } else {
            self.pump_wire(&mut self.lock());
        }
    }

    /// The program, which polls, gets what was taken last: goes on, or waits for its reply, which will take along what is owed. Whether it
    /// waits.
    pub(crate) fn waits_for_reply_on_wire(&self) -> bool {
        let mut core = self.lock();
        let waits = core.wired.as_mut().is_some_and(|wired| wired.carrier.replies.expect());
        if !waits {
            self.pump_wire(&mut core);
        }
        waits
    }

    /// The program looks again, or will not.
    pub(crate) fn settle_on_wire(&self, core: &mut Core) {
        if let Some(wired) = &mut core.wired {
            wired.carrier.replies.has_looked();
        }
        self.pump_wire(core);
    }

    /// A timer fired.
    pub(crate) fn wire_timer_fired(&self, core: &mut Core, now: Instant) {
        self.on_wire(core, |connection, around| {
            around.carrier.timer = None;
            around.carrier.waits = false;
            if around.carrier.is_closed {
                connection.excuse_silence(now);
            }
            if connection.poll_timeout().is_some_and(|due| due <= now) {
                connection.handle_timeout(now, around);
            } else {
                connection.pump(now, around);
            }
        });
    }

    /// Finds the way to a peer that is on the wire, when the queue pair is told its address.
    pub(crate) fn find_wire(&self, core: &mut Core) {
        let Some(vector) = core.attributes.address_vector else { return };
        let port = self.context().port_state();
        // It stays with this: who connects has said before where it is met.
        if port.is_of_host(&vector) || port.meets_now(&vector).is_some() {
            return;
        }
        if self.transport() == QpType::UnreliableDatagram || !self.engine().may_use_wire() {
            return;
        }
        let Some(address) = WireAddress::of(port, &vector) else {
            if let Some(route) = &vector.global {
                let to = HostAddress::of_gid(route.destination);
                let own = port.gid_entry(route.source_index.into()).and_then(|entry| location_of(&entry));
                nowhere::leads_to_no_host(route, own.filter(|own| !is_of_family(own, to)));
            }
            return;
        };
        let Some((wire, station)) = self.engine().station(address.from) else { return };
        let is_closed = !self.context().port_state().leads_out(&core.attributes);
        if let Some(wired) = &mut core.wired {
            wired.carrier.is_closed = is_closed;
            return wired.turn_to(station, address.route);
        }
        match self.engine().path_mtu(&address.route, &station) {
            Ok(Some(mtu)) => {
                // The other side's interface carries as much, or its program would not have it so either.
                core.attributes.path_mtu = core.attributes.path_mtu.min(mtu as u32);
            }
            Ok(None) => {
                tracing::warn!(to = %address.to(), "the way there carries no packet of RoCEv2: its MTU is too small");
                return;
            }
            Err(error) => {
                tracing::warn!(to = %address.to(), %error, "there is no way to the address of the peer");
                return;
            }
        }
        let (kind, peer) = (self.transport(), core.attributes.destination_qp);
        let mut wired = Wired::new(kind, &self.capabilities, (wire, station), address.route, peer);
        wired.carrier.is_closed = is_closed;
        wired.connection.limit_silence(self.engine().wire_silence());
        core.wired = Some(wired);
    }

    /// Goes by what the port is now; whether it is closed to this queue pair. While it is closed, packets are lost, as on a cable that
    /// was drawn.
    pub(crate) fn port_changed_on_wire(&self, core: &mut Core) -> bool {
        let is_closed = !self.context().port_state().leads_out(&core.attributes);
        if let Some(wired) = &mut core.wired {
            wired.carrier.is_closed = is_closed;
        }
        self.pump_wire(core);
        is_closed
    }

    /// Refuses an address that would have a queue pair leave the wire in the middle of its life.
    pub(crate) fn stays_with_its_carrier(
        &self,
        core: &Core,
        attributes: &QpAttributes,
        mask: AttributeMask,
    ) -> Result<(), ModifyError> {
        let elsewhere = |vector| WireAddress::of(self.context().port_state(), vector).is_some();
        let leaves = core.is_wired()
            && mask.has(AttributeMask::ADDRESS_VECTOR)
            && !attributes.address_vector.as_ref().is_some_and(elsewhere);
        if leaves {
            Err(ModifyError::Value { what: "address of this host for a peer on another", value: 0 })
        } else {
            Ok(())
        }
    }

    /// It goes from one state to another, which has been noted.
    pub(crate) fn move_on_wire(&self, core: &mut Core, from: QpState, to: QpState) {
        use QpState as S;
        let now = Instant::now();
        let dropped_from = core.dropped_from.take();
        self.on_wire(core, |connection, around| {
            match (from, to) {
                (S::Init, S::ReadyToReceive) => {
                    connection.begin_to_receive();
                    if dropped_from == Some(around.carrier.route.to) {
                        connection.ask_again();
                    }
                }
                (S::ReadyToReceive | S::SendQueueError, S::ReadyToSend) => connection.begin_to_send(),
                (S::ReadyToSend, S::SendQueueDrain) => connection.begin_to_drain(),
                (S::SendQueueDrain, S::ReadyToSend) => connection.go_on_sending(),
                _ => {}
            }
            connection.pump(now, around);
        });
    }

    /// To ERR: what was received was received, and its sender is told first.
    pub(crate) fn stop_on_wire(&self, core: &mut Core) {
        let now = Instant::now();
        self.on_wire(core, |connection, around| {
            connection.pump(now, around);
            connection.stop(around);
        });
    }

    /// Takes the current datagram of a run, which is for it, and those for it that follow. Whether something may have to be said for them.
    pub(crate) fn take_packets(&self, run: &mut Run<'_>, losses: &Losses) -> bool {
        let mut core = self.lock();
        if self.transport() == QpType::UnreliableDatagram {
            self.each_of(run, losses, |arrival, datagram| {
                self.take_wire_datagram(&mut core, arrival, datagram)
            });
            return false;
        }
        if !core.state().receives() {
            core.dropped_from = Some(run.current().0.source);
        }
        let Core { inner, wired: Some(wired), .. } = &mut *core else {
            // Nobody on the wire is its peer.
            self.each_of(run, losses, |_, _| self.witness.sees(Happening::Dropped));
            return false;
        };
        let (now, mut took_one) = (Instant::now(), false);
        wired.exchange(inner);
        self.each_of(run, losses, |arrival, datagram| {
            took_one |= self.take_packet(wired, now, arrival, datagram);
        });
        let Wired { connection, carrier } = &mut **wired;
        if took_one {
            carrier.replies.has_taken(connection.may_wait_to_acknowledge());
        }
        wired.exchange(inner);
        took_one
    }

    /// Those datagrams of a run for it that are not lost on purpose.
    fn each_of(&self, run: &mut Run<'_>, losses: &Losses, mut take: impl FnMut(&Arrival, &[u8])) {
        loop {
            if !losses.take_one() {
                let (arrival, datagram) = run.current();
                take(arrival, datagram);
            }
            if !run.goes_on_for(self.number()) {
                break;
            }
        }
    }

    /// Takes one that came; false if it is dropped.
    fn take_packet(&self, wired: &mut Wired, now: Instant, arrival: &Arrival, datagram: &[u8]) -> bool {
        let Wired { connection, carrier } = wired;
        let is_of_peer = !carrier.is_closed && arrival.comes_by(&carrier.station, &carrier.route);
        let read = if is_of_peer { arrival.read(datagram).ok() } else { None };
        let Some((packet, payload, _)) = read else {
            self.witness.sees(Happening::Dropped);
            return false;
        };
        if arrival.met_congestion() {
            connection.handle_congestion(now);
        }
        connection.set_little_room(arrival.was_handed_on);
        connection.handle(now, &mut Around { pair: self, carrier }, &packet, payload);
        true
    }

    /// One of its completion queues overran.
    pub(crate) fn fail_on_wire(&self, core: &mut Core) {
        self.on_wire(core, |connection, around| connection.fail(around));
    }
}

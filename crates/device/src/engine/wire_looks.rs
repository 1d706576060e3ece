//! Looking at the wire: what has come is taken by whoever drives, and what waited for that goes on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nonic_protocol::QpNumber;
use nonic_roce::{Body, MANAGEMENT, MANAGEMENT_Q_KEY};
use nonic_transport::BLOCK_SIZE;
use nonic_wire::{Arrival, Run, Taken, Wire};

use super::driver::Driver;
use super::{Engine, Progress, lock};
use crate::management::ManagementArrival;
use crate::management_datagrams::answer_for_nobody;

/// What waits for the next look, and what is known of who looks.
#[derive(Debug, Default)]
pub(super) struct WireLooks {
    /// How often somebody has looked at it.
    count: AtomicU32,
    /// How often a program has looked at it, and what it has sent while it was there. Hints: two threads may miss each other.
    steps: AtomicU32,
    program_is_there: AtomicBool,
    /// Queue pairs that go on with the next look.
    held: Mutex<Vec<QpNumber>>,
    has_held: AtomicBool,
}

impl WireLooks {
    #[inline]
    fn note_step(&self) {
        let steps = self.steps.load(Ordering::Relaxed).wrapping_add(1);
        self.steps.store(steps, Ordering::Relaxed);
    }
}

impl Engine {
    /// A queue pair goes on with the next look at the wire.
    pub(crate) fn hold_on_wire(&self, number: QpNumber) {
        lock(&self.wire_looks.held).push(number);
        self.wire_looks.has_held.store(true, Ordering::Release);
    }

    /// Has the agent look soon, if it does not anyway.
    pub(crate) fn have_agent_look(&self) {
        if !self.agent.looks_soon() {
            self.party.doorbell.signal();
        }
    }

    /// Which look at the wire was the last.
    pub(crate) fn looks_at_wire(&self) -> u32 {
        self.wire_looks.count.load(Ordering::Relaxed)
    }

    /// Has those go on that were to with the next look.
    pub(crate) fn release_on_wire(&self) {
        if !self.wire_looks.has_held.swap(false, Ordering::AcqRel) {
            return;
        }
        // Not in the loop's head, where the lock would be held to its end.
        let held = std::mem::take(&mut *lock(&self.wire_looks.held));
        for number in held {
            if let Some(pair) = self.find_pair(number) {
                pair.answer_on_wire();
            }
        }
    }

    /// Takes a management datagram.
    fn take_management(&self, arrival: &Arrival, datagram: &[u8]) {
        let observer = self.management_observer();
        let (Some(observer), Ok((packet, bytes, _))) = (observer, arrival.read(datagram)) else { return };
        if let Body::Datagram(came) = packet.body
            && came.q_key == MANAGEMENT_Q_KEY
        {
            observer.received(&ManagementArrival {
                source: arrival.source.gid(),
                destination: arrival.station.address().gid(),
                source_qp: came.source,
                bytes,
                was_handed_on: arrival.was_handed_on,
            });
        }
    }

    /// Takes what has come by the wire.
    #[inline]
    pub(super) fn look_at_wire(&self, driver: &mut Driver, again: bool) -> Progress {
        match self.wires.wire.get() {
            None => Progress::default(),
            Some(wire) => {
                if again {
                    self.at_wire(|| self.take_from_wire(wire, driver, true))
                } else {
                    self.take_from_wire(wire, driver, false)
                }
            }
        }
    }

    /// Has a program look at the wire, or send much before it does.
    #[inline]
    pub(crate) fn at_wire<T>(&self, work: impl FnOnce() -> T) -> T {
        self.wire_looks.note_step();
        self.wire_looks.program_is_there.store(true, Ordering::Relaxed);
        let done = work();
        self.wire_looks.program_is_there.store(false, Ordering::Relaxed);
        done
    }

    /// A packet is made.
    #[inline]
    pub(crate) fn note_packet(&self) {
        if self.wire_looks.program_is_there.load(Ordering::Relaxed) {
            self.wire_looks.note_step();
        }
    }

    /// A number that moves while a program is at the wire.
    pub(crate) fn wire_steps(&self) -> u32 {
        self.wire_looks.steps.load(Ordering::Relaxed)
    }

    #[cold]
    fn take_from_wire(&self, wire: &Wire, driver: &mut Driver, again: bool) -> Progress {
        self.wire_looks.count.store(self.looks_at_wire().wrapping_add(1), Ordering::Relaxed);
        self.release_on_wire();
        // The queue pair that had the last packets. It says what it owes for all of them at once.
        let mut last = None;
        let mut take = |run: &mut Run<'_>| {
            let Some(number) = run.destination() else { return Taken::Taken };
            let (arrival, datagram) = run.current();
            if arrival.station.is_group() {
                if !self.wires.losses.take_one() {
                    self.take_for_group(driver, arrival, datagram);
                }
                return Taken::Taken;
            }
            if number == MANAGEMENT {
                if !self.wires.losses.take_one() {
                    self.take_management(arrival, datagram);
                }
                return Taken::Shared;
            }
            if last != Some(number)
                && let Some(last) = last.take()
            {
                self.answer_on_wire(driver, last);
            }
            let Some(pair) = driver.pair(number, || self.find_pair(number)) else {
                let is_own = self.own_blocks().contains(&(number.0 / BLOCK_SIZE));
                return if is_own { Taken::Taken } else { Taken::Elsewhere };
            };
            if pair.take_packets(run, &self.wires.losses) {
                last = Some(number);
            }
            Taken::Taken
        };
        let mut unclaimed = |arrival: &Arrival, datagram: &[u8]| answer_for_nobody(wire, arrival, datagram);
        let worked = if again {
            wire.receive_for_poller(&mut take, &mut unclaimed)
        } else {
            wire.receive(&mut take, &mut unclaimed)
        };
        if let Some(last) = last {
            self.settle_on_wire(driver, last, again);
        }
        if worked { Progress::WORKED } else { Progress::default() }
    }

    /// A queue pair says what it owes for the last packets, or leaves it to a reply of the program that polls.
    fn settle_on_wire(&self, driver: &mut Driver, number: QpNumber, again: bool) {
        if !again {
            return self.answer_on_wire(driver, number);
        }
        let Some(pair) = driver.pair(number, || self.find_pair(number)) else { return };
        let waits = pair.waits_for_reply_on_wire();
        // It shows at the next look whether there was a reply.
        driver.note_debt(number);
        // An agent that does not look soon would not know that it may have to say it: nothing is left that would wake it.
        if waits {
            self.have_agent_look();
        }
    }

    fn answer_on_wire(&self, driver: &mut Driver, number: QpNumber) {
        if let Some(pair) = driver.pair(number, || self.find_pair(number)) {
            pair.answer_on_wire();
        }
    }
}

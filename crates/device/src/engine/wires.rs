//! What an engine has on the wire: opened when a queue pair's peer is elsewhere, and looked at by whoever drives.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use nonic_protocol::{AddressVector, QpNumber};
use nonic_roce::{Body, MANAGEMENT, MANAGEMENT_Q_KEY, PathMtu};
use nonic_sys::{AddressWatch, AsFd, Seldom, wait_readable};
use nonic_transport::BLOCK_SIZE;
use nonic_wire::{Arrival, Location, Losses, MANAGERS_MAX, Route, Share, Station, Taken, Wire};

use super::driver::Driver;
use super::{Engine, Progress, lock};
use crate::agent;
use crate::config::{Config, WirePolicy};
use crate::management::{ManagementArrival, ManagementError, ManagementObserver};
use crate::management_datagrams::answer_for_nobody;
use crate::port::Port;
use crate::wire_address::{WireAddress, is_loopback, location_of};

/// The wire, once somebody needs it.
#[derive(Debug)]
pub(super) struct Wires {
    policy: WirePolicy,
    /// No packet has more, however much its way carries.
    mtu: PathMtu,
    /// How long the peer of a connection may be silent, though it is asked.
    silence: Option<Duration>,
    wire: OnceLock<Arc<Wire>>,
    losses: Arc<Losses>,
    /// How often somebody has looked at it.
    looks: AtomicU32,
    /// How often a program has looked at it, and what it has sent while it was there. Hints: two threads may miss each other.
    steps: AtomicU32,
    program_is_there: AtomicBool,
    /// Queue pairs that go on with the next look.
    held: Mutex<Vec<QpNumber>>,
    has_held: AtomicBool,
    /// Who is told of management datagrams, and which of the processes that are this one is.
    managed: Mutex<Option<(u8, Weak<dyn ManagementObserver>)>>,
    /// Tells of addresses that come and go, once somebody wants to know.
    addresses: OnceLock<AddressWatch>,
}

static NOT_OPEN: Seldom = Seldom::new();

impl Wires {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            policy: config.wire,
            mtu: config.mtu,
            silence: config.wire_silence,
            wire: OnceLock::new(),
            losses: Arc::default(),
            looks: AtomicU32::new(0),
            steps: AtomicU32::new(0),
            program_is_there: AtomicBool::new(false),
            held: Mutex::default(),
            has_held: AtomicBool::new(false),
            managed: Mutex::new(None),
            addresses: OnceLock::new(),
        }
    }
}

impl Wires {
    #[inline]
    fn note_step(&self) {
        let steps = self.steps.load(Ordering::Relaxed).wrapping_add(1);
        self.steps.store(steps, Ordering::Relaxed);
    }
}

impl Engine {
    /// Whether queue pairs may have peers on other hosts.
    pub(crate) fn may_use_wire(&self) -> bool {
        self.wires.policy != WirePolicy::Off
    }

    /// The station at an address of this host, which is opened if it is not open; or why it cannot be.
    pub(crate) fn try_station(&self, location: Location) -> Result<(Arc<Wire>, Arc<Station>), String> {
        let wire = self.open_wire()?;
        let (station, is_new) = wire.station(location).map_err(|error| error.to_string())?;
        if is_new {
            // Whoever drives has to know that there is something to look at.
            self.arm_wire();
        }
        Ok((wire, station))
    }

    /// The same for a queue pair. `None`: it cannot be, which has been said.
    pub(crate) fn station(&self, location: Location) -> Option<(Arc<Wire>, Arc<Station>)> {
        self.try_station(location)
            .inspect_err(|error| {
                if let Some(unsaid) = NOT_OPEN.turn() {
                    tracing::error!(error, unsaid, "a queue pair cannot reach another host");
                }
            })
            .ok()
    }

    /// Opens what datagrams from the host behind an address come to: whoever makes an address handle expects answers.
    pub(crate) fn be_reached_from(&self, port: &Port, vector: &AddressVector) {
        // Looked at now: it is not asked for again with every datagram.
        if port.is_of_host(vector) || port.meets_now(vector).is_some() {
            return;
        }
        if self.may_use_wire()
            && let Some(address) = WireAddress::of(port, vector)
        {
            self.station(address.from);
        }
    }

    /// Opens every address of this host but those that lead nowhere else, if that is asked for: a queue pair listens for datagrams.
    pub(crate) fn be_reached_from_anywhere(&self, port: &Port) {
        if self.is_all_open() {
            for location in port.gids().iter().filter_map(location_of).filter(|at| !is_loopback(at)) {
                self.station(location);
            }
        }
    }

    /// Has so many packets in a million lost that are sent to other hosts or come from there; how many were before.
    pub(super) fn lose(&self, per_million: u32) -> u32 {
        self.wires.losses.set(per_million)
    }

    /// Whether every address may be sent from and listened at, joined or not.
    pub(super) fn is_all_open(&self) -> bool {
        self.wires.policy == WirePolicy::Roce
    }

    pub(super) fn open_wire(&self) -> Result<Arc<Wire>, String> {
        if let Some(wire) = self.wires.wire.get() {
            return Ok(Arc::clone(wire));
        }
        let made = Wire::with(Arc::clone(&self.wires.losses), self.party().trusted_users.clone());
        let made = made.map_err(|error| format!("a descriptor to wait on (epoll_create): {error}"))?;
        let wire = self.wires.wire.get_or_init(|| {
            let made = Arc::new(made);
            let _ = self.agent.epoll.add_once(made.as_fd(), agent::WIRE);
            for block in self.own_blocks() {
                made.claim(Share::Block(block));
            }
            made
        });
        Ok(Arc::clone(wire))
    }

    /// Has somebody told of management datagrams. Which of the processes that are, this one is.
    pub(crate) fn tell_of_management(
        &self,
        observer: Weak<dyn ManagementObserver>,
    ) -> Result<u8, ManagementError> {
        let wire = self.open_wire().map_err(|reason| ManagementError::NotOpen { reason })?;
        let mut managed = lock(&self.wires.managed);
        let place = match managed.take() {
            Some((place, _)) => place,
            None => {
                let free = (0..MANAGERS_MAX).find(|place| wire.claim(Share::Management(*place)));
                free.ok_or(ManagementError::TooMany)?
            }
        };
        *managed = Some((place, observer));
        Ok(place)
    }

    /// The largest path MTU on a way from a station: by its interface, or a router that said so, and by what is asked for.
    pub(crate) fn path_mtu(&self, route: &Route, from: &Station) -> io::Result<Option<PathMtu>> {
        Ok(route.path_mtu(from)?.map(|mtu| mtu.min(self.wires.mtu)))
    }

    /// How long the peer of a connection on the wire may be silent, though it is asked; `None`: for ever.
    pub(crate) fn wire_silence(&self) -> Option<Duration> {
        self.wires.silence
    }

    /// Who is told of management datagrams.
    pub(crate) fn management_observer(&self) -> Option<Arc<dyn ManagementObserver>> {
        lock(&self.wires.managed).as_ref().and_then(|(_, observer)| observer.upgrade())
    }

    /// Has who is told of management datagrams told when addresses of this host come and go.
    pub(crate) fn watch_addresses(&self) -> io::Result<()> {
        if self.wires.addresses.get().is_none() {
            let made = AddressWatch::new()?;
            let watch = self.wires.addresses.get_or_init(|| made);
            // Another thread may have done so at the same moment.
            let _ = self.agent.epoll.add(watch.as_fd(), agent::ADDRESSES);
        }
        Ok(())
    }

    /// Something may have changed.
    pub(crate) fn addresses_changed(&self) {
        if self.wires.addresses.get().is_some_and(AddressWatch::has_changed)
            && let Some(observer) = self.management_observer()
        {
            observer.addresses_changed();
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

    /// A block of numbers is this process's from now on.
    pub(super) fn claim_on_wire(&self, block: u32) {
        if let Some(wire) = self.wires.wire.get() {
            wire.claim(Share::Block(block));
        }
    }

    /// Has the agent wake when something comes by the wire.
    pub(crate) fn arm_wire(&self) {
        if let Some(wire) = self.wires.wire.get() {
            let _ = self.agent.epoll.watch_once_more(wire.as_fd(), agent::WIRE);
        }
    }

    /// Whether something has come that nobody took.
    pub(crate) fn wire_waits(&self) -> bool {
        self.wires.wire.get().is_some_and(|wire| wait_readable(wire.as_fd(), Some(Duration::ZERO)))
    }

    /// A queue pair goes on with the next look at the wire.
    pub(crate) fn hold_on_wire(&self, number: QpNumber) {
        lock(&self.wires.held).push(number);
        self.wires.has_held.store(true, Ordering::Release);
    }

    /// Has the agent look soon, if it does not anyway.
    pub(crate) fn have_agent_look(&self) {
        if !self.agent.timed.load(Ordering::SeqCst) {
            self.party.doorbell.signal();
        }
    }

    /// Which look at the wire was the last.
    pub(crate) fn looks_at_wire(&self) -> u32 {
        self.wires.looks.load(Ordering::Relaxed)
    }

    /// Has those go on that were to with the next look.
    pub(super) fn release_on_wire(&self) {
        if !self.wires.has_held.swap(false, Ordering::AcqRel) {
            return;
        }
        // Not in the loop's head, where the lock would be held to its end.
        let held = std::mem::take(&mut *lock(&self.wires.held));
        for number in held {
            if let Some(pair) = self.find_pair(number) {
                pair.answer_on_wire();
            }
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
        self.wires.note_step();
        self.wires.program_is_there.store(true, Ordering::Relaxed);
        let done = work();
        self.wires.program_is_there.store(false, Ordering::Relaxed);
        done
    }

    /// A packet is made.
    #[inline]
    pub(crate) fn note_packet(&self) {
        if self.wires.program_is_there.load(Ordering::Relaxed) {
            self.wires.note_step();
        }
    }

    /// A number that moves while a program is at the wire.
    pub(crate) fn wire_steps(&self) -> u32 {
        self.wires.steps.load(Ordering::Relaxed)
    }

    #[cold]
    fn take_from_wire(&self, wire: &Wire, driver: &mut Driver, again: bool) -> Progress {
        self.wires.looks.store(self.looks_at_wire().wrapping_add(1), Ordering::Relaxed);
        self.release_on_wire();
        // The queue pair that had the last packets. It says what it owes for all of them at once.
        let mut last = None;
        let mut take = |arrival: &Arrival, datagram: &mut [u8]| {
            let Some(number) = Arrival::destination(datagram) else { return Taken::Taken };
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
            if !self.wires.losses.take_one() && pair.take_packet(arrival, datagram) {
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
        let Some(pair) = driver.pair(number, || self.find_pair(number)).filter(|_| again) else {
            return self.answer_on_wire(driver, number);
        };
        let waits = pair.expects_reply_on_wire();
        if !waits {
            pair.answer_on_wire();
        }
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

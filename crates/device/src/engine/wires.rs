//! What an engine has on the wire: opened when a queue pair's peer is elsewhere.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use nonic_protocol::AddressVector;
use nonic_roce::PathMtu;
use nonic_sys::{AddressWatch, AsFd, Seldom, wait_readable};
use nonic_wire::{Location, Losses, MANAGERS_MAX, Route, Share, Station, Wire};

use super::{Engine, lock};
use crate::agent;
use crate::config::{Config, WirePolicy};
use crate::management::{ManagementError, ManagementObserver};
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
    pub(super) wire: OnceLock<Arc<Wire>>,
    pub(super) losses: Arc<Losses>,
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
            managed: Mutex::new(None),
            addresses: OnceLock::new(),
        }
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
}

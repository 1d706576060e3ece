//! Sending datagrams of queue pair 1, and having somebody told of those that come: here they are only carried.

use std::sync::{Arc, Weak};

use nonic_roce::HostAddress;
use nonic_wire::{MANAGERS_MAX, Route, Station, Wire};

use crate::context::Context;
use crate::management::{ManagementError, ManagementObserver};
use crate::management_datagrams::send_management;
use crate::wire_address::location_of;

/// What sends and takes management datagrams for a process.
#[derive(Debug)]
pub struct ManagementPort {
    context: Arc<Context>,
    place: u8,
}

impl Context {
    /// Has `observer` told of every management datagram that comes to an address that is listened at
    /// ([`ManagementPort::listen`]). The last one who asked is told.
    pub fn open_management(
        self: &Arc<Self>,
        observer: Weak<dyn ManagementObserver>,
    ) -> Result<ManagementPort, ManagementError> {
        let owner = self.engine_owner();
        if !owner.may_use_wire() {
            return Err(ManagementError::Forbidden);
        }
        owner.ensure_agent().map_err(|_| ManagementError::NoAgent)?;
        let place = owner.tell_of_management(observer)?;
        Ok(ManagementPort { context: Arc::clone(self), place })
    }
}

impl ManagementPort {
    /// Processes of a user that take management datagrams, at most: a power of two.
    pub const PLACES: u8 = MANAGERS_MAX;

    /// Which of them this one is, from 0. Of processes that live at a time each is another.
    pub fn place(&self) -> u8 {
        self.place
    }

    /// Has the observer told when addresses of this host come and go.
    pub fn watch_addresses(&self) -> std::io::Result<()> {
        self.context.engine_owner().watch_addresses()
    }

    /// Takes what comes to the address at an index of the GID table from now on.
    pub fn listen(&self, index: u32) -> Result<(), ManagementError> {
        self.station(index).map(drop)
    }

    /// The path MTU (`enum ibv_mtu`) that packets from the address at an index of the GID table to another host have at most: by the
    /// interface, or what a router has said. `None`: none that RoCEv2 has. The address is listened at from now on.
    pub fn path_mtu(&self, index: u32, to: [u8; 16]) -> Result<Option<u8>, ManagementError> {
        let (_, station) = self.station(index)?;
        let route = Route { to: HostAddress::of_gid(to), traffic_class: 0, hop_limit: 0 };
        let found = self.context.engine_owner().path_mtu(&route, &station);
        let found = found.map_err(|error| ManagementError::NotOpen { reason: error.to_string() })?;
        Ok(found.map(|mtu| mtu as u8))
    }

    fn station(&self, index: u32) -> Result<(Arc<Wire>, Arc<Station>), ManagementError> {
        let entry = self.context.port_state().gid_entry(index);
        let location = entry.as_ref().and_then(location_of).ok_or(ManagementError::Index { index })?;
        let opened = self.context.engine_owner().try_station(location);
        opened.map_err(|reason| ManagementError::NotOpen { reason })
    }

    /// Sends a datagram from the address at an index of the GID table to queue pair 1 of another host, which is listened at from now on.
    /// False: the kernel had no room, or it is longer than the way carries; it is lost then, as it may be in any case.
    pub fn send(
        &self,
        index: u32,
        to: [u8; 16],
        traffic_class: u8,
        hop_limit: u8,
        bytes: &[u8],
    ) -> Result<bool, ManagementError> {
        let (wire, station) = self.station(index)?;
        let route = Route { to: HostAddress::of_gid(to), traffic_class, hop_limit };
        Ok(send_management(&wire, &station, &route, bytes))
    }
}

//! Multicast groups on the wire: which were joined where, and what comes to them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nonic_protocol::QpNumber;
use nonic_roce::{Body, GROUP, HostAddress, Packet};
use nonic_sys::{Seldom, interface_addresses};
use nonic_transport::{BLOCK_SIZE, GroupAddress};
use nonic_wire::{Arrival, Location};

use super::driver::Driver;
use super::{Engine, lock};
use crate::port::Port;
use crate::wire_address::{WireAddress, is_loopback, is_of_family, location_of};

/// The groups of the wire.
#[derive(Debug, Default)]
pub(super) struct WireGroups {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each time that one was joined, to receive or to send only.
    joined: Vec<(HostAddress, Location)>,
    /// Addresses of this host, when the last one was joined: members here are reached in another way.
    own: Vec<HostAddress>,
    /// What is known of senders, by address and block.
    senders: HashMap<([u8; 16], u32), Sender>,
}

/// Whether a process sends to members here through a folder as well.
#[derive(Clone, Copy, Debug)]
struct Sender {
    /// When it was last looked for in the folder.
    looked: Instant,
    /// When it was last seen there.
    seen: Option<Instant>,
}

/// How long a look counts.
const KNOWN_FOR: Duration = Duration::from_millis(20);
/// How long what a process has sent by the wire may still come after it has left the folder.
const LATE: Duration = Duration::from_secs(2);
/// So many senders are remembered.
const KNOWN_MAX: usize = 256;

static NOT_JOINED: Seldom = Seldom::new();

impl Engine {
    /// Attaches a queue pair to a group. If everything is open, what other hosts send to the group comes from now on, too.
    pub(crate) fn attach_to_group(
        &self,
        port: &Port,
        number: QpNumber,
        group: GroupAddress,
    ) -> std::io::Result<()> {
        if !self.groups.attach(number, group)? {
            return Ok(());
        }
        self.show_member(number, group);
        if !self.is_all_open() {
            return Ok(());
        }
        let address = HostAddress::of_gid(group.gid);
        // One of each interface.
        let mut interfaces: Vec<Location> = Vec::new();
        for location in port.gids().iter().filter_map(location_of) {
            let is_new = interfaces.iter().all(|other| other.interface != location.interface);
            if is_new && is_of_family(&location, address) && !is_loopback(&location) {
                interfaces.push(location);
            }
        }
        for location in interfaces {
            match self.join_on_wire(group.gid, location, true) {
                Ok(()) if self.groups.note_on_wire(number, group, location) => {}
                Ok(()) => self.leave_on_wire(group.gid, location, true),
                Err(error) => {
                    if let Some(unsaid) = NOT_JOINED.turn() {
                        tracing::warn!(error, unsaid, "a group is not joined on one of the interfaces");
                    }
                }
            }
        }
        Ok(())
    }

    /// Detaches it; false if it is not attached.
    pub(crate) fn detach_from_group(&self, number: QpNumber, group: GroupAddress) -> bool {
        let Some(on_wire) = self.groups.detach(number, group) else { return false };
        self.hide_member(number, group);
        on_wire.into_iter().for_each(|location| self.leave_on_wire(group.gid, location, true));
        true
    }

    /// A queue pair goes.
    pub(crate) fn forget_groups(&self, number: QpNumber) {
        for (group, on_wire) in self.groups.forget(number) {
            self.hide_member(number, group);
            on_wire.into_iter().for_each(|location| self.leave_on_wire(group.gid, location, true));
        }
    }

    /// Has what queue pairs here send to a group from an address go out, and if it `receives`, what comes to the group by that interface
    /// come to those that are attached to it; or why that cannot be.
    pub(crate) fn join_on_wire(&self, gid: [u8; 16], from: Location, receives: bool) -> Result<(), String> {
        let group = HostAddress::of_gid(gid);
        if !group.is_group() || !is_of_family(&from, group) || is_loopback(&from) {
            return Err("from that address no group is reached".to_owned());
        }
        let (wire, _) = self.try_station(from)?;
        if receives {
            let location = Location { address: group, interface: from.interface };
            if wire.join(location).map_err(|error| error.to_string())? {
                // Whoever drives has to know that there is something to look at.
                self.arm_wire();
            }
        }
        let own = interface_addresses().into_iter().map(|found| match found.address {
            std::net::IpAddr::V4(four) => HostAddress::V4(four.octets()),
            std::net::IpAddr::V6(six) => HostAddress::V6(six.octets()),
        });
        let mut state = lock(&self.wire_groups.state);
        state.own = own.collect();
        state.joined.push((group, from));
        Ok(())
    }

    /// Ends that.
    pub(crate) fn leave_on_wire(&self, gid: [u8; 16], from: Location, receives: bool) {
        let group = HostAddress::of_gid(gid);
        let mut state = lock(&self.wire_groups.state);
        if let Some(at) = state.joined.iter().position(|known| *known == (group, from)) {
            state.joined.swap_remove(at);
        }
        drop(state);
        if receives && let Ok(wire) = self.open_wire() {
            wire.leave(Location { address: group, interface: from.interface });
        }
    }

    /// Whether datagrams to a group go out from an address: somebody here has joined it there, or everything is open.
    pub(crate) fn sends_to_group(&self, address: &WireAddress) -> bool {
        let joined = |state: &State| state.joined.contains(&(address.route.to, address.from));
        self.is_all_open() || joined(&lock(&self.wire_groups.state))
    }

    /// Whether the sender sends to members here through a folder as well.
    fn comes_by_folder(&self, source: HostAddress, packet: &Packet) -> bool {
        let Body::Datagram(came) = packet.body else { return false };
        if self.meeting.is_none() {
            return false;
        }
        let (key, now) = ((source.gid(), came.source.0 / BLOCK_SIZE), Instant::now());
        let known = lock(&self.wire_groups.state).senders.get(&key).copied();
        let mut seen = known.and_then(|sender| sender.seen);
        if known.is_none_or(|sender| now >= sender.looked + KNOWN_FOR) {
            if self.sends_by_folder(&key.0, came.source) {
                seen = Some(now);
            }
            let mut state = lock(&self.wire_groups.state);
            if state.senders.len() >= KNOWN_MAX {
                state.senders.clear();
            }
            state.senders.insert(key, Sender { looked: now, seen });
        }
        seen.is_some_and(|seen| now < seen + LATE)
    }

    /// Takes what came to a group, for each queue pair that is attached to it.
    #[cold]
    pub(super) fn take_for_group(&self, driver: &mut Driver, arrival: &Arrival, datagram: &[u8]) {
        let is_own = |state: &State| state.own.contains(&arrival.source);
        if Arrival::destination(datagram) != Some(GROUP) || is_own(&lock(&self.wire_groups.state)) {
            return;
        }
        let Some(members) = self.groups.receivers(&arrival.station.address().gid()) else { return };
        let Ok((packet, payload, envelope)) = arrival.read(datagram) else { return };
        if self.comes_by_folder(arrival.source, &packet) {
            return;
        }
        let header = arrival.global_header(&envelope, datagram);
        for number in members.iter() {
            if let Some(pair) = driver.pair(*number, || self.find_pair(*number)) {
                pair.place_wire_datagram(&mut pair.lock(), &packet, &header, payload);
            }
        }
    }
}

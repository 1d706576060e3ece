//! Multicast groups that an identifier has joined.

use std::net::IpAddr;
use std::sync::Arc;

use nonic_device::{AddressVector, Context, GlobalRoute, GroupMembership, QpNumber};
use nonic_wire_connection::{host_address, index_of};

use super::{Core, State};
use crate::{DatagramParameters, Error, EventKind, Id, Parameters, PortSpace};

/// The LIDs of groups: the highest 14 bits are one.
const FIRST_LID: u16 = 0xc000;
/// Group numbers that a LID can tell apart, but for the last one, which is the permissive LID.
const LIDS: u32 = 0x3fff;

/// A group that an identifier has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastGroup {
    /// As the program named it.
    pub address: IpAddr,
    /// The GID that stands for it, in network order.
    pub gid: [u8; 16],
    /// The LID that does on InfiniBand; 0 on Ethernet.
    pub lid: u16,
}

impl MulticastGroup {
    /// Whether a path leads to it.
    pub fn is_at(&self, path: &AddressVector) -> bool {
        path.global.is_some_and(|route| route.destination == self.gid)
    }
}

/// A group that an identifier has joined, and that other hosts know of it, if they do.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) group: MulticastGroup,
    _on_wire: Option<GroupMembership>,
}

/// The group's GID. In the space IPOIB it is what IP over InfiniBand makes of the address (RFC 4391, 4); in the space UDP the address
/// itself, as on RoCE, whatever the port is: so members find each other within the host and on others.
fn gid(address: IpAddr, space: PortSpace, context: &Context) -> [u8; 16] {
    /// Flags and scope: transient, link-local. Then the signatures of IPv4 and IPv6.
    const TRANSIENT: [u8; 2] = [0xff, 0x12];
    const SIGNATURE: u8 = 0x1b;
    let mut gid = [0; 16];
    match address {
        IpAddr::V6(six) if space == PortSpace::Udp || is_group_of_its_own(six.octets()) => {
            return six.octets();
        }
        IpAddr::V4(four) if space == PortSpace::Udp => return four.to_ipv6_mapped().octets(),
        IpAddr::V4(four) => {
            gid[2..4].copy_from_slice(&[0x40, SIGNATURE]);
            gid[12..].copy_from_slice(&four.octets());
            gid[12] &= 0x0f;
        }
        IpAddr::V6(six) => {
            gid[2..4].copy_from_slice(&[0x60, SIGNATURE]);
            gid[6..].copy_from_slice(&six.octets()[6..]);
        }
    }
    gid[..2].copy_from_slice(&TRANSIENT);
    gid[4..6].copy_from_slice(&context.pkey(0).unwrap_or(0xffff).to_be_bytes());
    gid
}

/// Whether an address is a GID that somebody else has made (`ff1x:a01b:...`).
fn is_group_of_its_own(six: [u8; 16]) -> bool {
    six[0] == 0xff && six[1] & 0xf0 == 0x10 && six[2..4] == [0xa0, 0x1b]
}

/// The LID of a group: any, as long as everybody comes to the same.
fn lid(gid: &[u8; 16]) -> u16 {
    let words =
        gid.chunks_exact(4).map(|word| word.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte)));
    let mixed = words.fold(0u32, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b1).rotate_left(15));
    FIRST_LID + (mixed % LIDS) as u16
}

impl Id {
    /// Joins a group (`rdma_join_multicast(3)`): MULTICAST_JOIN, with where to send, and `cookie`. Whoever wants to receive attaches
    /// its queue pair to the group then ([`nonic_device::QueuePair::attach_multicast`]), and says that it `receives`.
    ///
    /// An identifier whose address others reach joins there by the wire, too, unless that is forbidden. Where it cannot be, people are told,
    /// and the group is that of this host's members.
    ///
    /// Errors: `State` unless ADDR_BOUND or ADDR_RESOLVED and led to a device, `Argument` for the space of connections and for a
    /// wildcard.
    pub fn join_multicast(&self, address: IpAddr, receives: bool, cookie: usize) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::AddressBound, State::AddressResolved])?;
        if !self.is_datagram() {
            return Err(Error::Argument("only datagrams go to groups"));
        }
        if address.is_unspecified() {
            return Err(Error::Argument("a wildcard is no group"));
        }
        let Some(context) = core.context.clone() else { return Err(Error::State(core.state)) };
        let gid = gid(address, self.space(), &context);
        let lid = if context.port().ethernet { 0 } else { lid(&gid) };
        let group = MulticastGroup { address, gid, lid };
        let index = self.index_to_others(&core, &context, address);
        let on_wire = index.and_then(|index| join(&context, index, &group, receives));
        core.groups.push(Joined { group, _on_wire: on_wire });
        self.show_group(&core, &context, &group, index.unwrap_or(0), cookie);
        Ok(())
    }

    /// The index of the identifier's address in the GID table, if members of a group on other hosts are reached from there.
    fn index_to_others(&self, core: &Core, context: &Context, group: IpAddr) -> Option<u32> {
        let own = core.source?.ip().to_canonical();
        let leads_out = self.space() == PortSpace::Udp
            && context.may_use_wire()
            && group.is_multicast()
            && own.is_ipv4() == group.is_ipv4()
            && !own.is_loopback();
        if leads_out { index_of(context, host_address(own)) } else { None }
    }

    fn show_group(
        &self,
        core: &Core,
        context: &Context,
        group: &MulticastGroup,
        source_index: u32,
        cookie: usize,
    ) {
        let global = GlobalRoute {
            destination: group.gid,
            source_index: source_index as u8,
            flow_label: 0,
            hop_limit: 1,
            traffic_class: core.options.type_of_service,
        };
        let address =
            AddressVector { destination_lid: group.lid, global: Some(global), ..context.path_to_this_host() };
        let parameters = DatagramParameters {
            private_data: Box::default(),
            cookie,
            address,
            queue_pair: QpNumber(QpNumber::MASK),
            queue_key: Self::DEFAULT_QUEUE_KEY,
        };
        self.push(core, EventKind::MulticastJoin, 0, Parameters::Datagram(parameters));
    }

    /// Leaves a group (`rdma_leave_multicast(3)`); returns it, from which the queue pair is to be detached. Events of
    /// the group that were not got are dropped. `AddressNotOwn` if it has not joined it.
    pub fn leave_multicast(&self, address: IpAddr) -> Result<MulticastGroup, Error> {
        let mut core = self.lock_alive()?;
        let joined = core.groups.iter().position(|joined| joined.group.address == address);
        let Some(joined) = joined else { return Err(Error::AddressNotOwn(address)) };
        let Joined { group: left, _on_wire: on_wire } = core.groups.swap_remove(joined);
        drop(on_wire);
        core.channel.queue.remove(|waiting| {
            let Parameters::Datagram(shown) = &waiting.parameters else { return false };
            self.owns(waiting) && waiting.kind == EventKind::MulticastJoin && left.is_at(&shown.address)
        });
        Ok(left)
    }

    /// The groups that it has joined.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        self.lock().groups.iter().map(|joined| joined.group).collect()
    }
}

fn join(
    context: &Arc<Context>,
    index: u32,
    group: &MulticastGroup,
    receives: bool,
) -> Option<GroupMembership> {
    context
        .join_group(index, group.gid, receives)
        .inspect_err(|error| {
            tracing::warn!(group = %group.address, %error, "no members of a group on other hosts are reached");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_lid_is_one_of_groups_and_the_same_for_everybody() {
        let mut gid = [0xff; 16];
        for last in 0..=255 {
            gid[15] = last;
            assert!((0xc000..=0xfffe).contains(&lid(&gid)));
            assert_eq!(lid(&gid), lid(&gid.clone()));
        }
    }

    #[test]
    fn addresses_are_gids_and_in_the_space_of_ip_over_infiniband_become_what_that_makes_of_them() {
        let context = nonic_device::devices_with(nonic_device::Config::default())[0].open().unwrap();
        let four: IpAddr = "239.1.2.3".parse().unwrap();
        let expected = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
        assert_eq!(gid(four, PortSpace::Udp, &context), expected);
        let expected = [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3];
        assert_eq!(gid(four, PortSpace::Ipoib, &context), expected);
        let six: IpAddr = "ff0e::1:2".parse().unwrap();
        let IpAddr::V6(bytes) = six else { unreachable!() };
        assert_eq!(gid(six, PortSpace::Udp, &context), bytes.octets());
        let expected = [0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2];
        assert_eq!(gid(six, PortSpace::Ipoib, &context), expected);
        let own: IpAddr = "ff12:a01b:fe80::1".parse().unwrap();
        let IpAddr::V6(bytes) = own else { unreachable!() };
        assert_eq!(gid(own, PortSpace::Ipoib, &context), bytes.octets());
    }
}

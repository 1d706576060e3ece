//! Multicast groups (IBTA vol. 1, 10.5): which queue pairs of this network namespace are attached to one.
//!
//! A queue pair that is attached holds an abstract name that says so; the kernel lists the names, and drops those of processes
//! that end. Anybody can hold any name: all that comes of a false one is a datagram more, which its receiver judges.

use std::io;

use nonic_protocol::QpNumber;
use nonic_sys::{PacketSocket, bind_abstract};

use crate::layout::VERSION;

/// Queue pairs of a group to which a datagram goes at most.
pub const GROUP_MAX: usize = 256;

/// A group: its GID, and the LID that stands for it on InfiniBand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupAddress {
    /// The GID, in network order.
    pub gid: [u8; 16],
    /// The LID.
    pub lid: u16,
}

/// How a datagram names the group that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupName {
    /// With a global route.
    Gid([u8; 16]),
    /// Without one.
    Lid(u16),
}

/// A queue pair's place in a group, until this is dropped.
#[derive(Debug)]
pub struct Membership {
    group: GroupAddress,
    _name: PacketSocket,
}

fn prefix() -> String {
    format!("nonic.{VERSION}/group/")
}

fn met_prefix() -> String {
    format!("group.{VERSION}.")
}

/// The name of a queue pair's place in a group in the folder in which other network namespaces are met.
pub fn met_member_name(group: GroupAddress, number: QpNumber) -> String {
    let gid = u128::from_be_bytes(group.gid);
    format!("{}{gid:032x}.{:04x}.{:06x}", met_prefix(), group.lid, number.0)
}

/// Reads such names: the queue pair of which one says that it is attached to this group.
pub fn met_member(name: GroupName) -> impl Fn(&str) -> Option<QpNumber> {
    let prefix = met_prefix();
    move |text| {
        let (group, number) = text.strip_prefix(&prefix)?.rsplit_once('.')?;
        member(group, number, name)
    }
}

impl Membership {
    /// Attaches a queue pair. Fails if the kernel gives no descriptor, or somebody holds the name.
    pub fn begin(group: GroupAddress, number: QpNumber) -> io::Result<Self> {
        let GroupAddress { gid, lid } = group;
        let gid = u128::from_be_bytes(gid);
        let name = bind_abstract(&format!("{}{gid:032x}.{lid:04x}/{:06x}", prefix(), number.0))?;
        Ok(Self { group, _name: name })
    }

    /// The group.
    pub fn group(&self) -> GroupAddress {
        self.group
    }
}

/// The queue pairs that are attached to a group, in order, at most [`GROUP_MAX`]; `None` where the kernel's list is hidden.
pub fn group_members(name: GroupName) -> Option<Vec<QpNumber>> {
    let list = std::fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    Some(listed(&list, name))
}

fn listed(list: &str, name: GroupName) -> Vec<QpNumber> {
    let prefix = format!("@{}", prefix());
    let listed = |line: &str| {
        let (group, number) = line.rsplit_once(&prefix)?.1.split_once('/')?;
        member(group, number, name)
    };
    let mut members: Vec<_> = list.lines().filter_map(listed).collect();
    members.sort_unstable();
    members.dedup();
    members.truncate(GROUP_MAX);
    members
}

/// The queue pair of this number if its group is this one.
fn member(group: &str, number: &str, name: GroupName) -> Option<QpNumber> {
    let (gid, lid) = group.split_once('.')?;
    let of_group = match name {
        GroupName::Gid(gid_of_group) => {
            u128::from_str_radix(gid, 16).ok()? == u128::from_be_bytes(gid_of_group)
        }
        GroupName::Lid(lid_of_group) => u16::from_str_radix(lid, 16).ok()? == lid_of_group,
    };
    let number = u32::from_str_radix(number, 16).ok()?;
    (of_group && number <= QpNumber::MASK).then_some(QpNumber(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_gid_and_by_lid_until_they_leave() {
        let gid = [0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0e, 0xfe, 9, 7];
        let group = GroupAddress { gid, lid: 0xf0f3 };
        let other = GroupAddress { gid: [0xff; 16], lid: 0xf0f4 };
        let first = Membership::begin(group, QpNumber(0x12345)).unwrap();
        let _second = Membership::begin(group, QpNumber(0x345)).unwrap();
        let _third = Membership::begin(other, QpNumber(0x346)).unwrap();
        assert!(Membership::begin(group, QpNumber(0x345)).is_err());
        let members = |name| group_members(name).unwrap();
        assert_eq!(members(GroupName::Gid(gid)), [QpNumber(0x345), QpNumber(0x12345)]);
        assert_eq!(members(GroupName::Lid(0xf0f3)), [QpNumber(0x345), QpNumber(0x12345)]);
        assert_eq!(members(GroupName::Lid(0xf0f4)), [QpNumber(0x346)]);
        drop(first);
        assert_eq!(members(GroupName::Gid(gid)), [QpNumber(0x345)]);
    }

    #[test]
    fn a_name_for_other_namespaces_says_group_and_member() {
        let group =
            GroupAddress { gid: [0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], lid: 0xc001 };
        let name = met_member_name(group, QpNumber(0x12345));
        for known in [GroupName::Gid(group.gid), GroupName::Lid(0xc001)] {
            assert_eq!(met_member(known)(&name), Some(QpNumber(0x12345)));
        }
        for other in [GroupName::Gid([0xff; 16]), GroupName::Lid(0xc002)] {
            assert_eq!(met_member(other)(&name), None);
        }
        for nonsense in ["", "life", "group.0.x", &name[..name.len() - 7], &format!("{name}00")] {
            assert_eq!(met_member(GroupName::Gid(group.gid))(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn names_that_make_no_sense_are_passed_over_and_their_number_is_bounded() {
        let gid = [0xff; 16];
        let line = |rest: &str| format!("0: 2 0 0 5 1 1 @{}{rest}\n", prefix());
        let group = format!("{:032x}.c001", u128::MAX);
        let mut list = [
            line("x"),
            line("zz.c001/000001"),
            line(&format!("{group}/")),
            line(&format!("{group}/ffffffff")),
            line(&format!("{group}/00000g")),
        ]
        .concat();
        assert_eq!(listed(&list, GroupName::Gid(gid)), []);
        for number in 0..2 * GROUP_MAX {
            list.push_str(&line(&format!("{group}/{number:06x}")));
        }
        assert_eq!(listed(&list, GroupName::Gid(gid)).len(), GROUP_MAX);
    }
}

//! Multicast groups: those that queue pairs of this engine are attached to, and the members of those that it sends to.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nonic_protocol::QpNumber;
use nonic_transport::{GroupAddress, GroupName, Membership, group_members};

use super::lock;

/// How long the members of a group are taken to be the same, and of how many looks at the kernel's list one is the time: a
/// sender that never pauses does not spend more than a part of its time with that.
const KNOWN_FOR: Duration = Duration::from_millis(5);
const LOOKS: u32 = 20;
/// Groups whose members are remembered at most.
const KNOWN_MAX: usize = 64;

/// The groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    attached: Mutex<HashMap<QpNumber, Vec<Membership>>>,
    known: Mutex<HashMap<GroupName, Known>>,
}

#[derive(Debug)]
struct Known {
    members: Arc<[QpNumber]>,
    until: Instant,
}

impl Groups {
    /// Attaches a queue pair. If it is attached already nothing changes.
    pub(crate) fn attach(&self, number: QpNumber, group: GroupAddress) -> io::Result<()> {
        let mut attached = lock(&self.attached);
        let own = attached.entry(number).or_default();
        if own.iter().any(|membership| membership.group() == group) {
            return Ok(());
        }
        let made = Membership::begin(group, number);
        match made {
            Ok(membership) => own.push(membership),
            Err(error) => {
                if own.is_empty() {
                    attached.remove(&number);
                }
                return Err(error);
            }
        }
        drop(attached);
        self.look_again(group);
        Ok(())
    }

    /// Detaches it; false if it is not attached.
    pub(crate) fn detach(&self, number: QpNumber, group: GroupAddress) -> bool {
        let mut attached = lock(&self.attached);
        let Some(own) = attached.get_mut(&number) else { return false };
        let before = own.len();
        own.retain(|membership| membership.group() != group);
        let found = own.len() < before;
        if own.is_empty() {
            attached.remove(&number);
        }
        drop(attached);
        self.look_again(group);
        found
    }

    /// A queue pair goes.
    pub(crate) fn forget(&self, number: QpNumber) {
        let ended = lock(&self.attached).remove(&number);
        for membership in ended.into_iter().flatten() {
            let group = membership.group();
            drop(membership);
            self.look_again(group);
        }
    }

    /// What this process changes it sees at once.
    fn look_again(&self, group: GroupAddress) {
        let mut known = lock(&self.known);
        known.remove(&GroupName::Gid(group.gid));
        known.remove(&GroupName::Lid(group.lid));
    }

    /// The members of a group, as they were a moment ago; of this engine's, which are those that `is_own`, as they are. The kernel's list
    /// shows a membership that has ended as long as a child of this process has not yet come to its `exec`.
    pub(crate) fn members(&self, name: GroupName, is_own: impl Fn(QpNumber) -> bool) -> Arc<[QpNumber]> {
        let begun = Instant::now();
        if let Some(known) = lock(&self.known).get(&name)
            && begun < known.until
        {
            return Arc::clone(&known.members);
        }
        let own = self.own_members(name);
        let members: Arc<[QpNumber]> = match group_members(name) {
            Some(mut shown) => {
                shown.retain(|number| !is_own(*number) || own.contains(number));
                shown.into()
            }
            // The kernel's list is hidden.
            None => own.into(),
        };
        let now = Instant::now();
        let until = now + KNOWN_FOR.max((now - begun) * LOOKS);
        let mut known = lock(&self.known);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(name, Known { members: Arc::clone(&members), until });
        members
    }

    /// Those of this engine.
    fn own_members(&self, name: GroupName) -> Vec<QpNumber> {
        let is_of = |membership: &Membership| match name {
            GroupName::Gid(gid) => membership.group().gid == gid,
            GroupName::Lid(lid) => membership.group().lid == lid,
        };
        let attached = lock(&self.attached);
        attached.iter().filter(|(_, own)| own.iter().any(is_of)).map(|(number, _)| *number).collect()
    }
}

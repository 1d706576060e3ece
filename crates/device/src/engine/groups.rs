//! Multicast groups: those that queue pairs of this engine are attached to, and the members of those that it sends to.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nonic_meeting::Namespace;
use nonic_protocol::QpNumber;
use nonic_transport::{GroupAddress, GroupName, Membership, group_members};
use nonic_wire::Location;

use super::lock;
use crate::peer_address::PeerAddress;

/// How long the members of a group are taken to be the same, and of how many looks at the kernel's list one is the time: a
/// sender that never pauses does not spend more than a part of its time with that.
const KNOWN_FOR: Duration = Duration::from_millis(5);
const LOOKS: u32 = 20;
/// Groups whose members are remembered at most.
const KNOWN_MAX: usize = 64;

/// The groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    attached: Mutex<Attached>,
    known: Mutex<HashMap<GroupName, Known>>,
}

#[derive(Debug, Default)]
struct Attached {
    pairs: HashMap<QpNumber, Vec<Attachment>>,
    /// The queue pairs of each group, for what comes by the wire.
    members: HashMap<[u8; 16], Arc<[QpNumber]>>,
}

/// That a queue pair is attached to a group.
#[derive(Debug)]
struct Attachment {
    membership: Membership,
    /// Where the group was joined for it: each of them is to be left.
    on_wire: Vec<Location>,
}

impl Attachment {
    fn gid(&self) -> [u8; 16] {
        self.membership.group().gid
    }
}

impl Attached {
    fn recount(&mut self, gid: [u8; 16]) {
        let is_in = |own: &Vec<Attachment>| own.iter().any(|attachment| attachment.gid() == gid);
        let members: Arc<[QpNumber]> =
            self.pairs.iter().filter(|(_, own)| is_in(own)).map(|(number, _)| *number).collect();
        if members.is_empty() {
            self.members.remove(&gid);
        } else {
            self.members.insert(gid, members);
        }
    }
}

/// The queue pairs that are attached to a group.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    /// In this network namespace.
    here: Arc<[QpNumber]>,
    /// In others that are met in a folder.
    met: Arc<[(Namespace, QpNumber)]>,
}

impl Members {
    /// Where each of them is.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = PeerAddress> {
        let here = self.here.iter().map(|number| PeerAddress::ThisHost(*number));
        here.chain(self.met.iter().map(|(namespace, number)| PeerAddress::Met(*namespace, *number)))
    }
}

#[derive(Debug)]
struct Known {
    members: Members,
    until: Instant,
}

impl Groups {
    /// Attaches a queue pair. False if it is attached already, and nothing changes.
    pub(super) fn attach(&self, number: QpNumber, group: GroupAddress) -> io::Result<bool> {
        let mut attached = lock(&self.attached);
        let own = attached.pairs.get(&number);
        if own.is_some_and(|own| own.iter().any(|attachment| attachment.membership.group() == group)) {
            return Ok(false);
        }
        let membership = Membership::begin(group, number)?;
        attached.pairs.entry(number).or_default().push(Attachment { membership, on_wire: Vec::new() });
        attached.recount(group.gid);
        drop(attached);
        self.look_again(group);
        Ok(true)
    }

    /// Notes where the group was joined for a queue pair that is attached to it; false if it is not any more.
    pub(super) fn note_on_wire(&self, number: QpNumber, group: GroupAddress, from: Location) -> bool {
        let mut attached = lock(&self.attached);
        let own = attached.pairs.get_mut(&number).into_iter().flatten();
        let found = own.into_iter().find(|attachment| attachment.membership.group() == group);
        found.map(|attachment| attachment.on_wire.push(from)).is_some()
    }

    /// Detaches it, and returns where the group was joined for it; `None` if it is not attached.
    pub(super) fn detach(&self, number: QpNumber, group: GroupAddress) -> Option<Vec<Location>> {
        let mut attached = lock(&self.attached);
        let own = attached.pairs.get_mut(&number)?;
        let at = own.iter().position(|attachment| attachment.membership.group() == group)?;
        let ended = own.swap_remove(at);
        if own.is_empty() {
            attached.pairs.remove(&number);
        }
        attached.recount(group.gid);
        drop(attached);
        let Attachment { membership, on_wire } = ended;
        drop(membership);
        self.look_again(group);
        Some(on_wire)
    }

    /// A queue pair goes. Returns the groups that it was in, and where each was joined for it.
    pub(super) fn forget(&self, number: QpNumber) -> Vec<(GroupAddress, Vec<Location>)> {
        let mut attached = lock(&self.attached);
        let Some(ended) = attached.pairs.remove(&number) else { return Vec::new() };
        ended.iter().for_each(|attachment| attached.recount(attachment.gid()));
        drop(attached);
        let mut left = Vec::new();
        for Attachment { membership, on_wire } in ended {
            let group = membership.group();
            drop(membership);
            self.look_again(group);
            left.push((group, on_wire));
        }
        left
    }

    /// The queue pairs of this engine that are attached to a group, for what comes by the wire.
    pub(super) fn receivers(&self, gid: &[u8; 16]) -> Option<Arc<[QpNumber]>> {
        lock(&self.attached).members.get(gid).map(Arc::clone)
    }

    /// What this process changes it sees at once.
    fn look_again(&self, group: GroupAddress) {
        let mut known = lock(&self.known);
        known.remove(&GroupName::Gid(group.gid));
        known.remove(&GroupName::Lid(group.lid));
    }

    /// The members of a group, as they were a moment ago; of this engine's, which are those that `is_own`, as they are. The kernel's list
    /// shows a membership that has ended as long as a child of this process has not yet come to its `exec`. `met` are those elsewhere.
    pub(super) fn members(
        &self,
        name: GroupName,
        is_own: impl Fn(QpNumber) -> bool,
        met: impl FnOnce() -> Vec<(Namespace, QpNumber)>,
    ) -> Members {
        let begun = Instant::now();
        if let Some(known) = lock(&self.known).get(&name)
            && begun < known.until
        {
            return known.members.clone();
        }
        let own = self.own_members(name);
        let here: Arc<[QpNumber]> = match group_members(name) {
            Some(mut shown) => {
                shown.retain(|number| !is_own(*number) || own.contains(number));
                shown.into()
            }
            // The kernel's list is hidden.
            None => own.into(),
        };
        let members = Members { here, met: met().into() };
        let now = Instant::now();
        let until = now + KNOWN_FOR.max((now - begun) * LOOKS);
        let mut known = lock(&self.known);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(name, Known { members: members.clone(), until });
        members
    }

    /// Those of this engine.
    fn own_members(&self, name: GroupName) -> Vec<QpNumber> {
        let is_of = |attachment: &Attachment| match name {
            GroupName::Gid(gid) => attachment.gid() == gid,
            GroupName::Lid(lid) => attachment.membership.group().lid == lid,
        };
        let attached = lock(&self.attached);
        let pairs = attached.pairs.iter();
        pairs.filter(|(_, own)| own.iter().any(is_of)).map(|(number, _)| *number).collect()
    }
}

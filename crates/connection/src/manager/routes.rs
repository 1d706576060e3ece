//! Where services were found: over which channel to ask a process for a service that it offered the last time. Such a request
//! does not stand behind those of strangers, who can fill the queue of a service's name.
//!
//! Only what this process found itself is in it, by requests of its own that went by the name, and only processes of its own
//! user: another's could be given up the name and go on to take what is meant for who has it now.

use std::collections::HashMap;
use std::sync::Arc;

use nonic_sys::{Credentials, effective_user};

use super::{Manager, Stage};
use crate::names::is_met;

/// Services remembered at most; the one found first goes.
const MOST: usize = 256;

/// Services that were found.
#[derive(Default)]
pub(super) struct Routes {
    found: HashMap<Arc<str>, Route>,
    count: u64,
}

struct Route {
    channel: u64,
    /// In which order they were found.
    turn: u64,
}

impl Routes {
    fn learn(&mut self, service: &Arc<str>, channel: u64) {
        if self.found.len() >= MOST
            && !self.found.contains_key(service)
            && let Some(oldest) = self.found.iter().min_by_key(|(_, route)| route.turn)
        {
            let oldest = Arc::clone(oldest.0);
            self.found.remove(&oldest);
        }
        self.count += 1;
        self.found.insert(Arc::clone(service), Route { channel, turn: self.count });
    }

    pub(super) fn forget(&mut self, service: &Arc<str>) {
        self.found.remove(service);
    }

    /// A channel is closed.
    pub(super) fn forget_channel(&mut self, channel: u64) {
        self.found.retain(|_, route| route.channel != channel);
    }
}

impl Manager {
    /// A service was found by its name, and its process speaks over a channel: the same process, if the kernel says so of both.
    pub(super) fn learn_route(&mut self, service: &Arc<str>, holder: Option<Credentials>, channel: u64) {
        let known = holder.filter(|holder| holder.pid != 0 && self.users.is_own(holder.uid));
        // Who is asked over a channel looks for a service of its own namespace.
        let Some(holder) = known.filter(|_| !is_met(service)) else { return };
        let socket = self.channel(channel).filter(|there| there.to.is_none());
        let peer = socket.and_then(|there| there.socket.as_ref()?.peer().ok());
        if peer == Some(holder) {
            self.routes.learn(service, channel);
        }
    }

    /// The channel over which to ask for a service. None if this process acts as another user now: the other side is to see it.
    pub(super) fn route_to(&self, service: &Arc<str>) -> Option<u64> {
        let route = self.routes.found.get(service)?;
        (self.shared.own_user == Some(effective_user())).then_some(route.channel)
    }

    /// An attempt is given up. If it was asked for over a channel and there is no answer yet, those that follow go by the name:
    /// what is given up may lie unread there. Returns that channel.
    pub(super) fn give_up_route(&mut self, number: u64) -> Option<u64> {
        let Stage::AskedOver { channel, attempt } = &self.connections.get(&number)?.stage else {
            return None;
        };
        self.routes.forget(&attempt.service);
        Some(*channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Arc<str> {
        number.to_string().into()
    }

    #[test]
    fn what_is_remembered_of_services_is_bounded_and_the_first_goes() {
        let mut routes = Routes::default();
        for number in 0..MOST {
            routes.learn(&name(number), 1);
        }
        // Found anew, which takes no place.
        routes.learn(&name(0), 2);
        assert_eq!(routes.found.len(), MOST);
        routes.learn(&name(MOST), 3);
        assert!(routes.found.contains_key(&name(0)) && !routes.found.contains_key(&name(1)));
        for number in MOST..2 * MOST {
            routes.learn(&name(number), 3);
            assert_eq!(routes.found.len(), MOST);
        }
        routes.forget_channel(3);
        assert!(routes.found.is_empty());
    }
}

//! What is decided, and whom it is for.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use nonic_roce::{CommunicationId, ConnectionManager, Ends, Event, HostAddress};

use crate::listener::Listened;
use crate::sinks::{Follows, Takes};

/// A service at an address of this host.
pub(crate) type Place = (u64, HostAddress);

/// The machine, and whom what it says is for.
pub(crate) struct Machine {
    pub(crate) manager: ConnectionManager<Instant>,
    pub(crate) followers: HashMap<CommunicationId, Arc<dyn Follows>>,
    pub(crate) takers: BTreeMap<Place, Arc<dyn Takes>>,
    /// Services that requests are taken for, by number.
    pub(crate) listened: BTreeMap<u64, Listened>,
    /// When the next timer fires that was set.
    pub(crate) due: Option<Instant>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("communications", &self.manager.len()).finish_non_exhaustive()
    }
}

/// Whom an event is for.
pub(crate) enum Told {
    Asked(CommunicationId, Option<Arc<dyn Takes>>, Event),
    Follower(Option<Arc<dyn Follows>>, Event),
}

impl Machine {
    pub(crate) fn new(manager: ConnectionManager<Instant>) -> Self {
        Self {
            manager,
            followers: HashMap::new(),
            takers: BTreeMap::new(),
            listened: BTreeMap::new(),
            due: None,
        }
    }

    pub(crate) fn find(&self, event: Event) -> Told {
        let taker = |service, ends: &Ends| self.takers.get(&(service, ends.local)).map(Arc::clone);
        match &event {
            Event::Asked { id, ends, request, .. } => {
                Told::Asked(*id, taker(request.service_id, ends), event)
            }
            Event::ServiceAsked { id, ends, request, .. } => {
                Told::Asked(*id, taker(request.service_id, ends), event)
            }
            Event::Replied { id, .. }
            | Event::Established { id }
            | Event::Rejected { id, .. }
            | Event::Unreachable { id }
            | Event::Disconnected { id, .. }
            | Event::TimeWaitOver { id }
            | Event::ServiceAnswered { id, .. } => {
                Told::Follower(self.followers.get(id).map(Arc::clone), event)
            }
        }
    }
}

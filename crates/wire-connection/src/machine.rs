//! What is decided, and whom it is for.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use nonic_roce::{CommunicationId, ConnectionManager, Ends, Event, HostAddress, Naming};

use crate::listener::Listened;
use crate::sinks::{Follows, Takes};

/// A service as it is named, at an address of this host.
pub(crate) type Place = (u64, Naming, HostAddress);

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

    /// Who takes what was asked for by this private data: who listens as it is named, else who listens the other way.
    fn taker(&self, service_id: u64, ends: &Ends, private_data: &[u8]) -> Option<Arc<dyn Takes>> {
        let namings = Naming::of_request(service_id, private_data).in_order();
        namings.iter().find_map(|naming| self.takers.get(&(service_id, *naming, ends.local))).map(Arc::clone)
    }

    /// Who takes a request or a question, as one for this service or for the one that was asked for; `None` if nobody does, or it is neither.
    pub(crate) fn taker_of(&self, event: &Event, service_id: Option<u64>) -> Option<Arc<dyn Takes>> {
        match event {
            Event::Asked { ends, request, .. } => {
                self.taker(service_id.unwrap_or(request.service_id), ends, &request.private_data)
            }
            Event::ServiceAsked { ends, request, .. } => {
                self.taker(service_id.unwrap_or(request.service_id), ends, &request.private_data)
            }
            _ => None,
        }
    }

    pub(crate) fn find(&self, event: Event) -> Told {
        match &event {
            Event::Asked { id, .. } | Event::ServiceAsked { id, .. } => {
                Told::Asked(*id, self.taker_of(&event, None), event)
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

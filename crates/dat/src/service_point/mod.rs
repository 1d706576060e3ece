//! Service points: where connection requests come to.

mod public;
mod reserved;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_connection::{Listener, Refusal, Reservation, ServiceSink, listen_all};
use nonic_roce::{Accepts, Naming, Transport};
use nonic_sys::Share;
use nonic_wire_connection::{ListenAt, NUMBERS, Takes, Wire, WireListener, is_reached};

use crate::asker::Asker;
use crate::connection_request::{Brought, ConnectionRequest};
use crate::error::{DatError, DatResult, HandleKind, Kind, Resource, Subtype};
use crate::event::KeptPoint;
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::introduction::Introduction;
use crate::line::service_of;
use crate::mark::Mark;
use crate::members::{MemberKind, Membership};
use crate::values::Streams;

pub use public::{PublicPointFacts, PublicServicePoint};
pub use reserved::{ReservedPointFacts, ReservedServicePoint};

/// What both kinds of service points are.
#[derive(Debug)]
struct Point {
    mark: Mark,
    membership: Membership,
    adapter: Arc<InterfaceAdapter>,
    conn_qual: u64,
    dispatcher: Arc<EventDispatcher>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Listening {
        _listeners: Vec<Listener>,
        _by_wire: Option<WireListener>,
    },
    /// A reserved one that had its request.
    Used,
    Freed,
}

impl Point {
    fn new(
        kind: MemberKind,
        adapter: &Arc<InterfaceAdapter>,
        conn_qual: u64,
        dispatcher: &Arc<EventDispatcher>,
    ) -> Self {
        Self {
            mark: Mark::default(),
            membership: Membership::new(kind),
            adapter: Arc::clone(adapter),
            conn_qual,
            dispatcher: Arc::clone(dispatcher),
            state: Mutex::new(State::Used),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen: on this host, and at all of its addresses that others reach.
    fn listen<S: ServiceSink + Takes + 'static>(&self, sink: Arc<S>) -> DatResult<()> {
        let mut state = self.lock();
        let refused = DatError::resources(Subtype::Resource(Resource::Device));
        let name = Reservation::make(NUMBERS, self.conn_qual).map_err(|error| match error.kind() {
            // Bare, as programs compare it.
            io::ErrorKind::AddrInUse => {
                tracing::debug!(%error, "a connection qualifier is in use");
                DatError::bare(Kind::ConnQualInUse)
            }
            _ => refused,
        })?;
        let taker: Arc<dyn Takes> = Arc::clone(&sink) as _;
        // Whoever finds the name finds it by the wire, too.
        let by_wire = self.listen_by_wire(&taker);
        let sink: Arc<dyn ServiceSink> = sink;
        let listeners = listen_all(vec![name], &sink).map_err(|_| refused)?;
        *state = State::Listening { _listeners: listeners, _by_wire: by_wire };
        Ok(())
    }

    /// Takes requests of other hosts, if any can come.
    fn listen_by_wire(&self, taker: &Arc<dyn Takes>) -> Option<WireListener> {
        if service_of(self.conn_qual).is_none() || !is_reached(self.adapter.context()) {
            return None;
        }
        let opened = Wire::get().map_err(|error| error.to_string()).and_then(|wire| {
            let accepts = Accepts::Connections(Transport::Reliable);
            let everywhere = ListenAt::Families { four: true, six: true };
            let listener = wire.listen(self.conn_qual, Naming::Ip, everywhere, accepts, taker);
            listener.map_err(|error| error.to_string())
        });
        opened
            .inspect_err(|why| {
                tracing::info!(why, qualifier = self.conn_qual, "other hosts find no service point here");
            })
            .ok()
    }

    /// Listens no more; false if it was freed before.
    fn end(&self) -> bool {
        let before = std::mem::replace(&mut *self.lock(), State::Freed);
        if matches!(before, State::Freed) {
            return false;
        }
        drop(before);
        self.dispatcher.release();
        self.adapter.leave(&self.membership);
        true
    }

    fn is_freed(&self) -> bool {
        matches!(*self.lock(), State::Freed)
    }

    /// Tells the program of a request. `endpoint` is the one it brings.
    fn announce(&self, point: KeptPoint, judged: Judged, endpoint: Option<Brought>) {
        let Judged { request, peer, place } = judged;
        let (adapter, qualifier) = (&self.adapter, self.conn_qual);
        let Some(request) = ConnectionRequest::new(adapter, peer, qualifier, request, endpoint) else {
            return;
        };
        if !self.dispatcher.push_request(point, adapter.address(), qualifier, &request, place) {
            // Dropped, it is refused, and its endpoint goes.
            tracing::debug!(qualifier, "a connection request is refused: the event dispatcher is full");
        }
    }

    /// What a request says of its sender; the request itself is refused if there is no use in asking the program.
    fn judge(&self, request: Asker) -> Option<Judged> {
        let Some(peer) = request.introduction() else {
            request.refuse(Refusal::Unable);
            return None;
        };
        let place = request.place(&self.dispatcher.requests, &self.dispatcher.wire_requests);
        let Some(place) = place.filter(|_| self.dispatcher.room() > 0) else {
            request.refuse(Refusal::NoRoom);
            return None;
        };
        Some(Judged { request, peer, place })
    }
}

/// A request that the program is to be asked about.
struct Judged {
    request: Asker,
    /// What it says of its sender.
    peer: Introduction,
    /// Among the dispatcher's events.
    place: Share,
}

/// Whether connection requests can be told to a dispatcher; counts it as used.
fn hold(adapter: &Arc<InterfaceAdapter>, dispatcher: &Arc<EventDispatcher>) -> DatResult<()> {
    const WRONG: DatError = DatError::handle(Subtype::Handle(HandleKind::RequestDispatcherOfRequests));
    let fits = Arc::ptr_eq(dispatcher.adapter(), adapter)
        && dispatcher.streams().intersects(Streams::CONNECTION_REQUEST);
    if fits { dispatcher.hold().map_err(|_| WRONG) } else { Err(WRONG) }
}

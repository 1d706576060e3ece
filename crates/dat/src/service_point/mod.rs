//! Service points: where connection requests come to.

mod public;
mod reserved;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_connection::{Listener, Refusal, Request, ServiceSink, listen};
use nonic_sys::Share;

use crate::connection_request::{Brought, ConnectionRequest};
use crate::error::{DatError, DatResult, HandleKind, Kind, Resource, Subtype};
use crate::event::KeptPoint;
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::introduction::{Introduction, SPACE};
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
        _listener: Listener,
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

    /// Begins to listen.
    fn listen(&self, sink: Arc<dyn ServiceSink>) -> DatResult<()> {
        let mut state = self.lock();
        let listener = listen(SPACE, self.conn_qual, sink).map_err(|error| match error.kind() {
            // Bare, as programs compare it.
            io::ErrorKind::AddrInUse => {
                tracing::debug!(%error, "a connection qualifier is in use");
                DatError::bare(Kind::ConnQualInUse)
            }
            _ => DatError::resources(Subtype::Resource(Resource::Device)),
        })?;
        *state = State::Listening { _listener: listener };
        Ok(())
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
    fn judge(&self, request: Request) -> Option<Judged> {
        let Some(peer) = Introduction::parse(request.facts()) else {
            request.refuse(Refusal::Unable);
            return None;
        };
        let place = self.dispatcher.requests.take(request.user(), 1);
        let Some(place) = place.filter(|_| self.dispatcher.room() > 0) else {
            request.refuse(Refusal::NoRoom);
            return None;
        };
        Some(Judged { request, peer, place })
    }
}

/// A request that the program is to be asked about.
struct Judged {
    request: Request,
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

//! Service points: where connection requests come to.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nonic_connection::{Listener, Refusal, Request, ServiceSink, listen};
use nonic_sys::Share;

use crate::background;
use crate::connection_request::{Brought, ConnectionRequest};
use crate::endpoint::Endpoint;
use crate::error::{DatError, DatResult, HandleKind, Kind, Resource, Subtype};
use crate::event::KeptPoint;
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::introduction::{Introduction, SPACE};
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::values::{EndpointState, Streams};

const NO_PUBLIC: DatError = DatError::handle(Subtype::Handle(HandleKind::PublicServicePoint));
const NO_RESERVED: DatError = DatError::handle(Subtype::Handle(HandleKind::ReservedServicePoint));
/// The qualifiers that are tried when the program asks for any.
const ANY: Range<u64> = 1024..65_536;

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

/// A service point that takes requests until it is freed.
#[derive(Debug)]
pub struct PublicServicePoint {
    point: Point,
    makes_endpoints: bool,
}

/// What can be asked about a public service point.
#[derive(Clone, Debug)]
pub struct PublicPointFacts {
    /// Its connection qualifier.
    pub conn_qual: u64,
    /// Where requests are told.
    pub dispatcher: Arc<EventDispatcher>,
    /// Whether each request brings an endpoint (`DAT_PSP_PROVIDER_FLAG`).
    pub makes_endpoints: bool,
}

impl PublicServicePoint {
    /// Takes requests for a connection qualifier. Every request goes to the program as an event of `dispatcher`; if that has no
    /// room, the request is refused. `makes_endpoints`: each brings an endpoint, without zone and dispatchers.
    ///
    /// Errors: `INVALID_HANDLE|IA`, `INVALID_HANDLE|EVD_CR` for a dispatcher that takes no connection requests, a bare
    /// `CONN_QUAL_IN_USE` if somebody on this host has the qualifier, `INSUFFICIENT_RESOURCES`.
    pub fn create(
        adapter: &Arc<InterfaceAdapter>,
        conn_qual: u64,
        dispatcher: &Arc<EventDispatcher>,
        makes_endpoints: bool,
    ) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        hold(adapter, dispatcher)?;
        let point = Point::new(MemberKind::PublicServicePoint, adapter, conn_qual, dispatcher);
        let new = Arc::new(Self { point, makes_endpoints });
        let sink = Arc::new(PublicSink(Arc::downgrade(&new)));
        let made = new.point.listen(sink).and_then(|()| adapter.join(&new));
        if let Err(error) = made {
            new.point.end();
            return Err(error);
        }
        Ok(new)
    }

    /// The same for any qualifier that is free, which is returned as well. Bare `CONN_QUAL_UNAVAILABLE` if none is.
    pub fn create_any(
        adapter: &Arc<InterfaceAdapter>,
        dispatcher: &Arc<EventDispatcher>,
        makes_endpoints: bool,
    ) -> DatResult<(u64, Arc<Self>)> {
        Self::create_among(ANY, adapter, dispatcher, makes_endpoints)
    }

    /// The same for any qualifier of `range`. The search begins anywhere, so that what was just freed is not soon another's.
    fn create_among(
        range: Range<u64>,
        adapter: &Arc<InterfaceAdapter>,
        dispatcher: &Arc<EventDispatcher>,
        makes_endpoints: bool,
    ) -> DatResult<(u64, Arc<Self>)> {
        let span = range.end - range.start;
        let first = nonic_sys::random_u64() % span;
        for offset in 0..span {
            let conn_qual = range.start + (first + offset) % span;
            match Self::create(adapter, conn_qual, dispatcher, makes_endpoints) {
                Ok(point) => return Ok((conn_qual, point)),
                Err(error) if error.kind == Kind::ConnQualInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(DatError::bare(Kind::ConnQualUnavailable))
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.point.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.point.adapter
    }

    /// What it is. `INVALID_HANDLE|PSP` once it is freed.
    pub fn facts(&self) -> DatResult<PublicPointFacts> {
        self.point.adapter.check_process()?;
        if self.point.is_freed() {
            return Err(NO_PUBLIC);
        }
        Ok(PublicPointFacts {
            conn_qual: self.point.conn_qual,
            dispatcher: Arc::clone(&self.point.dispatcher),
            makes_endpoints: self.makes_endpoints,
        })
    }

    /// Gives it back: its qualifier is free, and later requests are refused. Requests the program knows of stay.
    pub fn free(&self) -> DatResult<()> {
        self.point.adapter.check_process()?;
        if self.point.end() { Ok(()) } else { Err(NO_PUBLIC) }
    }

    fn take(self: &Arc<Self>, request: Request) {
        let Some(judged) = self.point.judge(request) else { return };
        let mut endpoint = None;
        if self.makes_endpoints {
            let made = Endpoint::create_for_service_point(&self.point.adapter).and_then(|endpoint| {
                let from = [EndpointState::Unconnected];
                endpoint.change_state(&from, EndpointState::TentativeConnectionPending)?;
                Ok(endpoint)
            });
            match made {
                Ok(made) => endpoint = Some(Brought::Made(made)),
                Err(error) => {
                    tracing::debug!(%error, "a connection request is refused: there is no endpoint for it");
                    return judged.request.refuse(Refusal::Unable);
                }
            }
        }
        self.point.announce(KeptPoint::Public(Arc::clone(self)), judged, endpoint);
    }
}

impl Member for PublicServicePoint {
    fn membership(&self) -> &Membership {
        &self.point.membership
    }

    fn end(&self) {
        self.point.end();
    }
}

struct PublicSink(Weak<PublicServicePoint>);

impl ServiceSink for PublicSink {
    fn request(&self, request: Request) {
        background::lend(&self.0, |point| point.take(request));
    }
}

/// A service point that takes one request, for one endpoint.
#[derive(Debug)]
pub struct ReservedServicePoint {
    point: Point,
    endpoint: Arc<Endpoint>,
}

/// What can be asked about a reserved service point.
#[derive(Clone, Debug)]
pub struct ReservedPointFacts {
    /// Its connection qualifier.
    pub conn_qual: u64,
    /// Where the request is told.
    pub dispatcher: Arc<EventDispatcher>,
    /// The endpoint it is for.
    pub endpoint: Arc<Endpoint>,
}

impl ReservedServicePoint {
    /// Takes one request for a connection qualifier, for `endpoint`, which must be UNCONNECTED and becomes RESERVED.
    ///
    /// Errors: as [`PublicServicePoint::create`]; `INVALID_HANDLE|EP` for an endpoint of another adapter, `INVALID_STATE` with
    /// the state of the endpoint.
    pub fn create(
        adapter: &Arc<InterfaceAdapter>,
        conn_qual: u64,
        endpoint: &Arc<Endpoint>,
        dispatcher: &Arc<EventDispatcher>,
    ) -> DatResult<Arc<Self>> {
        adapter.check_open()?;
        if !Arc::ptr_eq(endpoint.adapter(), adapter) {
            return Err(DatError::handle(Subtype::Handle(HandleKind::Endpoint)));
        }
        hold(adapter, dispatcher)?;
        if let Err(error) = endpoint.change_state(&[EndpointState::Unconnected], EndpointState::Reserved) {
            dispatcher.release();
            return Err(error);
        }
        let point = Point::new(MemberKind::ReservedServicePoint, adapter, conn_qual, dispatcher);
        let new = Arc::new(Self { point, endpoint: Arc::clone(endpoint) });
        let sink = Arc::new(ReservedSink(Arc::downgrade(&new)));
        let made = new.point.listen(sink).and_then(|()| adapter.join(&new));
        if let Err(error) = made {
            new.end();
            return Err(error);
        }
        Ok(new)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.point.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.point.adapter
    }

    /// What it is. `INVALID_HANDLE|RSP` once it is freed.
    pub fn facts(&self) -> DatResult<ReservedPointFacts> {
        self.point.adapter.check_process()?;
        if self.point.is_freed() {
            return Err(NO_RESERVED);
        }
        Ok(ReservedPointFacts {
            conn_qual: self.point.conn_qual,
            dispatcher: Arc::clone(&self.point.dispatcher),
            endpoint: Arc::clone(&self.endpoint),
        })
    }

    /// Gives it back. The endpoint becomes UNCONNECTED, unless the request has come: then that decides.
    pub fn free(&self) -> DatResult<()> {
        self.point.adapter.check_process()?;
        if self.release() { Ok(()) } else { Err(NO_RESERVED) }
    }

    fn release(&self) -> bool {
        let ended = self.point.end();
        if ended {
            // In any other state the endpoint is no longer this point's.
            let _ = self.endpoint.change_state(&[EndpointState::Reserved], EndpointState::Unconnected);
        }
        ended
    }

    fn take(self: &Arc<Self>, request: Request) {
        let Some(judged) = self.point.judge(request) else { return };
        {
            let mut state = self.point.lock();
            let State::Listening { .. } = *state else {
                return judged.request.refuse(Refusal::NobodyListens);
            };
            let reserved = [EndpointState::Reserved];
            if self.endpoint.change_state(&reserved, EndpointState::PassiveConnectionPending).is_err() {
                return judged.request.refuse(Refusal::Unable);
            }
            *state = State::Used;
        }
        let endpoint = Some(Brought::Reserved(Arc::clone(&self.endpoint)));
        self.point.announce(KeptPoint::Reserved(Arc::clone(self)), judged, endpoint);
    }
}

impl Member for ReservedServicePoint {
    fn membership(&self) -> &Membership {
        &self.point.membership
    }

    fn end(&self) {
        self.release();
    }
}

struct ReservedSink(Weak<ReservedServicePoint>);

impl ServiceSink for ReservedSink {
    fn request(&self, request: Request) {
        background::lend(&self.0, |point| point.take(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface_adapter::{AsyncEvents, OpenOptions};

    #[test]
    fn when_every_qualifier_is_taken_none_is_given_until_one_is_free() {
        const RANGE: Range<u64> = 3 << 40..(3 << 40) + 8;
        let options = OpenOptions {
            name: "nonic".to_owned(),
            coherent: true,
            async_events: AsyncEvents::Own { length: 8 },
        };
        let adapter = InterfaceAdapter::open(options).unwrap();
        let dispatcher = EventDispatcher::create(&adapter, 4, None, Streams::CONNECTION_REQUEST).unwrap();
        let any = || PublicServicePoint::create_among(RANGE, &adapter, &dispatcher, false);
        let mut points: Vec<_> = RANGE.map(|_| any().unwrap()).collect();
        points.sort_by_key(|(conn_qual, _)| *conn_qual);
        assert!(points.iter().map(|(conn_qual, _)| *conn_qual).eq(RANGE));
        let none = DatError::bare(Kind::ConnQualUnavailable);
        assert_eq!(any().map(|(conn_qual, _)| conn_qual), Err(none));
        // Each of those there still has its own.
        assert!(points.iter().all(|(conn_qual, point)| point.facts().unwrap().conn_qual == *conn_qual));
        let (freed, point) = points.remove(5);
        point.free().unwrap();
        assert_eq!(any().map(|(conn_qual, _)| conn_qual), Ok(freed));
    }
}

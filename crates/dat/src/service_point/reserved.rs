//! Service points that take one request, for one endpoint (RSP).

use std::sync::{Arc, Weak};

use nonic_connection::{Refusal, Request, ServiceSink, lend};
use nonic_roce::Event;
use nonic_wire_connection::{Takes, WireConnection};

use super::{Point, State, hold};
use crate::asker::{Asker, WireAsker};
use crate::connection_request::Brought;
use crate::endpoint::Endpoint;
use crate::error::{DatError, DatResult, HandleKind, Subtype};
use crate::event::KeptPoint;
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::values::EndpointState;

const NO_RESERVED: DatError = DatError::handle(Subtype::Handle(HandleKind::ReservedServicePoint));

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
    /// Errors: as [`super::PublicServicePoint::create`]; `INVALID_HANDLE|EP` for an endpoint of another adapter, `INVALID_STATE` with
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

    fn take(self: &Arc<Self>, request: Asker) {
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
        lend(&self.0, |point| point.take(Asker::Host(request)));
    }
}

impl Takes for ReservedSink {
    fn ask(&self, connection: WireConnection, event: Event) {
        lend(&self.0, |point| {
            if let Some(asker) = WireAsker::new(point.point.adapter.context(), connection, event) {
                point.take(Asker::Wire(asker));
            }
        });
    }
}

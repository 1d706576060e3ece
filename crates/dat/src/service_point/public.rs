//! Service points that take requests until they are freed (PSP).

use std::ops::Range;
use std::sync::{Arc, Weak};

use nonic_connection::{Refusal, Request, ServiceSink, lend};
use nonic_roce::Event;
use nonic_wire_connection::{Takes, WireConnection};

use super::{Point, hold};
use crate::asker::{Asker, WireAsker};
use crate::connection_request::Brought;
use crate::endpoint::Endpoint;
use crate::error::{DatError, DatResult, HandleKind, Kind, Subtype};
use crate::event::KeptPoint;
use crate::event_dispatcher::EventDispatcher;
use crate::interface_adapter::InterfaceAdapter;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::values::EndpointState;

const NO_PUBLIC: DatError = DatError::handle(Subtype::Handle(HandleKind::PublicServicePoint));
/// The qualifiers that are tried when the program asks for any.
const ANY: Range<u64> = 1024..65_536;

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

    fn take(self: &Arc<Self>, request: Asker) {
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
        lend(&self.0, |point| point.take(Asker::Host(request)));
    }
}

impl Takes for PublicSink {
    fn ask(&self, connection: WireConnection, event: Event) {
        lend(&self.0, |point| {
            if let Some(asker) = WireAsker::new(point.point.adapter.context(), connection, event) {
                point.take(Asker::Wire(asker));
            }
        });
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface_adapter::{AsyncEvents, OpenOptions};
    use crate::values::Streams;

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

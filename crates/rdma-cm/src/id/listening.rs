//! Taking requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use nonic_connection::{Listener, Refusal, Request, ServiceSink, lend};

use super::connecting::{Link, padded};
use super::{State, device_context};
use crate::channel::{Target, Waiting};
use crate::facts::Facts;
use crate::{ConnectionParameters, DatagramParameters, Error, EventKind, Id, Parameters};

/// Requests that wait to be got at most, and if the program says nothing sensible.
const BACKLOG_MAX: u32 = 1024;

/// An identifier that listens.
#[derive(Debug)]
pub(super) struct Listening {
    backlog: u32,
    /// One for each name.
    _listeners: Vec<Listener>,
}

/// Hands requests to the identifier that listens.
struct Taker(Weak<Id>);

impl ServiceSink for Taker {
    fn request(&self, request: Request) {
        lend(&self.0, |id| id.take_request(request));
    }
}

impl Id {
    /// Takes requests (`rdma_listen(3)`): CONNECT_REQUEST for each, of which at most `backlog` wait to be got (0 or less, or more
    /// than 1024: 1024). An identifier in IDLE is bound to a wildcard and a free port first.
    ///
    /// Errors: `State` unless IDLE or ADDR_BOUND, `AddressInUse` if somebody listens there.
    pub fn listen(self: &Arc<Self>, backlog: i32) -> Result<(), Error> {
        let mut core = self.lock_in(&[State::Idle, State::AddressBound])?;
        // Before requests come, which have no time for it.
        device_context()?;
        if core.binding.is_none() {
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            self.bind_in(&mut core, any)?;
        }
        let Some(binding) = &core.binding else { return Err(Error::State(core.state)) };
        let sink: Arc<dyn ServiceSink> = Arc::new(Taker(Weak::clone(&self.this)));
        let listeners = binding.listen(&sink)?;
        let backlog = u32::try_from(backlog).ok().filter(|count| (1..=BACKLOG_MAX).contains(count));
        core.listening = Some(Listening { backlog: backlog.unwrap_or(BACKLOG_MAX), _listeners: listeners });
        core.state = State::Listen;
        Ok(())
    }

    /// A request was got by the program.
    pub(crate) fn request_is_got(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Somebody asks.
    fn take_request(&self, request: Request) {
        let core = self.lock();
        let Some(listening) = core.listening.as_ref().filter(|_| core.state == State::Listen) else {
            return request.refuse(Refusal::NobodyListens);
        };
        let Some(facts) = Facts::parse(request.facts(), request.data()[..].into()) else {
            tracing::debug!(user = request.user(), "a request for a connection makes no sense");
            return request.refuse(Refusal::Unable);
        };
        let Ok(context) = device_context() else { return request.refuse(Refusal::Unable) };
        if self.requests.load(Ordering::Relaxed) >= listening.backlog {
            return request.refuse(Refusal::NoRoom);
        }
        let id = Id::new(&core.channel, self.space(), 0);
        let mut parameters = facts.seen_from_here();
        parameters.private_data = padded(&parameters.private_data, self.space().request_data_max());
        let shown = if self.space().is_datagram() {
            Parameters::Datagram(DatagramParameters {
                private_data: parameters.private_data,
                cookie: 0,
                address: context.path_to_this_host(),
                queue_pair: facts.parameters.queue_pair,
                queue_key: 0,
            })
        } else {
            Parameters::Connection(ConnectionParameters { queue_key: 0, ..parameters })
        };
        {
            let mut new = id.lock();
            new.state = State::Connect;
            (new.source, new.destination) = (Some(facts.destination), Some(facts.source));
            new.context = Some(context);
            new.options = core.options;
            new.retry_count = facts.parameters.retry_count;
            new.peer = Some(facts);
            new.link = Link::Pending(request);
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        core.channel.queue.push(Waiting {
            kind: EventKind::ConnectRequest,
            status: 0,
            target: Target::New(id, Weak::clone(&self.this)),
            parameters: shown,
        });
    }
}

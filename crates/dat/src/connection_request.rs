//! Connection requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nonic_connection::DATA_MAX;

use crate::asker::Asker;
use crate::endpoint::Endpoint;
use crate::error::{DatError, DatResult, HandleKind, Subtype};
use crate::interface_adapter::InterfaceAdapter;
use crate::introduction::Introduction;
use crate::mark::Mark;
use crate::members::{Member, MemberKind, Membership};
use crate::values::EndpointState;

const GONE: DatError = DatError::handle(Subtype::Handle(HandleKind::ConnectionRequest));

/// A request to connect that came to a service point. It is there until it is accepted, rejected or handed off.
#[derive(Debug)]
pub struct ConnectionRequest {
    mark: Mark,
    membership: Membership,
    adapter: Arc<InterfaceAdapter>,
    peer: Introduction,
    /// The qualifier at which it came.
    conn_qual: u64,
    private_data: Arc<[u8]>,
    inner: Mutex<Option<Undecided>>,
}

/// What is left to decide about.
#[derive(Debug)]
struct Undecided {
    request: Asker,
    endpoint: Option<Brought>,
}

/// The endpoint that a request brings with it.
#[derive(Clone, Debug)]
pub(crate) enum Brought {
    /// That of a reserved service point.
    Reserved(Arc<Endpoint>),
    /// One that was made for it.
    Made(Arc<Endpoint>),
}

impl Brought {
    fn endpoint(&self) -> &Arc<Endpoint> {
        match self {
            Self::Reserved(endpoint) | Self::Made(endpoint) => endpoint,
        }
    }

    /// The state it waits in.
    fn state(&self) -> EndpointState {
        match self {
            Self::Reserved(_) => EndpointState::PassiveConnectionPending,
            Self::Made(_) => EndpointState::TentativeConnectionPending,
        }
    }

    /// There will be no connection.
    pub(crate) fn let_go(&self) {
        match self {
            Self::Reserved(endpoint) => {
                // It may have been freed with the adapter.
                let _ = endpoint.change_state(&[self.state()], EndpointState::Unconnected);
            }
            Self::Made(endpoint) => endpoint.destroy(),
        }
    }
}

/// What can be asked about a connection request.
#[derive(Clone, Debug)]
pub struct RequestFacts {
    /// The peer's address.
    pub address: SocketAddr,
    /// The peer's port.
    pub port: u64,
    /// What the peer said; it stays as long as the request.
    pub private_data: Arc<[u8]>,
    /// The endpoint it brings, if any.
    pub endpoint: Option<Arc<Endpoint>>,
}

impl ConnectionRequest {
    /// A request that came to a service point; `None` if the adapter has closed.
    pub(crate) fn new(
        adapter: &Arc<InterfaceAdapter>,
        peer: Introduction,
        conn_qual: u64,
        request: Asker,
        endpoint: Option<Brought>,
    ) -> Option<Arc<Self>> {
        let new = Arc::new(Self {
            mark: Mark::default(),
            membership: Membership::new(MemberKind::ConnectionRequest),
            adapter: Arc::clone(adapter),
            peer,
            conn_qual,
            private_data: Arc::clone(request.data()),
            inner: Mutex::new(Some(Undecided { request, endpoint })),
        });
        adapter.join(&new).ok()?;
        Some(new)
    }

    /// The face's word.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Arc<InterfaceAdapter> {
        &self.adapter
    }

    fn lock(&self) -> MutexGuard<'_, Option<Undecided>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is. `INVALID_HANDLE|CR` once it is decided.
    pub fn facts(&self) -> DatResult<RequestFacts> {
        self.adapter.check_process()?;
        let inner = self.lock();
        let undecided = inner.as_ref().ok_or(GONE)?;
        Ok(RequestFacts {
            address: self.peer.socket_address(),
            port: self.peer.port,
            private_data: Arc::clone(&self.private_data),
            endpoint: undecided.endpoint.as_ref().map(|brought| Arc::clone(brought.endpoint())),
        })
    }

    /// Accepts, with private data, of which another host gets 192 bytes at most; the endpoint learns by an event what becomes of it.
    /// `endpoint` is the one to connect, and `None` if the request brings its own.
    ///
    /// Errors, after which everything is as before: `INVALID_HANDLE|CR`; `INVALID_PARAMETER|ARG3` for too much private data;
    /// `INVALID_HANDLE|EP` if there is no endpoint or one too many, or it lacks a protection zone or a dispatcher; a bare
    /// `INVALID_STATE` if it is in another state than UNCONNECTED, or the one in which its request left it.
    pub fn accept(&self, endpoint: Option<&Arc<Endpoint>>, private_data: &[u8]) -> DatResult<()> {
        const ENDPOINT: DatError = DatError::handle(Subtype::Handle(HandleKind::Endpoint));
        self.adapter.check_process()?;
        let mut inner = self.lock();
        let Undecided { request, endpoint: brought } = inner.take().ok_or(GONE)?;
        let mut request = Some(request);
        let result = (|| {
            if request.as_ref().is_some_and(|request| private_data.len() > request.answers_max().0) {
                return Err(DatError::argument(3));
            }
            let (endpoint, state) = match (endpoint, &brought) {
                (Some(given), None) => (given, EndpointState::Unconnected),
                (None, Some(brought)) => (brought.endpoint(), brought.state()),
                _ => return Err(ENDPOINT),
            };
            if !Arc::ptr_eq(endpoint.adapter(), &self.adapter) {
                return Err(ENDPOINT);
            }
            endpoint.accept(state, &self.peer, self.conn_qual, private_data, &mut request)
        })();
        match request {
            Some(request) => *inner = Some(Undecided { request, endpoint: brought }),
            None => self.adapter.leave(&self.membership),
        }
        result
    }

    /// Rejects, with private data (2.0; 1.2 has none), of which another host gets 144 bytes at most. Errors: `INVALID_HANDLE|CR`,
    /// `INVALID_PARAMETER|ARG2` for too much.
    pub fn reject(&self, private_data: &[u8]) -> DatResult<()> {
        self.adapter.check_process()?;
        let Undecided { request, endpoint } = {
            let mut inner = self.lock();
            let most = inner.as_ref().map_or(DATA_MAX, |undecided| undecided.request.answers_max().1);
            if private_data.len() > most {
                return Err(DatError::argument(2));
            }
            inner.take().ok_or(GONE)?
        };
        request.reject(private_data);
        self.let_go(endpoint);
        Ok(())
    }

    /// Hands the request to whoever listens at another connection qualifier of this host, as if it had come there; one of another
    /// host to who does in this process. `INVALID_PARAMETER|ARG2` if nobody does; then everything is as before.
    pub fn hand_off(&self, conn_qual: u64) -> DatResult<()> {
        self.adapter.check_process()?;
        let endpoint = {
            let mut inner = self.lock();
            let Undecided { request, endpoint } = inner.take().ok_or(GONE)?;
            if let Err(request) = request.hand_to(conn_qual) {
                *inner = Some(Undecided { request, endpoint });
                return Err(DatError::argument(2));
            }
            endpoint
        };
        self.let_go(endpoint);
        Ok(())
    }

    fn let_go(&self, endpoint: Option<Brought>) {
        self.adapter.leave(&self.membership);
        if let Some(brought) = endpoint {
            brought.let_go();
        }
    }
}

impl Member for ConnectionRequest {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Who asked is refused.
    fn end(&self) {
        let undecided = self.lock().take();
        if let Some(Undecided { endpoint, .. }) = undecided {
            self.let_go(endpoint);
        }
    }
}

impl Drop for ConnectionRequest {
    fn drop(&mut self) {
        if self.adapter.check_process().is_ok() {
            self.end();
        }
    }
}

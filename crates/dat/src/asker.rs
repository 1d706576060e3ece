//! Whoever asks for a connection, on this host or on another one.

use std::sync::Arc;

use nonic_connection::{DATA_MAX, Refusal, Request};
use nonic_device::Context;
use nonic_roce::{Event, Reason};
use nonic_sys::{Budget, Share, is_own_address};
use nonic_wire_connection::{Follows, MetWay, NUMBERS, Way, WireConnection, index_of, number_of_host};

use crate::introduction::Introduction;
use crate::line::{Path, Said, introduced};
use crate::private_data::{REJECTION_MAX, REPLY_MAX, field, said};

/// A request that is not decided. Dropped, it is refused.
#[derive(Debug)]
pub(crate) enum Asker {
    Host(Request),
    Wire(Box<WireAsker>),
}

/// A request of another host.
#[derive(Debug)]
pub(crate) struct WireAsker {
    /// Both are there until it is decided.
    held: Option<(WireConnection, Event)>,
    way: Way,
    peer: Option<Introduction>,
    data: Arc<[u8]>,
}

/// Hears of a request that is not decided, which interests nobody: but what is followed is rejected when the process exits.
struct Undecided;

impl Follows for Undecided {
    fn tell(&self, _: Event) {}
}

impl WireAsker {
    /// One that came to a service point; `None` if it is no request, or for an address that has gone.
    pub(crate) fn new(context: &Context, connection: WireConnection, event: Event) -> Option<Box<Self>> {
        let Event::Asked { ends, request, .. } = &event else { return None };
        let way = Way {
            index: index_of(context, ends.local)?,
            ends: *ends,
            path_mtu: request.path_mtu,
            traffic_class: request.primary.traffic_class,
            ack_timeout: request.primary.ack_timeout,
        };
        let told = Said {
            pair: request.qp_number,
            packet: request.starting_psn,
            reads_in: request.responder_resources,
            reads_out: request.initiator_depth,
        };
        // The port of one that asks is its queue pair, as within the host.
        let peer = introduced(&told, &way, request.qp_number.0.into());
        let data = said(&request.private_data).into();
        connection.follow(Arc::new(Undecided));
        Some(Box::new(Self { held: Some((connection, event)), way, peer, data }))
    }

    /// The connection, to be accepted.
    pub(crate) fn take(mut self) -> Option<WireConnection> {
        self.held.take().map(|(connection, _)| connection)
    }

    fn refuse(&mut self, reason: Reason, data: &[u8]) {
        if let Some((connection, _)) = self.held.take() {
            connection.reject(reason, data);
        }
    }
}

impl Drop for WireAsker {
    fn drop(&mut self) {
        self.refuse(Reason::INVALID_SERVICE_ID, &[]);
    }
}

impl Asker {
    /// What it says of its sender. `None` if that makes no sense.
    pub(crate) fn introduction(&self) -> Option<Introduction> {
        match self {
            Self::Host(request) => Introduction::parse(request.facts()),
            Self::Wire(asker) => asker.peer,
        }
    }

    /// The way to its sender, which has told `peer`.
    pub(crate) fn path(&self, context: &Context, peer: &Introduction) -> Path {
        match self {
            Self::Host(_) if is_own_address(peer.address) => Path::Host,
            // Or an address of this host that has gone meanwhile.
            Self::Host(_) => MetWay::to(context, peer.socket_address()).map_or(Path::Host, Path::Met),
            Self::Wire(asker) => Path::Wire(asker.way),
        }
    }

    /// The private data.
    pub(crate) fn data(&self) -> &Arc<[u8]> {
        match self {
            Self::Host(request) => request.data(),
            Self::Wire(asker) => &asker.data,
        }
    }

    /// Bytes of private data in an acceptance and in a rejection at most.
    pub(crate) fn answers_max(&self) -> (usize, usize) {
        match self {
            Self::Host(_) => (DATA_MAX, DATA_MAX),
            Self::Wire(_) => (REPLY_MAX, REJECTION_MAX),
        }
    }

    /// A place of those for users of this host or of those for other hosts, if its sender may have one more.
    pub(crate) fn place(&self, users: &Arc<Budget>, hosts: &Arc<Budget>) -> Option<Share> {
        match self {
            Self::Host(request) => users.take(request.user(), 1),
            Self::Wire(asker) => hosts.take(number_of_host(asker.way.ends), 1),
        }
    }

    /// Rejects.
    pub(crate) fn reject(self, data: &[u8]) {
        match self {
            Self::Host(request) => request.reject(data),
            Self::Wire(mut asker) => asker.refuse(Reason::CONSUMER, &field::<148>(data)),
        }
    }

    /// Refuses: the program was not asked.
    pub(crate) fn refuse(self, why: Refusal) {
        match self {
            Self::Host(request) => request.refuse(why),
            Self::Wire(mut asker) => asker.refuse(
                match why {
                    Refusal::NobodyListens => Reason::INVALID_SERVICE_ID,
                    Refusal::NoRoom | Refusal::Unable => Reason::NO_RESOURCES,
                },
                &[],
            ),
        }
    }

    /// Hands it to who listens for another qualifier: on this host or, if it is of another host, in this process. If nobody does it comes
    /// back.
    pub(crate) fn hand_to(self, conn_qual: u64) -> Result<(), Self> {
        match self {
            Self::Host(request) => request.hand_to(NUMBERS, conn_qual).map_err(|(error, request)| {
                tracing::debug!(%error, conn_qual, "a connection request is not handed off");
                Self::Host(request)
            }),
            Self::Wire(mut asker) => {
                let Some((connection, event)) = asker.held.take() else { return Ok(()) };
                connection.hand_to(conn_qual, event).map_err(|held| {
                    tracing::info!(
                        conn_qual,
                        "a request of another host is not handed off: this process does not listen there"
                    );
                    asker.held = Some(held);
                    Self::Wire(asker)
                })
            }
        }
    }
}

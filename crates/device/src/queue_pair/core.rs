//! What changes while a queue pair lives, and, if its peer is on the wire, the machine that speaks in packets and what carries them.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use nonic_protocol::{Capabilities, Psn, QpAttributes, QpNumber, QpType, Receive};
use nonic_roce::{HostAddress, PathMtu};
use nonic_wire::{Outgoing, Route, Station, Wire};

use super::{Inner, Replies};
use crate::wire_address::WireAddress;

/// What changes while a queue pair lives, wherever its peer is. The queues, the attributes and the state are the protocol's; a machine
/// for packets, if there is one, is lent them for as long as it does something.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) inner: Inner,
    pub(crate) wired: Option<Box<Wired>>,
    /// From where a packet came last that was dropped because it took nothing yet.
    pub(crate) dropped_from: Option<HostAddress>,
}

/// The machine, and what carries its packets.
#[derive(Debug)]
pub(crate) struct Wired {
    pub(crate) connection: nonic_roce::Connection<Instant>,
    pub(crate) carrier: Carrier,
}

/// What carries the packets of a queue pair.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) wire: Arc<Wire>,
    pub(crate) station: Arc<Station>,
    pub(crate) route: Route,
    /// The queue pair at the other end.
    pub(crate) peer: QpNumber,
    /// Packets that are gathered, or that the kernel has no room for.
    pub(crate) outgoing: Option<Outgoing>,
    /// The port is closed: what is sent is lost, and nothing comes.
    pub(crate) is_closed: bool,
    /// The machine goes on when there is room.
    pub(crate) waits: bool,
    /// The machine goes on with the next look at the wire.
    pub(crate) is_held: bool,
    /// Whether what is owed waits for the program's reply.
    pub(crate) replies: Replies,
    /// When a timer of the engine's fires for it.
    pub(crate) timer: Option<Instant>,
}

impl Core {
    /// Of a queue pair in RESET.
    pub(crate) fn new(capabilities: &Capabilities) -> Self {
        Self { inner: Inner::new(capabilities), wired: None, dropped_from: None }
    }

    /// Whether the peer is on the wire.
    #[inline]
    pub(crate) fn is_wired(&self) -> bool {
        self.wired.is_some()
    }

    /// Whether a packet of the peer's was taken, if it is on the wire.
    pub(crate) fn hears_on_wire(&self) -> Option<bool> {
        let wired = self.wired.as_ref()?;
        Some(wired.connection.expected() != Psn(self.inner.attributes.receive_psn))
    }

    /// Everything that was set, as programs are shown it.
    pub(crate) fn shown_attributes(&self) -> QpAttributes {
        let attributes = self.inner.attributes;
        QpAttributes { current_state: attributes.state, ..attributes }
    }

    /// It is over with the queue pair as it was; the receive that was being filled.
    pub(super) fn stop_receiving(&mut self) -> Option<Receive> {
        let by_packets = self.wired.as_mut().and_then(|wired| wired.connection.stop_receiving());
        by_packets.or_else(|| self.inner.responder.stop())
    }

    /// Whether a receive is being filled by packets.
    pub(crate) fn receives_on_wire(&self) -> bool {
        self.wired.as_ref().is_some_and(|wired| wired.connection.is_receiving())
    }
}

impl Deref for Core {
    type Target = Inner;
    #[inline]
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Core {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Wired {
    /// For a queue pair that goes to RTR.
    pub(crate) fn new(
        kind: QpType,
        capabilities: &Capabilities,
        (wire, station): (Arc<Wire>, Arc<Station>),
        route: Route,
        peer: QpNumber,
    ) -> Box<Self> {
        let carrier = Carrier {
            wire,
            station,
            route,
            peer,
            outgoing: None,
            is_closed: false,
            waits: false,
            is_held: false,
            replies: Replies::default(),
            timer: None,
        };
        Box::new(Self { connection: nonic_roce::Connection::new(kind, capabilities), carrier })
    }

    /// The peer is elsewhere from now on.
    pub(crate) fn turn_to(&mut self, station: Arc<Station>, route: Route) {
        (self.carrier.station, self.carrier.route) = (station, route);
    }

    /// Lends the queues to the machine, or takes them back.
    pub(crate) fn exchange(&mut self, inner: &mut Inner) {
        std::mem::swap(&mut self.connection.attributes, &mut inner.attributes);
        std::mem::swap(&mut self.connection.send, &mut inner.send);
        std::mem::swap(&mut self.connection.receives, &mut inner.receives);
    }
}

/// The way of the last datagram to another host.
#[derive(Clone, Debug)]
pub(crate) struct DatagramWay {
    pub(crate) address: WireAddress,
    pub(crate) wire: Arc<Wire>,
    pub(crate) station: Arc<Station>,
    pub(crate) mtu: PathMtu,
}

//! The connection manager on the wire: one of a process, for all identifiers with peers on other hosts. It is there from the first of them
//! on, or from the first listener at an address that others reach.
//!
//! [`nonic_roce::ConnectionManager`] decides everything; here it gets its datagrams, its time, and somebody to tell. What programs
//! call is done on their threads; datagrams, time and news on the thread of the connection manager for this host.

mod held;
mod inbox;
mod route;
mod told;
mod way;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use nonic_connection::{run, run_after, run_at_exit};
use nonic_device::{Context, ManagementError, ManagementObserver, ManagementPort};
use nonic_roce::{
    Accepts, CallError, CommunicationId, ConnectionManager, Ends, Event, HostAddress, ManagementDatagram,
    ManagerSettings, Message, Outgoing, PortSpace as Ports, Transport,
};
use nonic_sys::{PerProcess, effective_user, random_u64};

pub(crate) use held::{Question, WireConnection};
pub use route::WireRoute;
pub(crate) use told::{of_question, of_reply, of_request, offer, side};
use way::HOP_LIMIT;
pub(crate) use way::{Way, host_address, index_of, ip_address};

use crate::ports::listening_user;
use crate::{Error, PortSpace};
use inbox::{Came, Inbox};

/// Locally administered, and of one adapter: the rest of a GUID is chance.
const LOCAL_GUID: u64 = 2 << 56;
/// The bits of a GUID that say so, and that it is a group's.
const GUID_MARKS: u64 = 3 << 56;

/// Who is told what becomes of a connection. Called on the manager's thread, with no lock held: it must not block.
pub(crate) trait Follows: Send + Sync {
    fn tell(&self, event: Event);
}

/// Who takes requests and questions.
pub(crate) trait Takes: Send + Sync {
    /// One that is to be answered, or dropped.
    fn ask(&self, connection: WireConnection, event: Event);
}

#[derive(Debug)]
pub(crate) struct Wire {
    context: Arc<Context>,
    port: ManagementPort,
    inbox: Arc<Inbox>,
    machine: Mutex<Machine>,
    this: Weak<Self>,
}

type Place = (u64, HostAddress);

struct Machine {
    manager: ConnectionManager<Instant>,
    followers: HashMap<CommunicationId, Arc<dyn Follows>>,
    takers: BTreeMap<Place, Arc<dyn Takes>>,
    /// When the next timer fires that was set.
    due: Option<Instant>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("communications", &self.manager.len()).finish_non_exhaustive()
    }
}

static WIRE: PerProcess<Mutex<Option<Arc<Wire>>>> = PerProcess::new();

fn known() -> MutexGuard<'static, Option<Arc<Wire>>> {
    WIRE.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn service_id(space: PortSpace, port: u16) -> Option<u64> {
    roce_space(space).map(|space| space.service_id(port))
}

/// Ports that are services on the wire; those of IP over InfiniBand are not.
pub(crate) fn roce_space(space: PortSpace) -> Option<Ports> {
    match space {
        PortSpace::Tcp => Some(Ports::Tcp),
        PortSpace::Udp => Some(Ports::Udp),
        PortSpace::InfiniBand => Some(Ports::Ib),
        PortSpace::Ipoib => None,
    }
}

/// The space and the port that a service is.
fn port_of(service_id: u64) -> Option<(PortSpace, u16)> {
    let space = u32::try_from(service_id >> 16).ok().and_then(PortSpace::from_number)?;
    roce_space(space).map(|_| (space, service_id as u16))
}

impl Wire {
    /// This process's, at this device.
    pub(crate) fn get(context: &Arc<Context>) -> Result<Arc<Self>, ManagementError> {
        let mut known = known();
        if let Some(wire) = known.as_ref().filter(|wire| Arc::ptr_eq(&wire.context, context)) {
            return Ok(Arc::clone(wire));
        }
        let inbox = Arc::new(Inbox::default());
        let observer: Weak<dyn ManagementObserver> = Arc::downgrade(&inbox) as _;
        let port = context.open_management(observer)?;
        let guid = random_u64() & !GUID_MARKS | LOCAL_GUID;
        let settings = ManagerSettings {
            places: ManagementPort::PLACES,
            place: port.place(),
            ..ManagerSettings::new(guid)
        };
        let machine = Machine {
            manager: ConnectionManager::new(settings, Box::new(random_u64)),
            followers: HashMap::new(),
            takers: BTreeMap::new(),
            due: None,
        };
        let wire = Arc::new_cyclic(|this| Self {
            context: Arc::clone(context),
            port,
            inbox: Arc::clone(&inbox),
            machine: Mutex::new(machine),
            this: Weak::clone(this),
        });
        let _ = inbox.wire.set(Arc::downgrade(&wire));
        if known.replace(Arc::clone(&wire)).is_none() {
            run_at_exit(part);
        }
        Ok(wire)
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path MTU from an address to another host; `None` if no packet gets there.
    pub(crate) fn path_mtu(&self, index: u32, to: HostAddress) -> Result<Option<u8>, ManagementError> {
        self.port.path_mtu(index, to.gid())
    }

    /// When packets of a connection are sent again, as this side says it.
    pub(crate) fn ack_timeout(&self) -> u8 {
        let machine = self.lock();
        let settings = machine.manager.settings();
        settings.ack_timeout(settings.ack_delay)
    }

    /// Does something with the machine, and what follows from it. Events are told later, on the manager's thread.
    fn with<R>(&self, work: impl FnOnce(&mut Machine, Instant) -> R) -> R {
        let (result, outgoing, timer) = {
            let mut machine = self.lock();
            let result = work(&mut machine, Instant::now());
            let outgoing: Vec<Outgoing> = std::iter::from_fn(|| machine.manager.poll_transmit()).collect();
            let next = machine.manager.poll_timeout();
            let timer = next.filter(|next| machine.due.is_none_or(|due| *next < due));
            if timer.is_some() {
                machine.due = timer;
            }
            (result, outgoing, timer)
        };
        outgoing.iter().for_each(|datagram| self.send(datagram));
        if let Some(due) = timer {
            let this = Weak::clone(&self.this);
            run_after(due.saturating_duration_since(Instant::now()), move || {
                if let Some(wire) = this.upgrade() {
                    wire.fire(due);
                }
            });
        }
        result
    }

    fn send(&self, outgoing: &Outgoing) {
        let Ends { local, remote } = outgoing.ends;
        let Some(index) = index_of(&self.context, local) else { return };
        // What is not sent is lost, as it may be on its way.
        if let Err(error) = self.port.send(index, remote.gid(), 0, HOP_LIMIT, &outgoing.datagram.emit()) {
            tracing::debug!(%error, "a datagram of the connection manager is not sent");
        }
    }

    fn fire(&self, due: Instant) {
        self.with(|machine, now| {
            if machine.due == Some(due) {
                machine.due = None;
                machine.manager.handle_timeout(now);
            }
        });
        self.tell();
    }

    /// Takes what came.
    fn look(&self) {
        for Came { ends, bytes, came_here } in self.inbox.take() {
            let Some(datagram) = ManagementDatagram::parse(&bytes) else { continue };
            let is_unclaimed = came_here && self.is_unclaimed(ends, &datagram);
            self.with(|machine, now| {
                if is_unclaimed {
                    machine.manager.refuse_unclaimed(ends, &datagram);
                } else {
                    machine.manager.handle(now, ends, &datagram);
                }
            });
            self.tell();
        }
    }

    /// Whether a request or a question is for a service that no process of this user offers.
    fn is_unclaimed(&self, ends: Ends, datagram: &ManagementDatagram) -> bool {
        if self.lock().manager.claims(ends, datagram) {
            return false;
        }
        let service_id = match &datagram.message {
            Message::ConnectRequest(request) => request.service_id,
            Message::ServiceRequest(request) => request.service_id,
            _ => return false,
        };
        let user = port_of(service_id)
            .and_then(|(space, port)| listening_user(space, SocketAddr::new(ip_address(ends.local), port)));
        user != Some(effective_user())
    }

    /// Tells everybody what has happened.
    fn tell(&self) {
        loop {
            let told = {
                let mut machine = self.lock();
                let Some(event) = machine.manager.poll_event() else { return };
                machine.find(event)
            };
            match told {
                Told::Asked(id, taker, event) => {
                    let connection = WireConnection::new(&self.this, id);
                    if let Some(taker) = taker {
                        taker.ask(connection, event);
                    }
                }
                Told::Follower(Some(follower), event) => follower.tell(event),
                Told::Follower(None, _) => {}
            }
        }
    }

    /// Takes requests for a port at an address from now on, or at all of its family that others reach.
    pub(crate) fn listen(
        &self,
        space: PortSpace,
        at: SocketAddr,
        both_families: bool,
        taker: &Arc<dyn Takes>,
    ) -> Result<Option<WireListener>, Error> {
        let Some(service) = service_id(space, at.port()) else { return Ok(None) };
        let accepts =
            if space.is_datagram() { Accepts::Datagrams } else { Accepts::Connections(Transport::Reliable) };
        let ip = at.ip();
        let mut listener = WireListener { wire: Weak::clone(&self.this), places: Vec::new() };
        for entry in self.context.gid_table().iter().filter(|entry| entry.interface_index != 0) {
            let address = HostAddress::of_gid(entry.gid);
            let own = ip_address(address);
            let is_meant = if ip.is_unspecified() {
                !own.is_loopback() && (both_families || own.is_ipv4() == ip.is_ipv4())
            } else {
                own == ip
            };
            if !is_meant || listener.places.contains(&(service, address)) {
                continue;
            }
            if let Err(error) = self.port.listen(entry.index) {
                // Who asks for all addresses gets those that there are.
                if ip.is_unspecified() {
                    tracing::info!(address = %own, %error, "other hosts find no listener at the address");
                } else {
                    tracing::warn!(address = %own, %error, "other hosts find no listener at the address");
                }
                continue;
            }
            let listens = self.with(|machine, _| {
                machine.manager.listen(service, Some(address), accepts)?;
                machine.takers.insert((service, address), Arc::clone(taker));
                Ok::<(), CallError>(())
            });
            listens.map_err(|_| Error::AddressInUse(at.port()))?;
            listener.places.push((service, address));
        }
        Ok(Some(listener))
    }
}

/// Whom an event is for.
enum Told {
    Asked(CommunicationId, Option<Arc<dyn Takes>>, Event),
    Follower(Option<Arc<dyn Follows>>, Event),
}

impl Machine {
    fn find(&mut self, event: Event) -> Told {
        let taker = |service, ends: &Ends| self.takers.get(&(service, ends.local)).map(Arc::clone);
        match &event {
            Event::Asked { id, ends, request, .. } => {
                Told::Asked(*id, taker(request.service_id, ends), event)
            }
            Event::ServiceAsked { id, ends, request, .. } => {
                Told::Asked(*id, taker(request.service_id, ends), event)
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

/// A port at which requests are taken, until this is dropped.
#[derive(Debug)]
pub(crate) struct WireListener {
    wire: Weak<Wire>,
    places: Vec<Place>,
}

impl Drop for WireListener {
    fn drop(&mut self) {
        let Some(wire) = self.wire.upgrade().filter(|wire| wire.context.is_current()) else { return };
        wire.with(|machine, _| {
            for (service, address) in self.places.drain(..) {
                machine.manager.stop_listening(service, Some(address));
                machine.takers.remove(&(service, address));
            }
        });
    }
}

/// Whether an address is one that no other host reaches.
pub(crate) fn is_of_host_only(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_multicast()
}

/// The process exits: its peers are told that its connections end.
fn part() {
    let wire = WIRE.get().and_then(|known| known.try_lock().ok()?.clone());
    let Some(wire) = wire else { return };
    // Whoever has the lock may be the thread that exits, in a signal handler.
    let Ok(mut machine) = wire.machine.try_lock() else { return };
    let now = Instant::now();
    let all: Vec<_> = machine.followers.drain().map(|(id, _)| id).collect();
    for id in all {
        let _ = machine.manager.release(now, id);
    }
    let outgoing: Vec<_> = std::iter::from_fn(|| machine.manager.poll_transmit()).collect();
    drop(machine);
    outgoing.iter().for_each(|datagram| wire.send(datagram));
}

/// Tells what has happened by a call of this process, soon.
fn tell_soon(wire: &Arc<Wire>) {
    let wire = Arc::downgrade(wire);
    run(move || {
        if let Some(wire) = wire.upgrade() {
            wire.tell();
        }
    });
}

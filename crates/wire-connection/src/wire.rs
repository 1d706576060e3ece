//! The connection manager on the wire: one of a process. It is there from the first connection to another host on, or from the first
//! listener at an address that others reach.
//!
//! [`nonic_roce::ConnectionManager`] decides everything; here it gets its datagrams, its time, and somebody to tell. What programs
//! call is done on their threads; datagrams, time and news on the thread of the connection manager for this host.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use nonic_connection::{run, run_after, run_at_exit};
use nonic_device::{Context, ManagementError, ManagementObserver, ManagementPort, devices};
use nonic_roce::{
    CallError, Claim, CommunicationId, ConnectionManager, Ends, Event, HostAddress, ManagementDatagram,
    ManagerSettings, Message, Naming, Outgoing,
};
use nonic_sys::{PerProcess, effective_user, random_u64};

use crate::held::WireConnection;
use crate::inbox::{Came, Inbox, News};
use crate::machine::{Machine, Told};
use crate::services::offering_user;
use crate::sinks::Follows;
use crate::way::{HOP_LIMIT, index_of, ip_address};

/// Locally administered, and of one adapter: the rest of a GUID is chance.
const LOCAL_GUID: u64 = 2 << 56;
/// The bits of a GUID that say so, and that it is a group's.
const GUID_MARKS: u64 = 3 << 56;

/// Who has to do with a request or a question.
enum Whose {
    /// This process.
    Own,
    /// Another of this user.
    Others,
    /// No process of this user.
    Nobodys,
}

/// Why there are no connections to other hosts.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// There is no device, or it cannot be opened.
    #[error("there is no device that can be opened")]
    NoDevice,
    /// The device has no port for them.
    #[error(transparent)]
    Management(#[from] ManagementError),
}

/// The connection manager on the wire.
#[derive(Debug)]
pub struct Wire {
    context: Arc<Context>,
    port: ManagementPort,
    inbox: Arc<Inbox>,
    machine: Mutex<Machine>,
    this: Weak<Self>,
}

static WIRE: PerProcess<Mutex<Option<Arc<Wire>>>> = PerProcess::new();

fn known() -> MutexGuard<'static, Option<Arc<Wire>>> {
    WIRE.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one that is there, unless its device has failed.
fn working(known: &Option<Arc<Wire>>) -> Option<Arc<Wire>> {
    known.as_ref().filter(|wire| wire.context.is_usable()).map(Arc::clone)
}

impl Wire {
    /// This process's, at the first device, which it holds open: whoever closes theirs leaves the others' connections alone. After the
    /// device has failed there is a new one.
    pub fn get() -> Result<Arc<Self>, Closed> {
        if let Some(wire) = working(&known()) {
            return Ok(wire);
        }
        let device = devices().into_iter().next().ok_or(Closed::NoDevice)?;
        let context = device.open().map_err(|_| Closed::NoDevice)?;
        context.ignore_async_events();
        let mut known = known();
        // Another thread may have been at it.
        if let Some(wire) = working(&known) {
            context.close();
            return Ok(wire);
        }
        let wire = match Self::new(&context) {
            Ok(wire) => wire,
            Err(error) => {
                context.close();
                return Err(error.into());
            }
        };
        if known.replace(Arc::clone(&wire)).is_none() {
            run_at_exit(part);
        }
        Ok(wire)
    }

    fn new(context: &Arc<Context>) -> Result<Arc<Self>, ManagementError> {
        let inbox = Arc::new(Inbox::default());
        let observer: Weak<dyn ManagementObserver> = Arc::downgrade(&inbox) as _;
        let port = context.open_management(observer)?;
        let guid = random_u64() & !GUID_MARKS | LOCAL_GUID;
        let settings = ManagerSettings {
            places: ManagementPort::PLACES,
            place: port.place(),
            ..ManagerSettings::new(guid)
        };
        let machine = Machine::new(ConnectionManager::new(settings, Box::new(random_u64)));
        let wire = Arc::new_cyclic(|this| Self {
            context: Arc::clone(context),
            port,
            inbox: Arc::clone(&inbox),
            machine: Mutex::new(machine),
            this: Weak::clone(this),
        });
        let found = Arc::downgrade(&wire);
        inbox.open(move || {
            let found = Weak::clone(&found);
            run(move || {
                if let Some(wire) = found.upgrade() {
                    wire.look();
                }
            });
        });
        Ok(wire)
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn downgrade(&self) -> Weak<Self> {
        Weak::clone(&self.this)
    }

    /// Takes what comes to an address of the GID table from now on.
    pub(crate) fn open(&self, index: u32) -> Result<(), ManagementError> {
        self.port.listen(index)
    }

    /// Hears of addresses of this host that come and go from now on.
    pub(crate) fn watch_addresses(&self) -> io::Result<()> {
        self.port.watch_addresses()
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
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Machine, Instant) -> R) -> R {
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
            let this = self.downgrade();
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
    pub(crate) fn look(&self) {
        for news in self.inbox.take() {
            let Came { ends, bytes, came_here } = match news {
                News::Came(came) => came,
                News::Connected(pair) => {
                    self.with(|machine, _| machine.manager.pair_is_connected(pair));
                    self.tell();
                    continue;
                }
                News::Addresses => {
                    self.listen_at_new_addresses();
                    continue;
                }
                News::Silent(pair) => {
                    self.with(|machine, now| machine.manager.pair_is_silent(now, pair));
                    self.tell();
                    continue;
                }
            };
            let Some(datagram) = ManagementDatagram::parse(&bytes) else { continue };
            let whose = self.whose(ends, &datagram, came_here);
            self.with(|machine, now| match whose {
                Whose::Own => machine.manager.handle(now, ends, &datagram),
                Whose::Nobodys => machine.manager.refuse_unclaimed(ends, &datagram),
                Whose::Others => machine.manager.leave_to_another(now, ends, &datagram),
            });
            self.tell();
        }
    }

    /// Whose a request or a question is among the processes of this user, which all hear it. `came_here`: this one heard it first.
    fn whose(&self, ends: Ends, datagram: &ManagementDatagram, came_here: bool) -> Whose {
        let service_id = match &datagram.message {
            Message::ConnectRequest(request) => request.service_id,
            Message::ServiceRequest(request) => request.service_id,
            _ => return Whose::Own,
        };
        let offers = |naming| {
            let user = offering_user(service_id, naming, ip_address(ends.local))?;
            io::Result::Ok(user == Some(effective_user()))
        };
        let both = [Naming::Ip, Naming::Gid];
        let claim = self.lock().manager.claim(ends, datagram);
        match claim {
            Claim::Own => Whose::Own,
            Claim::OwnUnless(naming) if offers(naming).unwrap_or(false) => Whose::Others,
            Claim::OwnUnless(_) => Whose::Own,
            // Certainly nobody offers it.
            Claim::None if came_here && both.into_iter().all(|naming| offers(naming).is_ok_and(|is| !is)) => {
                Whose::Nobodys
            }
            // The manager knows what it has to do with it.
            Claim::None => Whose::Own,
        }
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

    /// Tells what has happened by a call of this process, soon.
    fn tell_soon(&self) {
        let this = self.downgrade();
        run(move || {
            if let Some(wire) = this.upgrade() {
                wire.tell();
            }
        });
    }

    // What connections and listeners do.

    /// Begins something whose end somebody is told.
    pub(crate) fn with_follower(
        &self,
        follower: Arc<dyn Follows>,
        begin: impl FnOnce(&mut ConnectionManager<Instant>, Instant) -> Result<CommunicationId, CallError>,
    ) -> Result<CommunicationId, CallError> {
        self.with(|machine, now| {
            let id = begin(&mut machine.manager, now)?;
            machine.followers.insert(id, follower);
            Ok(id)
        })
    }

    pub(crate) fn call(
        &self,
        id: CommunicationId,
        work: impl FnOnce(&mut ConnectionManager<Instant>, Instant, CommunicationId) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let done = self.with(|machine, now| work(&mut machine.manager, now, id));
        self.tell_soon();
        done
    }

    pub(crate) fn follow(&self, id: CommunicationId, follower: Arc<dyn Follows>) {
        self.lock().followers.insert(id, follower);
    }

    /// Nobody holds a connection any more.
    pub(crate) fn forget(&self, id: CommunicationId) {
        if !self.context.is_current() {
            return;
        }
        let _ended = self.with(|machine, now| {
            let _ = machine.manager.release(now, id);
            machine.followers.remove(&id)
        });
    }

    pub(crate) fn hand(
        &self,
        service_id: u64,
        connection: WireConnection,
        event: Event,
    ) -> Result<(), (WireConnection, Event)> {
        let taker = self.lock().taker_of(&event, Some(service_id));
        let Some(taker) = taker else { return Err((connection, event)) };
        run(move || taker.ask(connection, event));
        Ok(())
    }
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
